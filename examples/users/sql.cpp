// Three engines, three client libraries: each gets the connection under Posthorn's transaction.
#include "sql.hpp"

#include <posthorn/error.hpp>
#include <posthorn/mariadb.hpp>
#include <posthorn/postgres.hpp>
#include <posthorn/sqlite.hpp>

#include <libpq-fe.h>
#include <mysql.h>
#include <mysqld_error.h>
#include <sqlite3.h>

#include <memory>

namespace users {
namespace {

namespace ph = posthorn;

enum class failure { duplicate, victim, locked, other };

// Words of the server, which quote no values.
[[noreturn]] void fail(failure why, const std::string& words)
{
    switch (why) {
    case failure::duplicate: throw duplicate_row(words);
    case failure::victim:
        throw ph::error(ph::error_code::serialization, words, {.retryable = true});
    case failure::locked: throw ph::error(ph::error_code::busy, words, {.retryable = true});
    case failure::other: break;
    }
    throw std::runtime_error(words);
}

sql::answer run_on_sqlite(ph::transaction& tx, const std::string& statement,
                          const sql::values& with)
{
    auto* db = ph::sqlite::native_handle(tx);
    sqlite3_stmt* prepared = nullptr;
    int code = sqlite3_prepare_v2(db, statement.c_str(), -1, &prepared, nullptr);
    const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> owner(prepared, &sqlite3_finalize);
    for (int i = 0; code == SQLITE_OK && i < static_cast<int>(with.size()); ++i)
        code = sqlite3_bind_text(prepared, i + 1, with[static_cast<std::size_t>(i)].c_str(), -1,
                                 SQLITE_STATIC);
    sql::answer result;
    while (code == SQLITE_OK || code == SQLITE_ROW) {
        code = sqlite3_step(prepared);
        if (code != SQLITE_ROW)
            break;
        auto& row = result.rows.emplace_back();
        for (int i = 0; i < sqlite3_column_count(prepared); ++i)
            row.emplace_back(reinterpret_cast<const char*>(sqlite3_column_text(prepared, i)),
                             static_cast<std::size_t>(sqlite3_column_bytes(prepared, i)));
    }
    if (code != SQLITE_DONE)
        fail(sqlite3_extended_errcode(db) == SQLITE_CONSTRAINT_UNIQUE ? failure::duplicate
                                                                      : failure::other,
             sqlite3_errmsg(db));
    result.changed = static_cast<std::size_t>(sqlite3_changes(db));
    return result;
}

failure failure_of(std::string_view sqlstate)
{
    if (sqlstate == "23505")
        return failure::duplicate;
    if (sqlstate == "40001" || sqlstate == "40P01")
        return failure::victim;
    return sqlstate == "55P03" ? failure::locked : failure::other;
}

// PostgreSQL numbers its parameters.
std::string numbered(const std::string& statement)
{
    std::string result;
    int number = 0;
    for (const char each : statement)
        result += each == '?' ? "$" + std::to_string(++number) : std::string(1, each);
    return result;
}

sql::answer run_on_postgres(ph::transaction& tx, const std::string& statement,
                            const sql::values& with)
{
    std::vector<const char*> values;
    for (const auto& each : with)
        values.push_back(each.c_str());
    const std::unique_ptr<PGresult, void (*)(PGresult*)> got(
        PQexecParams(ph::postgres::native_handle(tx), numbered(statement).c_str(),
                     static_cast<int>(values.size()), nullptr, values.data(), nullptr, nullptr, 0),
        &PQclear);
    const auto status = PQresultStatus(got.get());
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
        const char* state = PQresultErrorField(got.get(), PG_DIAG_SQLSTATE);
        const char* words = PQresultErrorField(got.get(), PG_DIAG_MESSAGE_PRIMARY);
        fail(failure_of(state != nullptr ? state : ""),
             words != nullptr ? words : "the server went away");
    }
    sql::answer result;
    for (int i = 0; i < PQntuples(got.get()); ++i) {
        auto& row = result.rows.emplace_back();
        for (int j = 0; j < PQnfields(got.get()); ++j)
            row.emplace_back(PQgetvalue(got.get(), i, j));
    }
    const std::string changed = PQcmdTuples(got.get());
    result.changed = changed.empty() ? 0 : std::stoul(changed);
    return result;
}

failure failure_of(unsigned code)
{
    if (code == ER_DUP_ENTRY)
        return failure::duplicate;
    if (code == ER_LOCK_DEADLOCK)
        return failure::victim;
    return code == ER_LOCK_WAIT_TIMEOUT ? failure::locked : failure::other;
}

std::string with_literals(MYSQL* db, const std::string& statement, const sql::values& with)
{
    std::string result;
    auto value = with.begin();
    for (const char each : statement) {
        if (each != '?') {
            result += each;
            continue;
        }
        std::string escaped(value->size() * 2 + 1, '\0');
        escaped.resize(mysql_real_escape_string(db, escaped.data(), value->data(), value->size()));
        result += "'" + escaped + "'";
        ++value;
    }
    return result;
}

sql::answer run_on_mariadb(ph::transaction& tx, const std::string& statement,
                           const sql::values& with)
{
    auto* db = ph::mariadb::native_handle(tx);
    const auto text = with_literals(db, statement, with);
    if (mysql_real_query(db, text.data(), text.size()) != 0) {
        const auto why = failure_of(mysql_errno(db));
        // The words about a duplicate quote it.
        fail(why, why == failure::duplicate ? "the row is there already" : mysql_error(db));
    }
    sql::answer result;
    const std::unique_ptr<MYSQL_RES, void (*)(MYSQL_RES*)> got(mysql_store_result(db),
                                                               &mysql_free_result);
    if (!got) {
        result.changed = static_cast<std::size_t>(mysql_affected_rows(db));
        return result;
    }
    while (auto* row = mysql_fetch_row(got.get()))
        result.rows.emplace_back(row, row + mysql_num_fields(got.get()));
    return result;
}

} // namespace

const sql::engine sql::on_sqlite{&run_on_sqlite, "", false};
const sql::engine sql::on_postgres{&run_on_postgres, "", false};
const sql::engine sql::on_mariadb{&run_on_mariadb,
                                  " ENGINE=InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", true};

sql::sql(std::string_view url)
    : engine_(url.starts_with("postgres")  ? &on_postgres
              : url.starts_with("mariadb") ? &on_mariadb
                                           : &on_sqlite)
{}

} // namespace users
