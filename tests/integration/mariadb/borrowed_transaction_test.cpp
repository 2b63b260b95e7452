// Transactions that an application lends, at the isolation levels that applications use.
#include "integration/mariadb/fresh_database.hpp"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace posthorn::test {
namespace {

class lent_transaction : public ::testing::TestWithParam<const char*> {
protected:
    lent_transaction()
    {
        app.run(std::string("SET SESSION TRANSACTION ISOLATION LEVEL ") + GetParam());
    }

    batch claim(std::size_t limit = 100) { return box.claim(worker, {.limit = limit}); }

    // A snapshot that is older than whatever the test does next.
    void begin_with_a_look()
    {
        app.run("START TRANSACTION");
        app.run("SELECT COUNT(*) FROM posthorn_message");
    }

    migrated_database database;
    store db = mariadb::open(database.url("?lock_timeout=1s"));
    outbox box{db};
    native_client app{database.name};
    mariadb::borrowed_transaction tx{app.handle()};
    owner worker{.token = "token", .worker = "worker"};
};

// Proves: OUT-01, I1
TEST_P(lent_transaction, a_message_exists_if_the_application_commits)
{
    app.run("START TRANSACTION");
    const auto id = enqueue(tx, {.topic = "orders", .payload = "1"}).id;
    EXPECT_FALSE(find_message(db, id));
    app.run("COMMIT");
    EXPECT_TRUE(find_message(db, id));
    EXPECT_EQ(claim().size(), 1U);
}

TEST_P(lent_transaction, nothing_is_done_outside_a_transaction)
{
    const auto failure = error_of([&] { enqueue(tx, {.topic = "orders", .payload = ""}); });
    EXPECT_EQ(failure.code(), error_code::no_transaction);
    app.run("SET autocommit = 0"); // then there is always one
    enqueue(tx, {.topic = "orders", .payload = ""});
    app.run("ROLLBACK");
    EXPECT_EQ(count_messages(db).ready, 0);
}

TEST_P(lent_transaction, enqueueing_waits_for_nobody)
{
    app.run("START TRANSACTION");
    for (const auto* key : {"", "k"})
        enqueue(tx, {.topic = "orders", .payload = ""}, {.ordering_key = key});
    // While that is open, others enqueue, claim and finish messages of the same key.
    for (const auto* key : {"", "k"})
        enqueue(db, {.topic = "orders", .payload = ""}, {.ordering_key = key});
    const auto claimed = claim();
    EXPECT_EQ(claimed.size(), 2U);
    EXPECT_EQ(box.acknowledge(worker, claimed.receipts()).settled(), 2U);
    app.run("COMMIT");
    EXPECT_EQ(claim().size(), 2U);
}

TEST_P(lent_transaction, an_id_that_exists_is_refused_and_the_transaction_goes_on)
{
    const auto known = enqueue(db, {.topic = "orders", .payload = ""}).id;
    const auto given = message_id::parse("018bcfe5-6800-7000-8000-0000000000aa").value();
    app.run("START TRANSACTION");
    enqueue(tx, {.topic = "orders", .payload = ""}, {.id = given});
    for (const auto id : {known, given}) {
        const std::vector<outgoing> all{
            {.message = {.topic = "first", .payload = ""}},
            {.message = {.topic = "second", .payload = ""}, .options = {.id = id}}};
        EXPECT_EQ(error_of([&] { enqueue(tx, all); }).code(), error_code::constraint);
    }
    app.run("COMMIT");
    EXPECT_EQ(list_messages(db).size(), 2U);
    EXPECT_EQ(count_messages(db).ready, 2);
}

// A settlement decides by what is, not by what the transaction saw when it began.
TEST_P(lent_transaction, what_was_claimed_after_its_first_look_can_be_settled)
{
    begin_with_a_look();
    for (int i = 0; i < 2; ++i)
        enqueue(db, {.topic = "orders", .payload = ""}, {.ordering_key = "k"});
    enqueue(db, {.topic = "orders", .payload = ""});
    const auto claimed = claim();
    ASSERT_EQ(claimed.size(), 2U);
    std::vector<settlement> all;
    for (const auto& each : claimed.receipts())
        all.push_back({each, retry_in(duration::zero(), "again")});
    const auto answers = box.settle(tx, worker, all).answers;
    EXPECT_EQ(answers, std::vector(2, settled_as::retrying));
    app.run("COMMIT");
    EXPECT_EQ(claim().size(), 2U);
}

TEST_P(lent_transaction, a_key_goes_on_with_what_began_to_wait_after_its_first_look)
{
    const auto first = enqueue(db, {.topic = "orders", .payload = ""}, {.ordering_key = "k"}).id;
    const auto claimed = claim();
    ASSERT_EQ(claimed.size(), 1U);
    begin_with_a_look();
    const auto second = enqueue(db, {.topic = "orders", .payload = ""}, {.ordering_key = "k"}).id;
    EXPECT_TRUE(claim().empty()); // from now on it waits
    EXPECT_EQ(box.acknowledge(tx, worker, claimed.receipts()).settled(), 1U);
    app.run("COMMIT");
    const auto next = claim();
    ASSERT_EQ(next.size(), 1U);
    EXPECT_EQ(next.deliveries.front().receipt.id, second);
    EXPECT_NE(first, second);
}

TEST_P(lent_transaction, a_dedup_key_that_was_used_after_its_first_look_is_known)
{
    begin_with_a_look();
    const auto first = enqueue(db, {.topic = "orders", .payload = ""}, {.dedup_key = "d"});
    const auto second = enqueue(tx, {.topic = "orders", .payload = ""}, {.dedup_key = "d"});
    EXPECT_TRUE(second.duplicate);
    EXPECT_EQ(second.id, first.id);
    app.run("COMMIT");
}

// Proves: F16
TEST_P(lent_transaction, after_a_deadlock_it_is_over)
{
    app.run("CREATE TABLE accounts (id INT PRIMARY KEY, total INT)");
    app.run("INSERT INTO accounts VALUES (1, 0)");
    const auto id = enqueue(db, {.topic = "orders", .payload = ""}).id;
    native_client other{database.name};
    mariadb::borrowed_transaction theirs{other.handle()};
    // The one that has changed less is the victim; ours is.
    other.run("START TRANSACTION");
    other.run("UPDATE accounts SET total = 1");
    for (int i = 0; i < 50; ++i)
        enqueue(theirs, {.topic = "orders", .payload = ""});
    app.run("START TRANSACTION");
    EXPECT_EQ(cancel(tx, id), cancel_answer::cancelled);
    // Whoever waits first, the other one closes the circle.
    std::thread waits([&] { EXPECT_EQ(cancel(theirs, id), cancel_answer::cancelled); });
    EXPECT_THROW(app.run("UPDATE accounts SET total = 2"), std::runtime_error);
    waits.join();
    app.run("DO 0"); // its answer says that no transaction is open
    EXPECT_EQ(error_of([&] { enqueue(tx, {.topic = "orders", .payload = ""}); }).code(),
              error_code::no_transaction);
    other.run("COMMIT");
    EXPECT_EQ(find_message(db, id)->state, message_state::cancelled);
}

// The second delivery of a message from outside, in a transaction that began before the first one
// committed: it is recognised, or the transaction has to be run again. It has no second effect.
// Proves: INB-02, I7
TEST_P(lent_transaction, a_message_from_outside_that_came_meanwhile_is_not_added_again)
{
    const inbound from{.source = "shop", .id = "1"};
    const message what{.topic = "orders", .payload = ""};
    const auto deliver_again = [&] {
        const std::string level = GetParam();
        if (level == "READ COMMITTED")
            EXPECT_EQ(enqueue_inbound(tx, from, what).answer, inbox_answer::replaced);
        else
            EXPECT_EQ(error_of([&] { enqueue_inbound(tx, from, what); }).code(),
                      error_code::serialization);
        app.run("COMMIT");
        EXPECT_EQ(count_messages(db).ready, 1) << level;
    };
    begin_with_a_look();
    const auto first = enqueue_inbound(db, from, what);
    ASSERT_EQ(first.answer, inbox_answer::added);
    deliver_again();

    // The same where the view shows an earlier message, which has been called off since.
    begin_with_a_look();
    ASSERT_EQ(cancel(db, first.message.value()), cancel_answer::cancelled);
    ASSERT_EQ(enqueue_inbound(db, from, what).answer, inbox_answer::added);
    deliver_again();

    // In a transaction that began afterwards it is recognised.
    begin_with_a_look();
    EXPECT_EQ(enqueue_inbound(tx, from, what).answer, inbox_answer::replaced);
    app.run("COMMIT");
    EXPECT_EQ(claim().size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(isolation, lent_transaction,
                         ::testing::Values("READ COMMITTED", "REPEATABLE READ"),
                         [](const auto& chosen) {
                             return std::string(chosen.param) == "READ COMMITTED"
                                        ? "read_committed"
                                        : "repeatable_read";
                         });

// Text is bytes on its way, whatever the application's connection makes of text.
TEST(lent_connection, its_character_set_does_not_matter)
{
    migrated_database database;
    native_client app{database.name};
    app.run("SET NAMES latin1");
    mariadb::borrowed_transaction tx{app.handle()};
    app.run("START TRANSACTION");
    const auto id = enqueue(tx, {.topic = "Ünïcode/注文", .payload = "жж"},
                            {.ordering_key = "ключ", .headers = {{"имя", "значение"}}})
                        .id;
    const auto seen = find_message(tx, id);
    app.run("COMMIT");
    auto db = mariadb::open(database.url());
    for (const auto& found : {seen, find_message(db, id)}) {
        ASSERT_TRUE(found);
        EXPECT_EQ(found->topic, "Ünïcode/注文");
        EXPECT_EQ(found->payload, "жж");
        EXPECT_EQ(found->ordering_key, "ключ");
        EXPECT_EQ(found->headers.at("имя"), "значение");
    }
}

} // namespace
} // namespace posthorn::test
