// One statement through the client library of each engine.
#include "torture/effects.hpp"

#include <posthorn/mariadb.hpp>
#include <posthorn/postgres.hpp>
#include <posthorn/sqlite.hpp>

#include <libpq-fe.h>
#include <mysql.h>
#include <sqlite3.h>

#include <memory>
#include <optional>
#include <stdexcept>

namespace posthorn::torture {
namespace {

// The first column of the first row, if there is one.
using answer = std::optional<std::int64_t>;

answer run(sqlite3* db, const std::string& sql)
{
    sqlite3_stmt* raw = nullptr;
    if (sqlite3_prepare_v2(db, sql.c_str(), -1, &raw, nullptr) != SQLITE_OK)
        throw std::runtime_error(sqlite3_errmsg(db));
    const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> prepared(raw, &sqlite3_finalize);
    const int code = sqlite3_step(raw);
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        throw std::runtime_error(sqlite3_errmsg(db));
    return code == SQLITE_ROW ? answer{sqlite3_column_int64(raw, 0)} : std::nullopt;
}

answer run(PGconn* db, const std::string& sql)
{
    const std::unique_ptr<PGresult, void (*)(PGresult*)> result(PQexec(db, sql.c_str()), &PQclear);
    const auto status = PQresultStatus(result.get());
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        throw std::runtime_error(PQerrorMessage(db));
    return PQntuples(result.get()) > 0 ? answer{std::stoll(PQgetvalue(result.get(), 0, 0))}
                                       : std::nullopt;
}

answer run(MYSQL* db, const std::string& sql)
{
    if (mysql_real_query(db, sql.data(), sql.size()) != 0)
        throw std::runtime_error(mysql_error(db));
    const std::unique_ptr<MYSQL_RES, void (*)(MYSQL_RES*)> result(mysql_store_result(db),
                                                                  &mysql_free_result);
    auto* const row = result ? mysql_fetch_row(result.get()) : nullptr;
    return row != nullptr ? answer{std::stoll(row[0])} : std::nullopt;
}

answer run_in(transaction& tx, std::string_view url, const std::string& sql)
{
    if (url.starts_with("sqlite:"))
        return run(sqlite::native_handle(tx), sql);
    if (url.starts_with("postgres"))
        return run(postgres::native_handle(tx), sql);
    return run(mariadb::native_handle(tx), sql);
}

} // namespace

void execute_in(transaction& tx, std::string_view url, const std::string& sql)
{
    (void)run_in(tx, url, sql);
}

std::int64_t count_in(transaction& tx, std::string_view url, const std::string& sql)
{
    return run_in(tx, url, sql).value();
}

} // namespace posthorn::torture
