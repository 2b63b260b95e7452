// Searching a calendar: month by month, day by day, and within a day by sets of bits.
#include "core/cron.hpp"

#include <bit>

namespace posthorn::core {
namespace {

using namespace std::chrono;

// 29 February on a given weekday comes back after 40 years at the latest.
constexpr years horizon{50};

bool has_bit(std::uint64_t set, unsigned bit)
{
    return (set >> bit & 1U) != 0;
}

// The first bit at or after `from`; 64: none.
unsigned first_bit(std::uint64_t set, unsigned from)
{
    return from >= 64 ? 64U : static_cast<unsigned>(std::countr_zero(set >> from << from));
}

unsigned weekday_of(year_month_day day)
{
    return weekday{sys_days{day}}.c_encoding();
}

unsigned last_day_of(year_month_day day)
{
    return unsigned((day.year() / day.month() / last).day());
}

// The working day nearest to `wanted` that lies in the same month; 0: the month has no such day.
unsigned nearest_working_day(year_month_day in, unsigned wanted)
{
    const auto last = last_day_of(in);
    if (wanted > last)
        return 0;
    const auto on = weekday_of(in.year() / in.month() / wanted);
    if (on == 6)
        return wanted > 1 ? wanted - 1 : wanted + 2;
    if (on == 0)
        return wanted < last ? wanted + 1 : wanted - 2;
    return wanted;
}

unsigned last_working_day(year_month_day in)
{
    const auto last = last_day_of(in);
    const auto on = weekday_of(in.year() / in.month() / last);
    return on == 6 ? last - 1 : on == 0 ? last - 2 : last;
}

} // namespace

bool cron_days::in_month(year_month_day day) const
{
    const auto number = unsigned(day.day());
    if (has_bit(days, number))
        return true;
    if (has_bit(from_the_end, last_day_of(day) - number))
        return true;
    if (last_weekday && number == last_working_day(day))
        return true;
    for (auto each = first_bit(nearest_weekdays, 0); each < 64;
         each = first_bit(nearest_weekdays, each + 1))
        if (number == nearest_working_day(day, each))
            return true;
    return false;
}

bool cron_days::in_week(year_month_day day) const
{
    const auto number = unsigned(day.day());
    const auto on = weekday_of(day);
    return has_bit(weekdays, on) || has_bit(nth[(number - 1) / 7 + 1], on) ||
           (has_bit(last_of_month, on) && number + 7 > last_day_of(day));
}

// As cron does: if both fields are restricted, one of them is enough.
bool cron_days::contains(year_month_day day) const
{
    if (!contains(day.month()))
        return false;
    if (!any_day && !any_weekday)
        return in_month(day) || in_week(day);
    return in_month(day) && in_week(day);
}

bool cron_days::exist() const
{
    if (!any_weekday || from_the_end != 0 || last_weekday)
        return true;
    for (unsigned number = 1; number <= 12; ++number) {
        if (!has_bit(months, number))
            continue;
        const auto leap = year{2000} / month{number} / last;
        const auto upto = (std::uint64_t{1} << (unsigned(leap.day()) + 1)) - 1;
        if (((days | nearest_weekdays) & upto) != 0)
            return true;
    }
    return false;
}

std::optional<seconds> cron::first_in_day(seconds from) const
{
    const hh_mm_ss time{from};
    const auto hour = static_cast<unsigned>(time.hours().count());
    const auto minute = static_cast<unsigned>(time.minutes().count());
    const auto second = static_cast<unsigned>(time.seconds().count());
    const auto at = [](unsigned h, unsigned m, unsigned s) {
        return seconds{hours{h}} + seconds{minutes{m}} + seconds{s};
    };
    const auto first_minute = first_bit(minutes_, 0);
    const auto first_second = first_bit(seconds_, 0);
    if (has_bit(hours_, hour)) {
        if (has_bit(minutes_, minute))
            if (const auto s = first_bit(seconds_, second); s < 60)
                return at(hour, minute, s);
        if (const auto m = first_bit(minutes_, minute + 1); m < 60)
            return at(hour, m, first_second);
    }
    if (const auto h = first_bit(hours_, hour + 1); h < 24)
        return at(h, first_minute, first_second);
    return std::nullopt;
}

std::optional<wall_time> cron::first_from(wall_time from) const
{
    auto day = floor<days>(from);
    auto time = from - day;
    const year_month_day first{day};
    const auto end = first.year() + horizon;
    for (year_month_day date = first; date.year() < end; date = year_month_day{day}) {
        if (!days_.contains(date.month())) {
            day = local_days{(date.year() / date.month() + months{1}) / 1};
            time = seconds{0};
            continue;
        }
        if (days_.contains(date))
            if (const auto found = first_in_day(time))
                return day + *found;
        day += days{1};
        time = seconds{0};
    }
    return std::nullopt;
}

bool cron::contains(wall_time when) const
{
    return first_from(when) == when;
}

} // namespace posthorn::core
