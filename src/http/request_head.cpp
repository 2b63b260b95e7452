// Lines end where the HTTP library thinks they do: at a line feed. The blank one alone needs both
// characters.
#include "http/request_head.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace posthorn::http {
namespace {

bool is_same_word(std::string_view given, std::string_view lower)
{
    return std::ranges::equal(given, lower, [](char one, char other) {
        return (one >= 'A' && one <= 'Z' ? static_cast<char>(one - 'A' + 'a') : one) == other;
    });
}

bool is_blank(char which)
{
    return which == ' ' || which == '\t';
}

bool is_number(std::string_view text)
{
    std::uint64_t value = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    return failure == std::errc{} && end == text.data() + text.size();
}

// Without the end of its line, and blanks in front of that.
std::string_view without_end(std::string_view value)
{
    while (!value.empty() &&
           (is_blank(value.back()) || value.back() == '\r' || value.back() == '\n'))
        value.remove_suffix(1);
    return value;
}

// Of a line such as `Name: value`, if that is its name; names have no case.
std::optional<std::string_view> value_of(std::string_view line, std::string_view lower_name)
{
    const auto colon = line.find(':');
    if (colon == std::string_view::npos || !is_same_word(line.substr(0, colon), lower_name))
        return std::nullopt;
    line.remove_prefix(colon + 1);
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    return line;
}

template <typename Function>
void for_each_line(std::string_view head, Function&& look)
{
    while (!head.empty()) {
        const auto end = head.find('\n');
        const auto line = head.substr(0, end == std::string_view::npos ? end : end + 1);
        look(line);
        head.remove_prefix(line.size());
    }
}

} // namespace

head_search::answer head_search::look_at(std::string_view received)
{
    while (true) {
        const auto end = received.find('\n', line_begin_);
        if (end == std::string_view::npos)
            return received.size() > head_bytes_max ? answer::too_large : answer::unfinished;
        const bool blank = received.substr(line_begin_, end - line_begin_) == "\r";
        line_begin_ = end + 1;
        if (line_begin_ > head_bytes_max || ++lines_ > head_lines_max + 1)
            return answer::too_large;
        if (blank && lines_ > 1)
            return answer::complete;
    }
}

std::string for_the_library(std::string_view head)
{
    std::string result;
    for_each_line(head, [&](std::string_view line) {
        if (!value_of(line, "range") && !value_of(line, "expect"))
            result += line;
    });
    return result;
}

bool awaits_consent(std::string_view head)
{
    bool result = false;
    for_each_line(head, [&](std::string_view line) {
        if (const auto value = value_of(line, "expect"))
            result = result || is_same_word(without_end(*value), "100-continue");
    });
    return result;
}

bool has_body(std::string_view head)
{
    constexpr std::array<std::string_view, 3> with{"POST ", "PUT ", "PATCH "};
    return std::ranges::any_of(with, [&](auto method) { return head.starts_with(method); }) ||
           (head.starts_with("DELETE ") && (!announced_body(head) || announces_length(head)));
}

std::optional<std::uint64_t> announced_body(std::string_view head)
{
    std::uint64_t length = 0;
    bool known = true;
    for_each_line(head, [&](std::string_view line) {
        if (value_of(line, "transfer-encoding"))
            known = false;
        if (const auto value = value_of(line, "content-length"))
            known =
                known && std::from_chars(value->data(), value->data() + value->size(), length).ec ==
                             std::errc{};
    });
    return known ? std::optional(length) : std::nullopt;
}

bool announces_length(std::string_view head)
{
    bool result = false;
    for_each_line(head, [&](std::string_view line) {
        result = result || value_of(line, "content-length").has_value();
    });
    return result;
}

bool frames_body_clearly(std::string_view head)
{
    std::size_t lengths = 0;
    std::size_t encodings = 0;
    bool clear = true;
    for_each_line(head, [&](std::string_view line) {
        if (const auto value = value_of(line, "content-length")) {
            ++lengths;
            clear = clear && is_number(without_end(*value));
        }
        if (const auto value = value_of(line, "transfer-encoding")) {
            ++encodings;
            clear = clear && is_same_word(without_end(*value), "chunked");
        }
        // The library would take these names for others, or not see them at all.
        if (const auto colon = line.find(':'); colon != std::string_view::npos)
            clear = clear && (colon == 0 || !is_blank(line[colon - 1]));
    });
    return clear && lengths + encodings <= 1;
}

chunk_search::answer chunk_search::look_at(std::string_view body)
{
    constexpr std::size_t line_bytes_max = 1'000;
    constexpr std::uint64_t chunk_bytes_max = std::uint64_t{1} << 40U;
    while (true) {
        const auto end = body.find('\n', line_begin_);
        if (end == std::string_view::npos)
            return body.size() > line_begin_ + line_bytes_max ? answer::malformed
                                                              : answer::unfinished;
        const auto line = without_end(body.substr(line_begin_, end - line_begin_));
        if (is_last_)
            return line.empty() ? answer::complete : answer::malformed;
        std::uint64_t bytes = 0;
        const auto size = line.substr(0, line.find(';'));
        const auto [stop, failure] =
            std::from_chars(size.data(), size.data() + size.size(), bytes, 16);
        if (failure != std::errc{} || stop != size.data() + size.size() || bytes > chunk_bytes_max)
            return answer::malformed;
        is_last_ = bytes == 0;
        line_begin_ = end + 1 + (is_last_ ? 0 : bytes + 2);
    }
}

} // namespace posthorn::http
