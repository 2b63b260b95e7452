// Who waits for whom. What one transaction keeps open must not hold up the others; where two want
// the same, the second waits for the first, and both go on.
#include "hang_limit.hpp"
#include "integration/mariadb/fresh_database.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <vector>

namespace posthorn::test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

class mariadb_waits : public ::testing::Test {
protected:
    std::vector<message_id> claimed()
    {
        std::vector<message_id> ids;
        for (const auto& each : outbox(db).claim(worker).deliveries)
            ids.push_back(each.receipt.id);
        return ids;
    }

    migrated_database database;
    store db = mariadb::open(database.url("?lock_timeout=1s"));
    native_client root{database.name};
    const message some{.topic = "orders", .payload = ""};
    owner worker{.token = "token", .worker = "worker"};
};

TEST_F(mariadb_waits, a_claim_does_not_wait_for_a_member_of_a_join_that_is_not_committed)
{
    const auto join = open_join(db, {.expected = 1});
    const auto first = enqueue(db, some).id;
    auto open = db.begin();
    enqueue(open, some, {.join = join});
    const auto last = enqueue(db, some).id;
    EXPECT_THAT(claimed(), ElementsAre(first, last));
    open.commit();
    EXPECT_EQ(claimed().size(), 1U);
}

TEST_F(mariadb_waits, a_claim_does_not_wait_for_a_message_from_outside_that_is_not_committed)
{
    const auto first = enqueue(db, some).id;
    auto open = db.begin();
    enqueue_inbound(open, {.source = "shop", .id = "1"}, some);
    const auto last = enqueue(db, some).id;
    EXPECT_THAT(claimed(), ElementsAre(first, last));
    open.commit();
    EXPECT_EQ(claimed().size(), 1U);
}

TEST_F(mariadb_waits, retention_passes_over_a_lease_that_somebody_holds_in_a_transaction)
{
    root.run("INSERT INTO posthorn_lease (name, fence, acquired_at, renewed_at, expires_at, length,"
             " owner, holder) VALUES ('a', 1, 0, 0, 0, 0, '', ''),"
             " ('held', 2, 0, 4000000000000000, 4000000000000000, 1, 'me', 'me'),"
             " ('unused', 3, 0, 0, 0, 0, '', '')");
    auto tx = db.begin();
    ASSERT_TRUE(hold_lease(tx, "held", fence{2}));
    EXPECT_EQ(clean(db).leases, 2U);
    tx.commit();
    EXPECT_EQ(root.run("SELECT GROUP_CONCAT(name) FROM posthorn_lease"), "held");
}

TEST_F(mariadb_waits, retention_passes_over_a_key_of_a_command_that_is_used_again)
{
    const command_key used{.command = "pay", .key = "used"};
    const command_key other{.command = "pay", .key = "other"};
    for (const auto& each : {used, other})
        (void)run_once(db, each, [] { return std::string("done"); });
    root.run("UPDATE posthorn_command_key SET expires_at = 1, lock_until = 1");
    auto tx = db.begin();
    EXPECT_EQ(reserve(tx, used).answer, command_answer::executed);
    EXPECT_EQ(clean(db).command_keys, 1U);
    tx.commit();
    EXPECT_EQ(root.run("SELECT GROUP_CONCAT(request_key) FROM posthorn_command_key"), "used");
}

// The contract for other languages, at MariaDB's default isolation.
class mariadb_sql_waits : public mariadb_waits {
protected:
    class application : public native_client {
    public:
        explicit application(const std::string& database) : native_client(database)
        {
            run("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ");
            run("SET SESSION innodb_lock_wait_timeout = 1");
        }

        std::string enqueue(const std::string& options)
        {
            run("CALL posthorn_enqueue('orders', '', '" + options + "', @id)");
            return run("SELECT @id");
        }
    };

    application one{database.name};
    application two{database.name};
    application three{database.name};
};

TEST_F(mariadb_sql_waits, ids_of_their_own_let_nobody_wait)
{
    enqueue(db, some);
    one.run("START TRANSACTION");
    one.enqueue(R"({"id":"9b2d0c6e-1f51-4f0e-9d5c-3f1f0a4c7e01"})");
    two.run("START TRANSACTION");
    two.enqueue(R"({"id":"1c8e3b52-7d11-4c3a-8f27-90ab12cd34ef"})");
    three.enqueue("{}");
    enqueue(db, some);
    one.enqueue(R"({"id":"5e0f7a94-62c3-4b8d-a1d7-7c9e00112233"})");
    two.run("COMMIT");
    one.run("COMMIT");
    EXPECT_EQ(count_messages(db).ready, 6);
}

// Two who find the same expired key: one of them is kept in the middle of its enqueue, after it has
// looked at the key, by somebody who has the id that it wants.
class an_expired_dedup_key : public mariadb_sql_waits {
protected:
    an_expired_dedup_key()
    {
        enqueue(db, some, {.dedup_key = "d"});
        root.run("UPDATE posthorn_dedup SET expires_at = 1");
        root.run("START TRANSACTION");
        root.run("INSERT INTO posthorn_own_id VALUES (UNHEX(REPLACE('" + wanted +
                 "', '-', '')), 0)");
        for (auto* each : {&one, &two})
            each->run("SET SESSION innodb_lock_wait_timeout = 20");
    }

    // Nobody else's transactions on the server count. The server looks again when nobody has asked
    // for a tenth of a second.
    void await_waiting(int how_many)
    {
        const auto question =
            "SELECT COUNT(*) FROM information_schema.innodb_trx t JOIN "
            "information_schema.processlist p ON p.id = t.trx_mysql_thread_id WHERE p.db = '" +
            database.name + "' AND t.trx_state = 'LOCK WAIT'";
        const auto clock = environment::system().clock;
        const auto until = clock->monotonic() + hang_limit;
        native_client observer{database.name};
        while (observer.run(question) != std::to_string(how_many)) {
            ASSERT_LT(clock->monotonic(), until) << "nobody waits";
            clock->pause(150ms);
        }
    }

    const std::string wanted = "9b2d0c6e-1f51-4f0e-9d5c-3f1f0a4c7e01";
};

TEST_F(an_expired_dedup_key, is_taken_by_the_first_and_found_by_the_second)
{
    auto patient = mariadb::open(database.url("?lock_timeout=300s"));
    auto tx = patient.begin();
    auto first = std::async(std::launch::async, [&] {
        const auto result =
            enqueue(tx, some, {.id = message_id::parse(wanted).value(), .dedup_key = "d"});
        tx.commit();
        return result;
    });
    await_waiting(1);
    auto other = patient.begin();
    auto second = std::async(std::launch::async, [&] {
        const auto result = enqueue(other, some, {.dedup_key = "d"});
        other.commit();
        return result;
    });
    await_waiting(2);
    root.run("ROLLBACK");
    const auto kept = first.get();
    EXPECT_FALSE(kept.duplicate);
    const auto found = second.get();
    EXPECT_TRUE(found.duplicate);
    EXPECT_EQ(found.id, kept.id);
}

TEST_F(an_expired_dedup_key, is_taken_and_found_in_sql_too)
{
    auto first = std::async(std::launch::async, [&] {
        return one.enqueue(R"({"dedup_key":"d","id":")" + wanted + R"("})");
    });
    await_waiting(1);
    auto second =
        std::async(std::launch::async, [&] { return two.enqueue(R"({"dedup_key":"d"})"); });
    await_waiting(2);
    root.run("ROLLBACK");
    EXPECT_EQ(first.get(), wanted);
    EXPECT_EQ(second.get(), wanted);
}

} // namespace
} // namespace posthorn::test
