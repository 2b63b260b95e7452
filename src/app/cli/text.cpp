// Words for people. Whatever came from outside (topics, keys, errors) passes `printable` on its way
// to a terminal: an escape sequence in a topic must not be able to repaint the operator's screen,
// nor a character that turns the direction of writing show another name than the one that is there.
#include "app/cli/text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace posthorn::cli {
namespace {

using std::chrono::seconds;

// Whatever is not UTF-8 becomes the replacement character; the JSON library knows how.
std::string as_utf8(std::string_view text)
{
    using nlohmann::json;
    const auto quoted = json(text).dump(-1, ' ', false, json::error_handler_t::replace);
    return json::parse(quoted).get<std::string>();
}

struct character {
    char32_t code;
    std::size_t bytes;
};

// The one at the front of UTF-8.
character first_of(std::string_view text) noexcept
{
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const std::size_t bytes = byte(0) < 0xc0 ? 1 : byte(0) < 0xe0 ? 2 : byte(0) < 0xf0 ? 3 : 4;
    if (bytes == 1 || text.size() < bytes)
        return {byte(0), 1};
    char32_t code = byte(0) & (0x7fU >> bytes);
    for (std::size_t i = 1; i < bytes; ++i)
        code = (code << 6U) | (byte(i) & 0x3fU);
    return {code, bytes};
}

bool is_control(char32_t code) noexcept
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0);
}

// Takes no room, breaks a line or turns the direction of writing: text with it looks like other
// text.
bool is_hidden(char32_t code) noexcept
{
    struct range {
        char32_t first;
        char32_t last;
    };
    constexpr std::array ranges{
        range{0xad, 0xad},       range{0x61c, 0x61c},    range{0x115f, 0x1160},
        range{0x17b4, 0x17b5},   range{0x180b, 0x180f},  range{0x200b, 0x200f},
        range{0x2028, 0x202e},   range{0x2060, 0x206f},  range{0x3164, 0x3164},
        range{0xfeff, 0xfeff},   range{0xffa0, 0xffa0},  range{0xfff9, 0xfffb},
        range{0x1d173, 0x1d17a}, range{0xe0000, 0xe0fff}};
    return std::ranges::any_of(
        ranges, [&](const range& each) { return code >= each.first && code <= each.last; });
}

bool continues_character(char c) noexcept
{
    return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U;
}

std::string escaped(char32_t code)
{
    if (code == '\n')
        return "\\n";
    if (code == '\t')
        return "\\t";
    const auto number = static_cast<std::uint32_t>(code);
    return number < 0x100     ? fmt::format("\\x{:02x}", number)
           : number < 0x10000 ? fmt::format("\\u{:04x}", number)
                              : fmt::format("\\U{:08x}", number);
}

// What a JSON reader takes for the same character.
std::string escaped_in_json(char32_t code)
{
    const auto number = static_cast<std::uint32_t>(code);
    if (number < 0x10000)
        return fmt::format("\\u{:04x}", number);
    const auto rest = number - 0x10000;
    return fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (rest >> 10U), 0xdc00 + (rest & 0x3ffU));
}

// Replaces some characters of UTF-8.
template <typename Choice, typename Escape>
std::string replaced(std::string_view text, Choice&& is_chosen, Escape&& escape)
{
    std::string result;
    result.reserve(text.size());
    while (!text.empty()) {
        const auto [code, bytes] = first_of(text);
        if (is_chosen(code))
            result += escape(code);
        else
            result += text.substr(0, bytes);
        text.remove_prefix(bytes);
    }
    return result;
}

// Levenshtein's distance, one row at a time.
std::size_t edits_between(std::string_view a, std::string_view b)
{
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < a.size(); ++i) {
        auto diagonal = std::exchange(row[0], i + 1);
        for (std::size_t j = 0; j < b.size(); ++j) {
            const auto replaced = diagonal + (a[i] == b[j] ? 0 : 1);
            diagonal = row[j + 1];
            row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
        }
    }
    return row.back();
}

std::string_view first_columns(std::string_view text, std::size_t room)
{
    std::size_t end = 0;
    for (; end < text.size(); ++end)
        if (!continues_character(text[end]) && room-- == 0)
            break;
    return text.substr(0, end);
}

} // namespace

std::string iso_time(timestamp when)
{
    const auto day = std::chrono::floor<std::chrono::days>(when);
    const std::chrono::year_month_day date{day};
    const std::chrono::hh_mm_ss time{when - day};
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", static_cast<int>(date.year()),
                       static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                       time.hours().count(), time.minutes().count(), time.seconds().count(),
                       time.subseconds().count());
}

std::string age(duration length)
{
    struct unit {
        std::int64_t seconds_min; // shorter ages are told in the next unit
        std::int64_t seconds;
        char letter;
    };
    constexpr std::array units{unit{172'800, 86'400, 'd'}, unit{3'600, 3'600, 'h'},
                               unit{60, 60, 'm'}};
    const auto total = std::chrono::round<seconds>(length).count();
    for (const auto& each : units)
        if (total >= each.seconds_min)
            return fmt::format("{}{}", total / each.seconds, each.letter);
    return fmt::format("{}s", total);
}

std::string relative(timestamp when, timestamp now)
{
    const auto ahead = std::chrono::round<seconds>(when - now);
    if (ahead == seconds::zero())
        return "now";
    return ahead > seconds::zero() ? "in " + age(ahead) : age(-ahead) + " ago";
}

std::string counted(std::size_t count, std::string_view noun)
{
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string printable(std::string_view text)
{
    return replaced(
        as_utf8(text), [](char32_t code) { return is_control(code) || is_hidden(code); }, escaped);
}

std::string printable_lines(std::string_view text)
{
    const auto is_chosen = [](char32_t code) {
        return (is_control(code) && code != '\n' && code != '\t') || is_hidden(code);
    };
    return replaced(as_utf8(text), is_chosen, escaped);
}

// Line breaks of an indented document are no part of a text, so they may stay.
std::string json_text(const nlohmann::ordered_json& value, int indent)
{
    return replaced(
        value.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace),
        [](char32_t code) { return (is_control(code) && code >= 0x20) || is_hidden(code); },
        escaped_in_json);
}

std::size_t columns(std::string_view text) noexcept
{
    return text.size() - static_cast<std::size_t>(std::ranges::count_if(text, continues_character));
}

std::string shortened(std::string_view text, std::size_t columns_max)
{
    if (columns(text) <= columns_max)
        return std::string(text);
    return std::string(first_columns(text, columns_max - 1)) + "…";
}

std::string shortened_inside(std::string_view text, std::size_t columns_max)
{
    const auto all = columns(text);
    if (all <= columns_max)
        return std::string(text);
    const auto kept_first = columns_max / 4;
    const auto without_end = all - (columns_max - 1 - kept_first);
    const auto end = text.substr(first_columns(text, without_end).size());
    return fmt::format("{}…{}", first_columns(text, kept_first), end);
}

bool is_plain_text(std::string_view bytes)
{
    if (as_utf8(bytes) != bytes)
        return false;
    for (auto rest = bytes; !rest.empty();) {
        const auto [code, length] = first_of(rest);
        if (is_control(code) && code != '\n' && code != '\t')
            return false;
        rest.remove_prefix(length);
    }
    return true;
}

std::string hexadecimal(std::string_view bytes)
{
    std::string result;
    result.reserve(2 * bytes.size());
    for (const auto byte : bytes)
        fmt::format_to(std::back_inserter(result), "{:02x}", static_cast<unsigned char>(byte));
    return result;
}

std::string nearest(std::string_view typed, std::span<const std::string> words)
{
    const auto distance = [&](const std::string& word) { return edits_between(typed, word); };
    const auto best = std::ranges::min_element(words, {}, distance);
    const bool near =
        best != words.end() && distance(*best) <= std::max(typed.size(), best->size()) / 3;
    return near ? *best : std::string{};
}

} // namespace posthorn::cli
