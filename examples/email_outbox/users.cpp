// Three engines, three client libraries: each gets the connection under Posthorn's transaction.
#include "users.hpp"

#include <posthorn/mariadb.hpp>
#include <posthorn/postgres.hpp>
#include <posthorn/sqlite.hpp>

#include <libpq-fe.h>
#include <mysql.h>
#include <sqlite3.h>

#include <stdexcept>

namespace {

namespace ph = posthorn;

constexpr auto drop_sql = "DROP TABLE IF EXISTS example_users";
constexpr auto create_sql =
    "CREATE TABLE example_users (id BIGINT PRIMARY KEY, email VARCHAR(200) NOT NULL)";
constexpr auto count_sql = "SELECT count(*) FROM example_users";

class on_sqlite final : public user_table {
    using statement = std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)>;

    static statement prepare(ph::transaction& tx, const char* sql)
    {
        auto* db = ph::sqlite::native_handle(tx);
        sqlite3_stmt* made = nullptr;
        if (sqlite3_prepare_v2(db, sql, -1, &made, nullptr) != SQLITE_OK)
            throw std::runtime_error(sqlite3_errmsg(db));
        return {made, &sqlite3_finalize};
    }

    static void step(const statement& which, int expected)
    {
        if (sqlite3_step(which.get()) != expected)
            throw std::runtime_error(sqlite3_errmsg(sqlite3_db_handle(which.get())));
    }

    void create(ph::transaction& tx) override
    {
        for (const auto* sql : {drop_sql, create_sql})
            step(prepare(tx, sql), SQLITE_DONE);
    }

    void insert(ph::transaction& tx, const user& who) override
    {
        const auto made = prepare(tx, "INSERT INTO example_users VALUES (?1, ?2)");
        sqlite3_bind_int64(made.get(), 1, who.id);
        sqlite3_bind_text(made.get(), 2, who.email.c_str(), -1, SQLITE_STATIC);
        step(made, SQLITE_DONE);
    }

    std::int64_t count(ph::transaction& tx) override
    {
        const auto made = prepare(tx, count_sql);
        step(made, SQLITE_ROW);
        return sqlite3_column_int64(made.get(), 0);
    }
};

class on_postgres final : public user_table {
    using answer = std::unique_ptr<PGresult, void (*)(PGresult*)>;

    static answer run(ph::transaction& tx, const char* sql, int count = 0,
                      const char* const* values = nullptr)
    {
        auto* db = ph::postgres::native_handle(tx);
        answer got(PQexecParams(db, sql, count, nullptr, values, nullptr, nullptr, 0), &PQclear);
        const auto status = PQresultStatus(got.get());
        if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
            throw std::runtime_error(PQerrorMessage(db));
        return got;
    }

    void create(ph::transaction& tx) override
    {
        run(tx, drop_sql);
        run(tx, create_sql);
    }

    void insert(ph::transaction& tx, const user& who) override
    {
        const auto id = std::to_string(who.id);
        const char* values[] = {id.c_str(), who.email.c_str()};
        run(tx, "INSERT INTO example_users VALUES ($1, $2)", 2, values);
    }

    std::int64_t count(ph::transaction& tx) override
    {
        return std::stoll(PQgetvalue(run(tx, count_sql).get(), 0, 0));
    }
};

class on_mariadb final : public user_table {
    static void run(MYSQL* db, const std::string& sql)
    {
        if (mysql_real_query(db, sql.data(), sql.size()) != 0)
            throw std::runtime_error(mysql_error(db));
    }

    // MariaDB ends the transaction when tables are changed: nothing else is in it here, and another
    // one is begun for whoever commits.
    void create(ph::transaction& tx) override
    {
        auto* db = ph::mariadb::native_handle(tx);
        for (const auto* sql : {drop_sql, create_sql, "START TRANSACTION"})
            run(db, sql);
    }

    void insert(ph::transaction& tx, const user& who) override
    {
        auto* db = ph::mariadb::native_handle(tx);
        std::string escaped(who.email.size() * 2 + 1, '\0');
        escaped.resize(
            mysql_real_escape_string(db, escaped.data(), who.email.data(), who.email.size()));
        run(db,
            "INSERT INTO example_users VALUES (" + std::to_string(who.id) + ", '" + escaped + "')");
    }

    std::int64_t count(ph::transaction& tx) override
    {
        auto* db = ph::mariadb::native_handle(tx);
        run(db, count_sql);
        const std::unique_ptr<MYSQL_RES, void (*)(MYSQL_RES*)> rows(mysql_store_result(db),
                                                                    &mysql_free_result);
        return std::stoll(mysql_fetch_row(rows.get())[0]);
    }
};

} // namespace

std::unique_ptr<user_table> users_of(std::string_view url)
{
    if (url.starts_with("sqlite:"))
        return std::make_unique<on_sqlite>();
    if (url.starts_with("postgres"))
        return std::make_unique<on_postgres>();
    return std::make_unique<on_mariadb>();
}
