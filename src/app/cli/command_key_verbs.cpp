// The verbs of commands' keys: who has one, what it answers, and letting go of it.
#include "app/cli/table.hpp"
#include "app/cli/text.hpp"
#include "app/cli/verbs.hpp"
#include <posthorn/error.hpp>
#include <posthorn/idempotency.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <utility>

namespace posthorn::cli {
namespace {

using nlohmann::ordered_json;

tint tint_of_key(key_state state) noexcept
{
    switch (state) {
    case key_state::completed: return tint::green;
    case key_state::failed: return tint::red;
    case key_state::in_progress: return tint::yellow;
    }
    return tint::none;
}

[[noreturn]] void refuse_unknown_key(const command_key_request& what)
{
    throw error(error_code::not_found,
                fmt::format("the command '{}' has no key '{}': it was never used, or has expired "
                            "and was removed",
                            printable(what.command), printable(what.key)));
}

ordered_json key_as_json(const key_record& what)
{
    const auto text_or_null = [](const std::string& text) {
        return text.empty() ? ordered_json() : ordered_json(text);
    };
    return {{"command", what.command},
            {"key", what.key},
            {"state", to_string(what.state)},
            {"epoch", what.epoch},
            {"fingerprint", text_or_null(what.fingerprint)},
            {"error", text_or_null(what.error)},
            {"created_at", iso_time(what.created_at)},
            {"lock_until", iso_time(what.lock_until)},
            {"ended_at", what.ended_at ? ordered_json(iso_time(*what.ended_at)) : ordered_json()},
            {"expires_at", iso_time(what.expires_at)}};
}

// A command that runs has until then; one whose time is over goes to the next who asks.
std::string lock_in_words(const key_record& what, timestamp now)
{
    if (what.state != key_state::in_progress)
        return {};
    return what.lock_until > now ? fmt::format("until {}", relative(what.lock_until, now))
                                 : fmt::format("over since {}", age(now - what.lock_until));
}

void print_keys(const std::vector<key_record>& page, timestamp now, output& to)
{
    using side = column::side;
    table rows({{"COMMAND"},
                {"KEY"},
                {"STATE"},
                {"EPOCH", side::right},
                {"AGE", side::right},
                {"LOCK"},
                {"ERROR", side::left, 60}});
    for (const auto& each : page)
        rows.add({{each.command},
                  {each.key},
                  {std::string(to_string(each.state)), tint_of_key(each.state)},
                  {fmt::format("{}", each.epoch)},
                  {age(now - each.created_at)},
                  {lock_in_words(each, now)},
                  {each.error}});
    rows.print(to);
}

void print_key(const key_record& what, timestamp now, output& to)
{
    const auto with_age = [&](timestamp when) {
        return fmt::format("{} ({})", iso_time(when), relative(when, now));
    };
    fact_sheet facts;
    facts.add("command", what.command, tint::bold);
    facts.add("key", what.key, tint::bold);
    facts.add("state", to_string(what.state), tint_of_key(what.state));
    facts.add("lock", lock_in_words(what, now));
    facts.add("epoch", fmt::format("{}", what.epoch));
    facts.add("fingerprint", what.fingerprint);
    facts.add("error", what.error, tint::red);
    facts.add("created", with_age(what.created_at));
    if (what.ended_at)
        facts.add("ended", with_age(*what.ended_at));
    facts.add("expires", with_age(what.expires_at));
    if (what.state == key_state::completed)
        facts.add("result", counted(what.result.size(), "byte"));
    facts.print(to);
}

} // namespace

exit_status list_command_keys(const command_keys_request& what, output& to)
{
    auto where = open(what.url);
    auto filter = what.filter;
    if (!what.after.empty()) {
        filter.after_command = what.after.front();
        filter.after_key = what.after.back();
    }
    ++filter.limit; // one more tells whether there is a next page
    auto page = posthorn::list_keys(where, filter);
    const bool more = page.size() > what.filter.limit;
    if (more)
        page.pop_back();
    if (to.json()) {
        auto list = ordered_json::array();
        for (const auto& each : page)
            list.push_back(key_as_json(each));
        to.document({{"keys", std::move(list)},
                     {"next_after", more ? ordered_json{{"command", page.back().command},
                                                        {"key", page.back().key}}
                                         : ordered_json()}});
        return exit_status::success;
    }
    if (page.empty())
        to.note("no keys of commands");
    else
        print_keys(page, where.environment().clock->now(), to);
    if (more)
        to.note(fmt::format("there are more: --after '{}' '{}'", printable(page.back().command),
                            printable(page.back().key)));
    return exit_status::success;
}

exit_status show_command_key(const command_key_request& what, output& to)
{
    auto where = open(what.url);
    const auto found = find_key(where, what.command, what.key);
    if (!found)
        refuse_unknown_key(what);
    const bool shown = what.with_result && found->state == key_state::completed;
    const bool text = is_plain_text(found->result);
    const auto result = shown ? (text ? found->result : hexadecimal(found->result)) : std::string{};
    if (to.json()) {
        auto document = key_as_json(*found);
        document["result_bytes"] = found->result.size();
        if (shown) {
            document["result_encoding"] = text ? "text" : "hex";
            document["result"] = result;
        }
        to.document(document);
        return exit_status::success;
    }
    print_key(*found, where.environment().clock->now(), to);
    if (shown)
        to.line("\n" + printable_lines(result));
    return exit_status::success;
}

exit_status release_command_key(const command_key_request& what, output& to)
{
    auto where = open(what.url);
    if (!release_key(where, what.command, what.key))
        refuse_unknown_key(what);
    to.answer({{"command", what.command}, {"key", what.key}, {"answer", "released"}},
              "released: the command can run again under this key");
    return exit_status::success;
}

} // namespace posthorn::cli
