// The diagnosis of a PostgreSQL store: the server's settings, the tables, and what they hold.
#include "store/contract/examination.hpp"
#include "store/postgres/reader.hpp"
#include "store/postgres/schema.hpp"
#include "store/postgres/statements.hpp"
#include <posthorn/error.hpp>
#include <posthorn/postgres.hpp>

#include <fmt/format.h>

#include <utility>

namespace posthorn::postgres {
namespace {

constexpr std::int64_t long_transaction_seconds = 600;

class postgres_examination final : public contract::examination {
public:
    postgres_examination(connection& db, const location& where, const environment& world)
        : db_(db), where_(where), world_(world), talk_(db, conversation::purpose::read)
    {}

    void look_at_server()
    {
        const int version = PQserverVersion(db_.handle());
        add(version < 130'000 ? severity::problem : severity::ok, "server version",
            setting("server_version"),
            version < 130'000 ? "PostgreSQL 13 is the oldest that Posthorn works with" : "");
        const bool syncs = setting("fsync") == "on" && setting("full_page_writes") == "on";
        add(syncs ? severity::ok : severity::problem, "durability",
            syncs ? "every commit is synced to disk"
                  : "fsync or full_page_writes is off: a crash may destroy the database",
            syncs ? "" : "turn both on in postgresql.conf");
        const bool waits = setting("synchronous_commit") != "off";
        add(waits ? severity::ok : severity::warning, "synchronous commit",
            setting("synchronous_commit"),
            waits ? "" : "the last commits may be lost when the server crashes");
        const bool primary = ask("SELECT pg_catalog.pg_is_in_recovery()::text") == "false";
        add(primary ? severity::ok : severity::problem, "role", primary ? "primary" : "standby",
            primary ? "" : "a standby takes no writes: connect to the primary");
    }

    bool look_at_tables()
    {
        return look_at_schema(newest_version(), [&] { require_current(db_, where_); });
    }

    void look_at_contents()
    {
        expect_no<sql::missing_indexes>("indexes", "indexes are missing or broken",
                                        "restore them: `posthorn migrate --print` shows them");
        expect_no<sql::in_two_places>("double state", "messages are in two places at once",
                                      "somebody changed rows by hand");
        expect_no<sql::claimed_by_nobody>("claims", "messages are claimed by nobody",
                                          "somebody changed rows by hand");
        expect_no<sql::miscounted_batches>("batches", "batches have lost members",
                                           "somebody changed rows by hand");
        expect_no<sql::waiting_without_reason>("ordering keys",
                                               "messages wait for a key that nobody holds",
                                               "somebody changed rows by hand");
        expect_no<sql::inbox_astray>("inbox", "messages from outside have lost track of theirs",
                                     "somebody changed rows by hand");
        expect_no<sql::left_behind>("mark", "messages wait where no claim looks",
                                    "set the column low of the table mark to 0");
        expect_no<sql::fences_ahead>("fences",
                                     "leases have larger fences than the next one to be given",
                                     "set the sequence lease_fence to the largest of them");
        expect_none(number_now<sql::leases_too_long>(), "leases", "leases end later than they can",
                    "the server's clock was set back: `posthorn leases release` frees them");
        look_at_clock(number_now<sql::from_the_future>(),
                      "the server's clock was set back: check time synchronisation");
        look_at_transactions();
        look_at_work(reader(talk_, world_, frontier_).count(),
                     number_now<sql::overdue_batch_count>());
    }

private:
    std::string ask(const std::string& sql) { return db_.ask(sql, "ask").value_or(""); }
    std::string setting(const std::string& name) { return ask("SHOW " + name); }

    template <typename Statement>
    std::int64_t number(const arguments& with = {})
    {
        return talk_.run(Statement::text, with).integer(0, 0);
    }

    template <typename Statement>
    std::int64_t number_now()
    {
        arguments with;
        set_now(with, Statement::now, world_);
        return number<Statement>(with);
    }

    template <typename Statement>
    void expect_no(std::string check, std::string_view otherwise, std::string advice)
    {
        expect_none(number<Statement>(), std::move(check), otherwise, std::move(advice));
    }

    void look_at_transactions()
    {
        const auto seconds = number<sql::oldest_transaction>();
        const bool old = seconds > long_transaction_seconds;
        add(old ? severity::warning : severity::ok, "long transactions",
            fmt::format("the oldest began {} s ago", seconds),
            old ? "it keeps finished rows from being cleaned up, and claims slow down: end it"
                : "");
    }

    connection& db_;
    const location& where_;
    const environment& world_;
    conversation talk_;
    frontier frontier_; // of nobody: it only counts
};

} // namespace

std::vector<finding> diagnose(std::string_view url, const store_options& options)
{
    auto where = location::parse(url);
    where.statement_timeout = duration::zero(); // it reads whole tables
    connection db(where);
    postgres_examination all(db, where, options.environment);
    try {
        all.look_at_server();
        if (all.look_at_tables())
            all.look_at_contents();
    } catch (const error& failure) {
        all.add(severity::problem, "reading", failure.what());
    }
    return std::move(all.findings);
}

} // namespace posthorn::postgres
