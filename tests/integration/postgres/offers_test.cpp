// Messages that are handed over: the commit that enqueues one claims and starts it for a worker
// that sleeps. Whatever goes wrong between them, it is delivered as if it had been claimed.
#include "integration/postgres/offers_fixture.hpp"
#include <posthorn/enqueue.hpp>
#include <posthorn/joins.hpp>
#include <posthorn/messages.hpp>
#include <posthorn/outbox.hpp>
#include <posthorn/pauses.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <string>
#include <vector>

namespace posthorn::test {

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
    admin_->execute("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA " + schema_ + " TO " + guest.name() +
                    "; REVOKE ALL ON FUNCTION " + schema_ + ".hand_over() FROM " + guest.name());
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

// Proves: I5, I17, I21
TEST_F(postgres_offers, constraints_made_immediate_hand_nothing_over_before_the_commit)
{
    const auto ours = "SET CONSTRAINTS " + schema_ + ".hand_over IMMEDIATE";
    for (const auto& made : {std::string("SET CONSTRAINTS ALL IMMEDIATE"), ours})
        for (const bool before : {true, false}) {
            offer();
            admin_->begin();
            if (before)
                admin_->execute(made);
            admin_->execute(sql("'orders'"));
            if (!before)
                admin_->execute(made);
            EXPECT_EQ(admin_->count("SELECT count(*) FROM " + schema_ + ".batch"), 0) << made;
            bell_->withdraw(); // which does not wait
            EXPECT_EQ(offers(), 0);
            offer();
            const auto other = enqueue(store_, {"orders", ""});
            EXPECT_EQ(look(other.id).state, message_state::claimed) << "the offer was free";
            EXPECT_FALSE(bell_->wait(enough));
            const auto taken = take_one();
            EXPECT_EQ(queue_.acknowledge(who_, taken.messages.receipts()).settled(), 1U);
            admin_->commit();
            EXPECT_TRUE(bell_->wait(enough)) << "the commit rang: " << made;
            EXPECT_TRUE(handed().empty());
            const auto claimed = queue_.claim(who_);
            EXPECT_EQ(queue_.acknowledge(who_, claimed.receipts()).settled(), 1U);
            bell_->arm();
        }
    EXPECT_EQ(admin_->count("SELECT count(*) FROM " + schema_ + ".handing"), 0);
}

// Proves: I2, OUT-12
TEST_F(postgres_offers, a_message_of_a_paused_topic_is_not_handed_over)
{
    for (const std::string topic : {"orders", "ord*", "*", ""}) {
        offer();
        EXPECT_TRUE(pause(store_, topic));
        const auto sent = enqueue(store_, {"orders", ""});
        EXPECT_TRUE(bell_->wait(enough)) << topic;
        EXPECT_TRUE(handed().empty()) << topic;
        expect_not_started(sent.id);
        EXPECT_EQ(offers(), 1);
        EXPECT_TRUE(resume(store_, topic));
        EXPECT_TRUE(bell_->wait(enough));
        EXPECT_EQ(cancel(store_, sent.id), cancel_answer::cancelled);
        bell_->arm();
    }
    EXPECT_TRUE(pause(store_, "mails"));
    EXPECT_TRUE(pause(store_, "orders2"));
    EXPECT_TRUE(pause(store_, "orders.*"));
    enqueue(store_, {"orders", ""});
    EXPECT_FALSE(bell_->wait(enough));
    EXPECT_EQ(handed().size(), 1U) << "others are";
}

// Every role may notify. What it says costs a look, and no offer.
// Proves: OUT-20
TEST_F(postgres_offers, a_notification_that_another_role_has_forged_costs_no_offer)
{
    const scratch_role guest(*admin_);
    offer(2);
    const auto session = admin_->text("SELECT min(session) FROM " + schema_ + ".offer");
    const auto first = admin_->count("SELECT min(id) FROM " + schema_ + ".offer");
    const auto fence = admin_->count("SELECT nextval('" + schema_ + ".fence_seq')");
    admin_->execute("SET ROLE " + guest.name());
    for (auto offer = first; offer < first + 2; ++offer)
        for (auto next = fence - 1; next < fence + 3; ++next)
            admin_->execute("NOTIFY \"" + schema_ + ".bell\", 'for " + session + " " +
                            std::to_string(next) + " " + std::to_string(offer) + "'");
    admin_->execute("RESET ROLE");
    (void)bell_->wait(enough);
    EXPECT_TRUE(handed().empty());
    const auto sent = enqueue(store_, {"orders", ""});
    std::vector<contract::handed_batch> got;
    wait_until([&] { // some of what was forged may come only now
        (void)bell_->wait(10ms);
        got = handed();
        return !got.empty();
    });
    EXPECT_EQ(got.front().messages.deliveries.front().receipt.id, sent.id);
    EXPECT_EQ(offers(), 1);
    bell_->withdraw();
    EXPECT_EQ(offers(), 0) << "it knows of the one that is left, and takes it back";
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
    held_commit commit(*this);
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
    commit.go_on();
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
    held_commit commit(*this);
    auto up = std::async(std::launch::async, [&] { bell_->disarm(); });
    EXPECT_EQ(up.wait_for(50ms), std::future_status::timeout);
    commit.go_on();
    up.get();
    EXPECT_EQ(handed().size(), 1U);
    EXPECT_EQ(offers(), 0);
    const auto sent = enqueue(store_, {"orders", ""});
    expect_not_started(sent.id);
}

TEST_F(postgres_offers, two_who_enqueue_at_once_never_wait_for_the_same_offer)
{
    offer();
    held_commit first(*this);
    const auto second = enqueue(store_, {"orders", ""});
    expect_not_started(second.id);
    EXPECT_TRUE(bell_->wait(enough)) << "the second one rang";
    first.fail();
    EXPECT_EQ(offers(), 1);
}

TEST_F(postgres_offers, a_role_without_rights_on_them_still_sleeps_and_wakes)
{
    const scratch_role guest(*admin_);
    admin_->execute("GRANT USAGE ON SCHEMA " + schema_ + " TO " + guest.name() +
                    "; GRANT ALL ON ALL TABLES IN SCHEMA " + schema_ + " TO " + guest.name() +
                    "; GRANT ALL ON ALL SEQUENCES IN SCHEMA " + schema_ + " TO " + guest.name() +
                    "; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA " + schema_ + " TO " +
                    guest.name() + "; REVOKE ALL ON " + schema_ + ".offer FROM " + guest.name());
    bell_->disarm();
    auto store = postgres::open(url_as(guest.name()), {.environment = system_});
    const auto bell = store.backend().make_bell();
    lie_down(*bell);
    bell->offer(terms(), 1);
    EXPECT_EQ(offers(), 0);
    admin_->execute(sql("'orders'"));
    EXPECT_TRUE(bell->wait(enough));
}

} // namespace posthorn::test
