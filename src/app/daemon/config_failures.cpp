// What the file says of failed messages: `retry = { … }` and `on_dead`, for the daemon, a topic, a
// handler or a relay.
#include "app/daemon/config.hpp"

#include <fmt/format.h>

namespace posthorn::daemon {
namespace {

using namespace std::chrono_literals;

void read_retry(section& parent, failure_settings& into)
{
    auto from = parent.table("retry");
    if (!from)
        return;
    into.rule = from->one_of("rule", retry_rule_names);
    if (const auto attempts = from->whole("attempts", 1, 1'000'000))
        into.attempts = static_cast<int>(*attempts);
    into.first = from->time("first", 1ms);
    into.cap = from->time("cap", 1ms);
    into.then_every = from->time("then_every", 1ms);
    into.jitter = from->fraction("jitter");
    if (from->is_clean())
        if (const auto clash = clash_in(into))
            from->refuse(clash->key, clash->message);
    from->finish();
    if (from->is_clean() && !into.says_when())
        parent.refuse("retry", "says nothing: it may have rule, attempts, first, cap, then_every "
                               "and jitter");
}

} // namespace

failure_settings read_failures(section& from)
{
    failure_settings result;
    read_retry(from, result);
    if (const auto word = from.one_of("on_dead", dead_key_names))
        result.on_dead = read_dead_key(*word);
    return result;
}

// `attempts` and `backoff` are the short form of a table that most files do not need.
failure_settings read_failures_of_daemon(section& from)
{
    auto result = read_failures(from);
    const auto attempts = from.whole("attempts", 1, 1'000'000);
    const auto backoff = from.time("backoff", 1ms);
    for (const auto* const name : {"attempts", "backoff"})
        if (from.has(name) && from.has("retry"))
            from.refuse(name, fmt::format("cannot stand beside retry: write it there, as {}",
                                          name == std::string_view("backoff") ? "first" : name));
    if (attempts)
        result.attempts = static_cast<int>(*attempts);
    if (backoff)
        result.first = backoff;
    return result;
}

void read_topics(section& root, configuration& into)
{
    route_book known;
    for (auto& from : root.tables("topics")) {
        topic_settings result{.on = known.take(from)};
        result.failures = read_failures(from);
        if (!from.has("retry") && !from.has("on_dead"))
            from.require("retry", "what holds for these topics; or on_dead");
        from.finish();
        into.topics.push_back(std::move(result));
    }
}

} // namespace posthorn::daemon
