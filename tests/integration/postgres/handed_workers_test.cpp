// Workers to whom messages are handed over by the commits that enqueue them.
#include "integration/postgres/offers_fixture.hpp"
#include <posthorn/enqueue.hpp>
#include <posthorn/messages.hpp>
#include <posthorn/worker.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <stop_token>
#include <string>
#include <thread>

namespace posthorn::test {

// Proves: OUT-15, I5, I6
TEST_F(postgres_offers, a_worker_that_sleeps_handles_what_it_is_handed)
{
    bell_->disarm();
    std::atomic<std::int64_t> claimed_by = 0;
    std::atomic<int> handled = 0;
    auto eyes = under_test_->connect(system_);
    worker sleepy(store_, {.look_at_least_every = 60s});
    sleepy.handle("orders", [&](const delivery_view&) {
        claimed_by = eyes->count("SELECT xmin FROM " + schema_ + ".batch");
        ++handled;
    });
    std::stop_source over;
    run_report report;
    std::jthread running([&] { report = sleepy.run(over.get_token()); });
    wait_until([&] { return offers() > 0; });
    for (int number = 1; number <= 20; ++number) {
        wait_until([&] { return offers() > 0; });
        admin_->begin();
        const auto own = admin_->count("SELECT pg_current_xact_id()");
        admin_->execute(sql("'orders'"));
        admin_->commit();
        wait_until([&] { return handled == number; });
        EXPECT_EQ(claimed_by, own) << "claimed by the transaction that enqueued it";
        wait_until([&] { return count_messages(store_).done == number; });
    }
    over.request_stop();
    running.join();
    EXPECT_EQ(report.done, 20U);
    EXPECT_EQ(offers(), 0) << "it leaves none behind";
}

// Proves: OUT-20, INB-01
TEST_F(postgres_offers, a_message_that_only_claims_to_come_from_outside_reaches_no_handler)
{
    bell_->disarm();
    std::atomic<int> handled = 0;
    worker sleepy(store_, {.look_at_least_every = 60s});
    sleepy.handle("*", [&](const delivery_view&) { ++handled; });
    std::stop_source over;
    std::jthread running([&] { sleepy.run(over.get_token()); });
    wait_until([&] { return offers() > 0; });
    admin_->begin();
    admin_->execute(sql("'forged'"));
    admin_->execute("UPDATE " + schema_ + ".message SET topic = 'inbox:payments.paid'");
    admin_->commit();
    wait_until([&] { return count_messages(store_).dead == 1; });
    EXPECT_EQ(handled, 0);
    over.request_stop();
}

// Proves: I21, F27
TEST_F(postgres_offers, a_worker_that_stops_gives_back_what_it_is_handed)
{
    bell_->disarm();
    std::atomic<int> handled = 0;
    worker stopping(store_, {.look_at_least_every = 60s});
    stopping.handle("orders", [&](const delivery_view&) { ++handled; });
    std::stop_source over;
    run_report report;
    std::jthread running([&] { report = stopping.run(over.get_token()); });
    wait_until([&] { return offers() > 0; });
    held_commit commit(*this);
    over.request_stop();
    admin_->execute("SELECT pg_sleep(0.05)"); // it waits for us now
    commit.go_on();
    running.join();
    EXPECT_EQ(handled, 0);
    EXPECT_EQ(offers(), 0);
    EXPECT_EQ(count_messages(store_).ready, 1);
    EXPECT_EQ(admin_->count("SELECT max(attempts) FROM " + schema_ + ".message"), 0);
    EXPECT_EQ(report.released, 1U);
}

// A message that runs alone may take its process down: no other may have been started by then.
// Proves: I5, F26
TEST_F(postgres_offers, a_worker_for_one_at_a_time_is_handed_nothing_while_it_is_busy)
{
    bell_->disarm();
    std::atomic<int> begun = 0;
    std::promise<void> go_on;
    auto may_go_on = go_on.get_future().share();
    worker busy(store_, {.concurrency = 1, .look_at_least_every = 60s});
    busy.handle("orders", [&](const delivery_view&) {
        ++begun;
        may_go_on.wait();
    });
    std::stop_source over;
    std::jthread running([&] { busy.run(over.get_token()); });
    wait_until([&] { return offers() == 1; });
    enqueue(store_, {"orders", "claimed"}, {.priority = 1});
    wait_until([&] { return begun == 1; });
    EXPECT_EQ(offers(), 0);
    const auto second = enqueue(store_, {"orders", ""});
    expect_not_started(second.id);
    go_on.set_value();
    wait_until([&] { return count_messages(store_).done == 2; });
    EXPECT_EQ(look(second.id).attempts, 1);
    over.request_stop();
}

// Proves: I5
TEST_F(postgres_offers, a_worker_whose_places_are_taken_meanwhile_gives_back_unharmed)
{
    bell_->disarm();
    constexpr int places = 2;
    std::atomic<int> begun = 0;
    std::promise<void> go_on;
    auto may_go_on = go_on.get_future().share();
    worker busy(store_, {.concurrency = places, .look_at_least_every = 60s});
    busy.handle("orders", [&](const delivery_view&) {
        ++begun;
        may_go_on.wait();
    });
    std::stop_source over;
    std::jthread running([&] { busy.run(over.get_token()); });
    wait_until([&] { return offers() == places; });
    held_commit commit(*this); // has taken a place, as far as it knows
    for (int i = 0; i < places; ++i)
        enqueue(store_, {"orders", ""}, {.priority = 1});
    wait_until([&] { return begun == places; });
    commit.go_on();
    const auto waits =
        "SELECT count(*) FROM " + schema_ + ".message WHERE state = 0 AND attempts = 0";
    wait_until([&] { return admin_->count(waits) == 1; });
    go_on.set_value();
    wait_until([&] { return count_messages(store_).done == places + 1; });
    EXPECT_EQ(admin_->count("SELECT max(attempts) FROM " + schema_ + ".message"), 1);
    over.request_stop();
}

// A commit that takes long, for other reasons, has let the lease run out.
// Proves: I4, I5
TEST_F(postgres_offers, a_worker_begins_nothing_whose_lease_is_over_when_it_comes)
{
    bell_->disarm();
    std::atomic<std::int64_t> claimed_by = 0;
    auto eyes = under_test_->connect(system_);
    worker strict(store_, {.lease = 200ms, .look_at_least_every = 60s});
    strict.handle("orders", [&](const delivery_view&) {
        claimed_by = eyes->count("SELECT max(xmin::text::bigint) FROM " + schema_ + ".batch");
    });
    std::stop_source over;
    std::jthread running([&] { strict.run(over.get_token()); });
    wait_until([&] { return offers() > 0; });
    held_commit commit(*this);
    admin_->execute("SELECT pg_sleep(0.4)");
    commit.go_on();
    wait_until([&] { return count_messages(store_).done == 1; });
    EXPECT_GT(claimed_by, commit.transaction()) << "it was given back, and claimed";
    over.request_stop();
}

// Proves: F18, I5, I6
TEST_F(postgres_offers, a_worker_whose_bell_is_cut_again_and_again_handles_each_message_once)
{
    bell_->disarm();
    constexpr int messages = 200;
    std::atomic<int> handled = 0;
    worker cut_off(store_, {.look_at_least_every = 1s});
    cut_off.handle("orders", [&](const delivery_view&) { ++handled; });
    std::stop_source over;
    std::jthread running([&] { cut_off.run(over.get_token()); });
    for (int number = 0; number < messages; ++number) {
        enqueue(store_, {"orders", ""});
        if (number % 20 == 10) {
            wait_until([&] { return offers() > 0; });
            enqueue(store_, {"orders", ""});
            admin_->count("SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_locks WHERE "
                          "locktype = 'advisory' AND granted AND classid::int8 & 4294967295 = "
                          "hashtext('" +
                          schema_ + ".offer')::int8 & 4294967295");
        }
    }
    constexpr int all = messages + messages / 20;
    wait_until([&] { return count_messages(store_).done == all; });
    EXPECT_EQ(handled, all);
    EXPECT_EQ(admin_->count("SELECT max(attempts) FROM " + schema_ + ".message"), 1);
    over.request_stop();
}

} // namespace posthorn::test
