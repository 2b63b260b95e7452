// When an endpoint is left alone, and for how long.
#include "transport/webhook/endpoint_health.hpp"
#include <posthorn/testing/seeded_random.hpp>

#include <gtest/gtest.h>

namespace posthorn::transports {
namespace {

using namespace std::chrono_literals;
using kind = endpoint_health::permission::kind;

class endpoint_healths : public ::testing::Test {
protected:
    std::optional<duration> end(exchange how, std::optional<duration> retry_after = {},
                                bool trial = false)
    {
        return health.ended(trial, how, retry_after, now, options, random);
    }
    std::optional<duration> fail_a_trial()
    {
        const auto may = health.ask(now);
        EXPECT_TRUE(may.is_trial);
        health.began(may);
        return end(exchange::failed, {}, true);
    }

    breaker_options options{.failures = 3, .pause_min = 1s, .pause_max = 10s};
    testing::seeded_random random{5};
    monotonic_time now{1h};
    endpoint_health health;
};

// Proves: TRN-02
TEST_F(endpoint_healths, only_failures_in_a_row_count)
{
    for (int i = 0; i < 10; ++i) {
        EXPECT_FALSE(end(exchange::failed));
        EXPECT_FALSE(end(exchange::failed));
        EXPECT_FALSE(end(exchange::cut));
        EXPECT_FALSE(health.is_well());
        EXPECT_FALSE(end(exchange::good));
        EXPECT_TRUE(health.is_well());
    }
    EXPECT_EQ(health.ask(now).what, kind::go);
}

// Proves: TRN-02
TEST_F(endpoint_healths, a_pause_grows_with_each_failed_trial_and_has_a_limit)
{
    EXPECT_FALSE(end(exchange::failed));
    EXPECT_FALSE(end(exchange::failed));
    auto pause = end(exchange::failed);
    for (const duration most : {1s, 2s, 4s, 8s, 10s, 10s}) {
        ASSERT_TRUE(pause);
        EXPECT_LE(*pause, most);
        EXPECT_GE(*pause, most / 2);
        EXPECT_EQ(health.ask(now).what, kind::left);
        EXPECT_EQ(health.ask(now).for_how_long, *pause);
        EXPECT_FALSE(end(exchange::failed)) << "what was under way says nothing new";
        now += *pause;
        pause = fail_a_trial();
    }
}

// Proves: TRN-02
TEST_F(endpoint_healths, after_the_pause_one_message_tries_it_and_the_others_wait)
{
    for (int i = 0; i < 3; ++i)
        (void)end(exchange::failed);
    now += 1s;
    const auto may = health.ask(now);
    EXPECT_EQ(may.what, kind::go);
    EXPECT_TRUE(may.is_trial);
    health.began(may);
    EXPECT_EQ(health.ask(now).what, kind::wait);
    (void)end(exchange::cut, {}, true);
    EXPECT_TRUE(health.ask(now).is_trial) << "nobody knows: another one tries";
    health.began(health.ask(now));
    (void)end(exchange::good, {}, true);
    EXPECT_TRUE(health.is_well());
    EXPECT_FALSE(health.ask(now).is_trial);
    for (int i = 0; i < 2; ++i)
        EXPECT_FALSE(end(exchange::failed));
    EXPECT_LE(end(exchange::failed).value(), 1s) << "it begins anew";
}

// Proves: TRN-02
TEST_F(endpoint_healths, who_asks_for_a_rest_gets_it)
{
    EXPECT_FALSE(end(exchange::good, 30s));
    EXPECT_EQ(health.ask(now).what, kind::resting);
    EXPECT_EQ(health.ask(now).for_how_long, 30s);
    EXPECT_FALSE(health.is_well());
    now += 30s;
    EXPECT_EQ(health.ask(now).what, kind::go);
    (void)end(exchange::good);
    EXPECT_TRUE(health.is_well());
    (void)end(exchange::failed);
    (void)end(exchange::failed);
    EXPECT_GE(end(exchange::failed, 1min).value(), 1min) << "our pause is not shorter than theirs";
}

TEST_F(endpoint_healths, nothing_is_lost_with_one_that_is_well_or_whose_pause_is_over)
{
    EXPECT_TRUE(health.may_be_forgotten(now));
    for (int i = 0; i < 3; ++i)
        (void)end(exchange::failed);
    EXPECT_FALSE(health.may_be_forgotten(now));
    now += 1s;
    EXPECT_TRUE(health.may_be_forgotten(now));
    health.began(health.ask(now));
    EXPECT_FALSE(health.may_be_forgotten(now));
}

} // namespace
} // namespace posthorn::transports
