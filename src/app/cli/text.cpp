// Words for people. Whatever came from outside (topics, keys, errors) passes `printable` on its way
// to a terminal: an escape sequence in a topic must not be able to repaint the operator's screen.
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

// How many bytes of a control character stand at the front: U+0000–1F, U+007F or U+0080–9F.
std::size_t control_length(std::string_view text) noexcept
{
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    if (byte(0) < 0x20 || byte(0) == 0x7f)
        return 1;
    return byte(0) == 0xc2 && text.size() > 1 && byte(1) < 0xa0 ? 2 : 0;
}

bool continues_character(char c) noexcept
{
    return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U;
}

std::string escaped(std::string_view control)
{
    if (control == "\n")
        return "\\n";
    if (control == "\t")
        return "\\t";
    return fmt::format("\\x{:02x}", static_cast<unsigned char>(control.back()));
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
    const auto valid = as_utf8(text);
    std::string result;
    for (std::string_view rest = valid; !rest.empty();) {
        const auto control = control_length(rest);
        if (control == 0)
            result.push_back(rest.front());
        else
            result += escaped(rest.substr(0, control));
        rest.remove_prefix(std::max<std::size_t>(control, 1));
    }
    return result;
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
    for (std::string_view rest = bytes; !rest.empty(); rest.remove_prefix(1))
        if (control_length(rest) > 0 && rest.front() != '\n' && rest.front() != '\t')
            return false;
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
