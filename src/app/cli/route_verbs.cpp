// The verbs `relay` and `feed`: one rule of a daemon, without a file.
#include "app/cli/console.hpp"
#include "app/cli/route_requests.hpp"
#include "app/cli/text.hpp"
#include "app/transports.hpp"
#include <posthorn/error.hpp>
#include <posthorn/feeds.hpp>
#include <posthorn/relay.hpp>
#include <posthorn/worker.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <memory>
#include <stop_token>

namespace posthorn::cli {
namespace {

using namespace std::chrono_literals;

// As a configuration would have it: what looks like a number is one, unless a text is asked for.
daemon::value value_of(const std::string& text)
{
    using daemon::value;
    if (text == "true" || text == "false")
        return {.is = value::kind::flag, .text = text, .flag = text == "true", .is_typed = true};
    std::int64_t number = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (failed == std::errc{} && end == text.data() + text.size())
        return {.is = value::kind::whole, .text = text, .whole = number, .is_typed = true};
    return {.is = value::kind::text, .text = text, .is_typed = true};
}

// A table's name ends at the first dot. What follows may have dots of its own, as Kafka's settings.
void add_setting(daemon::value& to, const std::string& name, const std::string& text)
{
    const auto dot = name.find('.');
    const auto of = name.substr(0, dot);
    const auto found = std::ranges::find(to.members, of, &daemon::member::name);
    const bool is_new = found == to.members.end();
    const bool is_table = dot != std::string::npos;
    if (!is_new && (found->is.is == daemon::value::kind::table) != is_table)
        throw error(error_code::invalid_argument,
                    fmt::format("'{}' is given as a value and as a table", printable(of)));
    if (!is_table) {
        to.members.push_back({.name = of, .at = {}, .is = value_of(text)});
        return;
    }
    if (is_new)
        to.members.push_back({.name = of, .at = {}, .is = {}});
    auto& table = is_new ? to.members.back() : *found;
    table.is.members.push_back({.name = name.substr(dot + 1), .at = {}, .is = value_of(text)});
}

/// How to open what was described, and what must not be told of it.
template <typename Opener>
struct route {
    Opener open;
    daemon::redaction secrets;
};

// Reads what was written as if it stood in a file, and complains in the same words.
template <typename Read>
auto read_route(const std::string& url, const route_settings& settings, std::string_view option,
                Read read)
{
    daemon::value table;
    for (const auto& [name, text] : settings)
        add_setting(table, name, text);
    daemon::findings noted([](const std::string&) { return std::nullopt; });
    for (auto& each : daemon::secret_url(url).secrets())
        noted.secrets().add(std::move(each));
    daemon::section from(table, {}, noted);
    const auto opener = read(from, option, daemon::secret_url(url));
    if (opener)
        from.finish();
    const auto problems = noted.problems();
    if (problems.empty())
        return route{opener, noted.secrets()};
    std::vector<std::string> words;
    for (const auto& each : problems)
        words.push_back(each.key == option ? fmt::format("{} {}", option, each.message)
                                           : fmt::format("--set {}: {}", each.key, each.message));
    throw error(error_code::invalid_argument, fmt::format("{}", fmt::join(words, "; ")));
}

environment world_with(const std::shared_ptr<console>& screen, const daemon::redaction& secrets)
{
    auto world = environment::system();
    const auto show = [screen, secrets](log_level, std::string_view line) {
        screen->log(printable(secrets.cleaned(std::string(line))));
    };
    world.log = log_sink(show, log_level::warning);
    return world;
}

store_provider provider_of(const store_selection& which, const environment& world)
{
    if (which.is_one_store())
        return open(which.urls.front(), {.environment = world});
    if (list_stores(which).empty())
        throw error(error_code::invalid_argument, "this means no store at all");
    return discover([which] { return list_stores(which); },
                    {.every = 1min, .with = {.open = {.environment = world}}});
}

lifecycle failures_to(const std::shared_ptr<console>& screen, const daemon::redaction& secrets)
{
    const auto ended = [screen, secrets](const delivery_view& which, const outcome& said,
                                         duration) {
        if (said.verdict == outcome::kind::fail || said.verdict == outcome::kind::retry)
            screen->log(fmt::format("failed   {} {}: {}", to_string(which.id()),
                                    printable(which.topic()),
                                    printable(secrets.cleaned(said.error))));
    };
    const auto settled = [screen](const delivery_view& which, settled_as answer) {
        if (answer == settled_as::dead)
            screen->log(
                fmt::format("dead     {} {}", to_string(which.id()), printable(which.topic())));
    };
    return {.ended = ended, .settled = settled};
}

} // namespace

route_settings read_settings(const std::vector<std::string>& pairs)
{
    route_settings result;
    for (const auto& pair : pairs) {
        const auto equals = pair.find('=');
        auto name = pair.substr(0, equals);
        const auto dot = name.find('.');
        if (equals == std::string::npos || name.empty() || dot == 0 || dot == name.size() - 1)
            throw error(
                error_code::invalid_argument,
                fmt::format("'{}': a setting is written name=value, or table.key=value for one of "
                            "a table",
                            printable(pair)));
        if (std::ranges::any_of(result, [&](const auto& each) { return each.first == name; }))
            throw error(error_code::invalid_argument,
                        fmt::format("'{}' is given twice", printable(name)));
        result.emplace_back(std::move(name), pair.substr(equals + 1));
    }
    return result;
}

exit_status relay(const relay_request& what, output& to)
{
    const auto [opener, secrets] =
        read_route(what.to, what.settings, "--to", &daemon::read_transport);
    const relay_options rules{.destination = std::string_view(what.destination),
                              .key = std::string_view(what.key),
                              .unroutable = what.dead_if_unroutable ? when_unroutable::fail
                                                                    : when_unroutable::retry};
    const stop_on_signals signals;
    const auto screen = std::make_shared<console>(to);
    const auto world = world_with(screen, secrets);
    // Built here and not in the call: GCC 12 takes a piece of a temporary for uninitialized.
    worker_options options;
    options.concurrency = what.in_flight;
    options.grace = what.grace;
    options.outbox = outbox_for(what.failures);
    options.on = failures_to(screen, secrets);
    options.log_activity = false;
    worker relaying(provider_of(what.which, world), options);
    const auto target = opener(world, {});
    for (const auto& each : what.patterns)
        relaying.handle(each, relay_to(target, rules));
    screen->log(fmt::format("relaying to {}", printable(target->name())));
    const auto stop = signals.request();
    const auto report = relaying.run(stop, {.until_empty = what.until_empty});
    target->close({.until = world.clock->monotonic() + 1s});
    const std::string_view ending = stop.now.stop_requested()     ? "stopped_now"
                                    : stop.drain.stop_requested() ? "stopped"
                                                                  : "empty";
    if (to.json())
        to.document({{"ended", ending},
                     {"done", report.done},
                     {"retrying", report.retrying},
                     {"dead", report.dead},
                     {"released", report.released},
                     {"parked", report.parked},
                     {"lost", report.lost}});
    else
        screen->log(fmt::format("ended    {}: {} relayed, {} refused for good, {} put back", ending,
                                report.done, report.dead, report.released));
    return ending == "stopped_now" ? exit_status::failure : exit_status::success;
}

exit_status feed(const feed_request& what, output& to)
{
    const auto [opener, secrets] =
        read_route(what.from, what.settings, "--from", &daemon::read_feed);
    const stop_on_signals signals;
    const auto screen = std::make_shared<console>(to);
    const auto world = world_with(screen, secrets);
    const auto where = open(what.url, {.environment = world});
    const auto from = opener(world);
    std::stop_source enough;
    const std::stop_callback when_told(signals.request().drain, [&] { enough.request_stop(); });
    std::size_t seen = 0;
    screen->log(fmt::format("feeding  from {}", printable(from->name())));
    const auto report = feed_inbox(where, *from,
                                   {.source = what.source,
                                    .topic = what.topic,
                                    .topic_wins = what.topic_wins,
                                    .progress =
                                        [&](const feed_report& more) {
                                            seen += more.stored + more.repeated;
                                            if (seen >= what.limit)
                                                enough.request_stop();
                                        }},
                                   enough.get_token());
    from->close();
    if (to.json())
        to.document({{"stored", report.stored},
                     {"repeated", report.repeated},
                     {"refused", report.refused},
                     {"failures", report.failures}});
    else
        screen->log(fmt::format("ended    {} stored, {} known already, {} refused", report.stored,
                                report.repeated, report.refused));
    return exit_status::success;
}

} // namespace posthorn::cli
