// What a time zone makes of a cron expression, and intervals.
//
// Fixed times are looked for on the wall, and then turned into instants: each time on the wall has
// one, also in a gap or where it comes twice, and they are in the same order. A cadence is looked
// for within a stretch of one offset, and then in the next.
#include "core/cron.hpp"
#include "schedules/zone.hpp"
#include <posthorn/error.hpp>
#include <posthorn/schedule.hpp>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

namespace posthorn {
namespace {

using namespace std::chrono;
using schedules::zone;

// How far back `previous` looks.
constexpr auto years_back = seconds{years{50}};

struct cron_rule {
    core::cron when;
    zone where;
};

struct interval_rule {
    duration every;
    timestamp anchor;
};

std::optional<sys_seconds> next_fixed(const cron_rule& rule, sys_seconds from)
{
    // From the second before: a gap that ends at `from` begins right after it on the wall.
    auto wanted = rule.when.first_from(rule.where.wall(from - seconds{1}) + seconds{1});
    while (wanted) {
        const auto found = rule.where.of(*wanted);
        if (found.first >= from)
            return found.first;
        // The clocks have gone back: everything up to the change has had its turn.
        const auto passed = found.how_many == zone::instants::kind::two
                                ? *wanted + (found.change - found.first)
                                : *wanted + seconds{1};
        wanted = rule.when.first_from(passed);
    }
    return std::nullopt;
}

std::optional<sys_seconds> next_of_cadence(const cron_rule& rule, sys_seconds from)
{
    const auto end = from + years_back;
    while (from < end) {
        const auto here = rule.where.at(from);
        const auto wall = core::wall_time{(from + here.offset).time_since_epoch()};
        const auto wanted = rule.when.first_from(wall);
        if (!wanted)
            return std::nullopt;
        const auto candidate = sys_seconds{wanted->time_since_epoch()} - here.offset;
        if (!here.end || candidate < *here.end)
            return candidate;
        from = *here.end;
    }
    return std::nullopt;
}

std::optional<timestamp> next_of(const cron_rule& rule, timestamp after)
{
    const auto from = floor<seconds>(after) + seconds{1};
    return rule.when.keeps_cadence() ? next_of_cadence(rule, from) : next_fixed(rule, from);
}

std::optional<timestamp> next_of(const interval_rule& rule, timestamp after)
{
    auto steps = (after - rule.anchor) / rule.every;
    if (after < rule.anchor && (after - rule.anchor) % rule.every != duration::zero())
        --steps;
    return rule.anchor + (steps + 1) * rule.every;
}

// Looks at ever longer stretches of the past; the last one has at most eight times as many instants
// as needed.
std::optional<timestamp> previous_of(const cron_rule& rule, timestamp before)
{
    for (seconds back{2}; back <= 8 * years_back; back *= 8) {
        std::optional<timestamp> last;
        for (auto each = next_of(rule, before - std::min(back, years_back) - duration{1});
             each && *each < before; each = next_of(rule, *each))
            last = each;
        if (last)
            return last;
    }
    return std::nullopt;
}

std::optional<timestamp> previous_of(const interval_rule& rule, timestamp before)
{
    return *next_of(rule, before - duration{1}) - rule.every;
}

std::string words_of(duration interval)
{
    if (interval % hours{24} == duration::zero())
        return fmt::format("every {} d", interval / hours{24});
    if (interval % hours{1} == duration::zero())
        return fmt::format("every {} h", interval / hours{1});
    if (interval % minutes{1} == duration::zero())
        return fmt::format("every {} min", interval / minutes{1});
    if (interval % seconds{1} == duration::zero())
        return fmt::format("every {} s", interval / seconds{1});
    return fmt::format("every {} us", interval.count());
}

std::string text_of(core::wall_time when)
{
    const auto day = floor<days>(when);
    const year_month_day date{day};
    const hh_mm_ss time{when - day};
    return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}", int(date.year()),
                       unsigned(date.month()), unsigned(date.day()), time.hours().count(),
                       time.minutes().count(), time.seconds().count());
}

std::string text_of(seconds offset)
{
    const auto minutes = duration_cast<std::chrono::minutes>(abs(offset)).count();
    return fmt::format("{}{:02}:{:02}", offset < seconds{0} ? '-' : '+', minutes / 60,
                       minutes % 60);
}

// The day's last offset against its first.
duration change_on_day_of(const zone& where, core::wall_time when)
{
    const core::wall_time midnight = floor<days>(when);
    const auto before = where.at(where.of(midnight).first - seconds{1});
    const auto after = where.at(where.of(midnight + days{1}).first - seconds{1});
    return after.offset - before.offset;
}

} // namespace

class schedule::rule {
public:
    std::string text;
    std::string zone_name = "UTC";
    std::variant<cron_rule, interval_rule> how;
};

schedule schedule::cron(std::string_view expression, std::string_view where)
{
    return schedule(std::make_shared<const rule>(
        rule{.text = std::string(expression),
             .zone_name = std::string(where),
             .how = cron_rule{.when = core::cron::parse(expression), .where = zone::load(where)}}));
}

schedule schedule::every(duration interval, timestamp anchor)
{
    if (interval < seconds{1})
        throw error(error_code::invalid_argument,
                    "the interval of a schedule must be at least a second");
    return schedule(std::make_shared<const rule>(rule{
        .text = words_of(interval), .how = interval_rule{.every = interval, .anchor = anchor}}));
}

std::optional<timestamp> schedule::next(timestamp after) const
{
    return std::visit([&](const auto& how) { return next_of(how, after); }, rule_->how);
}

std::optional<timestamp> schedule::previous(timestamp before) const
{
    return std::visit([&](const auto& how) { return previous_of(how, before); }, rule_->how);
}

const std::string& schedule::text() const noexcept
{
    return rule_->text;
}

const std::string& schedule::zone() const noexcept
{
    return rule_->zone_name;
}

std::vector<firing> preview(const schedule& which, timestamp after, std::size_t count)
{
    const auto where = zone::load(which.zone());
    const auto* timed = std::get_if<cron_rule>(&which.rules().how);
    std::vector<firing> result;
    for (auto each = which.next(after); each && result.size() < count; each = which.next(*each)) {
        const auto second = floor<seconds>(*each);
        const auto here = where.at(second);
        const auto wall = where.wall(second);
        result.push_back({.at = *each,
                          .local = fmt::format("{} {} {}", text_of(wall), text_of(here.offset),
                                               here.abbreviation),
                          .utc = text_of(core::wall_time{second.time_since_epoch()}),
                          .clock_change = change_on_day_of(where, wall),
                          .moved = timed != nullptr && !timed->when.contains(wall)});
    }
    return result;
}

} // namespace posthorn
