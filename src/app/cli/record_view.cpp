// How messages look. One function decides each form, so that lists and single messages agree.
#include "app/cli/record_view.hpp"

#include "app/cli/state_words.hpp"
#include "app/cli/table.hpp"
#include "app/cli/text.hpp"
#include <posthorn/unit_of_work.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <charconv>
#include <utility>

namespace posthorn::cli {
namespace {

using nlohmann::ordered_json;

ordered_json time_or_null(const std::optional<timestamp>& when)
{
    return when ? ordered_json(iso_time(*when)) : ordered_json();
}

ordered_json text_or_null(const std::string& text)
{
    return text.empty() ? ordered_json() : ordered_json(text);
}

ordered_json why_parked(const message_record& what)
{
    return what.state == message_state::parked && what.parked_for
               ? ordered_json(to_string(*what.parked_for))
               : ordered_json();
}

// Of a domain event that a unit of work has stored. Anything else under that name is no time.
std::optional<timestamp> occurred_at(const message_record& what)
{
    const auto found = what.headers.find(std::string(occurred_at_header));
    if (found == what.headers.end())
        return std::nullopt;
    std::int64_t count = 0;
    const auto& text = found->second;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), count);
    constexpr std::int64_t count_max = 253'402'300'800'000'000; // the year 10000
    if (failure != std::errc{} || end != text.data() + text.size() || count < 0 ||
        count >= count_max)
        return std::nullopt;
    return timestamp{timestamp::duration{count}};
}

ordered_json as_json(const message_record& what)
{
    return {{"id", to_string(what.id)},
            {"position", what.position},
            {"state", word_of(what)},
            {"started", what.started},
            {"blocks_key", what.blocks_key},
            {"at_limit", what.parked_for == park_reason::at_limit},
            {"parked_for", why_parked(what)},
            {"topic", what.topic},
            {"key", text_or_null(what.ordering_key)},
            {"priority", what.priority},
            {"payload_bytes", what.payload_bytes},
            {"headers", what.headers},
            {"correlation", text_or_null(what.correlation_id)},
            {"causation", text_or_null(what.causation_id)},
            {"occurred_at", time_or_null(occurred_at(what))},
            {"created_at", iso_time(what.created_at)},
            {"due_at", iso_time(what.due_at)},
            {"expires_at", time_or_null(what.expires_at)},
            {"started_at", time_or_null(what.started_at)},
            {"failed_at", time_or_null(what.failed_at)},
            {"finished_at", time_or_null(what.finished_at)},
            {"lease_until", time_or_null(what.lease_until)},
            {"attempts", what.attempts},
            {"errors", what.errors},
            {"redrives", what.redrives},
            {"last_error", text_or_null(what.last_error)},
            {"worker", text_or_null(what.worker)},
            {"fence", static_cast<std::int64_t>(what.fence)}};
}

void add_payload(ordered_json& record, const std::string& payload)
{
    const bool text = is_plain_text(payload);
    record["payload_encoding"] = text ? "text" : "hex";
    record["payload"] = text ? payload : hexadecimal(payload);
}

std::string_view reason_in_words(park_reason reason) noexcept
{
    switch (reason) {
    case park_reason::no_handler: return "no worker has a handler for its topic";
    case park_reason::paused: return "its topic was paused";
    case park_reason::at_limit: return "waits for a limit of its handler";
    }
    return "";
}

std::string state_in_words(const message_record& what)
{
    std::string words{word_of(what)};
    if (what.state == message_state::claimed)
        words += what.started ? ", started" : ", not started yet";
    if (what.parked_for)
        words += fmt::format(", {}", reason_in_words(*what.parked_for));
    if (what.blocks_key)
        words += ", holds back its ordering key";
    return words;
}

std::string number_unless_zero(std::int64_t number)
{
    return number == 0 ? std::string{} : fmt::format("{}", number);
}

void add_times(fact_sheet& facts, const message_record& what, timestamp now)
{
    const auto add = [&](const char* name, const std::optional<timestamp>& when) {
        if (when)
            facts.add(name, fmt::format("{} ({})", iso_time(*when), relative(*when, now)));
    };
    add("occurred", occurred_at(what));
    add("created", what.created_at);
    add("due", what.due_at);
    add("expires", what.expires_at);
    add("started", what.started_at);
    add("failed", what.failed_at);
    add("finished", what.finished_at);
    add("lease until", what.lease_until);
}

fact_sheet facts_of(const message_record& what, timestamp now)
{
    fact_sheet facts;
    facts.add("id", to_string(what.id), tint::bold);
    facts.add("state", state_in_words(what), tint_of(what.state));
    facts.add("topic", what.topic);
    facts.add("key", what.ordering_key);
    facts.add("priority", fmt::format("{}", what.priority));
    facts.add("position", fmt::format("{}", what.position));
    add_times(facts, what, now);
    facts.add("attempts", fmt::format("{}", what.attempts));
    facts.add("errors", fmt::format("{}", what.errors));
    facts.add("redrives", number_unless_zero(what.redrives));
    facts.add("last error", what.last_error, tint::red);
    facts.add("worker", what.worker);
    facts.add("fence", number_unless_zero(static_cast<std::int64_t>(what.fence)));
    facts.add("correlation", what.correlation_id);
    facts.add("causation", what.causation_id);
    for (const auto& [name, value] : what.headers)
        facts.add("header " + name, value.empty() ? "(empty)" : value);
    facts.add("payload", counted(what.payload_bytes, "byte"));
    return facts;
}

// A message that may still start is due at some time; all others were.
std::string due_in_words(const message_record& what, timestamp now)
{
    const bool later = what.due_at > now && !is_terminal(what.state);
    return later ? relative(what.due_at, now) : std::string{};
}

using side = column::side;

table all_messages(const std::vector<message_record>& page, timestamp now)
{
    table result({{"POSITION", side::right},
                  {"ID"},
                  {"STATE"},
                  {"TOPIC"},
                  {"KEY"},
                  {"PRIORITY", side::right},
                  {"ATTEMPTS", side::right},
                  {"AGE", side::right},
                  {"DUE"}});
    for (const auto& each : page)
        result.add({{fmt::format("{}", each.position)},
                    {to_string(each.id)},
                    {std::string(word_of(each)), tint_of(each.state)},
                    {each.topic},
                    {each.ordering_key},
                    {number_unless_zero(each.priority)},
                    {number_unless_zero(each.attempts)},
                    {age(now - each.created_at)},
                    {due_in_words(each, now)}});
    return result;
}

table dead_messages(const std::vector<message_record>& page, timestamp now)
{
    table result({{"POSITION", side::right},
                  {"ID"},
                  {"TOPIC"},
                  {"KEY"},
                  {"ATTEMPTS", side::right},
                  {"DIED", side::right},
                  {"ERROR", side::left, 60}});
    for (const auto& each : page)
        result.add({{fmt::format("{}", each.position)},
                    {to_string(each.id)},
                    {each.topic},
                    {each.ordering_key, each.blocks_key ? tint::red : tint::none},
                    {fmt::format("{}", each.attempts)},
                    {age(now - each.finished_at.value_or(now))},
                    {each.last_error}});
    return result;
}

struct page_of_messages {
    std::vector<message_record> messages;
    std::optional<std::int64_t> next_after;
};

// One more than asked for tells whether there is a next page.
page_of_messages find_page(store& where, message_filter filter)
{
    const auto limit = filter.limit++;
    page_of_messages result{.messages = list_messages(where, filter), .next_after = {}};
    if (result.messages.size() > limit) {
        result.messages.pop_back();
        result.next_after = result.messages.back().position;
    }
    return result;
}

ordered_json as_json(const page_of_messages& page)
{
    auto list = ordered_json::array();
    for (const auto& each : page.messages)
        list.push_back(as_json(each));
    return {{"messages", std::move(list)},
            {"next_after", page.next_after ? ordered_json(*page.next_after) : ordered_json()}};
}

} // namespace

tint tint_of(message_state state) noexcept
{
    switch (state) {
    case message_state::ready:
    case message_state::done: return tint::green;
    case message_state::waiting:
    case message_state::parked:
    case message_state::claimed: return tint::yellow;
    case message_state::dead: return tint::red;
    case message_state::cancelled:
    case message_state::expired: return tint::dim;
    }
    return tint::none;
}

ordered_json record_as_json(const message_record& what, payload_view payload)
{
    auto record = as_json(what);
    if (payload == payload_view::shown)
        add_payload(record, what.payload);
    return record;
}

void print_record(const message_record& what, payload_view payload, timestamp now, output& to)
{
    const bool shown = payload == payload_view::shown;
    if (to.json())
        return to.document(record_as_json(what, payload));
    facts_of(what, now).print(to);
    if (shown)
        to.line("\n" + (is_plain_text(what.payload) ? printable_lines(what.payload)
                                                    : hexadecimal(what.payload)));
}

void print_page(store& where, message_filter filter, list_view view, output& to)
{
    const auto page = find_page(where, std::move(filter));
    if (to.json())
        return to.document(as_json(page));
    if (page.messages.empty())
        return to.note(view == list_view::dead ? "no dead messages" : "no messages");
    const auto now = where.environment().clock->now();
    const auto rows = view == list_view::dead ? dead_messages(page.messages, now)
                                              : all_messages(page.messages, now);
    rows.print(to);
    if (page.next_after)
        to.note(fmt::format("there are more: --after {}", *page.next_after));
}

} // namespace posthorn::cli
