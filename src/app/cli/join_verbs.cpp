// The verbs of joins: looking at them, cancelling them, and giving them another chance.
#include "app/cli/join_view.hpp"
#include "app/cli/table.hpp"
#include "app/cli/text.hpp"
#include "app/cli/verbs.hpp"
#include <posthorn/error.hpp>
#include <posthorn/joins.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace posthorn::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t bar_width = 20;

join_record find_or_refuse(store& where, join_id id)
{
    auto found = find_join(where, id);
    if (!found)
        throw error(error_code::not_found,
                    fmt::format("there is no join {}; it may have been removed after its retention",
                                to_string(id)));
    return *std::move(found);
}

void print_joins(const std::vector<join_record>& page, timestamp now, output& to)
{
    using side = column::side;
    table rows({{"ID"},
                {"STATE"},
                {"PROGRESS"},
                {"ENDED", side::right},
                {"FAILED", side::right},
                {"GROUP"},
                {"AGE", side::right}});
    for (const auto& each : page)
        rows.add({{to_string(each.id)},
                  {std::string(to_string(each.state)), tint_of(each.state)},
                  {bar(each, bar_width)},
                  {progress_of(each)},
                  {fmt::format("{}", each.failed), each.failed > 0 ? tint::red : tint::none},
                  {each.grouping_key},
                  {age(now - each.created_at)}});
    rows.print(to);
}

void print_one(store& where, const join_record& what, output& to)
{
    const auto now = where.environment().clock->now();
    fact_sheet facts;
    facts.add("id", to_string(what.id));
    facts.add("state", to_string(what.state), tint_of(what.state));
    facts.add("progress", fmt::format("{} {}", bar(what, bar_width), progress_of(what)));
    facts.add("why", explain_join(where, what, now).text);
    facts.add("completed", fmt::format("{}", what.completed));
    facts.add("failed", fmt::format("{}", what.failed));
    facts.add("attached", fmt::format("{}", what.attached));
    if (what.needed)
        facts.add("needed", fmt::format("{}", *what.needed));
    facts.add("group", what.grouping_key);
    facts.add("correlation", what.correlation_id);
    facts.add("on complete", what.on_complete ? what.on_complete->topic : "");
    facts.add("on fail", what.on_fail ? what.on_fail->topic : "");
    facts.add("opened", iso_time(what.created_at));
    facts.add("metadata", fmt::format("{} bytes", what.metadata.size()));
    facts.print(to);
}

void print_members(store& where, const join_record& what, std::size_t limit, output& to)
{
    const auto members = list_join_members(where, what.id, 0, limit);
    const auto elsewhere =
        list_remote_members(where, what.id, {}, limit - std::min(limit, members.size()));
    if (members.empty() && elsewhere.empty())
        return;
    const auto state_of = [](member_state state) {
        return cell{std::string(to_string(state)),
                    state == member_state::failed ? tint::red : tint::none};
    };
    std::vector<column> columns{{"MEMBER"}, {"STATE"}};
    if (!elsewhere.empty())
        columns.push_back({"STORE"});
    table rows(columns);
    for (const auto& each : members)
        elsewhere.empty() ? rows.add({{to_string(each.id)}, state_of(each.state)})
                          : rows.add({{to_string(each.id)}, state_of(each.state), {""}});
    for (const auto& each : elsewhere)
        rows.add({{to_string(each.id)},
                  state_of(each.state),
                  {each.store.empty() ? "(another one)" : each.store}});
    to.line("");
    rows.print(to);
    const auto shown = static_cast<std::int64_t>(members.size() + elsewhere.size());
    if (shown < what.attached)
        to.note(fmt::format("{} more: --members N shows them", what.attached - shown));
}

ordered_json members_as_json(store& where, const join_record& what, std::size_t limit)
{
    auto list = ordered_json::array();
    for (const auto& each : list_join_members(where, what.id, 0, limit))
        list.push_back({{"id", to_string(each.id)},
                        {"position", each.position},
                        {"state", to_string(each.state)},
                        {"attached_at", iso_time(each.attached_at)},
                        {"settled_at", each.settled_at ? ordered_json(iso_time(*each.settled_at))
                                                       : ordered_json()}});
    return list;
}

ordered_json remote_members_as_json(store& where, const join_record& what, std::size_t limit)
{
    auto list = ordered_json::array();
    for (const auto& each : list_remote_members(where, what.id, {}, limit))
        list.push_back({{"id", to_string(each.id)},
                        {"store", each.store.empty() ? ordered_json() : ordered_json(each.store)},
                        {"state", to_string(each.state)},
                        {"reported", to_string(each.reported)}});
    return list;
}

} // namespace

exit_status list_of_joins(const joins_request& what, output& to)
{
    auto where = open(what.url);
    const auto page = list_joins(where, what.filter);
    if (to.json()) {
        auto list = ordered_json::array();
        for (const auto& each : page)
            list.push_back(join_as_json(each));
        const bool more = page.size() == what.filter.limit;
        to.document({{"joins", std::move(list)},
                     {"next_after", more ? ordered_json(page.back().position) : ordered_json()}});
        return exit_status::success;
    }
    if (page.empty())
        to.note("no joins");
    else
        print_joins(page, where.environment().clock->now(), to);
    if (page.size() == what.filter.limit)
        to.note(fmt::format("there may be more: --after {}", page.back().position));
    return exit_status::success;
}

exit_status show_join(const join_request& what, output& to)
{
    auto where = open(what.url);
    const auto found = find_or_refuse(where, what.id);
    if (to.json()) {
        auto document = join_as_json(found);
        document["on_complete"] =
            found.on_complete ? ordered_json(found.on_complete->topic) : ordered_json();
        document["on_fail"] = found.on_fail ? ordered_json(found.on_fail->topic) : ordered_json();
        document["metadata_bytes"] = found.metadata.size();
        document["members"] = members_as_json(where, found, what.members);
        document["remote_members"] = remote_members_as_json(where, found, what.members);
        to.document(document);
        return exit_status::success;
    }
    print_one(where, found, to);
    print_members(where, found, what.members, to);
    return exit_status::success;
}

exit_status cancel_one_join(const cancel_join_request& what, output& to)
{
    auto where = open(what.url);
    (void)find_or_refuse(where, what.id);
    const bool cancelled = cancel_join(where, what.id, {.members = what.with_members});
    to.answer({{"id", to_string(what.id)}, {"answer", cancelled ? "cancelled" : "too_late"}},
              cancelled ? "cancelled" : "too late: the join has ended");
    return cancelled ? exit_status::success : exit_status::failure;
}

exit_status redrive_one_join(const join_request& what, output& to)
{
    auto where = open(what.url);
    (void)find_or_refuse(where, what.id);
    const auto again = redrive_join(where, what.id);
    const auto now = find_or_refuse(where, what.id);
    const auto open = static_cast<std::size_t>(now.attached - now.completed - now.failed);
    const bool waits = again > 0 && now.state == join_state::pending;
    to.answer({{"id", to_string(what.id)},
               {"waits_for", waits ? open : 0},
               {"state", to_string(now.state)}},
              waits ? fmt::format("redriven: the join waits for {} again", counted(open, "member"))
              : again > 0
                  ? fmt::format("redriven: its members have ended meanwhile; the join has {}",
                                to_string(now.state))
                  : std::string("nothing to redrive: the join has not failed, or no member "
                                "can change its end"));
    return again > 0 ? exit_status::success : exit_status::failure;
}

} // namespace posthorn::cli
