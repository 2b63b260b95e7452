// Every kind of error that a PostgreSQL server gives to somebody with a connection, provoked for
// real: what it is called, whether trying again helps, and which statement it hit.
#include "integration/postgres/server_fixture.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace posthorn::test {
namespace {

using namespace std::chrono_literals;
using conformance::native_connection;
using conformance::thrown_by;
using ::testing::HasSubstr;

class postgres_errors : public server_fixture {
protected:
    std::unique_ptr<native_connection> connect()
    {
        auto made = under_test_->connect(environment::system());
        made->execute("SET deadlock_timeout = '10ms'");
        return made;
    }

    message_id add(const enqueue_options& how = {})
    {
        return enqueue(db_, {"orders", "x"}, how).id;
    }

    receipt claim_one() { return outbox(db_).claim(alice_, {.limit = 1}).receipts().at(0); }

    /// A statement that locks one message for whoever runs it.
    std::string lock_of(message_id id)
    {
        return "SELECT 1 FROM " + schema_ +
               ".message WHERE seq = " + std::to_string(find_message(db_, id)->position) +
               " FOR UPDATE";
    }

    /// Returns when somebody of that name waits for a lock.
    void wait_for_blocked(const std::string& application)
    {
        wait_until([&] {
            return admin_->count(
                       "SELECT count(*) FROM pg_stat_activity WHERE application_name = '" +
                       application + "' AND wait_event_type = 'Lock'") > 0;
        });
    }

    /// Of a server's last words libpq keeps the words, not the code.
    static void expect_lost(const error& failure, const std::string& statement,
                            const std::string& words)
    {
        EXPECT_EQ(failure.code(), error_code::connection_lost) << failure.what();
        EXPECT_TRUE(failure.retryable());
        EXPECT_FALSE(failure.in_doubt());
        EXPECT_TRUE(failure.poisons_connection());
        EXPECT_EQ(failure.statement(), statement);
        EXPECT_THAT(failure.what(), HasSubstr(words));
    }

    owner alice_{.token = "token of alice", .worker = "alice"};
    store db_ = open_with("");
};

} // namespace

// Proves: F16
TEST_F(postgres_errors, a_deadlock_of_two_applications_is_a_serialization_error_of_one_of_them)
{
    const auto first = connect();
    const auto second = connect();
    first->begin();
    second->begin();
    enqueue(first->borrow(), {"orders", "x"}, {.dedup_key = "a"});
    enqueue(second->borrow(), {"orders", "x"}, {.dedup_key = "b"});
    const auto try_other = [](native_connection& mine, const std::string& other) {
        std::optional<error> failure;
        try {
            enqueue(mine.borrow(), {"orders", "x"}, {.dedup_key = other});
        } catch (const error& caught) {
            failure = caught;
        }
        failure ? mine.rollback() : mine.commit();
        return failure;
    };
    auto waiting = std::async(std::launch::async, [&] { return try_other(*first, "b"); });
    const auto of_second = try_other(*second, "a");
    const auto of_first = waiting.get();
    ASSERT_NE(of_first.has_value(), of_second.has_value()) << "one of them is the victim";
    const auto& victim = of_first ? *of_first : *of_second;
    expect(victim, error_code::serialization, retry::helps, "insert_deduplicated");
    EXPECT_THAT(victim.what(), HasSubstr("[40P01]"));
    EXPECT_EQ(count_messages(db_).ready, 2) << "the other one's";
}

// Proves: F16
TEST_F(postgres_errors, a_changed_row_is_a_serialization_error_where_snapshots_are_kept)
{
    for (const std::string level : {"REPEATABLE READ", "SERIALIZABLE"}) {
        const auto id = add();
        const auto app = connect();
        app->execute("BEGIN ISOLATION LEVEL " + level);
        (void)app->count("SELECT count(*) FROM " + schema_ + ".message");
        EXPECT_EQ(cancel(db_, id), cancel_answer::cancelled);
        const auto failure = thrown_by([&] { (void)cancel(app->borrow(), id); });
        expect(failure, error_code::serialization, retry::helps, "call_off");
        EXPECT_THAT(failure.what(), HasSubstr("[40001]"));
        app->rollback();
    }
}

// Proves: I5, F16
TEST_F(postgres_errors, a_deadlock_that_hits_our_own_transaction_is_run_again_and_costs_nothing)
{
    // Who looks for a deadlock first is its victim: mostly ours. Where the machine was too slow for
    // that, there is another round.
    const auto name = conformance::unused_name();
    auto ours = open_with("&lock_timeout=20s&application_name=" + name +
                          "&options=-c%20deadlock_timeout%3D500ms");
    int times_victim = 0;
    for (int round = 0; round < 10 && times_victim < 2; ++round) {
        const auto id = add();
        const auto held = claim_one();
        const auto app = connect();
        app->execute("SET deadlock_timeout = '5s'");
        app->begin();
        app->execute(lock_of(id));
        auto acknowledged = std::async(std::launch::async, [&] {
            return times_victim == 0 ? outbox(ours).acknowledge(alice_, {&held, 1})
                                     : outbox(ours).fail(alice_, {&held, 1}, "as asked");
        });
        wait_for_blocked(name);
        const bool failing = times_victim > 0;
        try {
            app->execute("SELECT 1 FROM " + schema_ + ".batch FOR UPDATE");
            ++times_victim; // we have what they held: they were stopped
            app->commit();
        } catch (const std::runtime_error&) {
            app->rollback();
        }
        EXPECT_EQ(acknowledged.get().answers,
                  std::vector{failing ? settled_as::dead : settled_as::done});
        EXPECT_EQ(find_message(db_, id)->attempts, 1);
    }
    EXPECT_EQ(times_victim, 2);
}

TEST_F(postgres_errors, a_lock_that_somebody_keeps_is_busy_after_lock_timeout)
{
    const auto id = add();
    auto impatient = open_with("&lock_timeout=100ms&statement_timeout=20s");
    const auto app = connect();
    app->begin();
    app->execute(lock_of(id));
    const auto failure = thrown_by([&] { (void)cancel(impatient, id); });
    expect(failure, error_code::busy, retry::helps, "call_off");
    EXPECT_THAT(failure.what(), HasSubstr("[55P03]"));
    app->rollback();
    EXPECT_EQ(cancel(impatient, id), cancel_answer::cancelled);
}

TEST_F(postgres_errors, a_statement_that_takes_too_long_is_busy_after_statement_timeout)
{
    const auto id = add();
    auto impatient = open_with("&lock_timeout=20s&statement_timeout=100ms");
    const auto app = connect();
    app->begin();
    app->execute(lock_of(id));
    const auto failure = thrown_by([&] { (void)cancel(impatient, id); });
    expect(failure, error_code::busy, retry::helps, "call_off");
    EXPECT_THAT(failure.what(), HasSubstr("[57014]"));
    app->rollback();
    EXPECT_EQ(cancel(impatient, id), cancel_answer::cancelled);
}

// Proves: I1
TEST_F(postgres_errors, a_backend_that_is_ended_while_it_works_is_a_lost_connection)
{
    const auto name = conformance::unused_name();
    auto ours = open_with("&application_name=" + name);
    const auto id = add();
    const auto app = connect();
    app->begin();
    app->execute(lock_of(id));
    auto cancelled = std::async(std::launch::async, [&] {
        return thrown_by([&] {
            auto tx = ours.begin();
            enqueue(tx, {"orders", "x"});
            (void)cancel(tx, id);
        });
    });
    wait_for_blocked(name);
    end_backends_of(name);
    expect_lost(cancelled.get(), "call_off", "administrator command");
    app->rollback();
    EXPECT_EQ(count_messages(db_).ready, 1);
    EXPECT_NO_THROW(enqueue(ours, {"orders", "x"}));
}

// Proves: I1, F17
TEST_F(postgres_errors, a_transaction_that_idles_beyond_the_servers_patience_is_a_lost_connection)
{
    const auto name = conformance::unused_name();
    auto ours = open_with("&application_name=" + name +
                          "&options=-c%20idle_in_transaction_session_timeout%3D50ms");
    auto tx = ours.begin();
    enqueue(tx, {"orders", "x"});
    wait_until([&] { return backends_of(name) == 0; });
    expect_lost(thrown_by([&] {
                    enqueue(tx, {"orders", "x"});
                }),
                "insert_one_plain", "idle-in-transaction");
    EXPECT_EQ(count_messages(db_).ready, 0);
}

TEST_F(postgres_errors, a_right_that_is_missing_is_read_only_and_says_what)
{
    const scratch_role reader(*admin_);
    admin_->execute("GRANT USAGE ON SCHEMA " + schema_ + " TO " + reader.name());
    admin_->execute("GRANT SELECT ON ALL TABLES IN SCHEMA " + schema_ + " TO " + reader.name());
    admin_->execute("GRANT SELECT ON ALL SEQUENCES IN SCHEMA " + schema_ + " TO " + reader.name());
    admin_->execute("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA " + schema_ + " TO " + reader.name());
    auto ours = posthorn::open(url_as(reader.name()));
    EXPECT_EQ(count_messages(ours).ready, 0);
    expect(thrown_by([&] {
               enqueue(ours, {"orders", "x"});
           }),
           error_code::read_only, retry::is_useless, "insert_one_plain");
    expect(thrown_by([&] { (void)outbox(ours).claim(alice_); }), error_code::read_only,
           retry::is_useless, "know_worker");
}

// Proves: F3
TEST_F(postgres_errors, a_session_that_may_only_read_is_read_only_in_every_operation)
{
    const auto id = add();
    auto ours = open_with("&options=-c%20default_transaction_read_only%3Don");
    expect(thrown_by([&] {
               enqueue(ours, {"orders", "x"});
           }),
           error_code::read_only, retry::is_useless, "insert_one_plain");
    auto tx = ours.begin();
    expect(thrown_by([&] {
               enqueue(tx, {"orders", "x"});
           }),
           error_code::read_only, retry::is_useless, "insert_one_plain");
    tx.rollback();
    expect(thrown_by([&] { (void)outbox(ours).claim(alice_); }), error_code::read_only,
           retry::is_useless, "know_worker");
    expect(thrown_by([&] { (void)cancel(ours, id); }), error_code::read_only, retry::is_useless,
           "call_off");
    EXPECT_EQ(find_message(ours, id)->state, message_state::ready);
}

// Proves: F22
TEST_F(postgres_errors, tables_that_vanish_under_an_open_store_are_a_missing_schema)
{
    admin_->execute("DROP TABLE " + schema_ + ".message CASCADE");
    expect(thrown_by([&] {
               enqueue(db_, {"orders", "x"});
           }),
           error_code::schema_missing, retry::is_useless, "insert_one_plain");
}

// Proves: OUT-03
TEST_F(postgres_errors, an_id_that_exists_is_a_broken_constraint_and_ends_no_transaction)
{
    const auto id = add();
    const auto refuse = [&](transaction& tx) {
        for (const auto& how : {enqueue_options{.id = id}, {.id = id, .dedup_key = "once"}}) {
            const auto failure = thrown_by([&] { enqueue(tx, {"orders", "x"}, how); });
            EXPECT_EQ(failure.code(), error_code::constraint) << failure.what();
            EXPECT_FALSE(failure.retryable());
            EXPECT_FALSE(failure.in_doubt());
        }
        enqueue(tx, {"orders", "it goes on"});
    };
    auto tx = db_.begin();
    refuse(tx);
    tx.commit();
    const auto app = connect();
    app->begin();
    refuse(app->borrow());
    app->commit();
    EXPECT_EQ(count_messages(db_).ready, 3);
}

// Proves: OUT-01
TEST_F(postgres_errors, a_transaction_that_has_failed_says_so_until_it_is_rolled_back)
{
    const auto app = connect();
    app->begin();
    EXPECT_THROW(app->execute("SELECT 1 / 0"), std::runtime_error);
    const auto failure = thrown_by([&] { enqueue(app->borrow(), {"orders", "x"}); });
    expect(failure, error_code::no_transaction, retry::is_useless, "insert_one_plain");
    EXPECT_THAT(failure.what(), HasSubstr("[25P02]"));
    app->rollback();
    app->begin();
    EXPECT_NO_THROW(enqueue(app->borrow(), {"orders", "x"}));
    app->commit();
}

// Proves: I1, OUT-01
TEST_F(postgres_errors, a_failed_transaction_of_our_own_cannot_be_committed_by_mistake)
{
    const auto id = add();
    const auto app = connect();
    app->begin();
    app->execute(lock_of(id));
    auto impatient = open_with("&lock_timeout=20ms");
    auto tx = impatient.begin();
    const auto other = enqueue(tx, {"orders", "x"}).id;
    EXPECT_EQ(thrown_by([&] { (void)cancel(tx, id); }).code(), error_code::busy);
    const auto failure = thrown_by([&] { tx.commit(); });
    EXPECT_EQ(failure.code(), error_code::no_transaction);
    EXPECT_FALSE(failure.in_doubt());
    EXPECT_EQ(find_message(db_, other), std::nullopt);
}

// Proves: I20
TEST_F(postgres_errors, a_worker_whose_row_is_gone_is_written_anew)
{
    for (int i = 0; i < 3; ++i) {
        add();
        add({.priority = 1});
        EXPECT_EQ(outbox(db_).claim(alice_, {.limit = 1}).size(), 1U);
        EXPECT_EQ(outbox(db_).claim(alice_).size(), 1U);
        admin_->execute("DELETE FROM " + schema_ + ".worker");
    }
}

} // namespace posthorn::test
