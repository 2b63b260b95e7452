// Verbs for what failed for good: looking at dead messages, redriving and purging them, and setting
// blocked ordering keys free.
#include "app/cli/progress.hpp"
#include "app/cli/record_view.hpp"
#include "app/cli/state_words.hpp"
#include "app/cli/table.hpp"
#include "app/cli/text.hpp"
#include "app/cli/verbs.hpp"
#include <posthorn/dead_letters.hpp>
#include <posthorn/error.hpp>
#include <posthorn/store.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace posthorn::cli {
namespace {

using nlohmann::ordered_json;

void check(const dead_selection& which)
{
    const bool by_filter = !which.topic.empty() || !which.error.empty();
    const int kinds = (which.id ? 1 : 0) + (which.all ? 1 : 0) + (by_filter ? 1 : 0);
    if (kinds == 0)
        throw error(error_code::invalid_argument,
                    "say which dead messages: an ID, --topic, --error, or --all of them");
    if (kinds > 1)
        throw error(error_code::invalid_argument,
                    "an ID, --all, and --topic with --error exclude each other");
}

message_record find_dead(store& where, message_id id)
{
    auto found = find_message(where, id);
    if (!found)
        throw error(error_code::not_found, fmt::format("there is no message {}", to_string(id)));
    if (found->state != message_state::dead)
        throw error(error_code::not_found,
                    fmt::format("message {} is not dead, but {}", to_string(id), word_of(*found)));
    return *std::move(found);
}

message_filter filter_of(const dead_selection& which)
{
    return {.state = message_state::dead, .topic = which.topic, .error_contains = which.error};
}

// Says what was done, or would have been: "redriven: 3 dead messages".
exit_status report(std::string_view deed, std::size_t count, bool dry_run, output& to)
{
    to.answer(
        {{"count", count}, {"dry_run", dry_run}},
        fmt::format("{}{}: {}", dry_run ? "would be " : "", deed, counted(count, "dead message")));
    return exit_status::success;
}

// Carries out `change` on one dead message.
template <typename Change>
std::size_t change_one(store& where, message_id id, bool dry_run, Change change)
{
    const auto found = find_dead(where, id);
    if (!dry_run && !change(where, found.id))
        throw error(error_code::not_found,
                    fmt::format("message {} is not dead any more", to_string(id)));
    return 1;
}

// Carries out `change`, which is one long call; how far it is shows in the dead messages that are
// left.
template <typename Change>
std::size_t change_many(store& where, const std::string& label, const message_filter& filter,
                        output& to, Change change)
{
    if (!to.watched())
        return change();
    const auto dead = [&where] { return static_cast<std::size_t>(count_messages(where).dead); };
    const auto total = redrive(where, filter, {.dry_run = true});
    const progress_watch watch(
        label, total, to, [dead, before = dead()] { return before - std::min(before, dead()); });
    return change();
}

exit_status change_key(const key_request& what, bool (*change)(store&, std::string_view),
                       std::string_view deed, output& to)
{
    auto where = open(what.url);
    if (!change(where, what.ordering_key))
        throw error(error_code::not_found, fmt::format("the ordering key '{}' is not blocked",
                                                       printable(what.ordering_key)));
    to.answer({{"key", what.ordering_key}, {"answer", deed}}, deed);
    return exit_status::success;
}

ordered_json as_json(const std::vector<blocked_key>& keys)
{
    auto list = ordered_json::array();
    for (const auto& each : keys)
        list.push_back({{"key", each.ordering_key},
                        {"dead_message", to_string(each.dead_message)},
                        {"topic", each.topic},
                        {"last_error", each.last_error},
                        {"since", iso_time(each.since)},
                        {"waiting", each.waiting}});
    return {{"keys", std::move(list)}};
}

void print_keys(const std::vector<blocked_key>& keys, timestamp now, output& to)
{
    using side = column::side;
    table rows({{"KEY"},
                {"WAITING", side::right},
                {"SINCE", side::right},
                {"DEAD MESSAGE"},
                {"TOPIC"},
                {"ERROR", side::left, 60}});
    for (const auto& each : keys)
        rows.add({{each.ordering_key},
                  {fmt::format("{}", each.waiting)},
                  {age(now - each.since)},
                  {to_string(each.dead_message)},
                  {each.topic},
                  {each.last_error}});
    rows.print(to);
}

} // namespace

exit_status list_dead(const list_request& what, output& to)
{
    auto where = open(what.url);
    auto filter = what.filter;
    filter.state = message_state::dead;
    print_page(where, std::move(filter), list_view::dead, to);
    return exit_status::success;
}

exit_status show_dead(const message_request& what, output& to)
{
    auto where = open(what.url);
    print_record(find_dead(where, what.id),
                 what.with_payload ? payload_view::shown : payload_view::hidden,
                 where.environment().clock->now(), to);
    return exit_status::success;
}

exit_status redrive_dead(const redrive_request& what, output& to)
{
    check(what.which);
    if (what.which.id && what.per_second)
        throw error(error_code::invalid_argument, "--rate is for many messages, not for one");
    auto where = open(what.url);
    const redrive_options how{.dry_run = what.dry_run, .per_second = what.per_second};
    const auto filter = filter_of(what.which);
    const auto count = what.which.id
                           ? change_one(where, *what.which.id, what.dry_run,
                                        [](store& in, message_id id) { return redrive(in, id); })
                           : change_many(where, "redriving", filter, to,
                                         [&] { return redrive(where, filter, how); });
    return report("redriven", count, what.dry_run, to);
}

exit_status purge_dead(const purge_request& what, output& to)
{
    check(what.which);
    auto where = open(what.url);
    const auto filter = filter_of(what.which);
    const auto count = what.which.id
                           ? change_one(where, *what.which.id, what.dry_run,
                                        [](store& in, message_id id) { return purge(in, id); })
                           : change_many(where, "purging", filter, to,
                                         [&] { return purge(where, filter, what.dry_run); });
    return report("purged", count, what.dry_run, to);
}

exit_status list_keys(const keys_request& what, output& to)
{
    auto where = open(what.url);
    const auto keys = list_blocked_keys(where, what.limit);
    if (to.json())
        to.document(as_json(keys));
    else if (keys.empty())
        to.note("no blocked keys");
    else
        print_keys(keys, where.environment().clock->now(), to);
    return exit_status::success;
}

exit_status retry_key(const key_request& what, output& to)
{
    return change_key(what, &retry_blocked_key, "retrying", to);
}

exit_status skip_key(const key_request& what, output& to)
{
    return change_key(what, &skip_blocked_key, "skipped", to);
}

} // namespace posthorn::cli
