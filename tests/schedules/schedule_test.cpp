// Schedules in time zones: days on which clocks change, intervals, previews.
#include <posthorn/error.hpp>
#include <posthorn/schedule.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace posthorn {
namespace {

using namespace std::chrono;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

timestamp utc(int y, unsigned m, unsigned d, int h = 0, int min = 0, int s = 0)
{
    return sys_days{year{y} / m / d} + hours{h} + minutes{min} + seconds{s};
}

std::vector<std::string> locals(const schedule& which, timestamp after, std::size_t count)
{
    std::vector<std::string> result;
    for (const auto& each : preview(which, after, count))
        result.push_back(each.local);
    return result;
}

// Clocks in Vienna go from 02:00 to 03:00 on 28 March 2027, and from 03:00 to 02:00 on 31 October.

// Proves: SCH-01
TEST(schedules, a_fixed_time_in_a_gap_runs_once_at_its_end)
{
    const auto nightly = schedule::cron("30 2 * * *", "Europe/Vienna");
    EXPECT_THAT(locals(nightly, utc(2027, 3, 26, 12), 3),
                ElementsAre("2027-03-27 02:30:00 +01:00 CET", "2027-03-28 03:00:00 +02:00 CEST",
                            "2027-03-29 02:30:00 +02:00 CEST"));
    // Several times in one gap are one run, also with one at its end.
    const auto often = schedule::cron("0,20,40 2,3 * * *", "Europe/Vienna");
    EXPECT_THAT(locals(often, utc(2027, 3, 27, 12), 4),
                ElementsAre("2027-03-28 03:00:00 +02:00 CEST", "2027-03-28 03:20:00 +02:00 CEST",
                            "2027-03-28 03:40:00 +02:00 CEST", "2027-03-29 02:00:00 +02:00 CEST"));
}

// Proves: SCH-01
TEST(schedules, a_fixed_time_that_comes_twice_runs_the_first_time)
{
    const auto nightly = schedule::cron("30 2 * * *", "Europe/Vienna");
    EXPECT_THAT(locals(nightly, utc(2027, 10, 29, 12), 3),
                ElementsAre("2027-10-30 02:30:00 +02:00 CEST", "2027-10-31 02:30:00 +02:00 CEST",
                            "2027-11-01 02:30:00 +01:00 CET"));
    EXPECT_EQ(nightly.next(utc(2027, 10, 31, 1)), utc(2027, 11, 1, 1, 30))
        << "in the hour that is repeated";
}

// Proves: SCH-01
TEST(schedules, what_has_a_star_in_its_time_keeps_its_cadence)
{
    EXPECT_THAT(locals(schedule::cron("30 * * * *", "Europe/Vienna"), utc(2027, 3, 28, 0, 0), 3),
                ElementsAre("2027-03-28 01:30:00 +01:00 CET", "2027-03-28 03:30:00 +02:00 CEST",
                            "2027-03-28 04:30:00 +02:00 CEST"));
    EXPECT_THAT(locals(schedule::cron("30 * * * *", "Europe/Vienna"), utc(2027, 10, 31, 0), 3),
                ElementsAre("2027-10-31 02:30:00 +02:00 CEST", "2027-10-31 02:30:00 +01:00 CET",
                            "2027-10-31 03:30:00 +01:00 CET"));
}

// Proves: SCH-01
TEST(schedules, a_day_that_a_country_left_out_counts_as_a_gap)
{
    // Samoa went from 29 to 31 December 2011.
    EXPECT_THAT(locals(schedule::cron("0 9 * * *", "Pacific/Apia"), utc(2011, 12, 29, 12), 4),
                ElementsAre("2011-12-29 09:00:00 -10:00 -10", "2011-12-31 00:00:00 +14:00 +14",
                            "2011-12-31 09:00:00 +14:00 +14", "2012-01-01 09:00:00 +14:00 +14"));
}

// Proves: SCH-01
TEST(schedules, half_an_hour_of_summer_is_enough)
{
    // Lord Howe Island: from 02:00 to 02:30 on 3 October 2027, and back on 4 April.
    const auto in_the_gap = schedule::cron("15 2 * * *", "Australia/Lord_Howe");
    EXPECT_THAT(locals(in_the_gap, utc(2027, 10, 1, 16), 2),
                ElementsAre("2027-10-03 02:30:00 +11:00 +11", "2027-10-04 02:15:00 +11:00 +11"));
    const auto comes_twice = schedule::cron("45 1 * * *", "Australia/Lord_Howe");
    EXPECT_THAT(locals(comes_twice, utc(2027, 4, 3), 2),
                ElementsAre("2027-04-04 01:45:00 +11:00 +11", "2027-04-05 01:45:00 +10:30 +1030"));
}

// Proves: SCH-01
TEST(schedules, a_preview_marks_days_on_which_clocks_change)
{
    const auto seen =
        preview(schedule::cron("30 2,12 * * *", "Europe/Vienna"), utc(2027, 3, 27, 12), 4);
    ASSERT_EQ(seen.size(), 4U);
    EXPECT_EQ(seen[0].utc, "2027-03-28 01:00:00");
    EXPECT_TRUE(seen[0].moved);
    EXPECT_EQ(seen[0].clock_change, hours{1});
    EXPECT_EQ(seen[1].local, "2027-03-28 12:30:00 +02:00 CEST");
    EXPECT_FALSE(seen[1].moved);
    EXPECT_EQ(seen[1].clock_change, hours{1});
    EXPECT_EQ(seen[2].clock_change, hours{0});
    const auto autumn =
        preview(schedule::cron("0 12 * * *", "Europe/Vienna"), utc(2027, 10, 31), 1);
    EXPECT_EQ(autumn.at(0).clock_change, -hours{1});
}

TEST(schedules, the_previous_instant_is_the_last_one_before)
{
    const auto nightly = schedule::cron("30 2 * * *", "Europe/Vienna");
    EXPECT_EQ(nightly.previous(utc(2027, 3, 28, 1)), utc(2027, 3, 27, 1, 30));
    EXPECT_EQ(nightly.previous(utc(2027, 3, 28, 1, 0, 1)), utc(2027, 3, 28, 1));
    EXPECT_EQ(schedule::cron("0 0 29 2 *").previous(utc(2027, 1, 1)), utc(2024, 2, 29));
    EXPECT_EQ(schedule::cron("* * * * * *").previous(utc(2027, 1, 1) + 1us), utc(2027, 1, 1));
    EXPECT_EQ(schedule::cron("0 0 * 2 1#5").previous(utc(2027, 1, 1)), utc(2016, 2, 29));
}

// Proves: SCH-01
TEST(schedules, intervals_count_from_their_anchor)
{
    const auto often = schedule::every(90s, utc(2027, 1, 1));
    EXPECT_EQ(often.text(), "every 90 s");
    EXPECT_EQ(often.next(utc(2027, 1, 1)), utc(2027, 1, 1, 0, 1, 30));
    EXPECT_EQ(often.next(utc(2027, 1, 1) - 1us), utc(2027, 1, 1));
    EXPECT_EQ(often.next(utc(2026, 12, 31, 23, 58, 29)), utc(2026, 12, 31, 23, 58, 30));
    EXPECT_EQ(often.next(utc(2026, 12, 31, 23, 58, 30)), utc(2027, 1, 1));
    EXPECT_EQ(often.previous(utc(2027, 1, 1)), utc(2026, 12, 31, 23, 58, 30));
    EXPECT_EQ(often.previous(utc(2027, 1, 1) + 1us), utc(2027, 1, 1));
    EXPECT_THROW((void)schedule::every(999ms), error);
}

// Proves: SCH-01
TEST(schedules, zones_that_the_machine_does_not_know_are_refused)
{
    for (const auto* name : {"", "Mars/Olympus", "/usr/share/zoneinfo/Europe/Vienna", "../Europe",
                             "localtime", "libc:UTC", "Europe", "Europe/Vienna "}) {
        try {
            (void)schedule::cron("@daily", name);
            ADD_FAILURE() << "accepted '" << name << "'";
        } catch (const error& refused) {
            EXPECT_EQ(refused.code(), error_code::invalid_argument);
            EXPECT_THAT(refused.what(), HasSubstr("time zone"));
        }
    }
}

TEST(schedules, a_preview_of_nothing_is_empty)
{
    EXPECT_THAT(preview(schedule::cron("0 0 1 1 *"), utc(2027, 1, 1), 0), IsEmpty());
}

} // namespace
} // namespace posthorn
