// The code of docs/guides/exactly-once.md.
#include <posthorn/json.hpp>
#include <posthorn/mariadb.hpp>
#include <posthorn/postgres.hpp>
#include <posthorn/posthorn.hpp>
#include <posthorn/sqlite.hpp>
#include <posthorn/testing/testing.hpp>
#include <posthorn/worker.hpp>

#include <libpq-fe.h>
#include <mysql.h>
#include <sqlite3.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace ph = posthorn;

struct payment {
    std::int64_t account = 0;
    std::int64_t cents = 0;

    NLOHMANN_DEFINE_TYPE_INTRUSIVE(payment, account, cents)
};

template <>
struct posthorn::message_type<payment> {
    static constexpr std::string_view topic = "payments";
};

namespace {

namespace on_sqlite {

void run(ph::transaction& tx, const char* sql, const std::vector<std::string>& values = {})
{
    sqlite3* db = ph::sqlite::native_handle(tx);
    sqlite3_stmt* statement = nullptr;
    sqlite3_prepare_v2(db, sql, -1, &statement, nullptr);
    for (std::size_t i = 0; i < values.size(); ++i)
        sqlite3_bind_text(statement, static_cast<int>(i) + 1, values[i].data(),
                          static_cast<int>(values[i].size()), SQLITE_STATIC);
    const bool worked = sqlite3_step(statement) == SQLITE_DONE;
    sqlite3_finalize(statement);
    if (!worked)
        throw std::runtime_error(sqlite3_errmsg(db));
}

} // namespace on_sqlite

namespace on_postgres {

void run(ph::transaction& tx, const char* sql, const std::vector<std::string>& values = {})
{
    PGconn* db = ph::postgres::native_handle(tx);
    std::vector<const char*> texts;
    for (const auto& each : values)
        texts.push_back(each.c_str());
    PGresult* answer = PQexecParams(db, sql, static_cast<int>(texts.size()), nullptr, texts.data(),
                                    nullptr, nullptr, 0);
    const bool worked = PQresultStatus(answer) == PGRES_COMMAND_OK;
    PQclear(answer);
    if (!worked)
        throw std::runtime_error(PQerrorMessage(db));
}

} // namespace on_postgres

namespace on_mariadb {

void run(ph::transaction& tx, const std::string& sql, std::vector<std::string> values = {})
{
    MYSQL* db = ph::mariadb::native_handle(tx);
    std::vector<MYSQL_BIND> binds(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
        binds[i].buffer_type = MYSQL_TYPE_STRING;
        binds[i].buffer = values[i].data();
        binds[i].buffer_length = values[i].size();
    }
    MYSQL_STMT* statement = mysql_stmt_init(db);
    const bool worked = mysql_stmt_prepare(statement, sql.data(), sql.size()) == 0 &&
                        (binds.empty() || mysql_stmt_bind_param(statement, binds.data()) == 0) &&
                        mysql_stmt_execute(statement) == 0;
    const std::string complaint = mysql_stmt_error(statement);
    mysql_stmt_close(statement);
    if (!worked)
        throw std::runtime_error(complaint);
}

} // namespace on_mariadb

using on_sqlite::run;

void register_handlers(ph::worker& worker)
{
    worker.handle<payment>([](ph::transactional_delivery<payment>& d) {
        run(d.tx(), "UPDATE accounts SET cents = cents + ?1 WHERE id = ?2",
            {std::to_string(d.value().cents), std::to_string(d.value().account)});
        ph::enqueue(d.tx(), {"receipts", d.payload()});
    });
}

std::int64_t cents(ph::store& store)
{
    auto tx = store.begin();
    sqlite3_stmt* query = nullptr;
    sqlite3_prepare_v2(ph::sqlite::native_handle(tx), "SELECT cents FROM accounts", -1, &query,
                       nullptr);
    sqlite3_step(query);
    const auto found = sqlite3_column_int64(query, 0);
    sqlite3_finalize(query);
    return found;
}

} // namespace

int main()
{
    ph::testing::store_for_tests store;
    auto tx = store.begin();
    on_sqlite::run(tx, "CREATE TABLE accounts (id INTEGER PRIMARY KEY, cents INTEGER)");
    on_sqlite::run(tx, "INSERT INTO accounts VALUES (1, 0)");
    tx.commit();

    ph::worker worker(store);
    register_handlers(worker);
    int failures = 2;
    worker.handle("receipts", [&](ph::transactional_delivery<>& d) -> ph::outcome {
        run(d.tx(), "UPDATE accounts SET cents = cents + 1");
        return failures-- > 0 ? ph::retry("not yet") : ph::done(); // a retry undoes the update
    });
    ph::enqueue(store, payment{1, 250});
    const auto report = ph::testing::drain_for(worker, store, std::chrono::hours{1});
    std::cout << report.done << " done, " << cents(store) << " cents\n";
    // The other two are compiled; they run with a server in the conformance suite.
    (void)on_postgres::run;
    (void)on_mariadb::run;
    return report.done == 2 && cents(store) == 251 ? EXIT_SUCCESS : EXIT_FAILURE;
}
