// `traceparent` is version-trace-parent-flags, in lower-case hexadecimal digits.
#include "core/trace_context.hpp"

#include <algorithm>
#include <array>

namespace posthorn::core {
namespace {

constexpr std::size_t trace_at = 3;
constexpr std::size_t span_at = 36;
constexpr std::size_t flags_at = 53;
constexpr std::size_t traceparent_size = 55;
constexpr std::size_t tracestate_max = 512;

bool are_lower_digits(std::string_view text) noexcept
{
    return std::ranges::all_of(
        text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_zero(std::string_view text) noexcept
{
    return std::ranges::all_of(text, [](char c) { return c == '0'; });
}

char lower(char c) noexcept
{
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

headers::const_iterator find_in(const headers& in, std::string_view name) noexcept
{
    const auto exact = in.find(name);
    if (exact != in.end())
        return exact;
    return std::ranges::find_if(in, [&](const auto& each) {
        return std::ranges::equal(each.first, name, {}, lower, lower);
    });
}

std::string new_span(random_source& random)
{
    constexpr std::string_view digits = "0123456789abcdef";
    std::array<std::uint8_t, 8> bytes{};
    random.fill(bytes);
    if (std::ranges::all_of(bytes, [](auto byte) { return byte == 0; }))
        bytes.back() = 1; // a span of zeros means none
    std::string text;
    for (const auto byte : bytes) {
        text.push_back(digits[byte >> 4U]);
        text.push_back(digits[byte & 0xfU]);
    }
    return text;
}

} // namespace

bool is_traceparent(std::string_view text) noexcept
{
    if (text.size() < traceparent_size || text[2] != '-' || text[span_at - 1] != '-' ||
        text[flags_at - 1] != '-')
        return false;
    const auto version = text.substr(0, 2);
    const auto trace = text.substr(trace_at, 32);
    const auto span = text.substr(span_at, 16);
    const auto flags = text.substr(flags_at, 2);
    if (!are_lower_digits(version) || !are_lower_digits(trace) || !are_lower_digits(span) ||
        !are_lower_digits(flags) || version == "ff" || is_zero(trace) || is_zero(span))
        return false;
    // Later versions may have more fields behind a dash; ours has none.
    return text.size() == traceparent_size || (version != "00" && text[traceparent_size] == '-');
}

std::string next_traceparent(std::string_view from, random_source& random)
{
    // Of the flags this version knows one, "sampled"; the others must not be passed on.
    const char last = from[flags_at + 1];
    const int value = last <= '9' ? last - '0' : last - 'a' + 10;
    std::string result = "00-";
    result.append(from.substr(trace_at, 32)).append("-").append(new_span(random));
    return result.append(value % 2 == 1 ? "-01" : "-00");
}

bool is_tracestate(std::string_view text) noexcept
{
    return !text.empty() && text.size() <= tracestate_max &&
           std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f; });
}

std::string_view find_header(const headers& in, std::string_view name) noexcept
{
    const auto found = find_in(in, name);
    return found == in.end() ? std::string_view{} : std::string_view(found->second);
}

bool erase_header(headers& from, std::string_view name)
{
    const auto found = find_in(from, name);
    if (found == from.end())
        return false;
    from.erase(found);
    return true;
}

} // namespace posthorn::core
