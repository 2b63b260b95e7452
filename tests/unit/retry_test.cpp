// Retry policies: how long a failed message waits, and when it has failed often enough.
#include <posthorn/retry.hpp>

#include <gtest/gtest.h>

#include <limits>

namespace posthorn {
namespace {

using namespace std::chrono_literals;

constexpr double almost_one = 1.0 - 0x1.0p-53;
constexpr int starts_max = std::numeric_limits<int>::max();

// Proves: OUT-11
TEST(retry_policy, exponential_waits_double_from_two_seconds_up_to_six_hours)
{
    const retry_policy policy = exponential_retry{.jitter = 0};
    auto expected = duration{2s};
    for (int starts = 1; starts <= 24; ++starts) {
        EXPECT_EQ(wait_after(policy, starts, 0.7), expected) << starts;
        expected = std::min<duration>(expected * 2, 6h);
    }
    EXPECT_EQ(expected, 6h);
}

// Proves: OUT-11
TEST(retry_policy, exponential_goes_on_for_more_than_a_day_whatever_chance_says)
{
    const retry_policy policy = exponential_retry{};
    duration longest{};
    duration shortest{};
    for (int starts = 1; may_start_again(policy, starts); ++starts) {
        longest += *wait_after(policy, starts, 0.0);
        shortest += *wait_after(policy, starts, almost_one);
    }
    EXPECT_GT(shortest, 34h);
    EXPECT_LT(longest, 70h);
}

// Proves: OUT-11
TEST(retry_policy, exponential_gives_up_after_twenty_five_starts)
{
    const retry_policy policy = exponential_retry{};
    EXPECT_TRUE(may_start_again(policy, 24));
    EXPECT_FALSE(may_start_again(policy, 25));
    EXPECT_FALSE(may_start_again(policy, 26));
    EXPECT_EQ(wait_after(policy, 25, 0.5), std::nullopt);
    EXPECT_FALSE(may_start_again(exponential_retry{.attempts_max = 1}, 1));
}

TEST(retry_policy, jitter_takes_away_at_most_its_share_of_a_wait)
{
    const retry_policy policy = exponential_retry{.jitter = 0.5};
    EXPECT_EQ(wait_after(policy, 3, 0.0), 8s);
    EXPECT_EQ(wait_after(policy, 3, 0.5), 6s);
    for (int starts = 1; starts < 10; ++starts) {
        const auto longest = *wait_after(policy, starts, 0.0);
        const auto shortest = *wait_after(policy, starts, almost_one);
        EXPECT_GE(shortest, longest / 2);
        EXPECT_LT(shortest, longest);
    }
}

// Proves: OUT-11
TEST(retry_policy, persistent_waits_grow_and_end_in_one_try_a_day_for_ever)
{
    const retry_policy policy = persistent_retry{.jitter = 0};
    duration before{};
    for (int starts = 1; starts < 10; ++starts) {
        const auto wait = wait_after(policy, starts, 0);
        ASSERT_TRUE(wait);
        EXPECT_GT(*wait, before);
        EXPECT_LT(*wait, 24h);
        before = *wait;
    }
    for (const int starts : {10, 11, 1'000, starts_max})
        EXPECT_EQ(wait_after(policy, starts, 0), 24h);
    EXPECT_TRUE(may_start_again(policy, starts_max));
}

TEST(retry_policy, persistent_waits_stay_within_their_jitter)
{
    const retry_policy policy = persistent_retry{};
    for (const int starts : {1, 5, 10, 100}) {
        const auto longest = *wait_after(policy, starts, 0.0);
        EXPECT_GE(*wait_after(policy, starts, almost_one), longest - longest / 10 - 1us);
    }
}

TEST(retry_policy, a_custom_policy_decides_itself)
{
    const retry_policy policy = custom_retry{[](int starts) {
        return starts < 3 ? std::optional<duration>{starts * 1s} : std::nullopt;
    }};
    EXPECT_EQ(wait_after(policy, 1, 0.9), 1s);
    EXPECT_EQ(wait_after(policy, 2, 0.9), 2s);
    EXPECT_EQ(wait_after(policy, 3, 0.9), std::nullopt);
    EXPECT_FALSE(may_start_again(policy, 3));
}

TEST(retry_policy, a_custom_policy_without_a_function_gives_up)
{
    EXPECT_FALSE(may_start_again(custom_retry{}, 1));
}

// Proves: OUT-11
TEST(retry_policy, a_topic_may_have_its_own_policy)
{
    const retry_rules rules{.fallback = exponential_retry{.attempts_max = 2},
                            .by_topic = {{"order.placed", persistent_retry{}}}};
    EXPECT_FALSE(may_start_again(rules.of("order.shipped"), 2));
    EXPECT_FALSE(may_start_again(rules.of("order"), 2));
    EXPECT_FALSE(may_start_again(rules.of("Order.placed"), 2));
    EXPECT_TRUE(may_start_again(rules.of("order.placed"), 2));
}

// Proves: OUT-11
TEST(retry_policy, a_beginning_of_topics_may_have_its_own_policy)
{
    const auto starts = [](int most) { return exponential_retry{.attempts_max = most}; };
    const retry_rules rules{.fallback = starts(1),
                            .by_topic = {{"order.placed", starts(4)},
                                         {"order.*", starts(2)},
                                         {"order.pl*", starts(3)},
                                         {"*", starts(9)}}};
    const auto most_of = [&](std::string_view topic) {
        return std::get<exponential_retry>(rules.of(topic)).attempts_max;
    };
    EXPECT_EQ(most_of("order.placed"), 4) << "its own comes first";
    EXPECT_EQ(most_of("order.plain"), 3) << "then the longest beginning";
    EXPECT_EQ(most_of("order."), 2);
    EXPECT_EQ(most_of("order"), 9);
}

TEST(retry_policy, huge_numbers_saturate_instead_of_overflowing)
{
    const retry_policy endless = exponential_retry{
        .first = 1us, .cap = duration::max(), .attempts_max = starts_max, .jitter = 0};
    EXPECT_EQ(wait_after(endless, starts_max - 1, 0), duration::max());
    EXPECT_EQ(wait_after(endless, 64, 0), duration::max());
    EXPECT_EQ(wait_after(endless, 63, 0), duration{std::int64_t{1} << 62U});

    const retry_policy shaky = exponential_retry{.first = duration::max(),
                                                 .cap = duration::max(),
                                                 .attempts_max = starts_max,
                                                 .jitter = 1.0};
    EXPECT_GE(*wait_after(shaky, 1, almost_one), duration::zero());
}

TEST(retry_policy, a_cap_below_the_first_wait_wins)
{
    EXPECT_EQ(wait_after(exponential_retry{.first = 10s, .cap = 3s, .jitter = 0}, 1, 0), 3s);
}

TEST(retry_policy, a_message_that_never_started_waits_like_after_its_first_start)
{
    EXPECT_EQ(wait_after(exponential_retry{.jitter = 0}, 0, 0), 2s);
}

} // namespace
} // namespace posthorn
