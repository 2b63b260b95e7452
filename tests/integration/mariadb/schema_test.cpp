// Migrations: repeated, broken off, at the same time, and on tables that are somebody else's.
#include "integration/mariadb/fresh_database.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <vector>

namespace posthorn::test {
namespace {

using ::testing::HasSubstr;

constexpr int latest = 12; ///< the newest version of the tables

TEST(mariadb_migration, repeating_it_changes_nothing)
{
    fresh_database database;
    const auto first = mariadb::migrate(database.url());
    EXPECT_EQ(first.version_before, 0);
    EXPECT_EQ(first.version_after, latest);
    EXPECT_EQ(first.applied.size(), std::size_t{latest});
    const auto again = mariadb::migrate(database.url());
    EXPECT_EQ(again.version_before, latest);
    EXPECT_TRUE(again.applied.empty());
}

TEST(mariadb_migration, one_that_broke_off_is_finished_by_the_next)
{
    fresh_database database;
    mariadb::migrate(database.url());
    native_client root(database.name);
    root.run("DELETE FROM posthorn_schema");
    root.run("DROP TABLE posthorn_dedup");
    root.run("DROP PROCEDURE posthorn_enqueue");
    EXPECT_EQ(error_of([&] { (void)mariadb::open(database.url()); }).code(),
              error_code::schema_missing);
    mariadb::migrate(database.url());
    auto db = mariadb::open(database.url());
    enqueue(db, {.topic = "t", .payload = ""}, {.dedup_key = "d"});
    root.run("CALL posthorn_enqueue('t', '', NULL, @id)");
    EXPECT_EQ(count_messages(db).ready, 2);
}

TEST(mariadb_migration, two_at_once_do_no_harm)
{
    fresh_database database;
    std::vector<std::future<migration_report>> all;
    for (int i = 0; i < 4; ++i)
        all.push_back(
            std::async(std::launch::async, [&] { return mariadb::migrate(database.url()); }));
    std::size_t applied = 0;
    for (auto& each : all)
        applied += each.get().applied.size();
    EXPECT_EQ(applied, std::size_t{latest});
}

TEST(mariadb_migration, tables_of_somebody_else_are_left_alone)
{
    fresh_database database;
    native_client root(database.name);
    root.run("CREATE TABLE posthorn_queue (mine INT)");
    const auto failure = error_of([&] { mariadb::migrate(database.url()); });
    EXPECT_EQ(failure.code(), error_code::schema_foreign);
    EXPECT_THAT(failure.what(), HasSubstr("posthorn_queue"));
    EXPECT_EQ(root.run("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = '" +
                       database.name + "'"),
              "1");
    mariadb::migrate(database.url("?prefix=other_"));
    auto db = mariadb::open(database.url("?prefix=other_"));
    enqueue(db, {.topic = "t", .payload = ""});
}

TEST(mariadb_migration, newer_tables_are_refused)
{
    migrated_database database;
    native_client root(database.name);
    root.run("INSERT INTO posthorn_schema VALUES (99, 'later', 0)");
    EXPECT_EQ(error_of([&] { (void)mariadb::open(database.url()); }).code(),
              error_code::schema_newer);
    EXPECT_EQ(error_of([&] { mariadb::migrate(database.url()); }).code(), error_code::schema_newer);
}

TEST(mariadb_doctor, finds_nothing_in_a_new_store_and_what_was_damaged_in_another)
{
    migrated_database database;
    auto db = mariadb::open(database.url());
    for (const auto* key : {"", "k", "k"})
        enqueue(db, {.topic = "t", .payload = ""}, {.ordering_key = key});
    outbox box(db);
    EXPECT_EQ(box.claim({.token = "token"}).size(), 2U);
    for (const auto& each : mariadb::diagnose(database.url()))
        EXPECT_NE(each.level, severity::problem) << each.check << ": " << each.detail;

    native_client root(database.name);
    const auto complaints = [&] {
        std::vector<std::string> result;
        for (const auto& each : mariadb::diagnose(database.url()))
            if (each.level == severity::problem)
                result.push_back(each.check);
        return result;
    };
    root.run("DELETE FROM posthorn_key_head");
    EXPECT_THAT(complaints(), ::testing::ElementsAre("ordering keys"));
    root.run("DELETE FROM posthorn_batch");
    EXPECT_THAT(complaints(), ::testing::ElementsAre("claims", "ordering keys", "log"));
    root.run("DROP INDEX posthorn_queue_claim ON posthorn_queue");
    root.run("DROP PROCEDURE posthorn_enqueue");
    EXPECT_THAT(complaints(),
                ::testing::ElementsAre("indexes", "procedure", "claims", "ordering keys", "log"));
    root.run("DELETE FROM posthorn_message");
    EXPECT_THAT(complaints(), ::testing::Contains("lost messages"));
}

} // namespace
} // namespace posthorn::test
