// An independent walker: it goes through time minute by minute, asks the C library what the clock
// on the wall shows, and compares it with conditions written by hand. It knows nothing of cron
// expressions, nor of how schedules are searched.
#include <posthorn/schedule.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

namespace posthorn {
namespace {

using namespace std::chrono;

// A minute on the wall.
struct shown {
    int minute, hour, day, month, weekday; // day and month from 1, Sunday is 0
    int last_day;                          // of the month
};

struct walked_job {
    const char* expression;
    bool (*matches)(const shown&);
    bool cadence = false;
};

const std::array walked_jobs{
    walked_job{"30 2 * * *", [](const shown& t) { return t.minute == 30 && t.hour == 2; }},
    walked_job{"0 0 * * *", [](const shown& t) { return t.minute == 0 && t.hour == 0; }},
    walked_job{"15,45 1,2,3 * * *",
               [](const shown& t) {
                   return (t.minute == 15 || t.minute == 45) && t.hour >= 1 && t.hour <= 3;
               }},
    walked_job{"0-59 23 * * *", [](const shown& t) { return t.hour == 23; }},
    walked_job{
        "59 23 L * *",
        [](const shown& t) { return t.minute == 59 && t.hour == 23 && t.day == t.last_day; }},
    walked_job{"0 12 * * 1-5",
               [](const shown& t) {
                   return t.minute == 0 && t.hour == 12 && t.weekday >= 1 && t.weekday <= 5;
               }},
    walked_job{"5 0 1,15 * 0",
               [](const shown& t) {
                   return t.minute == 5 && t.hour == 0 &&
                          (t.day == 1 || t.day == 15 || t.weekday == 0);
               }},
    walked_job{"0 3 * 3,10 7L",
               [](const shown& t) {
                   return t.minute == 0 && t.hour == 3 && (t.month == 3 || t.month == 10) &&
                          t.weekday == 0 && t.day + 7 > t.last_day;
               }},
    walked_job{"30 1 * * sat#4",
               [](const shown& t) {
                   return t.minute == 30 && t.hour == 1 && t.weekday == 6 && t.day > 21 &&
                          t.day <= 28;
               }},
    walked_job{"30 * * * *", [](const shown& t) { return t.minute == 30; }, true},
    walked_job{"*/20 * * * *", [](const shown& t) { return t.minute % 20 == 0; }, true},
    walked_job{"0 */2 * * *", [](const shown& t) { return t.minute == 0 && t.hour % 2 == 0; },
               true},
    walked_job{"*/10 2 * * *", [](const shown& t) { return t.minute % 10 == 0 && t.hour == 2; },
               true},
};

using minute_count = std::int64_t;

shown wall_clock(minute_count local)
{
    const std::time_t seconds = local * 60;
    std::tm parts{};
    gmtime_r(&seconds, &parts);
    constexpr std::array days{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const int year = parts.tm_year + 1900;
    const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    const int last =
        days.at(static_cast<std::size_t>(parts.tm_mon)) + (parts.tm_mon == 1 && leap ? 1 : 0);
    return {parts.tm_min, parts.tm_hour, parts.tm_mday, parts.tm_mon + 1, parts.tm_wday, last};
}

// The C library's zone of this process.
class walker {
public:
    explicit walker(const char* zone)
    {
        setenv("TZ", zone, 1);
        tzset();
    }
    walker(const walker&) = delete;
    walker& operator=(const walker&) = delete;
    ~walker()
    {
        unsetenv("TZ");
        tzset();
    }

    [[nodiscard]] static minute_count local(minute_count utc)
    {
        const std::time_t seconds = utc * 60;
        std::tm parts{};
        localtime_r(&seconds, &parts);
        return utc + parts.tm_gmtoff / 60;
    }

    // The hours in which the offset changes.
    [[nodiscard]] static std::vector<minute_count> changes(minute_count from, minute_count to)
    {
        std::vector<minute_count> result;
        auto before = local(from) - from;
        for (auto each = from + 60; each < to; each += 60) {
            const auto offset = local(each) - each;
            if (offset != before)
                result.push_back(each);
            before = offset;
        }
        return result;
    }

    // When each job runs, from one minute to the other. It begins a day earlier, so that it knows
    // which minutes the wall has shown already.
    [[nodiscard]] static std::vector<std::vector<minute_count>> walk(minute_count from,
                                                                     minute_count to)
    {
        std::vector<std::vector<minute_count>> runs(walked_jobs.size());
        auto newest = local(from - 1441);
        for (auto now = from - 1440; now < to; ++now) {
            const auto here = local(now);
            const auto shows = wall_clock(here);
            std::vector<shown> left_out;
            for (auto each = newest + 1; each < here; ++each)
                left_out.push_back(wall_clock(each));
            for (std::size_t i = 0; i < walked_jobs.size(); ++i) {
                const auto& job = walked_jobs[i];
                bool due = job.matches(shows) && (job.cadence || here > newest);
                for (const auto& each : left_out)
                    due = due || (!job.cadence && job.matches(each));
                if (due && now >= from)
                    runs[i].push_back(now);
            }
            newest = std::max(newest, here);
        }
        return runs;
    }
};

minute_count minute_of(int y)
{
    return duration_cast<minutes>(sys_days{year{y} / 1 / 1}.time_since_epoch()).count();
}

timestamp instant_of(minute_count when)
{
    return timestamp{minutes{when}};
}

void compare(const char* zone, minute_count from, minute_count to)
{
    const auto runs = walker::walk(from, to);
    for (std::size_t i = 0; i < walked_jobs.size(); ++i) {
        const auto* expression = walked_jobs[i].expression;
        const auto timetable = schedule::cron(expression, zone);
        auto next = timetable.next(instant_of(from) - 1us);
        for (const auto expected : runs[i]) {
            ASSERT_EQ(next, instant_of(expected))
                << zone << ", '" << expression << "': expected minute " << expected;
            next = timetable.next(*next);
        }
        ASSERT_TRUE(next && *next >= instant_of(to))
            << zone << ", '" << expression << "': one too many before minute " << to;
        if (!runs[i].empty()) {
            ASSERT_EQ(timetable.previous(instant_of(to)), instant_of(runs[i].back()))
                << zone << ", '" << expression << "' backwards from minute " << to;
        }
    }
}

class cron_walk : public ::testing::TestWithParam<const char*> {};

// From 2000 on; then every minute of them is walked, not only those near changes.
int years_to_walk()
{
    const char* told = std::getenv("POSTHORN_CRON_YEARS");
    return told == nullptr ? 0 : std::atoi(told);
}

// Proves: SCH-01
TEST_P(cron_walk, schedules_agree_with_a_walker_around_every_change_of_clocks)
{
    const walker in_zone(GetParam());
    constexpr minute_count day = 1440;
    const auto years = years_to_walk();
    for (int year = 2000; year < 2000 + years; ++year)
        ASSERT_NO_FATAL_FAILURE(compare(GetParam(), minute_of(year), minute_of(year + 1)));
    const auto changes = walker::changes(minute_of(2011), minute_of(2021));
    EXPECT_FALSE(changes.empty());
    for (const auto each : changes)
        ASSERT_NO_FATAL_FAILURE(compare(GetParam(), each - 3 * day, each + 3 * day));
}

INSTANTIATE_TEST_SUITE_P(
    zones, cron_walk,
    ::testing::Values("Africa/Cairo", "Africa/Casablanca", "Africa/El_Aaiun", "Africa/Tripoli",
                      "America/Asuncion", "America/Caracas", "America/Chicago", "America/Denver",
                      "America/Halifax", "America/Havana", "America/Los_Angeles",
                      "America/Mexico_City", "America/New_York", "America/Nuuk", "America/Santiago",
                      "America/Sao_Paulo", "America/Scoresbysund", "America/St_Johns",
                      "Antarctica/Troll", "Asia/Amman", "Asia/Beirut", "Asia/Damascus", "Asia/Gaza",
                      "Asia/Jerusalem", "Asia/Pyongyang", "Asia/Tehran", "Australia/Adelaide",
                      "Australia/Lord_Howe", "Australia/Sydney", "Europe/Chisinau", "Europe/Dublin",
                      "Europe/Istanbul", "Europe/Lisbon", "Europe/London", "Europe/Moscow",
                      "Europe/Vienna", "Pacific/Apia", "Pacific/Auckland", "Pacific/Chatham",
                      "Pacific/Easter", "Pacific/Fiji", "Pacific/Norfolk"),
    [](const auto& tested) {
        std::string name(tested.param);
        std::ranges::replace(name, '/', '_');
        return name;
    });

} // namespace
} // namespace posthorn
