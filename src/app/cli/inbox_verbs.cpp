// The verbs of the inbox: what came from outside, and another chance for what died of it.
#include "app/cli/table.hpp"
#include "app/cli/text.hpp"
#include "app/cli/verbs.hpp"
#include <posthorn/error.hpp>
#include <posthorn/inbox.hpp>
#include <posthorn/messages.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <utility>

namespace posthorn::cli {
namespace {

using nlohmann::ordered_json;

tint tint_of_inbound(inbox_state state) noexcept
{
    switch (state) {
    case inbox_state::done: return tint::green;
    case inbox_state::dead: return tint::red;
    case inbox_state::processing: return tint::yellow;
    case inbox_state::seen: return tint::none;
    }
    return tint::none;
}

inbox_record inbound_or_refuse(store& where, const inbound& from)
{
    auto found = find_inbound(where, from);
    if (!found)
        throw error(error_code::not_found,
                    fmt::format("nothing is known of message '{}' of '{}': it never came, or it "
                                "was removed after its retention",
                                printable(from.id), printable(from.source)));
    return *std::move(found);
}

ordered_json inbound_as_json(const inbox_record& what)
{
    return {{"source", what.from.source},
            {"id", what.from.id},
            {"position", what.position},
            {"state", to_string(what.state)},
            {"message", what.message ? ordered_json(to_string(*what.message)) : ordered_json()},
            {"content_hash",
             what.content_hash.empty() ? ordered_json() : ordered_json(what.content_hash)},
            {"seen_at", iso_time(what.seen_at)},
            {"settled_at",
             what.settled_at ? ordered_json(iso_time(*what.settled_at)) : ordered_json()}};
}

void print_inbox(const std::vector<inbox_record>& page, timestamp now, output& to)
{
    using side = column::side;
    table rows({{"POSITION", side::right},
                {"SOURCE"},
                {"ID"},
                {"STATE"},
                {"MESSAGE"},
                {"AGE", side::right}});
    for (const auto& each : page)
        rows.add({{fmt::format("{}", each.position)},
                  {each.from.source},
                  {each.from.id},
                  {std::string(to_string(each.state)), tint_of_inbound(each.state)},
                  {each.message ? to_string(*each.message) : ""},
                  {age(now - each.seen_at)}});
    rows.print(to);
}

void print_inbound(store& where, const inbox_record& what, output& to)
{
    const auto now = where.environment().clock->now();
    const auto with_age = [&](timestamp when) {
        return fmt::format("{} ({})", iso_time(when), relative(when, now));
    };
    fact_sheet facts;
    facts.add("source", what.from.source, tint::bold);
    facts.add("id", what.from.id, tint::bold);
    facts.add("state", to_string(what.state), tint_of_inbound(what.state));
    facts.add("position", fmt::format("{}", what.position));
    facts.add("content hash", what.content_hash);
    facts.add("seen", with_age(what.seen_at));
    if (what.settled_at)
        facts.add(to_string(what.state), with_age(*what.settled_at));
    facts.add("message",
              what.message ? to_string(*what.message) : "none: handled without the queue");
    if (const auto carrier = what.message ? find_message(where, *what.message) : std::nullopt) {
        facts.add("topic", carrier->topic);
        facts.add("attempts", fmt::format("{}", carrier->attempts));
        facts.add("last error", carrier->last_error, tint::red);
    }
    facts.print(to);
}

} // namespace

exit_status list_of_inbox(const inbox_request& what, output& to)
{
    auto where = open(what.url);
    auto filter = what.filter;
    ++filter.limit; // one more tells whether there is a next page
    auto page = list_inbound(where, filter);
    std::optional<std::int64_t> next_after;
    if (page.size() > what.filter.limit) {
        page.pop_back();
        next_after = page.back().position;
    }
    if (to.json()) {
        auto list = ordered_json::array();
        for (const auto& each : page)
            list.push_back(inbound_as_json(each));
        to.document({{"inbox", std::move(list)},
                     {"next_after", next_after ? ordered_json(*next_after) : ordered_json()}});
        return exit_status::success;
    }
    if (page.empty())
        to.note("nothing from outside");
    else
        print_inbox(page, where.environment().clock->now(), to);
    if (next_after)
        to.note(fmt::format("there are more: --after {}", *next_after));
    return exit_status::success;
}

exit_status show_inbound(const inbound_request& what, output& to)
{
    auto where = open(what.url);
    const auto found = inbound_or_refuse(where, what.from);
    if (to.json())
        to.document(inbound_as_json(found));
    else
        print_inbound(where, found, to);
    return exit_status::success;
}

exit_status revive_inbound(const revive_request& what, output& to)
{
    auto where = open(what.url);
    (void)inbound_or_refuse(where, what.from);
    const bool revived = revive(where, what.from, what.delay);
    const auto now = inbound_or_refuse(where, what.from);
    to.answer({{"source", what.from.source},
               {"id", what.from.id},
               {"answer", revived ? "revived" : "not_dead"},
               {"state", to_string(now.state)}},
              revived ? std::string("revived")
                      : fmt::format("nothing to revive: it is {}", to_string(now.state)));
    return revived ? exit_status::success : exit_status::failure;
}

} // namespace posthorn::cli
