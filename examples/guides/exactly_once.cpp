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

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>

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

void run(ph::transaction& tx, const std::string& sql)
{
    sqlite3* db = ph::sqlite::native_handle(tx);
    if (sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
        throw std::runtime_error(sqlite3_errmsg(db));
}

} // namespace on_sqlite

namespace on_postgres {

void run(ph::transaction& tx, const std::string& sql)
{
    PGconn* db = ph::postgres::native_handle(tx);
    PGresult* answer = PQexec(db, sql.c_str());
    const bool worked = PQresultStatus(answer) == PGRES_COMMAND_OK;
    PQclear(answer);
    if (!worked)
        throw std::runtime_error(PQerrorMessage(db));
}

} // namespace on_postgres

namespace on_mariadb {

void run(ph::transaction& tx, const std::string& sql)
{
    MYSQL* db = ph::mariadb::native_handle(tx);
    if (mysql_real_query(db, sql.data(), sql.size()) != 0)
        throw std::runtime_error(mysql_error(db));
}

} // namespace on_mariadb

using on_sqlite::run;

void register_handlers(ph::worker& worker)
{
    worker.handle<payment>([](ph::transactional_delivery<payment>& d) {
        run(d.tx(), "UPDATE accounts SET cents = cents + " + std::to_string(d.value().cents) +
                        " WHERE id = " + std::to_string(d.value().account));
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
