// Transactions of Posthorn's own that the server has rolled back: they are over, and say so.
#include "integration/mariadb/fresh_database.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mysqld_error.h>

#include <functional>
#include <string>
#include <thread>

namespace posthorn::test {
namespace {

using ::testing::HasSubstr;

class owned_transaction : public ::testing::Test {
protected:
    owned_transaction()
    {
        other.run("CREATE TABLE accounts (id INT PRIMARY KEY, total INT)");
        other.run("INSERT INTO accounts SELECT seq, 0 FROM seq_1_to_100");
    }

    [[nodiscard]] int change_account(int which)
    {
        const auto sql = "UPDATE accounts SET total = 1 WHERE id = " + std::to_string(which);
        return mysql_query(mariadb::native_handle(tx), sql.c_str());
    }

    // Somebody who has changed more, and therefore is not the victim, wants what `tx` has; and
    // `action` wants what they have.
    void deadlock(const std::string& wanted_by_them, const std::function<void()>& action)
    {
        other.run("START TRANSACTION");
        other.run("UPDATE accounts SET total = 2 WHERE id > 1");
        std::thread waits([&] { other.run(wanted_by_them); });
        action();
        waits.join();
        other.run("COMMIT");
    }

    void expect_that_it_is_over()
    {
        for (const auto& deed :
             {std::function<void()>([&] { enqueue(tx, some); }),
              std::function<void()>([&] { (void)cancel(tx, message_id{}); }),
              std::function<void()>([&] { (void)find_message(tx, message_id{}); }),
              std::function<void()>([&] { (void)mariadb::native_handle(tx); }),
              std::function<void()>([&] { tx.commit(); })}) {
            const auto failure = error_of(deed);
            EXPECT_EQ(failure.code(), error_code::no_transaction);
            EXPECT_FALSE(failure.in_doubt());
        }
        tx.rollback();
        EXPECT_EQ(count_messages(db).ready, 0);
        enqueue(db, some);
        EXPECT_EQ(count_messages(db).ready, 1);
    }

    migrated_database database;
    native_client other{database.name};
    store db = mariadb::open(database.url());
    transaction tx = db.begin();
    const message some{.topic = "orders", .payload = ""};
};

// Proves: F16, I1
TEST_F(owned_transaction, after_a_deadlock_in_a_statement_of_the_application_it_is_over)
{
    enqueue(tx, some);
    ASSERT_EQ(change_account(1), 0);
    auto* const handle = mariadb::native_handle(tx);
    deadlock("UPDATE accounts SET total = 2 WHERE id = 1", [&] {
        EXPECT_NE(change_account(2), 0);
        EXPECT_EQ(mysql_errno(handle), unsigned{ER_LOCK_DEADLOCK});
    });
    EXPECT_THAT(error_of([&] { tx.commit(); }).what(), HasSubstr("rolled back"));
    expect_that_it_is_over();
}

// A ping forgets the error, and its answer does not say whether a transaction is open.
TEST_F(owned_transaction, nothing_that_comes_after_a_deadlock_and_a_ping_commits_by_itself)
{
    const owner worker{.token = "token", .worker = "worker"};
    const auto id = enqueue(db, some).id;
    outbox box(db);
    const auto claimed = box.claim(worker);
    ASSERT_EQ(change_account(1), 0);
    auto* const handle = mariadb::native_handle(tx);
    deadlock("UPDATE accounts SET total = 2 WHERE id = 1", [&] {
        EXPECT_NE(change_account(2), 0);
        EXPECT_EQ(mysql_errno(handle), unsigned{ER_LOCK_DEADLOCK});
    });
    EXPECT_EQ(mysql_ping(handle), 0);
    EXPECT_EQ(error_of([&] { box.acknowledge(tx, worker, claimed.receipts()); }).code(),
              error_code::no_transaction);
    EXPECT_EQ(find_message(db, id)->state, message_state::claimed);
    EXPECT_EQ(error_of([&] { enqueue(tx, some); }).code(), error_code::no_transaction);
    expect_that_it_is_over();
}

// Proves: F16, I1
TEST_F(owned_transaction, after_a_deadlock_in_a_statement_of_posthorn_it_is_over)
{
    const auto id = enqueue(db, some).id;
    ASSERT_EQ(change_account(1), 0);
    mariadb::borrowed_transaction theirs{other.handle()};
    other.run("START TRANSACTION");
    other.run("UPDATE accounts SET total = 2 WHERE id > 1");
    EXPECT_EQ(cancel(theirs, id), cancel_answer::cancelled);
    std::thread waits([&] { other.run("UPDATE accounts SET total = 2 WHERE id = 1"); });
    EXPECT_EQ(error_of([&] { (void)cancel(tx, id); }).code(), error_code::serialization);
    waits.join();
    other.run("COMMIT");
    expect_that_it_is_over();
}

} // namespace
} // namespace posthorn::test
