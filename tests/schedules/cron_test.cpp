// What cron expressions mean on a calendar without zones, and which are refused.
#include "core/cron.hpp"
#include <posthorn/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <string>
#include <vector>

namespace posthorn::core {
namespace {

using namespace std::chrono;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

wall_time on(int y, unsigned m, unsigned d, int h = 0, int min = 0, int s = 0)
{
    return local_days{year{y} / m / d} + hours{h} + minutes{min} + seconds{s};
}

std::string in_words(wall_time when)
{
    const auto day = floor<days>(when);
    const year_month_day date{day};
    const auto time = static_cast<int>((when - day).count());
    std::array<char, 64> text{};
    (void)std::snprintf(text.data(), text.size(), "%d-%02u-%02u %02d:%02d:%02d", int(date.year()),
                        unsigned(date.month()), unsigned(date.day()), time / 3600, time / 60 % 60,
                        time % 60);
    return text.data();
}

std::vector<std::string> first(int count, const char* expression, wall_time from)
{
    const auto what = cron::parse(expression);
    std::vector<std::string> result;
    for (auto each = what.first_from(from); each && count > 0; --count) {
        result.push_back(in_words(*each));
        each = what.first_from(*each + seconds{1});
    }
    return result;
}

std::string why_not(const std::string& expression)
{
    try {
        (void)cron::parse(expression);
    } catch (const error& refused) {
        EXPECT_EQ(refused.code(), error_code::invalid_argument);
        return refused.what();
    }
    return "it was accepted";
}

// Proves: SCH-01
TEST(cron_expression, five_fields_are_minute_hour_day_month_and_day_of_the_week)
{
    EXPECT_THAT(first(3, "30 2 * * *", on(2027, 1, 31)),
                ElementsAre("2027-01-31 02:30:00", "2027-02-01 02:30:00", "2027-02-02 02:30:00"));
    EXPECT_THAT(first(2, "0 0 1 7 *", on(2027, 7, 1, 0, 0, 1)),
                ElementsAre("2028-07-01 00:00:00", "2029-07-01 00:00:00"));
    EXPECT_THAT(first(2, "0 9 * * 1", on(2027, 1, 1)),
                ElementsAre("2027-01-04 09:00:00", "2027-01-11 09:00:00"));
}

// Proves: SCH-01
TEST(cron_expression, a_sixth_field_in_front_is_the_second)
{
    EXPECT_THAT(first(3, "*/25 59 23 31 12 *", on(2027, 1, 1)),
                ElementsAre("2027-12-31 23:59:00", "2027-12-31 23:59:25", "2027-12-31 23:59:50"));
    EXPECT_THAT(first(2, "10 * * * * *", on(2027, 1, 1, 0, 0, 11)),
                ElementsAre("2027-01-01 00:01:10", "2027-01-01 00:02:10"));
}

// Proves: SCH-01
TEST(cron_expression, takes_lists_ranges_and_steps)
{
    EXPECT_THAT(first(5, "5,10-12,50/4 8 * * *", on(2027, 1, 1)),
                ElementsAre("2027-01-01 08:05:00", "2027-01-01 08:10:00", "2027-01-01 08:11:00",
                            "2027-01-01 08:12:00", "2027-01-01 08:50:00"));
    EXPECT_THAT(first(4, "0 1-10/4 * * *", on(2027, 1, 1)),
                ElementsAre("2027-01-01 01:00:00", "2027-01-01 05:00:00", "2027-01-01 09:00:00",
                            "2027-01-02 01:00:00"));
    EXPECT_THAT(first(3, "0 0 */10 * *", on(2027, 1, 2)),
                ElementsAre("2027-01-11 00:00:00", "2027-01-21 00:00:00", "2027-01-31 00:00:00"));
}

// Proves: SCH-01
TEST(cron_expression, knows_names_in_any_case)
{
    EXPECT_THAT(first(3, "0 12 * JAN,feb Mon-Wed", on(2027, 1, 30)),
                ElementsAre("2027-02-01 12:00:00", "2027-02-02 12:00:00", "2027-02-03 12:00:00"));
}

// Proves: SCH-01
TEST(cron_expression, sunday_is_0_and_7)
{
    const auto sundays = first(3, "0 0 * * 0", on(2027, 1, 1));
    EXPECT_THAT(sundays,
                ElementsAre("2027-01-03 00:00:00", "2027-01-10 00:00:00", "2027-01-17 00:00:00"));
    EXPECT_EQ(first(3, "0 0 * * 7", on(2027, 1, 1)), sundays);
    EXPECT_EQ(first(3, "0 0 * * sun", on(2027, 1, 1)), sundays);
    EXPECT_THAT(first(3, "0 0 * * 6-7", on(2027, 1, 1)),
                ElementsAre("2027-01-02 00:00:00", "2027-01-03 00:00:00", "2027-01-09 00:00:00"));
}

// Proves: SCH-01
TEST(cron_expression, one_of_two_restricted_days_is_enough)
{
    EXPECT_THAT(first(4, "0 0 13 * 5", on(2027, 8, 1)),
                ElementsAre("2027-08-06 00:00:00", "2027-08-13 00:00:00", "2027-08-20 00:00:00",
                            "2027-08-27 00:00:00"));
    EXPECT_THAT(first(2, "0 0 14 * 5", on(2027, 8, 10)),
                ElementsAre("2027-08-13 00:00:00", "2027-08-14 00:00:00"));
    // A field that begins with a star is not restricted: both must hold.
    EXPECT_THAT(first(2, "0 0 */2 * 5", on(2027, 8, 1)),
                ElementsAre("2027-08-13 00:00:00", "2027-08-27 00:00:00"));
    EXPECT_THAT(first(2, "0 0 ? * 5", on(2027, 8, 1)),
                ElementsAre("2027-08-06 00:00:00", "2027-08-13 00:00:00"));
}

// Proves: SCH-01
TEST(cron_expression, l_is_the_end_of_a_month)
{
    EXPECT_THAT(first(3, "0 0 L * *", on(2028, 1, 1)),
                ElementsAre("2028-01-31 00:00:00", "2028-02-29 00:00:00", "2028-03-31 00:00:00"));
    EXPECT_THAT(first(2, "0 0 L-3 2 *", on(2027, 1, 1)),
                ElementsAre("2027-02-25 00:00:00", "2028-02-26 00:00:00"));
    EXPECT_THAT(first(2, "0 0 LW * *", on(2027, 1, 1)),
                ElementsAre("2027-01-29 00:00:00", "2027-02-26 00:00:00"));
    EXPECT_THAT(first(2, "0 0 * * 5L", on(2027, 1, 1)),
                ElementsAre("2027-01-29 00:00:00", "2027-02-26 00:00:00"));
}

// Proves: SCH-01
TEST(cron_expression, w_is_the_nearest_working_day_of_the_month)
{
    // 15 May 2027 is a Saturday, 15 August a Sunday, 1 May a Saturday, 31 October a Sunday.
    EXPECT_THAT(first(1, "0 0 15W 5 *", on(2027, 1, 1)), ElementsAre("2027-05-14 00:00:00"));
    EXPECT_THAT(first(1, "0 0 15W 8 *", on(2027, 1, 1)), ElementsAre("2027-08-16 00:00:00"));
    EXPECT_THAT(first(1, "0 0 1W 5 *", on(2027, 1, 1)), ElementsAre("2027-05-03 00:00:00"));
    EXPECT_THAT(first(1, "0 0 31W 10 *", on(2027, 1, 1)), ElementsAre("2027-10-29 00:00:00"));
}

// Proves: SCH-01
TEST(cron_expression, a_hash_is_the_nth_weekday_of_a_month)
{
    EXPECT_THAT(first(2, "0 0 * * fri#3", on(2027, 1, 1)),
                ElementsAre("2027-01-15 00:00:00", "2027-02-19 00:00:00"));
    EXPECT_THAT(first(2, "0 0 * * 7#1,1#5", on(2027, 2, 28)),
                ElementsAre("2027-03-07 00:00:00", "2027-03-29 00:00:00"));
    EXPECT_THAT(first(1, "0 0 * 2 1#5", on(2027, 1, 1)), ElementsAre("2044-02-29 00:00:00"));
}

// Proves: SCH-01
TEST(cron_expression, macros_stand_for_what_they_say)
{
    const auto from = on(2027, 5, 5, 5, 5);
    EXPECT_EQ(first(3, "@yearly", from), first(3, "0 0 1 1 *", from));
    EXPECT_EQ(first(3, "@annually", from), first(3, "0 0 1 1 *", from));
    EXPECT_EQ(first(3, "@monthly", from), first(3, "0 0 1 * *", from));
    EXPECT_EQ(first(3, "@weekly", from), first(3, "0 0 * * 0", from));
    EXPECT_EQ(first(3, "@daily", from), first(3, "0 0 * * *", from));
    EXPECT_EQ(first(3, "@midnight", from), first(3, "0 0 * * *", from));
    EXPECT_EQ(first(3, "@hourly", from), first(3, "0 * * * *", from));
}

// Proves: SCH-01
TEST(cron_expression, days_that_no_year_has_are_refused_at_once)
{
    EXPECT_THAT(why_not("0 0 30 2 *"), HasSubstr("never comes"));
    EXPECT_THAT(why_not("0 0 31 4,6,9,11 *"), HasSubstr("never comes"));
    EXPECT_THAT(why_not("0 0 31W feb *"), HasSubstr("never comes"));
    EXPECT_THAT(first(2, "0 0 29 2 *", on(2027, 1, 1)),
                ElementsAre("2028-02-29 00:00:00", "2032-02-29 00:00:00"));
    EXPECT_THAT(first(1, "0 0 30 2 1", on(2027, 1, 1)), ElementsAre("2027-02-01 00:00:00"))
        << "one of the two is enough";
}

// Proves: SCH-01
TEST(cron_expression, what_is_refused_names_the_field_and_the_reason)
{
    EXPECT_THAT(why_not("61 * * * *"), AllOf(HasSubstr("minute '61'"), HasSubstr("0 to 59")));
    EXPECT_THAT(why_not("* 24 * * *"), AllOf(HasSubstr("hour '24'"), HasSubstr("0 to 23")));
    EXPECT_THAT(why_not("* * 0 * *"), AllOf(HasSubstr("day of the month"), HasSubstr("1 to 31")));
    EXPECT_THAT(why_not("* * * 13 *"), HasSubstr("month '13'"));
    EXPECT_THAT(why_not("* * * * 8"), AllOf(HasSubstr("day of the week"), HasSubstr("0 to 7")));
    EXPECT_THAT(why_not("5-1 * * * *"), HasSubstr("runs backwards"));
    EXPECT_THAT(why_not("*/0 * * * *"), HasSubstr("step"));
    EXPECT_THAT(why_not("*/99 * * * *"), HasSubstr("step"));
    EXPECT_THAT(why_not("1,,2 * * * *"), HasSubstr("lacks a number"));
    EXPECT_THAT(why_not("x * * * *"), HasSubstr("'x', which is no number"));
    EXPECT_THAT(why_not("* * * foo *"), HasSubstr("no number or name"));
    EXPECT_THAT(why_not("* * * * L"), HasSubstr("say which day"));
    EXPECT_THAT(why_not("* * * * 1#6"), HasSubstr("1 to 5"));
    EXPECT_THAT(why_not("* * L-31 * *"), HasSubstr("L-30"));
    EXPECT_THAT(why_not("* * * *"), HasSubstr("4 fields"));
    EXPECT_THAT(why_not("* * * * * * *"), HasSubstr("7 fields"));
    EXPECT_THAT(why_not(""), HasSubstr("0 fields"));
    EXPECT_THAT(why_not("@reboot"), HasSubstr("'@reboot' is not known"));
    EXPECT_THAT(why_not(std::string(300, '*')), HasSubstr("at most 255 bytes"));
}

TEST(cron_expression, keeps_its_cadence_if_a_time_field_begins_with_a_star)
{
    for (const auto* each : {"* 2 * * *", "*/15 2 * * *", "0 * * * *", "0 */6 * * *", "@hourly"})
        EXPECT_TRUE(cron::parse(each).keeps_cadence()) << each;
    for (const auto* each : {"30 2 * * *", "0-59 2 * * *", "0 1-5 * * *", "@daily", "0 2 */2 * *"})
        EXPECT_FALSE(cron::parse(each).keeps_cadence()) << each;
}

} // namespace
} // namespace posthorn::core
