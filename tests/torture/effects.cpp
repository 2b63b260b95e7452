// One statement through the client library of each engine.
#include "torture/effects.hpp"

#include <posthorn/mariadb.hpp>
#include <posthorn/postgres.hpp>
#include <posthorn/sqlite.hpp>

#include <libpq-fe.h>
#include <mysql.h>
#include <sqlite3.h>

#include <memory>
#include <stdexcept>

namespace posthorn::torture {
namespace {

// The first column of each row.
using answer = std::vector<std::string>;

answer run(sqlite3* db, const std::string& sql)
{
    sqlite3_stmt* raw = nullptr;
    if (sqlite3_prepare_v2(db, sql.c_str(), -1, &raw, nullptr) != SQLITE_OK)
        throw std::runtime_error(sqlite3_errmsg(db));
    const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> prepared(raw, &sqlite3_finalize);
    answer result;
    int code = sqlite3_step(raw);
    for (; code == SQLITE_ROW; code = sqlite3_step(raw))
        result.emplace_back(reinterpret_cast<const char*>(sqlite3_column_text(raw, 0)));
    if (code != SQLITE_DONE)
        throw std::runtime_error(sqlite3_errmsg(db));
    return result;
}

answer run(PGconn* db, const std::string& sql)
{
    const std::unique_ptr<PGresult, void (*)(PGresult*)> result(PQexec(db, sql.c_str()), &PQclear);
    const auto status = PQresultStatus(result.get());
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        throw std::runtime_error(PQerrorMessage(db));
    answer texts;
    for (int row = 0; row < PQntuples(result.get()); ++row)
        texts.emplace_back(PQgetvalue(result.get(), row, 0));
    return texts;
}

answer run(MYSQL* db, const std::string& sql)
{
    if (mysql_real_query(db, sql.data(), sql.size()) != 0)
        throw std::runtime_error(mysql_error(db));
    const std::unique_ptr<MYSQL_RES, void (*)(MYSQL_RES*)> result(mysql_store_result(db),
                                                                  &mysql_free_result);
    answer texts;
    if (result)
        while (auto* const row = mysql_fetch_row(result.get()))
            texts.emplace_back(row[0]);
    return texts;
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

std::vector<std::string> texts_in(transaction& tx, std::string_view url, const std::string& sql)
{
    return run_in(tx, url, sql);
}

std::int64_t count_in(transaction& tx, std::string_view url, const std::string& sql)
{
    return std::stoll(run_in(tx, url, sql).at(0));
}

} // namespace posthorn::torture
