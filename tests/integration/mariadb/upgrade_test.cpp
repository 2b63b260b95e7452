// A store of version 1, filled and then brought up to date: everything in it goes on.
#include "integration/mariadb/fresh_database.hpp"
#include "store/mariadb/connection.hpp"
#include "store/mariadb/location.hpp"
#include "store/mariadb/schema.hpp"
#include "store/mariadb/statements.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace posthorn::test {
namespace {

// As version 1 made it, with messages of every kind; the old procedure enqueued them.
class version_1_store : public ::testing::Test {
protected:
    version_1_store()
    {
        mariadb::connection db(mariadb::parse_location(database.url(), {}));
        const auto& first = mariadb::sql::migrations.front();
        for (const auto& each : mariadb::statements_of(first.text))
            db.execute(db.with_prefix(each), first.name);
        root.run("INSERT INTO posthorn_schema VALUES (1, '0001_outbox', 0)");
        for (const auto* options :
             {"NULL", "'{\"ordering_key\":\"k\"}'", "'{\"ordering_key\":\"k\"}'",
              "'{\"priority\":7}'", "'{\"delay_ms\":3600000}'"})
            root.run(std::string("CALL posthorn_enqueue('orders', '', ") + options + ", @id)");
    }

    fresh_database database;
    native_client root{database.name};
    owner worker{.token = "token", .worker = "worker"};
};

TEST_F(version_1_store, is_refused_until_it_is_migrated)
{
    EXPECT_EQ(error_of([&] { (void)mariadb::open(database.url()); }).code(),
              error_code::schema_outdated);
}

TEST_F(version_1_store, goes_on_after_its_migration)
{
    const auto report = mariadb::migrate(database.url());
    EXPECT_EQ(report.version_before, 1);
    EXPECT_EQ(report.version_after, 12);
    EXPECT_EQ(report.applied,
              (std::vector<std::string>{
                  "0002_runtime", "0003_joins", "0004_inbox", "0005_leases", "0006_schedules",
                  "0007_enqueue_without_gaps", "0008_stale_heads", "0009_enqueue_unshadowed",
                  "0010_join_traces", "0011_remote_joins", "0012_long_topics"}));

    auto db = mariadb::open(database.url());
    outbox box(db);
    const auto claimed = box.claim(worker);
    EXPECT_EQ(claimed.size(), 3U);
    std::vector<settlement> all;
    for (const auto& each : claimed.receipts())
        all.push_back({each, park(park_reason::no_handler)});
    EXPECT_EQ(box.settle(worker, all).answers, std::vector(3, settled_as::parked));
    const auto stats = count_messages(db);
    EXPECT_EQ(stats.parked, 3);
    EXPECT_EQ(stats.waiting, 1);
    EXPECT_EQ(stats.delayed, 1);
    EXPECT_TRUE(pause(db, "orders"));
    const auto again = box.claim(worker, {.unpark = {"orders"}});
    EXPECT_EQ(box.acknowledge(worker, again.receipts()).settled(), 3U);
    EXPECT_EQ(box.claim(worker).size(), 1U);
    for (const auto& each : mariadb::diagnose(database.url()))
        EXPECT_NE(each.level, severity::problem) << each.check << ": " << each.detail;
}

// Proves: OPS-02, OUT-02, OUT-20
TEST_F(version_1_store, takes_long_topics_then_and_has_not_rewritten_its_messages)
{
    const auto table = [&] {
        return root.run("SELECT table_id FROM information_schema.innodb_sys_tables "
                        "WHERE name = CONCAT(DATABASE(), '/posthorn_message')");
    };
    const auto before = table();
    ASSERT_NE(before, "");
    mariadb::migrate(database.url());
    EXPECT_EQ(table(), before) << "a table that is written anew has another number";

    auto db = mariadb::open(database.url());
    const std::string longest(500, 'x');
    root.run("CALL posthorn_enqueue('" + longest + "', '', '{\"dedup_key\":\"d\"}', @id)");
    EXPECT_TRUE(enqueue(db, {longest, ""}, {.dedup_key = "d"}).duplicate);
    EXPECT_EQ(list_messages(db, {.topic = longest}).size(), 1U);
    EXPECT_EQ(list_messages(db, {.topic = "orders"}).size(), 5U);
}

TEST_F(version_1_store, lets_those_enqueue_who_could_before_its_migration)
{
    const auto user = "u" + std::to_string(environment::system().random->bits() % 1'000'000'000);
    root.run("CREATE USER " + user + "@'%'");
    root.run("GRANT EXECUTE ON PROCEDURE " + database.name + ".posthorn_enqueue TO " + user +
             "@'%'");
    mariadb::migrate(database.url());
    const std::unique_ptr<MYSQL, void (*)(MYSQL*)> app(mysql_init(nullptr), &mysql_close);
    ASSERT_NE(mysql_real_connect(app.get(), "127.0.0.1", user.c_str(), "", database.name.c_str(),
                                 server_address::of_tests().port, nullptr, CLIENT_MULTI_RESULTS),
              nullptr);
    EXPECT_EQ(mysql_query(app.get(), "CALL posthorn_enqueue('orders', 'x', NULL, @id)"), 0)
        << mysql_error(app.get());
    root.run("DROP USER " + user + "@'%'");
}

TEST_F(version_1_store, a_migration_that_broke_off_is_finished_by_the_next)
{
    mariadb::migrate(database.url());
    root.run("DELETE FROM posthorn_schema WHERE version >= 2");
    root.run("DROP TABLE posthorn_paused");
    EXPECT_EQ(error_of([&] { (void)mariadb::open(database.url()); }).code(),
              error_code::schema_outdated);
    EXPECT_EQ(mariadb::migrate(database.url()).version_after, 12);
    auto db = mariadb::open(database.url());
    EXPECT_TRUE(pause(db));
}

TEST_F(version_1_store, a_table_of_its_version_that_is_gone_is_missed)
{
    root.run("DROP TABLE posthorn_dedup");
    root.run("CREATE TABLE posthorn_parked (i INT) COMMENT 'Posthorn'");
    EXPECT_EQ(error_of([&] { mariadb::migrate(database.url()); }).code(),
              error_code::schema_foreign);
}

} // namespace
} // namespace posthorn::test
