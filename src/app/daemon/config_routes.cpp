// Reading what a configuration says about other systems: transports, relays and feeds.
#include "app/cli/text.hpp"
#include "app/daemon/config.hpp"
#include "app/daemon/endpoints.hpp"
#include "core/inbox.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

namespace posthorn::daemon {
namespace {

std::string nearest_hint(std::string_view typed, const std::vector<std::string>& names)
{
    const auto meant = cli::nearest(typed, names);
    return meant.empty() ? std::string{} : fmt::format("; did you mean '{}'?", meant);
}

template <typename Map>
std::vector<std::string> names_of(const Map& all)
{
    std::vector<std::string> names;
    for (const auto& [name, each] : all)
        names.push_back(name);
    return names;
}

message_template read_template(section& from, std::string_view name)
{
    message_template result;
    if (const auto text = from.text(name))
        from.check(name, [&] { result = message_template(*text); });
    return result;
}

void check_store(section& from, const configuration& so_far, std::string& name)
{
    if (name.empty() && so_far.stores.size() == 1)
        name = so_far.stores.front().name;
    if (name.empty())
        from.require("store", "the name of the store to which it belongs");
    else
        check_store_name(from, so_far, name);
}

// As the inbox will have it.
std::string read_source(section& from, std::string_view who)
{
    auto source = from.required_text(
        "source", fmt::format("the inbox's name for whoever {}; with the id it is unique", who));
    if (!source.empty())
        from.check("source", [&] { core::check_inbound({.source = source, .id = "any"}, {}); });
    return source;
}

std::string read_topic(section& from)
{
    auto topic = from.text("topic").value_or("");
    if (!topic.empty())
        from.check("topic", [&] { (void)core::from_outside({.topic = topic, .payload = {}}); });
    return topic;
}

void check_secrets(section& from, const endpoint_settings& which)
{
    if (which.unsigned_allowed && !which.secrets.empty())
        return from.refuse("unsigned_allowed", "cannot stand beside secrets: one of them is meant");
    if (which.secrets.empty() && which.unsigned_allowed)
        return;
    if (from.is_empty_list("secrets"))
        return from.refuse("secrets", "should have at least one; or say unsigned_allowed = true");
    if (which.secrets.empty()) // or what stands there was refused
        return from.require("secrets", "what senders sign with; or unsigned_allowed = true");
    auto any_path = which;
    any_path.path = "/any";
    any_path.source = "any";
    any_path.topic_wins = false;
    from.check("secrets", [&] { check_endpoint(any_path); });
}

// Nobody could say who posts where two do.
void check_path(section& from, const endpoint_settings& which,
                std::map<std::string, std::uint32_t>& lines)
{
    if (!from.has("path"))
        return;
    endpoint_settings any{.path = which.path, .source = "any", .unsigned_allowed = true};
    from.check("path", [&] { check_endpoint(any); });
    const auto [at, added] = lines.emplace(
        fmt::format("{} {}", to_string(which.listen), which.path), from.at("path").line);
    if (!added && !which.listen.host.empty())
        from.refuse("path", fmt::format("'{}' is taken at {} in line {} already", which.path,
                                        to_string(which.listen), at->second));
}

} // namespace

void check_store_name(section& from, const configuration& so_far, const std::string& name)
{
    std::vector<std::string> names;
    for (const auto& each : so_far.stores)
        names.push_back(each.name);
    // Only a list that never changes can be checked: patterns and queries have no name.
    const bool known = std::ranges::find(names, std::string{}) == names.end();
    if (known && std::ranges::find(names, name) == names.end())
        from.refuse("store",
                    fmt::format("there is no store '{}'{}", name, nearest_hint(name, names)));
}

std::vector<std::string> route_book::take(section& from)
{
    std::vector<std::string> result;
    from.require("on", "a topic, or with * at the end all that start so");
    const auto patterns = from.texts("on");
    if (from.is_empty_list("on"))
        from.refuse("on", "should name at least one topic");
    for (const auto& each : patterns) {
        const auto star = each.find('*');
        if (each.empty())
            from.refuse("on", "has an empty topic; * takes all there are");
        else if (star != std::string::npos && star + 1 != each.size())
            from.refuse("on", fmt::format("'{}' has a * that is not its end; a pattern is a topic, "
                                          "or a beginning of topics and *",
                                          each));
        else if (const auto [at, added] = lines_.emplace(each, from.at("on").line); !added)
            from.refuse("on", fmt::format("'{}' is handled in line {} already", each, at->second));
        else
            result.push_back(each);
    }
    return result;
}

void read_transports(section& root, configuration& into)
{
    for (auto& [name, from] : root.named_tables("transports")) {
        from.require("url", "where to, such as amqp://user@host or https://host/path");
        transport_settings result{.at = from.at(), .key = from.path()};
        if (auto url = from.url("url")) {
            result.url = *url;
            result.open = read_transport(from, "url", *url);
            // Which keys there may be depends on the transport.
            if (result.open)
                from.finish();
        }
        into.transports.emplace(name, std::move(result));
    }
}

void read_relays(section& root, configuration& into, route_book& routes)
{
    for (auto& from : root.tables("relays")) {
        relay_settings result{.on = routes.take(from)};
        result.to = from.required_text("to", "the name of a transport: [transports.NAME]");
        if (!result.to.empty() && !into.transports.contains(result.to))
            from.refuse("to", fmt::format("there is no [transports.{}]{}", result.to,
                                          nearest_hint(result.to, names_of(into.transports))));
        result.how.destination = read_template(from, "destination");
        result.how.key = read_template(from, "key");
        if (const auto limit = from.time("answer_within", std::chrono::milliseconds{100}))
            result.how.answer_within = *limit;
        if (const auto pause = from.time("pause", std::chrono::milliseconds{1}))
            result.how.pause = *pause;
        static const std::array<std::string, 2> ends{"retry", "fail"};
        if (from.one_of("unroutable", ends) == "fail")
            result.how.unroutable = when_unroutable::fail;
        result.failures = read_failures(from);
        from.finish();
        into.relays.push_back(std::move(result));
    }
}

void read_feeds(section& root, configuration& into)
{
    for (auto& from : root.tables("feeds")) {
        feed_settings result{.at = from.at(), .key = from.path()};
        from.require("from", "where messages come from, such as amqp://user@host");
        result.source = read_source(from, "sends");
        result.store = from.text("store").value_or("");
        result.topic = read_topic(from);
        result.topic_wins = from.flag("topic_wins").value_or(false);
        result.batch = static_cast<std::size_t>(from.whole("batch", 1, 1'000).value_or(100));
        check_store(from, into, result.store);
        if (result.topic_wins && result.topic.empty())
            from.refuse("topic_wins", "needs a topic that can win");
        if (auto url = from.url("from")) {
            result.from = *url;
            result.open = read_feed(from, "from", *url);
            if (result.open)
                from.finish();
        }
        into.feeds.push_back(std::move(result));
    }
}

void read_endpoints(section& root, configuration& into)
{
    std::map<std::string, std::uint32_t> lines;
    std::map<std::string, std::uint32_t> paths;
    for (auto& from : root.tables("endpoints")) {
        endpoint_settings result{.at = from.at(), .key = from.path()};
        if (!can_listen_for_webhooks())
            from.refuse("listen", "this build cannot listen for webhooks");
        from.require("listen", "where others post, such as 127.0.0.1:8080");
        from.require("path", "such as /hooks/shop");
        const bool open_to_all = from.flag("listen_public").value_or(false);
        if (const auto text = from.text("listen"))
            from.check("listen", [&] {
                result.listen = parse_address(*text);
                if (!result.listen.is_loopback() && !open_to_all)
                    throw error(error_code::invalid_argument,
                                fmt::format("'{}' can be reached from elsewhere, without TLS; if "
                                            "that is meant, say listen_public = true",
                                            *text));
            });
        result.path = from.text("path").value_or("");
        result.source = read_source(from, "posts");
        result.secrets = from.all_hidden("secrets");
        result.unsigned_allowed = from.flag("unsigned_allowed").value_or(false);
        result.topic = read_topic(from);
        result.topic_wins = from.flag("topic_wins").value_or(false);
        if (result.topic_wins && result.topic.empty())
            from.refuse("topic_wins", "needs a topic that can win");
        result.store = from.text("store").value_or("");
        check_store(from, into, result.store);
        check_secrets(from, result);
        check_path(from, result, paths);
        const auto [at, added] = lines.emplace(result.source, from.at().line);
        if (!result.source.empty() && !added)
            from.refuse("source",
                        fmt::format("'{}' posts in line {} already", result.source, at->second));
        from.finish();
        into.endpoints.push_back(std::move(result));
    }
}

} // namespace posthorn::daemon
