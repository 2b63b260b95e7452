// The verb `why`: what a message or a join waits for, or what became of it, in one sentence and one
// word.
#include "app/cli/join_view.hpp"
#include "app/cli/state_words.hpp"
#include "app/cli/text.hpp"
#include "app/cli/verbs.hpp"
#include "store/contract/job_book.hpp"
#include "store/contract/session.hpp"
#include "store/contract/url.hpp"
#include <posthorn/dead_letters.hpp>
#include <posthorn/error.hpp>
#include <posthorn/messages.hpp>
#include <posthorn/pauses.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>

namespace posthorn::cli {
namespace {

using nlohmann::ordered_json;

struct explanation {
    std::string_view reason; ///< for programs; docs/cli.md lists them
    std::string text;
    std::vector<std::string> commands = {}; ///< what an operator may do about it
    std::optional<message_id> held_by = {};
};

// What an explanation is made from, besides the message.
struct circumstances {
    store& where;
    std::string url; ///< as it may be shown, ready for a shell
    timestamp now;
    std::vector<pause_record> pauses;
};

// The database's: by its clock messages are due and leases end, whatever this machine's says.
timestamp time_in(store& where)
{
    auto view = where.read();
    return view.session().jobs().jobs().now();
}

// Words as one would type them.
std::string typed(std::string_view word)
{
    constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                       "0123456789_.:/=@%+-";
    if (!word.empty() && word.find_first_not_of(plain) == std::string_view::npos)
        return std::string(word);
    std::string result = "'";
    for (const char c : word)
        result += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return result + "'";
}

std::string at(timestamp when, const circumstances& around)
{
    return fmt::format("{} ({})", relative(when, around.now), iso_time(when));
}

std::string with_error(const message_record& what)
{
    return what.last_error.empty()
               ? std::string{}
               : fmt::format("; the last error: {}", printable(what.last_error));
}

const pause_record* pause_of(const message_record& what, const circumstances& around)
{
    const auto found = std::ranges::find_if(
        around.pauses, [&](const pause_record& each) { return is_paused({each}, what.topic); });
    return found == around.pauses.end() ? nullptr : &*found;
}

explanation of_pause(std::string_view reason, const pause_record& pause,
                     const circumstances& around)
{
    const auto option = pause.topic.empty() ? "" : " --topic " + typed(pause.topic);
    return {.reason = reason,
            .text = fmt::format("{} was paused {}",
                                pause.topic.empty()
                                    ? std::string("the whole store")
                                    : fmt::format("the topic '{}'", printable(pause.topic)),
                                at(pause.since, around)),
            .commands = {fmt::format("posthorn resume {}{}", around.url, option)}};
}

// Who is in front: a key has one message that is ready, parked or claimed, or a dead one.
std::optional<message_record> holder_of(const message_record& what, store& where)
{
    for (const auto state : {message_state::claimed, message_state::ready, message_state::parked}) {
        auto found =
            list_messages(where, {.state = state, .ordering_key = what.ordering_key, .limit = 1});
        if (!found.empty())
            return std::move(found.front());
    }
    constexpr std::size_t page = 1'000;
    for (std::int64_t after = 0;;) {
        auto found = list_messages(where, {.state = message_state::dead,
                                           .ordering_key = what.ordering_key,
                                           .after_position = after,
                                           .limit = page});
        const auto blocking = std::ranges::find_if(found, &message_record::blocks_key);
        if (blocking != found.end())
            return std::move(*blocking);
        if (found.size() < page)
            return std::nullopt;
        after = found.back().position;
    }
}

// Without a key it can only be a join that it waits for.
explanation explain_kept_back(const message_record& what, const circumstances& around)
{
    const auto joins = list_joins(around.where, {.member = what.id, .limit = 1});
    if (joins.empty())
        return {.reason = "join_pending", .text = "it waits for a join that just ends: ask again"};
    const auto id = to_string(joins.front().id);
    const auto progress = progress_of(joins.front());
    return {.reason = "join_pending",
            .text = what.expires_at
                        ? fmt::format("it is the deadline of join {}, of which {} ended, and never "
                                      "runs; it comes {}",
                                      id, progress, at(*what.expires_at, around))
                        : fmt::format("it waits for join {}, of which {} ended", id, progress),
            .commands = {fmt::format("posthorn why {} {}", around.url, id)}};
}

explanation explain_waiting(const message_record& what, const circumstances& around)
{
    if (what.ordering_key.empty())
        return explain_kept_back(what, around);
    const auto holder = holder_of(what, around.where);
    const auto key = printable(what.ordering_key);
    if (!holder)
        return {.reason = "key_held",
                .text = fmt::format("it waits for its turn of the ordering key '{}', which is just "
                                    "being passed on: ask again",
                                    key)};
    const auto id = to_string(holder->id);
    if (holder->state != message_state::dead)
        return {.reason = "key_held",
                .text = fmt::format("it waits for message {} of the same ordering key '{}', which "
                                    "is {}",
                                    id, key, word_of(*holder)),
                .commands = {fmt::format("posthorn why {} {}", around.url, id)},
                .held_by = holder->id};
    return {.reason = "key_blocked",
            .text = fmt::format("its ordering key '{}' is blocked by message {}, which is dead{}",
                                key, id, with_error(*holder)),
            .commands = {fmt::format("posthorn dead retry-key {} {}", around.url,
                                     typed(what.ordering_key)),
                         fmt::format("posthorn dead skip-key {} {}", around.url,
                                     typed(what.ordering_key))},
            .held_by = holder->id};
}

// Whoever has had it took it when it was due, so that it is due later is a worker's doing; and no
// attempt, failure or redrive has given it the time.
bool was_put_off(const message_record& what)
{
    return !what.worker.empty() && what.attempts == 0 && what.errors == 0 && what.redrives == 0;
}

// Clocks are set back, and what was written before bears times that are still to come.
std::string of_clock(const message_record& what, const circumstances& around)
{
    const auto latest = std::max({what.created_at, what.started_at.value_or(what.created_at),
                                  what.failed_at.value_or(what.created_at)});
    constexpr auto tolerance = std::chrono::seconds{2};
    return latest > around.now + tolerance
               ? fmt::format(
                     "; the database's clock ran ahead and was set back: by it this message "
                     "was last touched {}. A worker that runs makes it count its time from now, "
                     "within a minute or two, unless it was to wait for longer than that",
                     at(latest, around))
               : std::string{};
}

explanation explain_ready(const message_record& what, const circumstances& around)
{
    if (what.expires_at && *what.expires_at <= around.now)
        return {.reason = "expired",
                .text = fmt::format("its time was over {}, and nobody had started it; the next "
                                    "claim ends it",
                                    at(*what.expires_at, around))};
    if (what.due_at > around.now && what.errors > 0)
        return {.reason = "retrying",
                .text =
                    fmt::format("it has failed {} and will be tried again {}{}{}",
                                counted(static_cast<std::size_t>(what.errors), "time"),
                                at(what.due_at, around), with_error(what), of_clock(what, around))};
    if (what.due_at > around.now && was_put_off(what))
        return {.reason = "postponed",
                .text = fmt::format("worker {} had it and has put it off, at no cost, as relays do "
                                    "when the other side is away or says not now: it comes back "
                                    "{}; the log of that worker says why",
                                    printable(what.worker), at(what.due_at, around))};
    if (what.due_at > around.now)
        return {.reason = "delayed",
                .text = fmt::format("it is not due yet: {}{}", at(what.due_at, around),
                                    of_clock(what, around))};
    if (const auto* pause = pause_of(what, around))
        return of_pause("paused", *pause, around);
    if (what.parked_for)
        return {.reason = "at_limit",
                .text = fmt::format("it has been due for {}: when a worker met it, as many of the "
                                    "topic '{}', or of its group, were running as its handler may "
                                    "run at once; a worker takes it when one of them ends",
                                    age(around.now - what.due_at), printable(what.topic))};
    return {.reason = "no_worker_yet",
            .text = fmt::format("it has been due for {}, and no worker has taken it yet",
                                age(around.now - what.due_at))};
}

explanation explain_parked(const message_record& what, const circumstances& around)
{
    switch (what.parked_for.value_or(park_reason::no_handler)) {
    case park_reason::no_handler:
        return {.reason = "parked_no_handler",
                .text = fmt::format("it is parked: the worker that met it has no handler for the "
                                    "topic '{}', and no other one has come",
                                    printable(what.topic)),
                .commands = {fmt::format("posthorn work {} --on {} -- COMMAND", around.url,
                                         typed(what.topic))}};
    case park_reason::at_limit:
    case park_reason::paused: break;
    }
    if (const auto* pause = pause_of(what, around)) {
        auto result = of_pause("parked_paused", *pause, around);
        result.text = "it is parked: " + result.text;
        return result;
    }
    return {.reason = "parked_paused",
            .text = fmt::format("it was parked while the topic '{}' was paused; that is over, and "
                                "the next worker that handles it takes it",
                                printable(what.topic))};
}

explanation explain_claimed(const message_record& what, const circumstances& around)
{
    const auto worker = what.worker.empty() ? std::string("a worker without a name")
                                            : "worker " + printable(what.worker);
    const auto lease = what.lease_until.value_or(around.now);
    const auto deed = what.started ? "started" : "claimed";
    if (lease <= around.now)
        return {.reason = "lease_over",
                .text = fmt::format("{} {} it, but its lease ran out {}: the next reaping takes "
                                    "it back, which any worker does",
                                    worker, deed, at(lease, around))};
    const auto since = what.started && what.started_at
                           ? ", " + relative(*what.started_at, around.now)
                           : std::string{};
    return {.reason = deed,
            .text = fmt::format(
                "{} has {} it (attempt {}{}); its lease ends {} unless it is renewed", worker, deed,
                what.attempts + (what.started ? 0 : 1), since, at(lease, around))};
}

explanation explain_end(const message_record& what, const circumstances& around)
{
    const auto when = at(what.finished_at.value_or(around.now), around);
    if (what.state == message_state::dead)
        return {.reason = "dead",
                .text = fmt::format("it failed for good {} after {}{}", when,
                                    counted(static_cast<std::size_t>(what.attempts), "attempt"),
                                    with_error(what)),
                .commands = {
                    fmt::format("posthorn dead redrive {} {}", around.url, to_string(what.id))}};
    if (what.state == message_state::cancelled)
        return {.reason = "cancelled", .text = fmt::format("it was cancelled {}", when)};
    if (what.state == message_state::expired)
        return {.reason = "expired",
                .text = fmt::format("nobody started it in time: it expired {}",
                                    at(what.expires_at.value_or(around.now), around))};
    return {.reason = "done",
            .text = fmt::format("it was handled {}, at attempt {}", when, what.attempts)};
}

explanation explain(const message_record& what, const circumstances& around)
{
    switch (what.state) {
    case message_state::ready: return explain_ready(what, around);
    case message_state::waiting: return explain_waiting(what, around);
    case message_state::parked: return explain_parked(what, around);
    case message_state::claimed: return explain_claimed(what, around);
    default: return explain_end(what, around);
    }
}

exit_status why_join(const join_record& what, const circumstances& around, output& to)
{
    const auto because = explain_join(around.where, what, around.now);
    std::vector<std::string> commands;
    for (const auto& each : because.open)
        commands.push_back(fmt::format("posthorn why {} {}", around.url, to_string(each)));
    if (what.state == join_state::failed)
        commands.push_back(
            fmt::format("posthorn joins redrive {} {}", around.url, to_string(what.id)));
    if (to.json()) {
        to.document({{"id", to_string(what.id)},
                     {"join", true},
                     {"state", to_string(what.state)},
                     {"reason", because.reason},
                     {"text", because.text},
                     {"commands", commands}});
        return exit_status::success;
    }
    to.line(fmt::format("join {}: {}", to.tinted(to_string(what.state), tint::bold), because.text));
    for (const auto& each : commands)
        to.line(fmt::format("  {}", printable(each)));
    return exit_status::success;
}

} // namespace

exit_status why(const message_request& what, output& to)
{
    auto where = open(what.url);
    const auto found = find_message(where, what.id);
    const circumstances around{.where = where,
                               .url = typed(contract::without_password(what.url)),
                               .now = time_in(where),
                               .pauses = list_pauses(where)};
    if (!found)
        if (const auto join = find_join(where, join_id{what.id.value()}))
            return why_join(*join, around, to);
    if (!found)
        throw error(error_code::not_found,
                    fmt::format("there is no message {}; it may have been removed after its "
                                "retention",
                                to_string(what.id)));
    const auto because = explain(*found, around);
    if (to.json()) {
        to.document({{"id", to_string(found->id)},
                     {"state", word_of(*found)},
                     {"reason", because.reason},
                     {"text", because.text},
                     {"commands", because.commands},
                     {"held_by", because.held_by ? ordered_json(to_string(*because.held_by))
                                                 : ordered_json()}});
        return exit_status::success;
    }
    to.line(fmt::format("{}: {}", to.tinted(word_of(*found), tint::bold), because.text));
    for (const auto& each : because.commands)
        to.line(fmt::format("  {}", printable(each)));
    return exit_status::success;
}

} // namespace posthorn::cli
