// Looking a configuration over without running it.
#include "app/cli/text.hpp"
#include "app/daemon/serve.hpp"
#include "app/daemon/store_book.hpp"
#include <posthorn/error.hpp>
#include <posthorn/messages.hpp>
#include <posthorn/store.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>

namespace posthorn::daemon {
namespace {

using namespace std::chrono_literals;
using nlohmann::ordered_json;

constexpr duration patience_for_transports = 10s;
constexpr duration patience_for_another = 1s; // some ask only when they are asked

ordered_json as_json(const std::string& file, const std::vector<problem>& these)
{
    auto list = ordered_json::array();
    for (const auto& each : these)
        list.push_back({{"file", file},
                        {"line", each.at.line},
                        {"column", each.at.column},
                        {"key", each.key},
                        {"message", each.message}});
    return list;
}

std::string shown(const store_settings& which)
{
    if (which.discover)
        return fmt::format("found by a query at {}", which.discover->url.shown());
    return which.url.shown();
}

ordered_json text_or_null(const std::string& text)
{
    return text.empty() ? ordered_json() : ordered_json(text);
}

std::string times_of(const job_options& job)
{
    return job.every ? schedule::every(*job.every).text()
                     : fmt::format("{} in {}", job.cron, job.zone);
}

// Whatever was reached, or why it was not.
struct attempt {
    std::string what;
    std::string error = {};
};

attempt tried(std::string name, const std::function<void()>& reach)
{
    attempt result{.what = std::move(name)};
    try {
        reach();
    } catch (const std::exception& failure) {
        result.error = failure.what();
    }
    return result;
}

// What is found on the way may hold secrets of its own.
std::vector<attempt> try_all(const configuration& what, redaction& secrets)
{
    std::vector<attempt> result;
    const auto world = environment::system(std::nullopt); // what is wrong is printed at the end
    const auto add = [&](std::string name, const std::function<void()>& reach) {
        result.push_back(tried(std::move(name), reach));
    };
    for (const auto& each : what.stores) {
        std::vector<named_store> found;
        std::vector<std::string> left_out;
        add(each.key, [&] {
            found = find_stores(each, left_out);
            if (found.empty())
                throw error(error_code::not_found, "this means no store at all");
        });
        for (auto& row : left_out)
            result.push_back({.what = each.key, .error = std::move(row)});
        for (const auto& store : found)
            for (auto& text : secret_url(store.url).secrets())
                secrets.add(std::move(text));
        for (const auto& store : found)
            add(fmt::format("store {}", store.name), [&] {
                auto where = open(store.url, {.environment = world});
                (void)count_messages(where);
            });
    }
    // All of them try to connect while we wait for the first: those that are away cost one wait.
    std::map<std::string, std::shared_ptr<transport>> opened;
    const auto until = world.clock->monotonic() + patience_for_transports;
    for (const auto& [name, each] : what.transports)
        if (attempt one = tried(fmt::format("transport {}", name),
                                [&] { opened.emplace(name, each.open(world, {})); });
            !one.error.empty())
            result.push_back(std::move(one));
    for (const auto& [name, each] : opened)
        add(fmt::format("transport {}", name), [&] {
            const bool ready = each->wait_until_ready(
                {.until = std::max(until, world.clock->monotonic() + patience_for_another)});
            each->close({.until = world.clock->monotonic() + 1s});
            if (!ready)
                throw error(error_code::unavailable, "cannot be reached");
        });
    return result;
}

// Every text in it; never a name, or the document would not be what it was.
void clean(ordered_json& document, const redaction& secrets)
{
    if (document.is_string())
        document = secrets.cleaned(document.get<std::string>());
    else if (document.is_structured())
        for (auto& each : document)
            clean(each, secrets);
}

ordered_json summary_as_json(const configuration& what, timestamp now)
{
    ordered_json result{{"valid", true}, {"file", what.file}};
    auto stores = ordered_json::array();
    for (const auto& each : what.stores)
        stores.push_back({{"name", text_or_null(each.name)},
                          {"url", each.discover ? ordered_json() : ordered_json(each.url.shown())},
                          {"discover", each.discover.has_value()},
                          {"migrate", each.migrate}});
    auto transports = ordered_json::array();
    for (const auto& [name, each] : what.transports)
        transports.push_back({{"name", name}, {"url", each.url.shown()}});
    auto relays = ordered_json::array();
    for (const auto& each : what.relays)
        relays.push_back({{"on", each.on}, {"to", each.to}});
    auto handlers = ordered_json::array();
    for (const auto& each : what.handlers)
        handlers.push_back({{"on", each.on}, {"program", each.command.front()}});
    auto feeds = ordered_json::array();
    for (const auto& each : what.feeds)
        feeds.push_back(
            {{"from", each.from.shown()}, {"source", each.source}, {"store", each.store}});
    auto endpoints = ordered_json::array();
    for (const auto& each : what.endpoints)
        endpoints.push_back({{"listen", to_string(each.listen)},
                             {"path", each.path},
                             {"source", each.source},
                             {"store", each.store}});
    auto jobs = ordered_json::array();
    for (const auto& each : what.schedules) {
        const auto times = each.job.every ? schedule::every(*each.job.every, now)
                                          : schedule::cron(each.job.cron, each.job.zone);
        const auto next = times.next(now);
        jobs.push_back({{"name", each.name},
                        {"store", text_or_null(each.store)},
                        {"topic", each.job.run.topic},
                        {"times", times_of(each.job)},
                        {"next_at", next ? ordered_json(cli::iso_time(*next)) : ordered_json()}});
    }
    result["stores"] = std::move(stores);
    result["transports"] = std::move(transports);
    result["relays"] = std::move(relays);
    result["handlers"] = std::move(handlers);
    result["feeds"] = std::move(feeds);
    result["endpoints"] = std::move(endpoints);
    result["schedules"] = std::move(jobs);
    result["retention"] = what.retention.has_value();
    result["listen"] =
        what.daemon.listen ? ordered_json(to_string(*what.daemon.listen)) : ordered_json();
    result["warnings"] = as_json(what.file, what.warnings);
    return result;
}

void print_summary(const configuration& what, const redaction& secrets, cli::output& to)
{
    const auto line = [&](std::string_view kind, const std::string& text) {
        to.line(fmt::format("  {:<10} {}", kind, cli::printable(secrets.cleaned(text))));
    };
    to.line(fmt::format("{} is valid", cli::printable(what.file)));
    for (const auto& each : what.stores)
        line("store", each.name.empty() || each.name == each.url.shown()
                          ? shown(each)
                          : fmt::format("{}: {}", each.name, shown(each)));
    for (const auto& [name, each] : what.transports)
        line("transport", fmt::format("{}: {}", name, each.url.shown()));
    for (const auto& each : what.relays)
        line("relay", fmt::format("{} to {}", fmt::join(each.on, ", "), each.to));
    for (const auto& each : what.handlers)
        line("handler", fmt::format("{} by {}", fmt::join(each.on, ", "), each.command.front()));
    for (const auto& each : what.feeds)
        line("feed", fmt::format("{} as {} into {}", each.from.shown(), each.source, each.store));
    for (const auto& each : what.endpoints)
        line("endpoint", fmt::format("http://{}{} as {} into {}", to_string(each.listen), each.path,
                                     each.source, each.store));
    for (const auto& each : what.schedules)
        line("schedule", fmt::format("{}: {}", each.name, times_of(each.job)));
    if (what.retention)
        line("retention", fmt::format("every {}", cli::age(what.retention->every)));
    if (what.daemon.listen)
        line("listen",
             fmt::format("{}: /metrics /healthz /readyz", to_string(*what.daemon.listen)));
}

} // namespace

cli::exit_status show_check(const configuration& what, bool connect, cli::output& to)
{
    redaction secrets;
    for (const auto& each : what.secrets)
        secrets.add(each);
    const auto tried = connect ? try_all(what, secrets) : std::vector<attempt>{};
    const bool reached =
        std::ranges::all_of(tried, [](const attempt& each) { return each.error.empty(); });
    if (to.json()) {
        auto document = summary_as_json(what, environment::system().clock->now());
        if (connect) {
            auto list = ordered_json::array();
            for (const auto& each : tried)
                list.push_back({{"what", each.what},
                                {"reached", each.error.empty()},
                                {"error", text_or_null(each.error)}});
            document["reached"] = std::move(list);
        }
        document["file"] = nullptr; // somebody typed it, and may find it
        clean(document, secrets);
        document["file"] = what.file;
        to.document(document);
    } else {
        print_summary(what, secrets, to);
        for (const auto& each : tried)
            to.line(
                fmt::format("  {:<10} {}", each.error.empty() ? "reached" : "FAILED",
                            cli::printable(secrets.cleaned(
                                each.error.empty() ? each.what : each.what + ": " + each.error))));
        for (const auto& each : what.warnings)
            to.note("warning: " + in_words(what.file, each));
    }
    return reached ? cli::exit_status::success : cli::exit_status::failure;
}

void tell_problems(const bad_configuration& wrong, const cli::output& to)
{
    const auto count = cli::counted(wrong.problems.size(), "problem");
    if (to.json()) {
        const ordered_json document{
            {"error",
             {{"code", to_string(error_code::invalid_argument)},
              {"message", fmt::format("{} in {}", count, cli::printable(wrong.file))},
              {"problems", as_json(wrong.file, wrong.problems)},
              {"warnings", as_json(wrong.file, wrong.warnings)}}}};
        const auto text = cli::json_text(document) + "\n";
        static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
        return;
    }
    for (const auto& each : wrong.problems)
        to.error({}, in_words(wrong.file, each));
    for (const auto& each : wrong.warnings)
        to.note("warning: " + in_words(wrong.file, each));
}

} // namespace posthorn::daemon
