// The connection of a transaction: the application's own statements share its fate.
#include "integration/mariadb/fresh_database.hpp"
#include <posthorn/sqlite.hpp>

#include <gtest/gtest.h>

#include <string>

namespace posthorn::test {
namespace {

void run(MYSQL* db, const std::string& sql)
{
    ASSERT_EQ(mysql_real_query(db, sql.data(), sql.size()), 0) << mysql_error(db);
}

class mariadb_native_handle : public ::testing::Test {
protected:
    mariadb_native_handle() { app.run("CREATE TABLE orders (id INT PRIMARY KEY)"); }

    std::string orders() { return app.run("SELECT COUNT(*) FROM orders"); }

    migrated_database database;
    native_client app{database.name};
    store db = mariadb::open(database.url());
    const message some{.topic = "orders", .payload = ""};
};

// Proves: OUT-01, I1
TEST_F(mariadb_native_handle, what_is_written_through_it_is_committed_with_the_message)
{
    auto tx = db.begin();
    run(mariadb::native_handle(tx), "INSERT INTO orders VALUES (1)");
    enqueue(tx, some);
    run(mariadb::native_handle(tx), "INSERT INTO orders VALUES (2)");
    EXPECT_EQ(orders(), "0");
    tx.commit();
    EXPECT_EQ(orders(), "2");
    EXPECT_EQ(count_messages(db).ready, 1);
}

TEST_F(mariadb_native_handle, what_is_written_through_it_is_rolled_back_with_the_message)
{
    {
        auto tx = db.begin();
        enqueue(tx, some);
        run(mariadb::native_handle(tx), "INSERT INTO orders VALUES (1)");
    }
    EXPECT_EQ(orders(), "0");
    EXPECT_EQ(count_messages(db).ready, 0);
}

TEST_F(mariadb_native_handle, of_a_lent_transaction_it_is_the_lent_connection)
{
    mariadb::borrowed_transaction tx{app.handle()};
    EXPECT_EQ(error_of([&] { (void)mariadb::native_handle(tx); }).code(),
              error_code::no_transaction);
    app.run("START TRANSACTION");
    EXPECT_EQ(mariadb::native_handle(tx), app.handle());
    app.run("ROLLBACK");
}

TEST_F(mariadb_native_handle, is_refused_for_other_stores_and_for_what_has_ended)
{
    auto ended = db.begin();
    ended.commit();
    EXPECT_EQ(error_of([&] { (void)mariadb::native_handle(ended); }).code(),
              error_code::no_transaction);
    const auto file = ::testing::TempDir() + "/native_handle.db";
    sqlite::migrate("sqlite:" + file);
    auto elsewhere = sqlite::open("sqlite:" + file);
    auto tx = elsewhere.begin();
    EXPECT_EQ(error_of([&] { (void)mariadb::native_handle(tx); }).code(),
              error_code::invalid_argument);
}

} // namespace
} // namespace posthorn::test
