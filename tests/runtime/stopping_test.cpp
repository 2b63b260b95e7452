// Stopping: what runs may end, nothing new begins, and nobody is waited for without end.
#include "hang_limit.hpp"
#include "runtime/worker_test.hpp"
#include <posthorn/polling.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

namespace posthorn::conformance {
namespace {

class worker_stop : public worker_test {
protected:
    static worker_options with_grace(duration grace)
    {
        auto options = steady(4);
        options.grace = grace;
        return options;
    }

    /// Until the handler is asked to stop.
    static outcome wait_to_be_asked(const delivery_view& which)
    {
        EXPECT_TRUE(eventually([&] { return which.stop_token().stop_requested(); }));
        return retry_in(0s, "asked to stop");
    }
};

// Proves: I21
TEST_P(worker_stop, lets_handlers_end_settles_them_and_begins_nothing_new)
{
    gate door;
    worker one(db(), with_grace(60s));
    one.handle("orders", [&](const delivery_view& which) {
        door.pass();
        EXPECT_FALSE(which.stop_token().stop_requested());
    });
    const auto ids = add_many(3);
    background running(one);
    ASSERT_TRUE(eventually([&] { return door.arrived() == 3; }));
    EXPECT_EQ(one.status().running, 3U);
    running.stop();
    const auto later = add();
    for (int i = 0; i < 20; ++i)
        EXPECT_EQ(look(later).topic, "orders");
    EXPECT_EQ(door.arrived(), 3U);
    EXPECT_FALSE(running.ended());
    door.open();
    const auto report = running.wait();
    EXPECT_EQ(report.done, 3U);
    EXPECT_EQ(report.left_running, 0U);
    EXPECT_THAT(states_of(ids), ::testing::Each(message_state::done));
    EXPECT_EQ(state_of(later), message_state::ready);
    EXPECT_EQ(look(later).attempts, 0);
    EXPECT_EQ(one.status().running, 0U);
}

// Proves: I21
TEST_P(worker_stop, the_second_one_asks_handlers_to_end)
{
    const auto id = add();
    gate begun;
    begun.open();
    worker one(db(), with_grace(1h));
    one.handle("orders", [&](const delivery_view& which) {
        begun.pass();
        return wait_to_be_asked(which);
    });
    background running(one);
    ASSERT_TRUE(eventually([&] { return begun.arrived() == 1; }));
    running.stop();
    EXPECT_FALSE(running.ended());
    running.stop_now();
    EXPECT_EQ(running.wait().retrying, 1U);
    EXPECT_EQ(look(id).last_error, "asked to stop");
}

// Proves: I21
TEST_P(worker_stop, near_the_end_of_the_grace_handlers_are_asked_to_end)
{
    add();
    gate begun;
    begun.open();
    worker one(db(), with_grace(4s));
    one.handle("orders", [&](const delivery_view& which) {
        begun.pass();
        return wait_to_be_asked(which);
    });
    background running(one);
    ASSERT_TRUE(eventually([&] { return begun.arrived() == 1; }));
    const auto report = running.end();
    EXPECT_EQ(report.retrying + report.left_running, 1U);
    EXPECT_EQ(report.retrying, 1U);
}

// Proves: I21
TEST_P(worker_stop, a_handler_that_ignores_it_is_left_behind_and_counted)
{
    const auto id = add();
    const auto door = std::make_shared<gate>(); // with the handler, which outlives its worker
    const auto through = std::make_shared<gate>();
    {
        worker one(db(), with_grace(100ms));
        one.handle("orders", [door, through](const delivery_view&) {
            through->open();
            door->pass();
        });
        background running(one);
        ASSERT_TRUE(through->pass());
        const auto before = std::chrono::steady_clock::now();
        const auto report = running.end();
        EXPECT_LT(std::chrono::steady_clock::now() - before, test::hang_limit);
        EXPECT_EQ(report.left_running, 1U);
        EXPECT_EQ(report.done, 0U);
    }
    door->open();
    EXPECT_EQ(state_of(id), message_state::claimed);
    take_over_by_bob();
    EXPECT_EQ(look(id).worker, "bob");
}

// Proves: I21
TEST_P(worker_stop, an_idle_worker_stops_at_once_and_can_run_again)
{
    auto options = with_grace(1h);
    options.look_at_least_every = 1h;
    worker one(db(), options);
    one.handle("orders", [](const delivery_view&) {});
    for (int i = 0; i < 3; ++i) {
        const auto id = add();
        background running(one);
        EXPECT_TRUE(eventually_done(id));
        EXPECT_EQ(running.end().done, 1U);
    }
}

TEST_P(worker_stop, a_worker_that_runs_cannot_be_run_again)
{
    worker one(db());
    one.handle("orders", [&](const delivery_view&) {
        EXPECT_EQ(thrown_by([&] { one.process_outbox(); }).code(), error_code::invalid_argument);
    });
    add();
    EXPECT_EQ(one.process_outbox().done, 1U);
}

TEST_P(worker_stop, options_that_make_no_sense_are_refused)
{
    const auto refused = [&](const worker_options& options) {
        return thrown_by([&] { worker(db(), options); }).code();
    };
    EXPECT_EQ(refused({.concurrency = 0}), error_code::invalid_argument);
    EXPECT_EQ(refused({.lease = 99ms}), error_code::invalid_argument);
    EXPECT_EQ(refused({.grace = -1s}), error_code::invalid_argument);
    EXPECT_EQ(refused({.look_at_least_every = 0s}), error_code::invalid_argument);
}

// Proves: I21, I5
TEST_P(worker_stop, ends_one_pass_in_the_middle_and_the_report_tells_what_was_done)
{
    const auto ids = add_many(3);
    std::stop_source stop;
    auto options = steady(1);
    worker one(db(), options);
    one.handle("orders", [&](const delivery_view& which) {
        stop.request_stop();
        EXPECT_FALSE(which.stop_token().stop_requested()) << "what runs may end";
    });
    const auto report = one.process_outbox(1'000, stop.get_token());
    EXPECT_EQ(report.done, 1U);
    EXPECT_EQ(report.handled(), 1U);
    EXPECT_THAT(states_of(ids), ::testing::ElementsAre(message_state::done, message_state::ready,
                                                       message_state::ready));
    EXPECT_EQ(look(ids[1]).attempts, 0);
    EXPECT_EQ(one.process_outbox(1'000, stop.get_token()).handled(), 0U) << "before it begins";
    EXPECT_EQ(one.process_outbox().done, 2U);
}

// Proves: I21, I5
TEST_P(worker_stop, ends_a_turn_in_the_middle)
{
    const auto ids = add_many(3);
    std::stop_source stop;
    worker one(db(), steady(1));
    one.handle("orders", [&](const delivery_view&) { stop.request_stop(); });
    EXPECT_EQ(one.run_once(100, stop.get_token()), 1U);
    EXPECT_THAT(states_of(ids), ::testing::ElementsAre(message_state::done, message_state::ready,
                                                       message_state::ready));
    EXPECT_EQ(look(ids[1]).attempts, 0);
    EXPECT_EQ(one.run_once(100, stop.get_token()), 0U) << "before it begins";
    EXPECT_EQ(one.run_once(), 2U);
}

// Proves: I21
TEST_P(worker_stop, at_once_asks_handlers_of_a_pass_a_turn_and_a_poll_to_end)
{
    worker one(db(), with_grace(1h));
    std::atomic<int> begun = 0;
    one.handle("orders", [&](const delivery_view& which) {
        ++begun;
        return wait_to_be_asked(which);
    });
    const std::vector<std::function<std::size_t(const stop_request&)>> ways{
        [&](const stop_request& stop) { return one.process_outbox(10, stop).handled(); },
        [&](const stop_request& stop) { return one.run_once(10, stop); },
        [&](const stop_request& stop) { return poll(one, stop, {.every = 1h}); }};
    for (const auto& way : ways) {
        const auto id = add();
        begun = 0;
        std::size_t handled = 0;
        background running([&](const stop_request& stop) {
            handled = way(stop);
            return run_report{};
        });
        ASSERT_TRUE(eventually([&] { return begun == 1; }));
        running.stop_now();
        running.wait();
        EXPECT_EQ(handled, 1U);
        EXPECT_EQ(look(id).last_error, "asked to stop");
        ASSERT_EQ(cancel(db(), id), cancel_answer::cancelled);
    }
}

// Proves: I21, I5
TEST_P(worker_stop, ends_a_poll_in_the_middle_of_a_turn)
{
    const auto ids = add_many(3);
    std::stop_source stop;
    worker one(db(), steady(1));
    one.handle("orders", [&](const delivery_view&) { stop.request_stop(); });
    EXPECT_EQ(poll(one, stop.get_token(), {.every = 1h}), 1U);
    EXPECT_THAT(states_of(ids), ::testing::ElementsAre(message_state::done, message_state::ready,
                                                       message_state::ready));
    EXPECT_EQ(look(ids[1]).attempts, 0);
}

CONFORMANCE_SUITE(worker_stop);

} // namespace
} // namespace posthorn::conformance
