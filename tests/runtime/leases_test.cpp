// Leases while handlers run: they are renewed, and when they are lost the handler hears of it.
#include "runtime/worker_test.hpp"

#include <memory>

namespace posthorn::conformance {
namespace {

class worker_leases : public worker_test {
protected:
    static worker_options with_lease(duration lease)
    {
        auto options = steady(1);
        options.lease = lease;
        return options;
    }

    /// Waits until the handler is asked to stop. False: nobody asked.
    static bool asked_to_stop(const delivery_view& which)
    {
        return eventually([&] { return which.stop_token().stop_requested(); });
    }
};

// Proves: I6, I12
TEST_P(worker_leases, a_handler_may_take_longer_than_many_leases_and_nobody_else_gets_its_message)
{
    const auto id = add();
    gate door;
    auto options = with_lease(10s);
    options.concurrency = 2;
    worker one(db(), options);
    one.handle("quick", [](const delivery_view&) {});
    one.handle("orders", [&](const delivery_view& which) {
        EXPECT_TRUE(door.pass());
        EXPECT_FALSE(which.stop_token().stop_requested());
        EXPECT_FALSE(which.is_lost());
    });
    background running(one);
    ASSERT_TRUE(eventually([&] { return door.arrived() == 1; }));
    for (int i = 0; i < 10; ++i) {
        clock().advance(5s);
        ASSERT_TRUE(eventually([&] { return look(id).lease_until == now() + 10s; }));
        EXPECT_EQ(box().reap_expired().batches, 0U);
        EXPECT_TRUE(box().claim(bob).empty());
        // What is settled now, the worker has settled after it had read the answer to its renewal.
        ASSERT_TRUE(eventually_done(add("quick")));
    }
    door.open();
    EXPECT_TRUE(eventually_done(id));
    EXPECT_EQ(running.end().done, 11U);
    EXPECT_EQ(look(id).attempts, 1);
}

// Proves: I12, I13
TEST_P(worker_leases, who_has_lost_a_lease_is_told_and_says_nothing_that_counts)
{
    const auto id = add();
    gate begun;
    begun.open();
    notes met;
    worker one(db(), with_lease(10s));
    one.handle("orders", [&](const delivery_view& which) {
        begun.pass();
        EXPECT_TRUE(asked_to_stop(which));
        EXPECT_TRUE(which.is_lost());
        EXPECT_TRUE(eventually([&] { return met.size() == 1; }));
        return posthorn::fail("too late");
    });
    background running(one);
    ASSERT_TRUE(eventually([&] { return begun.arrived() == 1; }));
    const auto of_bob = take_over_by_bob();
    met.add("taken");
    EXPECT_TRUE(eventually([&] { return one.status().so_far.lost == 1; }));
    EXPECT_EQ(running.end().lost, 1U);
    EXPECT_EQ(state_of(id), message_state::claimed);
    EXPECT_EQ(look(id).worker, "bob");
    EXPECT_EQ(acknowledge(bob, of_bob), settled_as::done);
}

// Proves: OUT-10
TEST_P(worker_leases, a_handler_whose_time_is_up_is_asked_to_stop_and_what_it_says_counts)
{
    const auto id = add();
    gate begun;
    begun.open();
    worker one(db(), with_lease(60s));
    one.handle("orders",
               [&](const delivery_view& which) {
                   EXPECT_TRUE(which.deadline().has_value());
                   begun.pass();
                   EXPECT_TRUE(asked_to_stop(which));
                   EXPECT_FALSE(which.is_lost());
                   return retry_in(3s, "took too long");
               },
               {.timeout = 5s});
    background running(one);
    ASSERT_TRUE(eventually([&] { return begun.arrived() == 1; }));
    clock().advance(5s);
    EXPECT_TRUE(eventually([&] { return one.status().so_far.retrying == 1; }));
    EXPECT_EQ(look(id).last_error, "took too long");
    EXPECT_EQ(look(id).due_at, now() + 3s);
}

// Proves: I20
TEST_P(worker_leases, a_handler_that_does_not_stop_can_be_abandoned_and_its_message_tried_elsewhere)
{
    const auto id = add();
    gate door;
    worker one(db(), with_lease(10s));
    one.handle("orders", [&](const delivery_view&) { door.pass(); },
               {.timeout = 5s, .abandon_after = 5s});
    background running(one);
    ASSERT_TRUE(eventually([&] { return door.arrived() == 1; }));
    const auto of_bob = take_over_by_bob(1s);
    EXPECT_EQ(of_bob.id, id);
    EXPECT_EQ(look(id).attempts, 2);
    door.open();
    EXPECT_TRUE(eventually([&] { return one.status().so_far.lost == 1; }));
    EXPECT_EQ(acknowledge(bob, of_bob), settled_as::done);
}

// Proves: OUT-10
TEST_P(worker_leases, a_view_outlives_its_handler)
{
    enqueue(db(), {"orders", "the payload"});
    std::shared_ptr<delivery_view> kept;
    pass([&](const delivery_view& which) { kept = std::make_shared<delivery_view>(which); });
    EXPECT_EQ(kept->payload(), "the payload");
    EXPECT_FALSE(kept->is_lost());
}

CONFORMANCE_SUITE(worker_leases);

} // namespace
} // namespace posthorn::conformance
