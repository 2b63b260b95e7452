// Reading cron expressions. What is refused says which field is wrong, and how.
#include "core/cron.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace posthorn::core {
namespace {

constexpr std::size_t cron_bytes_max = 255;

struct cron_macro {
    std::string_view name;
    std::string_view means;
};
constexpr std::array cron_macros{
    cron_macro{"@yearly", "0 0 1 1 *"},  cron_macro{"@annually", "0 0 1 1 *"},
    cron_macro{"@monthly", "0 0 1 * *"}, cron_macro{"@weekly", "0 0 * * 0"},
    cron_macro{"@daily", "0 0 * * *"},   cron_macro{"@midnight", "0 0 * * *"},
    cron_macro{"@hourly", "0 * * * *"}};

constexpr std::array<std::string_view, 12> month_names{"jan", "feb", "mar", "apr", "may", "jun",
                                                       "jul", "aug", "sep", "oct", "nov", "dec"};
constexpr std::array<std::string_view, 7> weekday_names{"sun", "mon", "tue", "wed",
                                                        "thu", "fri", "sat"};

struct field_kind {
    std::string_view name;
    unsigned least;
    unsigned most;
    std::span<const std::string_view> words = {};
};

constexpr field_kind second_field{"second", 0, 59};
constexpr field_kind minute_field{"minute", 0, 59};
constexpr field_kind hour_field{"hour", 0, 23};
constexpr field_kind day_field{"day of the month", 1, 31};
constexpr field_kind month_field{"month", 1, 12, month_names};
constexpr field_kind weekday_field{"day of the week", 0, 7, weekday_names};

std::string in_lower_case(std::string_view text)
{
    std::string result(text);
    std::ranges::transform(result, result.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    return result;
}

std::vector<std::string_view> split_at(std::string_view text, char by)
{
    std::vector<std::string_view> parts;
    for (;;) {
        const auto end = text.find(by);
        parts.push_back(text.substr(0, end));
        if (end == std::string_view::npos)
            return parts;
        text.remove_prefix(end + 1);
    }
}

std::vector<std::string_view> words_of(std::string_view text)
{
    std::vector<std::string_view> words;
    for (;;) {
        const auto begin = text.find_first_not_of(" \t");
        if (begin == std::string_view::npos)
            return words;
        text.remove_prefix(begin);
        const auto end = std::min(text.find_first_of(" \t"), text.size());
        words.push_back(text.substr(0, end));
        text.remove_prefix(end);
    }
}

// One field of an expression, and what to say of it.
class field_reader {
public:
    field_reader(const field_kind& kind, std::string_view text) : kind_(kind), text_(text) {}

    [[noreturn]] void refuse(std::string_view why) const
    {
        throw error(error_code::invalid_argument,
                    fmt::format("cron: the {} '{}' {}", kind_.name, text_, why));
    }

    [[nodiscard]] unsigned number(std::string_view text) const
    {
        if (text.empty())
            refuse("lacks a number");
        const auto named = std::ranges::find(kind_.words, text);
        if (named != kind_.words.end())
            return static_cast<unsigned>(named - kind_.words.begin()) + kind_.least;
        const auto value = plain_number(text);
        if (value < kind_.least || value > kind_.most)
            refuse(fmt::format("is not within {} to {}", kind_.least, kind_.most));
        return value;
    }

    [[nodiscard]] unsigned plain_number(std::string_view text) const
    {
        unsigned value = 0;
        const auto* end = text.data() + text.size();
        const auto [stopped, code] = std::from_chars(text.data(), end, value);
        if (code != std::errc{} || stopped != end)
            refuse(fmt::format("contains '{}', which is no number{}", text,
                               kind_.words.empty() ? "" : " or name"));
        return value;
    }

    // `*`, `7`, `1-5`, each with `/step`.
    [[nodiscard]] std::uint64_t range(std::string_view text) const
    {
        const auto slash = text.find('/');
        const auto what = text.substr(0, slash);
        unsigned step = 1;
        if (slash != std::string_view::npos) {
            step = plain_number(text.substr(slash + 1));
            if (step == 0 || step > kind_.most)
                refuse(fmt::format("has a step that is not within 1 to {}", kind_.most));
        }
        unsigned first = kind_.least;
        unsigned last = kind_.most;
        if (what != "*") {
            const auto dash = what.find('-');
            first = number(what.substr(0, dash));
            if (dash != std::string_view::npos)
                last = number(what.substr(dash + 1));
            else if (slash == std::string_view::npos)
                last = first;
            if (first > last)
                refuse("is a range that runs backwards");
        }
        std::uint64_t result = 0;
        for (auto each = first; each <= last; each += step)
            result |= std::uint64_t{1} << each;
        return result;
    }

    [[nodiscard]] std::uint64_t list() const
    {
        std::uint64_t result = 0;
        for (const auto each : split_at(text_, ','))
            result |= range(each);
        return result;
    }

private:
    const field_kind& kind_;
    std::string_view text_;
};

std::uint32_t without_second_sunday(std::uint64_t set)
{
    return static_cast<std::uint32_t>((set & 0x7fU) | (set >> 7U & 1U));
}

void read_days(std::string_view text, cron_days& into)
{
    const field_reader field(day_field, text);
    into.any_day = text.starts_with('*') || text == "?";
    if (text == "?")
        text = "*";
    for (const auto each : split_at(text, ',')) {
        if (each == "l") {
            into.from_the_end |= 1U;
        } else if (each == "lw") {
            into.last_weekday = true;
        } else if (each.starts_with("l-")) {
            const auto before = field.plain_number(each.substr(2));
            if (before < 1 || before > 30)
                field.refuse("is not within L-1 to L-30");
            into.from_the_end |= 1U << before;
        } else if (each.size() > 1 && each.ends_with('w')) {
            into.nearest_weekdays |= 1U << field.number(each.substr(0, each.size() - 1));
        } else {
            into.days |= static_cast<std::uint32_t>(field.range(each));
        }
    }
}

void read_weekdays(std::string_view text, cron_days& into)
{
    const field_reader field(weekday_field, text);
    into.any_weekday = text.starts_with('*') || text == "?";
    if (text == "?")
        text = "*";
    for (const auto each : split_at(text, ',')) {
        if (const auto hash = each.find('#'); hash != std::string_view::npos) {
            const auto on = field.number(each.substr(0, hash)) % 7;
            const auto which = field.plain_number(each.substr(hash + 1));
            if (which < 1 || which > 5)
                field.refuse("names a week that is not within 1 to 5");
            into.nth[which] |= 1U << on;
        } else if (each == "l") {
            field.refuse("is 'L' alone: say which day, as in '5L' for the last Friday");
        } else if (each.ends_with('l')) {
            into.last_of_month |= 1U << field.number(each.substr(0, each.size() - 1)) % 7;
        } else {
            into.weekdays |= without_second_sunday(field.range(each));
        }
    }
}

} // namespace

cron cron::parse(std::string_view text)
{
    if (text.size() > cron_bytes_max)
        throw error(error_code::invalid_argument,
                    fmt::format("cron: an expression has at most {} bytes", cron_bytes_max));
    const auto lower = in_lower_case(text);
    auto fields = words_of(lower);
    if (fields.size() == 1 && fields.front().starts_with('@')) {
        const auto known = std::ranges::find(cron_macros, fields.front(), &cron_macro::name);
        if (known == cron_macros.end())
            throw error(error_code::invalid_argument,
                        fmt::format("cron: '{}' is not known; there are @yearly, @monthly, "
                                    "@weekly, @daily and @hourly",
                                    fields.front()));
        fields = words_of(known->means);
    }
    if (fields.size() == 5)
        fields.insert(fields.begin(), "0");
    if (fields.size() != 6)
        throw error(error_code::invalid_argument,
                    fmt::format("cron: '{}' has {} fields; it takes five (minute, hour, day, "
                                "month, day of the week), or six with leading seconds",
                                text, fields.size()));
    cron result;
    result.seconds_ = field_reader(second_field, fields[0]).list();
    result.minutes_ = field_reader(minute_field, fields[1]).list();
    result.hours_ = field_reader(hour_field, fields[2]).list();
    result.keeps_cadence_ = std::any_of(fields.begin(), fields.begin() + 3,
                                        [](auto each) { return each.starts_with('*'); });
    result.days_.months = static_cast<std::uint32_t>(field_reader(month_field, fields[4]).list());
    read_days(fields[3], result.days_);
    read_weekdays(fields[5], result.days_);
    if (!result.days_.exist())
        throw error(
            error_code::invalid_argument,
            fmt::format("cron: '{}' never comes: there is no such day in these months", text));
    return result;
}

} // namespace posthorn::core
