// The application's own connection: Posthorn joins its transaction and leaves everything else
// alone.
#include "integration/sqlite/temporary_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <memory>
#include <string>
#include <vector>

namespace posthorn::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class borrowed : public ::testing::Test {
protected:
    borrowed() : application(connect())
    {
        run("CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT)");
    }

    using connection = std::unique_ptr<sqlite3, int (*)(sqlite3*)>;

    connection connect() const
    {
        sqlite3* opened = nullptr;
        EXPECT_EQ(sqlite3_open(file.path().c_str(), &opened), SQLITE_OK);
        return {opened, &sqlite3_close};
    }

    void run(const std::string& sql) { run(*application, sql); }

    static void run(sqlite3& on, const std::string& sql)
    {
        char* message = nullptr;
        EXPECT_EQ(sqlite3_exec(&on, sql.c_str(), nullptr, nullptr, &message), SQLITE_OK)
            << sql << ": " << (message == nullptr ? "" : message);
        sqlite3_free(message);
    }

    std::int64_t number(const std::string& sql) const
    {
        sqlite3_stmt* prepared = nullptr;
        sqlite3_prepare_v2(application.get(), sql.c_str(), -1, &prepared, nullptr);
        const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> owned(prepared,
                                                                          &sqlite3_finalize);
        return sqlite3_step(prepared) == SQLITE_ROW ? sqlite3_column_int64(prepared, 0) : -1;
    }

    std::size_t messages() const
    {
        auto where = file.open();
        return list_messages(where, {.limit = 1'000}).size();
    }

    template <typename Call>
    static error failure_of(Call call)
    {
        try {
            call();
        } catch (const error& thrown) {
            return thrown;
        }
        return {error_code::internal, "nothing was thrown"};
    }

    temporary_store file;
    connection application;
};

// Proves: OUT-01, I1
TEST_F(borrowed, a_committed_order_and_its_message_are_both_there)
{
    sqlite::borrowed_transaction tx(application.get());
    run("BEGIN IMMEDIATE; INSERT INTO orders (customer) VALUES ('ada')");
    const auto placed = enqueue(tx, {"order.placed", "1"});
    EXPECT_EQ(messages(), 0U); // nobody else sees it yet
    run("COMMIT");
    auto where = file.open();
    const auto found = find_message(where, placed.id);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->payload, "1");
    EXPECT_EQ(number("SELECT count(*) FROM orders"), 1);
}

// Proves: OUT-01, I1
TEST_F(borrowed, a_rolled_back_order_leaves_no_message)
{
    sqlite::borrowed_transaction tx(application.get());
    run("BEGIN IMMEDIATE; INSERT INTO orders (customer) VALUES ('ada')");
    enqueue(tx, {"order.placed", "1"}, {.ordering_key = "ada", .dedup_key = "1"});
    run("ROLLBACK");
    EXPECT_EQ(messages(), 0U);
    EXPECT_EQ(number("SELECT count(*) FROM orders"), 0);
    // The dedup key was rolled back, too.
    run("BEGIN IMMEDIATE");
    EXPECT_FALSE(enqueue(tx, {"order.placed", "1"}, {.dedup_key = "1"}).duplicate);
    run("COMMIT");
}

// Proves: OUT-01
TEST_F(borrowed, a_savepoint_of_the_application_takes_its_messages_with_it)
{
    sqlite::borrowed_transaction tx(application.get());
    run("BEGIN IMMEDIATE");
    enqueue(tx, {"order.placed", "kept"});
    run("SAVEPOINT mine");
    const std::vector<outgoing> undone{{{"order.placed", "a"}}, {{"order.placed", "b"}}};
    enqueue(tx, undone);
    run("ROLLBACK TO mine; RELEASE mine; COMMIT");
    EXPECT_EQ(messages(), 1U);
}

// Proves: OUT-01
TEST_F(borrowed, without_an_open_transaction_nothing_is_written_and_the_error_says_what_to_do)
{
    sqlite::borrowed_transaction tx(application.get());
    const auto thrown = failure_of([&] { enqueue(tx, {"order.placed", "1"}); });
    EXPECT_EQ(thrown.code(), error_code::no_transaction);
    EXPECT_THAT(thrown.what(), HasSubstr("BEGIN IMMEDIATE"));
    EXPECT_EQ(messages(), 0U);
}

// Proves: OUT-01
TEST_F(borrowed, the_transaction_is_the_applications_to_end)
{
    sqlite::borrowed_transaction tx(application.get());
    run("BEGIN IMMEDIATE");
    enqueue(tx, {"order.placed", "1"});
    EXPECT_EQ(failure_of([&] { tx.commit(); }).code(), error_code::invalid_argument);
    EXPECT_EQ(failure_of([&] { tx.rollback(); }).code(), error_code::invalid_argument);
    EXPECT_EQ(sqlite3_get_autocommit(application.get()), 0);
    run("COMMIT");
    EXPECT_EQ(messages(), 1U);
}

TEST_F(borrowed, a_loan_serves_many_transactions_and_may_end_before_the_commit)
{
    {
        sqlite::borrowed_transaction tx(application.get());
        for (int i = 0; i < 3; ++i) {
            run("BEGIN IMMEDIATE");
            enqueue(tx, {"order.placed", std::to_string(i)});
            run("COMMIT");
        }
        run("BEGIN IMMEDIATE");
        enqueue(tx, {"order.placed", "last"});
    }
    run("COMMIT");
    EXPECT_EQ(messages(), 4U);
    EXPECT_EQ(sqlite3_next_stmt(application.get(), nullptr), nullptr); // all given back
}

// Proves: F16
TEST_F(borrowed, a_deferred_transaction_that_has_read_before_is_told_how_to_begin)
{
    run("BEGIN; SELECT count(*) FROM orders");
    const auto other = connect();
    run(*other, "INSERT INTO orders (customer) VALUES ('bob')");
    sqlite::borrowed_transaction tx(application.get());
    const auto thrown = failure_of([&] { enqueue(tx, {"order.placed", "1"}); });
    EXPECT_EQ(thrown.code(), error_code::busy);
    EXPECT_TRUE(thrown.retryable());
    EXPECT_EQ(thrown.native_code(), SQLITE_BUSY_SNAPSHOT);
    EXPECT_THAT(thrown.what(), AllOf(HasSubstr("roll back"), HasSubstr("BEGIN IMMEDIATE")));
    run("ROLLBACK; BEGIN IMMEDIATE");
    EXPECT_NO_THROW(enqueue(tx, {"order.placed", "1"}));
    run("COMMIT");
    EXPECT_EQ(messages(), 1U);
}

// Proves: OUT-08, F28
TEST_F(borrowed, a_bulk_enqueue_that_fails_in_the_middle_leaves_nothing_when_the_rest_commits)
{
    sqlite::borrowed_transaction tx(application.get());
    run("BEGIN IMMEDIATE; INSERT INTO orders (customer) VALUES ('ada')");
    const auto same = message_id::parse("018f0000-0000-7000-8000-000000abcdef");
    const std::vector<outgoing> twice{{{"order.placed", "1"}, {.ordering_key = "k"}},
                                      {{"order.placed", "2"}, {.id = same}},
                                      {{"order.placed", "3"}, {.dedup_key = "d"}},
                                      {{"order.placed", "4"}, {.id = same}}};
    const auto thrown = failure_of([&] { enqueue(tx, twice); });
    EXPECT_EQ(thrown.code(), error_code::constraint);
    EXPECT_THAT(thrown.what(), HasSubstr("018f0000-0000-7000-8000-000000abcdef"));
    EXPECT_EQ(sqlite3_get_autocommit(application.get()), 0); // the transaction goes on
    run("COMMIT");
    EXPECT_EQ(messages(), 0U);
    EXPECT_EQ(number("SELECT count(*) FROM orders"), 1);
    EXPECT_EQ(number("SELECT count(*) FROM posthorn_queue"), 0);
    EXPECT_EQ(number("SELECT count(*) FROM posthorn_dedup"), 0);
    EXPECT_EQ(file.problems(), "");
}

TEST_F(borrowed, the_settings_of_the_connection_stay_as_they_were)
{
    run("PRAGMA cache_size=-123; PRAGMA synchronous=NORMAL; PRAGMA busy_timeout=77");
    {
        sqlite::borrowed_transaction tx(application.get());
        run("BEGIN IMMEDIATE");
        enqueue(tx, {"order.placed", "1"});
        run("COMMIT");
    }
    EXPECT_EQ(number("PRAGMA cache_size"), -123);
    EXPECT_EQ(number("PRAGMA synchronous"), 1);
    EXPECT_EQ(number("PRAGMA busy_timeout"), 77);
}

TEST_F(borrowed, a_database_without_the_tables_is_named_as_such)
{
    const temporary_folder folder;
    sqlite3* opened = nullptr;
    ASSERT_EQ(sqlite3_open(folder.file("empty.db").c_str(), &opened), SQLITE_OK);
    const connection other{opened, &sqlite3_close};
    run(*other, "BEGIN IMMEDIATE");
    sqlite::borrowed_transaction tx(other.get());
    const auto thrown = failure_of([&] { enqueue(tx, {"order.placed", "1"}); });
    EXPECT_EQ(thrown.code(), error_code::schema_missing);
    EXPECT_THAT(thrown.what(), HasSubstr("posthorn init"));
}

TEST_F(borrowed, a_null_connection_and_a_bad_prefix_are_refused)
{
    EXPECT_EQ(failure_of([] { sqlite::borrowed_transaction tx(nullptr); }).code(),
              error_code::invalid_argument);
    EXPECT_EQ(failure_of([&] {
                  sqlite::borrowed_transaction tx(application.get(), {.prefix = "x; DROP"});
              }).code(),
              error_code::invalid_argument);
}

// Proves: OUT-01
TEST_F(borrowed, a_message_can_be_cancelled_in_the_applications_transaction)
{
    auto where = file.open();
    const auto placed = enqueue(where, {"order.placed", "1"});
    sqlite::borrowed_transaction tx(application.get());
    run("BEGIN IMMEDIATE");
    EXPECT_EQ(cancel(tx, placed.id), cancel_answer::cancelled);
    run("ROLLBACK");
    EXPECT_EQ(find_message(where, placed.id)->state, message_state::ready);
    run("BEGIN IMMEDIATE");
    EXPECT_EQ(cancel(tx, placed.id), cancel_answer::cancelled);
    run("COMMIT");
    EXPECT_EQ(find_message(where, placed.id)->state, message_state::cancelled);
}

} // namespace
} // namespace posthorn::test
