// What an outcome means for a message, as a table.
#include "core/settlement.hpp"
#include <posthorn/message.hpp>

#include <gtest/gtest.h>

#include <string>

namespace posthorn::core {
namespace {

using namespace std::chrono_literals;

const retry_rules three_starts{.fallback = exponential_retry{.attempts_max = 3, .jitter = 0},
                               .by_topic = {{"once", exponential_retry{.attempts_max = 1}}}};

decision decided(const outcome& said, int starts_before, bool started,
                 std::string_view topic = "order", dead_key on_dead = dead_key::blocks)
{
    return decide(said, {.topic = topic, .starts_before = starts_before, .started = started},
                  three_starts.of(topic), on_dead, 0.5);
}

TEST(settlement, done_is_done_whatever_happened_before)
{
    for (const int starts_before : {0, 2, 9})
        for (const bool started : {false, true}) {
            const auto what = decided(done(), starts_before, started);
            EXPECT_EQ(what.become, settled_as::done);
            EXPECT_EQ(what.error, "");
            EXPECT_FALSE(what.blocks_key);
        }
}

// Proves: OUT-11
TEST(settlement, a_permanent_error_ends_a_message_at_its_first_attempt)
{
    const auto what = decided(fail("no such customer"), 0, true);
    EXPECT_EQ(what.become, settled_as::dead);
    EXPECT_EQ(what.error, "no such customer");
    EXPECT_TRUE(what.blocks_key);
}

TEST(settlement, a_failure_without_a_reason_gets_one)
{
    EXPECT_NE(decided(fail(""), 0, true).error, "");
}

TEST(settlement, no_retry_waits_longer_than_a_hundred_years)
{
    EXPECT_EQ(decided(retry_in(duration::max()), 0, true).delay, limits::span_max);
}

// Proves: OUT-11, I5
TEST(settlement, what_is_postponed_is_released_however_often_it_has_started)
{
    for (const int starts_before : {0, 2, 9})
        for (const bool started : {false, true}) {
            const auto what = decided(postpone(7s), starts_before, started);
            EXPECT_EQ(what.become, settled_as::released);
            EXPECT_EQ(what.delay, 7s);
            EXPECT_EQ(what.error, "");
        }
    EXPECT_EQ(decided({.verdict = outcome::kind::postpone}, 0, true).delay, 0s);
    EXPECT_EQ(decided(postpone(-1s), 0, true).delay, 0s);
    EXPECT_EQ(decided(postpone(duration::max()), 0, true).delay, limits::span_max);
}

// Proves: OUT-15
TEST(settlement, what_is_parked_keeps_its_reason)
{
    for (const auto why : {park_reason::no_handler, park_reason::paused, park_reason::at_limit})
        for (const int starts_before : {0, 9}) {
            const auto what = decided(park(why), starts_before, true, "once");
            EXPECT_EQ(what.become, settled_as::parked);
            EXPECT_EQ(what.reason, why);
            EXPECT_EQ(what.error, "");
        }
}

// Proves: OUT-06
TEST(settlement, a_dead_message_blocks_its_key_only_where_that_is_configured)
{
    EXPECT_TRUE(decided(fail("x"), 0, true, "order", dead_key::blocks).blocks_key);
    EXPECT_FALSE(decided(fail("x"), 0, true, "order", dead_key::skips).blocks_key);
    EXPECT_TRUE(decided(retry("x"), 2, true, "order", dead_key::blocks).blocks_key);
    EXPECT_FALSE(decided(retry("x"), 2, true, "order", dead_key::skips).blocks_key);
}

// Proves: OUT-11, I5
TEST(settlement, a_retry_of_a_message_that_never_started_releases_it_unharmed)
{
    for (const auto& said : {retry("x"), retry_in(1h, "x"), retry()}) {
        const auto what = decided(said, 2, false);
        EXPECT_EQ(what.become, settled_as::released);
        EXPECT_EQ(what.error, "");
    }
}

// Proves: OUT-11
TEST(settlement, a_retry_waits_as_the_policy_says)
{
    const auto first = decided(retry("x"), 0, true);
    EXPECT_EQ(first.become, settled_as::retrying);
    EXPECT_EQ(first.delay, 2s);
    EXPECT_EQ(first.error, "x");
    EXPECT_EQ(decided(retry("x"), 1, true).delay, 4s);
}

TEST(settlement, a_retry_with_a_delay_waits_as_long_as_it_says)
{
    EXPECT_EQ(decided(retry_in(90s), 0, true).delay, 90s);
    EXPECT_EQ(decided(retry_in(0s), 0, true).delay, 0s);
    EXPECT_EQ(decided(retry_in(-5s), 0, true).delay, 0s);
}

// Proves: OUT-11, I5
TEST(settlement, a_retry_after_the_last_start_ends_the_message)
{
    const auto silent = decided(retry(), 2, true);
    EXPECT_EQ(silent.become, settled_as::dead);
    EXPECT_EQ(silent.error, "gave up after 3 attempts");
    const auto with_reason = decided(retry_in(1s, "timed out"), 2, true);
    EXPECT_EQ(with_reason.become, settled_as::dead);
    EXPECT_EQ(with_reason.error, "timed out");
    EXPECT_EQ(decided(retry("x"), 0, true, "once").become, settled_as::dead);
}

// Proves: OUT-12
TEST(settlement, errors_are_cut_at_two_thousand_bytes_and_never_inside_a_character)
{
    EXPECT_EQ(decided(fail(std::string(3'000, 'x')), 0, true).error.size(), 2'000U);
    std::string umlauts = "x";
    for (int i = 0; i < 1'500; ++i)
        umlauts += "ü";
    const auto cut = decided(retry(umlauts), 0, true).error;
    EXPECT_EQ(cut.size(), 1'999U);
    EXPECT_TRUE(cut.ends_with("ü"));
}

// Proves: I5
TEST(settlement, an_absent_worker_costs_an_attempt_only_where_a_handler_had_started)
{
    const auto started = decide_for_absent({.topic = "order", .starts_before = 0, .started = true},
                                           three_starts.of("order"), dead_key::blocks, 0);
    EXPECT_EQ(started.become, settled_as::retrying);
    EXPECT_NE(started.error.find("lease ran out"), std::string::npos);

    const auto last = decide_for_absent({.topic = "order", .starts_before = 2, .started = true},
                                        three_starts.of("order"), dead_key::blocks, 0);
    EXPECT_EQ(last.become, settled_as::dead);

    const auto waiting = decide_for_absent({.topic = "order", .starts_before = 2, .started = false},
                                           three_starts.of("order"), dead_key::blocks, 0);
    EXPECT_EQ(waiting.become, settled_as::released);
}

} // namespace
} // namespace posthorn::core
