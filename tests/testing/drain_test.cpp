// Workers inside tests: everything that would take hours happens now.
#include <posthorn/posthorn.hpp>
#include <posthorn/testing/testing.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

namespace posthorn::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

class draining : public ::testing::Test {
protected:
    [[nodiscard]] duration since_start() { return db.clock().now() - start; }

    store_for_tests db;
    timestamp start = db.clock().now();
};

TEST_F(draining, all_that_is_due_is_handled_and_settled)
{
    for (int i = 0; i < 100; ++i)
        enqueue(db, {"mail", std::to_string(i)});
    enqueue(db, {"mail", "later"}, {.delay = 1h});
    std::atomic<int> calls = 0;
    worker who(db);
    who.handle("mail", [&](const delivery_view&) { ++calls; });

    EXPECT_EQ(drain(who).done, 100U);
    EXPECT_EQ(calls, 100);
    EXPECT_TRUE(are_in_state(db, message_state::ready, 1));
    EXPECT_EQ(since_start(), 0s);
}

// Proves: OUT-16
TEST_F(draining, what_handlers_enqueue_is_handled_too)
{
    enqueue(db, {"countdown", "40"});
    worker who(db);
    who.handle("countdown", [this](const delivery_view& which) {
        if (const int left = std::stoi(which.payload()); left > 0)
            enqueue(db, {"countdown", std::to_string(left - 1)});
    });
    EXPECT_EQ(drain(who).done, 41U);
    EXPECT_TRUE(everything_is_done(db));
}

TEST_F(draining, an_ordering_key_is_worked_off_in_its_order)
{
    std::vector<std::string> expected;
    for (int i = 0; i < 30; ++i) {
        expected.push_back(std::to_string(i));
        enqueue(db, {"orders", expected.back()}, {.ordering_key = "ada"});
    }
    const recorder seen;
    worker who(db, seen.watching());
    who.handle("orders", [](const delivery_view&) {});
    EXPECT_EQ(drain(who).done, 30U);
    EXPECT_TRUE(seen.was_handled("orders", expected));
}

// Proves: OUT-16
TEST_F(draining, one_pass_takes_back_what_a_dead_worker_held)
{
    enqueue(db, {"mail", "x"});
    outbox other(db);
    ASSERT_EQ(other.claim({.token = "dead", .worker = "dead"}, {.lease = 30s}).size(), 1U);
    db.clock().advance(31s);
    worker who(db);
    who.handle("mail", [](const delivery_view&) {});

    EXPECT_EQ(drain(who).done, 0U); // taken back: it waits as the retry policy says
    EXPECT_TRUE(are_in_state(db, message_state::ready, 1));
    EXPECT_EQ(drain_for(who, db, 10s).done, 1U);
}

// Proves: OPS-07
TEST_F(draining, retries_run_at_their_times_without_sleeping)
{
    const exponential_retry policy{.first = 2s, .cap = 1h, .attempts_max = 10, .jitter = 0.0};
    enqueue(db, {"mail", "x"});
    std::vector<duration> tries;
    worker who(db, {.concurrency = 1, .outbox = {.retries = {.fallback = policy}}});
    who.handle("mail", [&](const delivery_view& which) {
        tries.push_back(since_start());
        return which.attempt() < 5 ? retry("not yet") : done();
    });

    const auto report = drain_for(who, db, 1min);
    EXPECT_EQ(report.retrying, 4U);
    EXPECT_EQ(report.done, 1U);
    EXPECT_THAT(tries, ElementsAre(0s, 2s, 6s, 14s, 30s));
    EXPECT_EQ(since_start(), 1min);
}

TEST_F(draining, time_ends_where_it_was_told_to)
{
    enqueue(db, {"mail", "in time"}, {.delay = 59s});
    enqueue(db, {"mail", "too late"}, {.delay = 61s});
    const recorder seen;
    worker who(db, seen.watching());
    who.handle("mail", [](const delivery_view&) {});

    drain_for(who, db, 1min);
    EXPECT_TRUE(seen.was_handled("mail", {"in time"}));
    EXPECT_EQ(since_start(), 1min);
}

TEST_F(draining, the_end_is_when_nothing_will_become_due)
{
    enqueue(db, {"mail", "in a week"}, {.delay = 24h * 7});
    enqueue(db, {"nobody.cares", "x"}, {.expires_after = 2h});
    const recorder seen;
    worker who(db, seen.watching());
    who.handle("mail", [](const delivery_view&) {});

    EXPECT_EQ(drain_to_the_end(who, db).done, 1U);
    EXPECT_TRUE(seen.was_handled("mail", {"in a week"}));
    EXPECT_TRUE(are_in_state(db, message_state::expired, 1));
    EXPECT_EQ(since_start(), 24h * 7);
}

TEST_F(draining, a_message_without_end_is_reported)
{
    enqueue(db, {"mail", "x"});
    worker who(db, {.outbox = {.retries = {.fallback = persistent_retry{}}}});
    who.handle("mail", [](const delivery_view&) { return retry("never"); });
    EXPECT_THROW(drain_to_the_end(who, db, 24h * 10), error);
    EXPECT_TRUE(are_in_state(db, message_state::ready, 1));
}

TEST_F(draining, a_pause_does_not_stop_the_clock)
{
    enqueue(db, {"mail", "x"});
    pause(db);
    worker who(db);
    who.handle("mail", [](const delivery_view&) {});
    EXPECT_EQ(drain_for(who, db, 24h).handled(), 0U);
    EXPECT_EQ(since_start(), 24h);
    resume(db);
    EXPECT_EQ(drain(who).done, 1U);
}

TEST_F(draining, what_is_parked_waits_for_its_handler)
{
    enqueue(db, {"mail", "x"});
    worker stranger(db);
    EXPECT_EQ(drain(stranger).parked, 1U);
    EXPECT_FALSE(nothing_is_parked(db));

    worker who(db);
    who.handle("mail", [](const delivery_view&) {});
    EXPECT_EQ(drain(who).done, 1U);
    EXPECT_TRUE(nothing_is_parked(db));
}

} // namespace
} // namespace posthorn::testing
