// What an application does with the same file, or with the connection of a transaction.
#include "conformance/conformance_test.hpp"
#include "integration/sqlite/temporary_store.hpp"
#include "store/sqlite/connection.hpp"

#include <sqlite3.h>

#include <memory>
#include <string>

namespace posthorn::test {
namespace {

using conformance::thrown_by;

struct close_database {
    void operator()(sqlite3* db) const { sqlite3_close(db); }
};
struct finalize_statement {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using statement = std::unique_ptr<sqlite3_stmt, finalize_statement>;

statement prepared(sqlite3* db, const char* sql)
{
    sqlite3_stmt* result = nullptr;
    EXPECT_EQ(sqlite3_prepare_v2(db, sql, -1, &result, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
    return statement(result);
}

} // namespace

// Proves: I1
TEST(sqlite_neighbours, a_statement_that_is_not_read_to_its_end_hides_nothing_from_those_who_follow)
{
    const temporary_store file;
    auto ours = file.open();
    auto theirs = file.open();
    enqueue(ours, {"orders", "1"});
    statement reading;
    {
        auto tx = ours.read();
        reading = prepared(sqlite::native_handle(tx), "SELECT seq FROM posthorn_message");
        EXPECT_EQ(sqlite3_step(reading.get()), SQLITE_ROW);
        tx.commit();
    }
    const auto later = enqueue(theirs, {"orders", "2"});
    EXPECT_TRUE(find_message(ours, later.id)) << "on the connection that was read from";
    reading.reset();
}

// Proves: OPS-02
TEST(sqlite_neighbours, a_database_whose_text_is_utf_16_is_refused)
{
    const temporary_folder folder;
    const auto path = folder.file("wide.db");
    {
        sqlite3* opened = nullptr;
        ASSERT_EQ(sqlite3_open(path.c_str(), &opened), SQLITE_OK);
        const std::unique_ptr<sqlite3, close_database> db(opened);
        ASSERT_EQ(sqlite3_exec(opened, "PRAGMA encoding = 'UTF-16'; CREATE TABLE theirs (i)",
                               nullptr, nullptr, nullptr),
                  SQLITE_OK);
    }
    const auto said = thrown_by([&] { (void)sqlite::migrate("sqlite:" + path); });
    EXPECT_EQ(said.code(), error_code::unsupported) << said.what();
}

TEST(sqlite_neighbours, a_race_for_the_log_and_a_lack_of_memory_pass)
{
    for (const auto& [code, meaning] : {std::pair{SQLITE_PROTOCOL, error_code::busy},
                                        std::pair{SQLITE_NOMEM, error_code::unavailable}}) {
        const auto said = thrown_by([&] { sqlite::throw_error(nullptr, code, "read"); });
        EXPECT_EQ(said.code(), meaning) << said.what();
        EXPECT_TRUE(said.retryable()) << said.what();
    }
}

} // namespace posthorn::test
