// Which instants run is a decision without clocks and tables: any turn accounts for each instant
// that has come exactly once, whatever the policy.
#include "core/job.hpp"
#include <posthorn/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace posthorn::core {
namespace {

using namespace std::chrono_literals;
using ::testing::IsEmpty;

const timestamp epoch{1'800'000'000s};

// Instants every `step` seconds, and none in every third hour.
std::optional<timestamp> next_instant(timestamp after, std::int64_t step)
{
    auto count = (after - epoch) / (1s * step) + 1;
    while ((count * step / 3'600) % 3 == 2)
        ++count;
    return epoch + 1s * (count * step);
}

struct accounts {
    std::int64_t covered = 0;
    std::int64_t ran = 0;
};

// Plans turn after turn, as ticks do, until nothing has come any more.
accounts deal_with(const job_options& how, job_turn turn, std::int64_t step)
{
    accounts result;
    const auto after = [&](timestamp when) { return next_instant(when, step); };
    auto expected = turn.next;
    while (turn.next <= turn.now) {
        const auto plan = plan_runs(how, turn, after);
        for (const auto& each : plan.what) {
            EXPECT_EQ(each.from, expected) << "a gap, or an instant that comes twice";
            for (std::int64_t i = 1; i < each.covers; ++i)
                expected = *after(expected);
            EXPECT_EQ(each.nominal, expected);
            expected = *after(expected);
            result.covered += each.covers;
            result.ran += each.runs ? 1 : 0;
            EXPECT_EQ(each.runs, each.reason.empty());
            if (each.runs && turn.skip_before) {
                EXPECT_GE(each.from, *turn.skip_before);
            }
        }
        EXPECT_EQ(plan.next, expected);
        EXPECT_GT(*plan.next, turn.next) << "no progress";
        turn.next = *plan.next;
    }
    return result;
}

// Proves: SCH-02, I16
TEST(job_plan, accounts_for_each_instant_once_under_every_policy)
{
    std::mt19937 draw(7);
    for (int i = 0; i < 300; ++i) {
        const auto step = static_cast<std::int64_t>(1 + draw() % 600);
        job_options how;
        how.on_misfire = static_cast<misfire>(draw() % 3);
        how.late_after = 1s * (draw() % 120);
        how.catch_up_max = 1 + draw() % 50;
        job_turn turn{.next = *next_instant(epoch + 1s * (draw() % 10'000), step),
                      .skip_before = {},
                      .now = {}};
        turn.now = turn.next + 1s * (draw() % 40'000);
        if (draw() % 3 == 0)
            turn.skip_before = turn.next + 1s * (draw() % 40'000);
        SCOPED_TRACE("round " + std::to_string(i));
        const auto counts = deal_with(how, turn, step);
        EXPECT_GE(counts.covered, 1);
        if (how.on_misfire == misfire::catch_up) {
            EXPECT_LE(counts.ran, static_cast<std::int64_t>(how.catch_up_max) +
                                      how.late_after / (1s * step) + 1);
        }
    }
}

// Proves: SCH-02
TEST(job_plan, what_has_not_come_is_not_planned)
{
    const auto plan = plan_runs({}, {.next = epoch + 1s, .skip_before = {}, .now = epoch},
                                [](timestamp) { return std::nullopt; });
    EXPECT_THAT(plan.what, IsEmpty());
    EXPECT_EQ(plan.next, epoch + 1s);
}

// Proves: SCH-01
TEST(job_definition, options_come_back_as_they_were)
{
    job_options how{.run = {"report", "x"},
                    .cron = "30 2 * * *",
                    .zone = "Europe/Vienna",
                    .on_misfire = misfire::catch_up,
                    .late_after = 5min,
                    .catch_up_max = 7,
                    .on_overlap = overlap::queue,
                    .waiting_max = 9,
                    .jitter = 3s,
                    .priority = 4,
                    .ordering_key = "k",
                    .headers = {{"lang", "de"}}};
    const auto back = options_from(definition_of(how));
    EXPECT_EQ(definition_of(back), definition_of(how));
    EXPECT_EQ(back.zone, "Europe/Vienna");
    EXPECT_EQ(back.headers, how.headers);
    EXPECT_EQ(back.on_overlap, overlap::queue);
    const job_options often{.run = {"poll", ""}, .every = 90s, .anchor = epoch};
    EXPECT_EQ(options_from(definition_of(often)).every, 90s);
    EXPECT_EQ(options_from(definition_of(often)).anchor, epoch);
    EXPECT_THROW((void)options_from("not JSON"), error);
}

TEST(job_definition, instants_are_written_and_read_alike)
{
    for (const auto when : {epoch, epoch + 1us, epoch + 999'999us, timestamp{}})
        EXPECT_EQ(parse_iso(iso_text(when)), when);
    EXPECT_EQ(iso_text(epoch), "2027-01-15T08:00:00Z");
    for (const auto* wrong :
         {"", "2027", "2027-01-15", "2027-13-01T00:00:00Z", "2027-01-15T25:00:00Z",
          "2027-01-15T08:00:00", "2027-01-15T08:00:00.5Z", "2027-02-30T00:00:00Z"})
        EXPECT_FALSE(parse_iso(wrong)) << wrong;
}

} // namespace
} // namespace posthorn::core
