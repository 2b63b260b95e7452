// One question, one connection: it is asked every minute or so.
#include "app/daemon/query.hpp"

#include "store/mariadb/location.hpp"
#include "store/postgres/connection.hpp"
#include "store/sqlite/location.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <memory>

namespace posthorn::daemon {
namespace {

// More would be a mistake in the query, such as a join without its condition. They are refused and
// not cut short: which of them are stores would be a matter of chance, and the others would leave.
constexpr std::size_t rows_max = 100'000;

[[noreturn]] void refuse_query(std::string_view why)
{
    throw error(error_code::unavailable, fmt::format("the query failed: {}", why));
}

found_row& add_row(std::vector<found_row>& to)
{
    if (to.size() == rows_max)
        refuse_query(fmt::format("it gives more than {} rows", rows_max));
    return to.emplace_back();
}

std::vector<found_row> ask_sqlite(const std::string& url, const std::string& sql)
{
    const auto where = sqlite::location::parse(url, {});
    sqlite3* opened = nullptr;
    const int code = sqlite3_open_v2(where.path.c_str(), &opened, SQLITE_OPEN_READONLY, nullptr);
    const std::unique_ptr<sqlite3, int (*)(sqlite3*)> db(opened, &sqlite3_close);
    if (code != SQLITE_OK)
        throw error(error_code::unavailable, fmt::format("cannot open '{}'", where.path));
    sqlite3_busy_timeout(db.get(), 5'000);
    sqlite3_stmt* made = nullptr;
    if (sqlite3_prepare_v2(db.get(), sql.c_str(), -1, &made, nullptr) != SQLITE_OK)
        refuse_query(sqlite3_errmsg(db.get()));
    const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement(made, &sqlite3_finalize);
    std::vector<found_row> result;
    int step = SQLITE_DONE;
    while ((step = sqlite3_step(made)) == SQLITE_ROW) {
        auto& row = add_row(result);
        for (int i = 0; i < sqlite3_column_count(made); ++i) {
            // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): as the library has it
            const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(made, i));
            row[sqlite3_column_name(made, i)] = text == nullptr ? "" : text;
        }
    }
    if (step != SQLITE_DONE)
        refuse_query(sqlite3_errmsg(db.get()));
    return result;
}

std::vector<found_row> ask_postgres(const std::string& url, const std::string& sql)
{
    postgres::connection db(postgres::location::parse(url));
    db.execute("BEGIN TRANSACTION READ ONLY", "discover stores");
    // The query is not ours: its tables are where the role, the database or the URL says.
    db.execute("SET LOCAL search_path TO DEFAULT", "discover stores");
    const std::unique_ptr<PGresult, void (*)(PGresult*)> rows(PQexec(db.handle(), sql.c_str()),
                                                              &PQclear);
    if (PQresultStatus(rows.get()) != PGRES_TUPLES_OK)
        refuse_query(PQresultErrorMessage(rows.get()));
    std::vector<found_row> result;
    for (int i = 0; i < PQntuples(rows.get()); ++i) {
        auto& row = add_row(result);
        for (int j = 0; j < PQnfields(rows.get()); ++j)
            row[PQfname(rows.get(), j)] = PQgetvalue(rows.get(), i, j);
    }
    return result;
}

std::vector<found_row> ask_mariadb(const std::string& url, const std::string& sql)
{
    const mariadb::connection db(mariadb::parse_location(url, {}));
    if (mysql_query(db.handle(), "START TRANSACTION READ ONLY") != 0 ||
        mysql_real_query(db.handle(), sql.data(), sql.size()) != 0)
        refuse_query(mysql_error(db.handle()));
    const std::unique_ptr<MYSQL_RES, void (*)(MYSQL_RES*)> rows(mysql_store_result(db.handle()),
                                                                &mysql_free_result);
    if (rows == nullptr)
        refuse_query("it gave no rows");
    std::vector<found_row> result;
    const auto* fields = mysql_fetch_fields(rows.get());
    while (const auto* values = mysql_fetch_row(rows.get())) {
        auto& row = add_row(result);
        const auto* lengths = mysql_fetch_lengths(rows.get());
        for (unsigned i = 0; i < mysql_num_fields(rows.get()); ++i)
            row[fields[i].name] =
                values[i] == nullptr ? std::string{} : std::string(values[i], lengths[i]);
    }
    return result;
}

} // namespace

std::vector<found_row> run_query(const secret_url& where, const std::string& sql)
{
    const auto scheme = where.scheme();
    if (scheme == "sqlite")
        return ask_sqlite(where.reveal(), sql);
    if (scheme == "postgresql" || scheme == "postgres")
        return ask_postgres(where.reveal(), sql);
    return ask_mariadb(where.reveal(), sql);
}

} // namespace posthorn::daemon
