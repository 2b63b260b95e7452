// Validation. Every refusal names the field, its actual size or value, and the bound.
#include "core/validation.hpp"

#include <posthorn/error.hpp>
#include <posthorn/inbox.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace posthorn::core {
namespace {

constexpr std::string_view reserved_prefix = "posthorn-";
constexpr std::string_view unreadable_headers = "posthorn-unreadable-headers";
constexpr std::size_t stored_headers_bytes_max = std::size_t{4} << 20U;
constexpr std::size_t stored_headers_depth_max = 16;

[[noreturn]] void refuse(const std::string& why)
{
    throw error(error_code::invalid_argument, why);
}

void check_length(std::string_view field, std::string_view value, std::size_t bytes_max)
{
    if (value.size() > bytes_max)
        refuse(fmt::format("{} is {} bytes long; at most {} are allowed", field, value.size(),
                           bytes_max));
}

bool is_control(char c) noexcept
{
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
}

// How many bytes the UTF-8 character takes that starts `text`; 0 if it is not one.
std::size_t utf8_length(std::string_view text) noexcept
{
    const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const auto lead = at(0);
    if (lead < 0x80)
        return 1;
    const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || text.size() < length)
        return 0;
    for (std::size_t i = 1; i < length; ++i)
        if ((at(i) & 0xc0U) != 0x80)
            return 0;
    const auto second = at(1);
    const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
    const bool beyond = (lead == 0xed && second > 0x9f) || (lead == 0xf4 && second > 0x8f);
    return overlong || beyond ? 0 : length;
}

bool is_utf8(std::string_view text) noexcept
{
    // Most text is ASCII from its first byte to its last.
    const auto other = std::ranges::find_if(
        text, [](char c) { return (static_cast<unsigned char>(c) & 0x80U) != 0; });
    text.remove_prefix(static_cast<std::size_t>(other - text.begin()));
    while (!text.empty()) {
        const auto length = utf8_length(text);
        if (length == 0)
            return false;
        text.remove_prefix(length);
    }
    return true;
}

// Names and keys are text in every engine; a NUL would end them early in some.
void check_text(std::string_view field, std::string_view value, std::size_t bytes_max)
{
    check_length(field, value, bytes_max);
    if (value.find('\0') != std::string_view::npos)
        refuse(fmt::format("{} contains a NUL byte", field));
    if (!is_utf8(value))
        refuse(fmt::format("{} is not valid UTF-8", field));
}

void check_headers(const headers& values, std::size_t bytes_max)
{
    std::size_t total = 0;
    for (const auto& [name, value] : values) {
        if (name.empty())
            refuse("a header has an empty name");
        if (is_reserved_header(name))
            refuse(fmt::format("header '{}': names starting with '{}' are reserved; set the "
                               "correlation and causation id through the enqueue options",
                               name, reserved_prefix));
        if (std::ranges::any_of(name, is_control) || std::ranges::any_of(value, is_control))
            refuse(fmt::format("header '{}' contains a control character",
                               std::ranges::any_of(name, is_control) ? "(unprintable)" : name));
        if (!is_utf8(name) || !is_utf8(value))
            refuse(fmt::format("header '{}' is not valid UTF-8",
                               is_utf8(name) ? name : "(unprintable)"));
        total += name.size() + value.size();
    }
    if (total > bytes_max)
        refuse(fmt::format("the headers are {} bytes together; at most {} are allowed", total,
                           bytes_max));
}

// Whether brackets outside of strings are nested deeper. Of text that is no JSON it says anything.
bool is_deeper_than(std::string_view json, std::size_t depth_max) noexcept
{
    std::size_t depth = 0;
    bool in_string = false;
    for (std::size_t i = 0; i < json.size(); ++i) {
        const char c = json[i];
        if (in_string) {
            if (c == '\\')
                ++i; // what follows belongs to it, also a quotation mark
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > depth_max)
                return true;
        } else if ((c == ']' || c == '}') && depth > 0) {
            --depth;
        }
    }
    return false;
}

void check_span(std::string_view field, const std::optional<duration>& span)
{
    if (span && *span > limits::span_max)
        refuse(fmt::format("{} is longer than a hundred years", field));
}

void check_times(const enqueue_options& how)
{
    check_span("delay", how.delay);
    check_span("expires_after", how.expires_after);
    check_span("dedup_window", how.dedup_window);
    if (how.delay && how.due_at)
        refuse("delay and due_at are both given; give one of them");
    if (how.expires_after && how.expires_at)
        refuse("expires_after and expires_at are both given; give one of them");
    if (how.expires_after && *how.expires_after <= duration::zero())
        refuse("expires_after must be positive");
    if (how.delay && how.expires_after && *how.expires_after <= *how.delay)
        refuse("expires_after is not later than delay: the message could never start");
    if (how.due_at && how.expires_at && *how.expires_at <= *how.due_at)
        refuse("expires_at is not later than due_at: the message could never start");
    if (!how.dedup_key.empty() && how.dedup_window <= duration::zero())
        refuse("dedup_window must be positive");
}

} // namespace

void check_topic(std::string_view topic)
{
    check_text("the topic", topic, limits::topic_bytes_max);
}

// Header names are compared without regard to case by some of the systems they travel through.
bool is_reserved_header(std::string_view name) noexcept
{
    const auto lower = [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    };
    return std::ranges::equal(name.substr(0, reserved_prefix.size()), reserved_prefix, {}, lower);
}

void check_own_topic(std::string_view topic)
{
    check_topic(topic);
    if (is_inbox_topic(topic))
        refuse(fmt::format("the topic '{}' begins with '{}', which is reserved for messages from "
                           "outside: only the inbox stores those; choose another topic",
                           readable(topic, limits::topic_bytes_max), inbox_prefix));
}

bool is_inbox_topic(std::string_view topic) noexcept
{
    return topic.starts_with(inbox_prefix);
}

void check_key(std::string_view field, std::string_view key)
{
    check_text(field, key, limits::key_bytes_max);
}

bool is_key(std::string_view text) noexcept
{
    return text.size() <= limits::key_bytes_max && is_text(text);
}

bool is_text(std::string_view text) noexcept
{
    return text.find('\0') == std::string_view::npos && is_utf8(text);
}

void check_message(const message& what, const enqueue_options& how, const limits& bounds)
{
    check_message(what, how, how.headers, bounds);
}

void check_message(const message& what, const enqueue_options& how, const headers& values,
                   const limits& bounds, enqueued_by whom)
{
    if (what.topic.empty())
        refuse(fmt::format("the topic is empty; it needs 1 to {} bytes", limits::topic_bytes_max));
    if (whom == enqueued_by::inbox)
        check_topic(what.topic);
    else
        check_own_topic(what.topic);
    check_length("the payload", what.payload, bounds.payload_bytes_max);
    check_key("the ordering key", how.ordering_key);
    check_key("the dedup key", how.dedup_key);
    check_key("the correlation id", how.correlation_id);
    check_key("the causation id", how.causation_id);
    if (how.priority < -limits::priority_max || how.priority > limits::priority_max)
        refuse(fmt::format("priority {} is outside −{} … {}", how.priority, limits::priority_max,
                           limits::priority_max));
    if (how.id && how.id->is_nil())
        refuse("the message id is the nil UUID");
    check_times(how);
    check_headers(values, bounds.headers_bytes_max);
}

void check_start_window(const enqueue_options& how, timestamp now)
{
    const bool due_given = how.delay || how.due_at;
    const bool expiry_given = how.expires_after || how.expires_at;
    if (!due_given || !expiry_given)
        return;
    const auto due = how.due_at ? *how.due_at : now + *how.delay;
    const auto expiry = how.expires_at ? *how.expires_at : now + *how.expires_after;
    if (expiry <= due)
        refuse("the message expires before it is due: it could never start");
}

void check_identifier(std::string_view what, std::string_view name)
{
    const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
    const auto later = [&](char c) { return letter(c) || (c >= '0' && c <= '9'); };
    if (name.empty() || name.size() > 48 || !letter(name.front()) ||
        !std::ranges::all_of(name, later))
        refuse(fmt::format(
            "{} '{}' is not allowed: 1 to 48 of a–z, 0–9 and _, not starting with a digit", what,
            name));
}

std::string_view truncated(std::string_view text, std::size_t bytes_max) noexcept
{
    if (text.size() <= bytes_max)
        return text;
    const auto inside_character = [&](std::size_t at) {
        return (static_cast<unsigned char>(text[at]) & 0xc0U) == 0x80U;
    };
    // No character is longer than four bytes; what looks longer is not UTF-8 and is cut anywhere.
    for (auto end = bytes_max; end > 0 && end + 4 > bytes_max; --end)
        if (!inside_character(end))
            return text.substr(0, end);
    return text.substr(0, bytes_max);
}

std::string readable(std::string_view words, std::size_t bytes_max)
{
    if (is_text(words))
        return std::string(truncated(words, bytes_max));
    constexpr std::string_view unreadable = "\xef\xbf\xbd";
    std::string result;
    while (!words.empty()) {
        const auto length = words.front() == '\0' ? 0 : utf8_length(words);
        const auto next = length == 0 ? unreadable : words.substr(0, length);
        if (result.size() + next.size() > bytes_max)
            break;
        result += next;
        words.remove_prefix(std::max<std::size_t>(length, 1));
    }
    return result;
}

std::string headers_to_json(const headers& values)
{
    if (values.empty())
        return {};
    auto json = nlohmann::json(values).dump();
    if (json.size() > stored_headers_bytes_max)
        refuse(fmt::format("the headers are {} bytes as JSON; at most {} can be stored",
                           json.size(), stored_headers_bytes_max));
    return json;
}

headers headers_from_json(std::string_view json)
{
    const auto unreadable = [](const char* why) {
        return headers{{std::string(unreadable_headers), why}};
    };
    headers result;
    if (json.empty())
        return result;
    // Other languages write headers too, past our checks: nothing is taken for granted. Parsing
    // keeps its own stack, but turning a value back into text calls itself once per level.
    if (json.size() > stored_headers_bytes_max)
        return unreadable("the headers are larger than 4 MiB");
    if (is_deeper_than(json, stored_headers_depth_max))
        return unreadable("the headers are nested more than 16 levels deep");
    const auto object = nlohmann::json::parse(json, nullptr, false);
    if (!object.is_object())
        return unreadable("the headers are not a JSON object in UTF-8");
    for (const auto& [name, value] : object.items())
        result.emplace(name, value.is_string() ? value.get<std::string>() : value.dump());
    return result;
}

std::string why_unreadable(const headers& values)
{
    const auto found = values.find(std::string(unreadable_headers));
    return found == values.end() ? std::string{} : found->second;
}

// The inbox writes the source beside each message it stores, under a name that nothing else can
// write: SQL refuses it, too, but not the topic.
std::string why_not_handled(std::string_view topic, const headers& values)
{
    if (auto why = why_unreadable(values); !why.empty())
        return "cannot be read: " + std::move(why);
    if (is_inbox_topic(topic) && !values.contains(inbox_source_header))
        return "its topic is one of messages from outside, but the inbox has not stored it";
    return {};
}

} // namespace posthorn::core
