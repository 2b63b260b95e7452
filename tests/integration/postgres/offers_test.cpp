// Messages that are handed over: the commit that enqueues one claims and starts it for a worker
// that sleeps. Whatever goes wrong between them, it is delivered as if it had been claimed.
#include "hang_limit.hpp"
#include "integration/postgres/server_fixture.hpp"
#include "store/contract/backend.hpp"
#include <posthorn/enqueue.hpp>
#include <posthorn/joins.hpp>
#include <posthorn/messages.hpp>
#include <posthorn/outbox.hpp>
#include <posthorn/worker.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace posthorn::test {
namespace {

using namespace std::chrono_literals;

constexpr duration enough = hang_limit;

class postgres_offers : public server_fixture {
protected:
    postgres_offers() { lie_down(*bell_); }

    /// Armed, and nobody is left whose end it would look after.
    void lie_down(contract::bell& which)
    {
        which.arm();
        wait_for_strangers();
        wait_until([&] {
            which.arm();
            return !which.wait(100ms);
        });
    }

    [[nodiscard]] contract::place_offer terms() const
    {
        return {.owner = who_.token,
                .worker = who_.worker,
                .lease = 30s,
                .topics = {"orders"},
                .prefixes = {"mail."}};
    }

    void offer(std::size_t places = 1) { bell_->offer(terms(), places); }

    std::vector<contract::handed_batch> handed(const std::vector<fence>& held = {})
    {
        return bell_->handed_over([&] { return held; });
    }

    /// The one message that was handed over.
    contract::handed_batch take_one()
    {
        auto all = handed();
        if (all.size() != 1 || all.front().messages.size() != 1)
            throw std::runtime_error(std::to_string(all.size()) + " batches were handed over");
        return std::move(all.front());
    }

    std::string sql(const std::string& arguments) const
    {
        return "SELECT " + schema_ + ".enqueue(" + arguments + ")";
    }

    std::int64_t offers() { return admin_->count("SELECT count(*) FROM " + schema_ + ".offer"); }

    message_record look(message_id id) { return *find_message(store_, id); }

    void expect_not_started(message_id id)
    {
        EXPECT_EQ(look(id).state, message_state::ready);
        EXPECT_EQ(look(id).attempts, 0);
    }

    void end_sleeper()
    {
        ASSERT_EQ(
            admin_->count("SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_locks WHERE "
                          "locktype = 'advisory' AND granted AND classid::int8 & 4294967295 "
                          "= hashtext('" +
                          schema_ + ".offer')::int8 & 4294967295"),
            1);
    }

    store store_ = open_with("");
    outbox queue_{store_};
    owner who_ = owner::create("alice", *system_.random);
    std::unique_ptr<contract::bell> bell_ = store_.backend().make_bell();
};

} // namespace

// Proves: OUT-03, OUT-12, I4, I5, I17
TEST_F(postgres_offers, the_commit_that_enqueues_a_message_claims_and_starts_it)
{
    enqueue(store_, {"orders", "before"});
    const auto before = queue_.claim(who_, {.limit = 1});
    EXPECT_TRUE(bell_->wait(enough)) << "nothing was offered";
    offer();
    const auto sent = enqueue(store_, {"orders", "hello"},
                              {.correlation_id = "c", .headers = {{"shape", "round"}}});
    EXPECT_EQ(look(sent.id).state, message_state::claimed) << "before anybody has heard of it";
    EXPECT_EQ(look(sent.id).attempts, 1);
    EXPECT_FALSE(bell_->wait(enough)) << "nobody needs to claim";

    admin_->execute("SELECT pg_sleep(0.05)");
    const auto got = take_one();
    const auto& message = got.messages.deliveries.front();
    EXPECT_EQ(message.receipt.id, sent.id);
    EXPECT_EQ(message.payload, "hello");
    EXPECT_EQ(message.topic, "orders");
    EXPECT_EQ(message.correlation_id, "c");
    EXPECT_EQ(message.headers.at("shape"), "round");
    EXPECT_EQ(message.attempt, 1);
    EXPECT_TRUE(message.started);
    EXPECT_GT(got.messages.fence, before.fence);
    EXPECT_LE(got.since, system_.clock->monotonic() - 50ms) << "the lease has begun already";
    EXPECT_EQ(got.messages.lease_until, got.messages.claimed_at + 30s);
    EXPECT_EQ(look(sent.id).worker, "alice");
    EXPECT_GE(*look(sent.id).started_at, look(sent.id).created_at);

    const auto other = owner::create("bob", *system_.random);
    EXPECT_TRUE(queue_.claim(other, {.limit = 10}).empty());
    EXPECT_EQ(queue_.acknowledge(other, {&message.receipt, 1}).answers.front(), settled_as::lost);
    EXPECT_TRUE(queue_.renew(who_, got.messages.fence, 30s));
    EXPECT_EQ(queue_.acknowledge(who_, {&message.receipt, 1}).answers.front(), settled_as::done);
    EXPECT_TRUE(handed().empty()) << "once";
    EXPECT_EQ(offers(), 0);
}

// Proves: I1, OUT-01
TEST_F(postgres_offers, in_a_transaction_it_happens_at_the_commit_or_not_at_all)
{
    offer();
    {
        auto tx = store_.begin();
        enqueue(tx, {"orders", "never"});
        tx.rollback();
    }
    EXPECT_EQ(offers(), 1);
    auto tx = store_.begin();
    const auto sent = enqueue(tx, {"orders", "later"});
    EXPECT_FALSE(bell_->wait(20ms));
    EXPECT_TRUE(handed().empty());
    EXPECT_EQ(offers(), 1) << "who has not committed keeps nothing from others";
    tx.commit();
    EXPECT_FALSE(bell_->wait(enough));
    EXPECT_EQ(take_one().messages.deliveries.front().receipt.id, sent.id);
}

// Proves: OUT-20
TEST_F(postgres_offers, who_may_do_nothing_but_enqueue_by_sql_can_hand_over)
{
    const scratch_role guest(*admin_);
    admin_->execute("GRANT USAGE ON SCHEMA " + schema_ + " TO " + guest.name() +
                    "; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA " + schema_ + " TO " +
                    guest.name());
    offer(2);
    for (const std::string arguments : {"'orders'", "'mail.welcome', payload => 'text'"}) {
        admin_->execute("SET ROLE " + guest.name());
        admin_->execute(sql(arguments));
        admin_->execute("RESET ROLE");
        EXPECT_FALSE(bell_->wait(enough));
        EXPECT_EQ(handed().size(), 1U) << arguments;
    }
}

// Proves: OUT-20
TEST_F(postgres_offers, who_may_do_nothing_but_enqueue_can_use_them_for_nothing_else)
{
    const scratch_role guest(*admin_);
    admin_->execute("GRANT USAGE ON SCHEMA " + schema_ + " TO " + guest.name());
    admin_->begin();
    admin_->execute("SET LOCAL ROLE " + guest.name());
    admin_->execute("SELECT " + schema_ + ".hand_over_at_commit(n) FROM generate_series(1, 99) n");
    admin_->execute("RESET ROLE");
    EXPECT_EQ(admin_->count("SELECT count(*) FROM " + schema_ + ".handing"), 0)
        << "of numbers that are still to come";
    admin_->execute("SET LOCAL ROLE " + guest.name() + "; CREATE TEMP TABLE mine (seq bigint)");
    EXPECT_THROW(admin_->execute("CREATE TRIGGER mine AFTER INSERT ON mine FOR EACH ROW EXECUTE "
                                 "FUNCTION " +
                                 schema_ + ".hand_over()"),
                 std::exception);
    admin_->rollback();
}

TEST_F(postgres_offers, what_nobody_can_take_rings)
{
    offer();
    const auto rings = [&](const enqueued& sent) {
        EXPECT_TRUE(bell_->wait(enough));
        EXPECT_TRUE(handed().empty());
        EXPECT_NE(look(sent.id).state, message_state::claimed);
        bell_->arm();
        EXPECT_EQ(offers(), 1);
    };
    const auto send = [&](std::string topic, const enqueue_options& how = {}) {
        return enqueue(store_, {std::move(topic), ""}, how);
    };
    rings(send("invoices"));
    rings(send("order"));
    rings(send("mail"));
    rings(send("orders", {.ordering_key = "key"}));
    rings(send("orders", {.priority = 1}));
    rings(send("orders", {.delay = 1h}));
    rings(send("orders", {.expires_after = 1h}));
    rings(send("orders", {.dedup_key = "once"}));
    rings(enqueue(store_, std::vector<outgoing>(2, {{"orders", ""}})).front());

    send("orders");
    EXPECT_FALSE(bell_->wait(enough));
    EXPECT_EQ(handed().size(), 1U);
    EXPECT_EQ(offers(), 0);
    const auto one_too_many = send("orders");
    EXPECT_TRUE(bell_->wait(enough));
    expect_not_started(one_too_many.id);
}

// Proves: OUT-09, I18, JOIN-022
TEST_F(postgres_offers, what_has_changed_before_the_commit_is_not_handed_over)
{
    offer();
    auto tx = store_.begin();
    const auto called_off = enqueue(tx, {"orders", ""});
    EXPECT_EQ(cancel(tx, called_off.id), cancel_answer::cancelled);
    tx.commit();
    EXPECT_EQ(look(called_off.id).state, message_state::cancelled);
    EXPECT_EQ(offers(), 1);

    auto second = store_.begin();
    const auto join = open_join(second, {.expected = 1});
    const auto member = enqueue(second, {"orders", ""});
    EXPECT_EQ(attach(second, join, member.id), attach_answer::attached);
    second.commit();
    expect_not_started(member.id);
    EXPECT_TRUE(bell_->wait(enough)) << "both have rung";
    EXPECT_EQ(offers(), 1);
}

// An offer that is younger than the transaction's view, or was taken since, would make it fail.
TEST_F(postgres_offers, a_transaction_with_a_view_of_its_own_only_rings)
{
    for (const std::string level : {"REPEATABLE READ", "SERIALIZABLE"}) {
        admin_->execute("BEGIN ISOLATION LEVEL " + level);
        admin_->execute("SELECT count(*) FROM " + schema_ + ".message");
        offer();
        admin_->execute(sql("'orders'"));
        admin_->execute("COMMIT");
        EXPECT_TRUE(bell_->wait(enough)) << level;
        EXPECT_TRUE(handed().empty());
        EXPECT_EQ(offers(), 1);
        bell_->arm();
    }
}

// Proves: F1, I5
TEST_F(postgres_offers, nothing_is_handed_to_a_session_that_has_ended)
{
    offer(3);
    end_sleeper();
    EXPECT_EQ(offers(), 3) << "they outlive it";
    const auto sent = enqueue(store_, {"orders", ""});
    expect_not_started(sent.id);
    const auto another = store_.backend().make_bell();
    another->arm();
    another->offer(terms(), 1);
    EXPECT_EQ(offers(), 1) << "whoever comes next sweeps";
}

// Proves: F18, I5
TEST_F(postgres_offers, what_was_handed_over_unheard_is_found_when_the_connection_is_back)
{
    offer(2);
    const auto sent = enqueue(store_, {"orders", ""});
    ASSERT_EQ(look(sent.id).state, message_state::claimed);
    end_sleeper();
    std::vector<contract::handed_batch> got;
    wait_until([&] {
        (void)bell_->wait(10ms);
        got = handed();
        return !got.empty();
    });
    ASSERT_EQ(got.size(), 1U);
    const auto& receipt = got.front().messages.deliveries.front().receipt;
    EXPECT_EQ(receipt.id, sent.id);
    EXPECT_TRUE(handed().empty()) << "it asks once";
    EXPECT_EQ(queue_.acknowledge(who_, {&receipt, 1}).answers.front(), settled_as::done);
}

// Proves: I5
TEST_F(postgres_offers, a_commit_that_is_still_under_way_when_the_connection_is_back_is_waited_for)
{
    offer();
    admin_->begin();
    admin_->execute("SET CONSTRAINTS ALL IMMEDIATE");
    admin_->execute(sql("'orders'")); // has taken the offer, and is not committed yet
    end_sleeper();
    auto asked = std::async(std::launch::async, [&] {
        std::vector<contract::handed_batch> got;
        wait_until([&] {
            (void)bell_->wait(10ms);
            got = handed();
            return !got.empty();
        });
        return got.size();
    });
    EXPECT_EQ(asked.wait_for(1500ms), std::future_status::timeout) << "nothing is there to see";
    admin_->commit();
    EXPECT_EQ(asked.get(), 1U);
}

// Proves: I4
TEST_F(postgres_offers, what_the_sleeper_holds_already_is_not_handed_over_again)
{
    enqueue(store_, {"orders", ""}, {.priority = 1});
    enqueue(store_, {"orders", "claimed"});
    const auto first = queue_.claim(who_, {.limit = 1});
    const auto second = queue_.claim(who_, {.limit = 1});
    EXPECT_TRUE(bell_->wait(enough));
    offer(2);
    enqueue(store_, {"orders", "handed"});
    EXPECT_FALSE(bell_->wait(enough));
    const auto third = take_one();
    end_sleeper();
    EXPECT_TRUE(bell_->wait(enough));
    EXPECT_TRUE(handed({first.fence, second.fence, third.messages.fence}).empty());
}

// Proves: I5, I21
TEST_F(postgres_offers, who_gets_up_waits_for_a_commit_that_is_under_way)
{
    offer(2);
    admin_->begin();
    admin_->execute("SET CONSTRAINTS ALL IMMEDIATE");
    admin_->execute(sql("'orders'")); // has taken an offer now
    auto up = std::async(std::launch::async, [&] { bell_->disarm(); });
    EXPECT_EQ(up.wait_for(50ms), std::future_status::timeout);
    admin_->commit();
    up.get();
    EXPECT_EQ(handed().size(), 1U);
    EXPECT_EQ(offers(), 0);
    const auto sent = enqueue(store_, {"orders", ""});
    expect_not_started(sent.id);
}

TEST_F(postgres_offers, two_who_enqueue_at_once_never_wait_for_the_same_offer)
{
    offer();
    admin_->begin();
    admin_->execute("SET CONSTRAINTS ALL IMMEDIATE");
    admin_->execute(sql("'orders'"));
    const auto second = enqueue(store_, {"orders", ""});
    expect_not_started(second.id);
    EXPECT_TRUE(bell_->wait(enough)) << "the second one rang";
    admin_->rollback();
    EXPECT_EQ(offers(), 1);
}

TEST_F(postgres_offers, a_role_without_rights_on_them_still_sleeps_and_wakes)
{
    const scratch_role guest(*admin_);
    admin_->execute("GRANT USAGE ON SCHEMA " + schema_ + " TO " + guest.name() +
                    "; GRANT ALL ON ALL TABLES IN SCHEMA " + schema_ + " TO " + guest.name() +
                    "; GRANT ALL ON ALL SEQUENCES IN SCHEMA " + schema_ + " TO " + guest.name() +
                    "; REVOKE ALL ON " + schema_ + ".offer FROM " + guest.name());
    bell_->disarm();
    auto store = postgres::open(url_as(guest.name()), {.environment = system_});
    const auto bell = store.backend().make_bell();
    lie_down(*bell);
    bell->offer(terms(), 1);
    EXPECT_EQ(offers(), 0);
    admin_->execute(sql("'orders'"));
    EXPECT_TRUE(bell->wait(enough));
}

// ------------------------------------------------------------------------------------- workers

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
    admin_->execute(sql("'inbox:payments.paid'"));
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
    admin_->begin();
    admin_->execute("SET CONSTRAINTS ALL IMMEDIATE");
    admin_->execute(sql("'orders'"));
    over.request_stop();
    admin_->execute("SELECT pg_sleep(0.05)"); // it waits for us now
    admin_->commit();
    running.join();
    EXPECT_EQ(handled, 0);
    EXPECT_EQ(offers(), 0);
    EXPECT_EQ(count_messages(store_).ready, 1);
    EXPECT_EQ(admin_->count("SELECT max(attempts) FROM " + schema_ + ".message"), 0);
    EXPECT_EQ(report.released, 1U);
}

// A message that runs alone may take its process down: nobody else may have been started by then.
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
    admin_->begin();
    admin_->execute("SET CONSTRAINTS ALL IMMEDIATE");
    admin_->execute(sql("'orders'")); // has taken a place, as far as it knows
    for (int i = 0; i < places; ++i)
        enqueue(store_, {"orders", ""}, {.priority = 1});
    wait_until([&] { return begun == places; });
    admin_->commit();
    const auto waits =
        "SELECT count(*) FROM " + schema_ + ".message WHERE state = 0 AND attempts = 0";
    wait_until([&] { return admin_->count(waits) == 1; });
    go_on.set_value();
    wait_until([&] { return count_messages(store_).done == places + 1; });
    EXPECT_EQ(admin_->count("SELECT max(attempts) FROM " + schema_ + ".message"), 1);
    over.request_stop();
}

// Whoever lets triggers run early, and then does not commit, has let the lease run out.
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
    admin_->begin();
    const auto own = admin_->count("SELECT pg_current_xact_id()");
    admin_->execute("SET CONSTRAINTS ALL IMMEDIATE");
    admin_->execute(sql("'orders'"));
    admin_->execute("SELECT pg_sleep(0.4)");
    admin_->commit();
    wait_until([&] { return count_messages(store_).done == 1; });
    EXPECT_GT(claimed_by, own) << "it was given back, and claimed";
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
