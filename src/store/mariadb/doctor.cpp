// The diagnosis of a MariaDB store: the server's settings first, then what the tables hold.
#include "store/contract/examination.hpp"
#include "store/mariadb/batch_record.hpp"
#include "store/mariadb/location.hpp"
#include "store/mariadb/reader.hpp"
#include "store/mariadb/schema.hpp"
#include "store/mariadb/statements.hpp"
#include <posthorn/error.hpp>
#include <posthorn/mariadb.hpp>

#include <fmt/format.h>

#include <charconv>
#include <utility>

namespace posthorn::mariadb {
namespace {

class mariadb_examination final : public contract::examination {
public:
    explicit mariadb_examination(connection& db) : db_(db) {}

    void look_at_server()
    {
        const auto version = variable("version");
        const bool old = number_at_start(version) < 10 ||
                         (version.starts_with("10.") && number_at_start(version.substr(3)) < 6);
        add(old ? severity::problem : severity::ok, "server version", version,
            old ? "Posthorn needs MariaDB 10.6 or newer (SKIP LOCKED, JSON_TABLE)" : "");
        look_at_durability();
        const auto format = variable("binlog_format");
        const bool logs = variable("log_bin") == "1";
        const bool unfit = logs && format == "STATEMENT";
        add(unfit ? severity::problem : severity::ok, "binary log",
            logs ? format : std::string("off"),
            unfit ? "set binlog_format to ROW or MIXED: InnoDB takes nothing else at READ COMMITTED"
                  : "");
        const bool read_only = variable("read_only") == "1";
        add(read_only ? severity::warning : severity::ok, "writable",
            read_only ? "the server is read-only" : "yes",
            read_only ? "connect to the server that may be written" : "");
        // The connection has verified it: see connection::set_up.
        add(severity::ok, "isolation", "READ-COMMITTED, set and read back");
    }

    bool look_at_tables()
    {
        return look_at_schema(newest_version(), [&] { require_current(db_); });
    }

    void look_at_contents()
    {
        look_at_engines();
        expect_no<sql::missing_indexes>("indexes", "indexes are missing",
                                        "restore them: `posthorn migrate --print` shows them");
        expect_no<sql::missing_procedure>(
            "procedure", "procedures are missing",
            "restore it: `posthorn migrate --print` shows it; without EXECUTE it is not seen");
        expect_no<sql::rows_without_message>(
            "lost messages", "rows refer to messages that are gone",
            "somebody deleted rows by hand: restore from a backup");
        expect_no<sql::double_state>("double state", "messages are in two places at once",
                                     "somebody changed rows by hand");
        expect_no<sql::claimed_without_batch>("claims", "messages are claimed by nobody",
                                              "somebody changed rows by hand");
        expect_no<sql::keys_astray>("ordering keys", "keys and their messages disagree",
                                    "somebody changed rows by hand");
        expect_no<sql::inbox_astray>("inbox", "messages from outside have lost track of theirs",
                                     "somebody changed rows by hand");
        expect_no<sql::parked_astray>("parked messages", "rows of parked messages disagree",
                                      "somebody changed rows by hand");
        expect_no<sql::fences_ahead>("fences",
                                     "leases have larger fences than the next one to be given",
                                     "set the sequence lease_fence behind the largest of them");
        expect_none(leases_too_long(), "leases", "leases end later than they can",
                    "the server's clock was set back: `posthorn leases release` frees them");
        look_at_accounts();
        look_at_clock(from_the_future(),
                      "the server's clock was set back: check time synchronisation");
        look_at_work(reader(db_).count(), overdue_batches());
        look_at_transactions();
    }

private:
    std::string variable(std::string_view name)
    {
        return db_.ask(fmt::format("SELECT @@GLOBAL.{}", name), name).value_or("");
    }

    static int number_at_start(std::string_view text)
    {
        int value = 0;
        std::from_chars(text.data(), text.data() + text.size(), value);
        return value;
    }

    void look_at_durability()
    {
        const auto flush = variable("innodb_flush_log_at_trx_commit");
        const bool synced = flush == "1" || flush == "3";
        const bool whole =
            variable("innodb_doublewrite") != "0" && variable("innodb_doublewrite") != "OFF";
        const bool log_synced = variable("log_bin") != "1" || variable("sync_binlog") == "1";
        if (synced && whole && log_synced) {
            add(severity::ok, "durability", "every commit is synced to disk");
            return;
        }
        std::string detail;
        if (!synced)
            detail += fmt::format("innodb_flush_log_at_trx_commit={}: the last commits may be lost "
                                  "in a crash; ",
                                  flush);
        if (!whole)
            detail += "innodb_doublewrite is off: a crash may damage pages; ";
        if (!log_synced)
            detail += "sync_binlog is not 1: replicas may miss the last commits; ";
        detail.resize(detail.size() - 2);
        add(severity::warning, "durability", detail,
            "set innodb_flush_log_at_trx_commit=1, innodb_doublewrite=ON, sync_binlog=1");
    }

    template <typename Statement>
    std::int64_t number()
    {
        auto row = db_.use(Statement::text);
        row.step();
        return row.integer(0);
    }

    template <typename Statement>
    void expect_no(std::string check, std::string_view otherwise, std::string advice)
    {
        expect_none(number<Statement>(), std::move(check), otherwise, std::move(advice));
    }

    void look_at_engines()
    {
        using statement = sql::other_engines;
        auto row = db_.use(statement::text);
        row.bind(statement::length, static_cast<std::int64_t>(db_.prefix().size()))
            .bind_ascii(statement::prefix, db_.prefix());
        row.step();
        expect_none(row.integer(0), "storage engine", "tables are not InnoDB's",
                    "ALTER TABLE … ENGINE = InnoDB: others have no transactions");
    }

    // What the tables cannot account for must be an open member of a batch that was plain.
    void look_at_accounts()
    {
        std::int64_t members = 0;
        for (const auto& batch : batch_record::read_all(db_))
            for (std::uint32_t i = 0; i < batch.members().size(); ++i)
                members += batch.is_open(i) && !batch.members()[i].queued ? 1 : 0;
        const auto unaccounted = number<sql::unaccounted>();
        if (unaccounted == members)
            add(severity::ok, "log", "every message is accounted for");
        else
            add(severity::problem, "log",
                fmt::format("{} messages are neither waiting, claimed nor finished",
                            unaccounted - members),
                "somebody changed rows by hand: restore from a backup");
    }

    std::int64_t from_the_future()
    {
        using statement = sql::from_the_future;
        auto row = db_.use(statement::text);
        row.bind(statement::limit_time, db_.now() + std::chrono::minutes{1});
        row.step();
        return row.integer(0);
    }

    std::int64_t leases_too_long()
    {
        using statement = sql::leases_too_long;
        const auto now = db_.now();
        auto row = db_.use(statement::text);
        row.bind(statement::now, now);
        row.step();
        return row.integer(0);
    }

    std::int64_t overdue_batches()
    {
        using statement = sql::overdue_batch_count;
        const auto now = db_.now();
        auto row = db_.use(statement::text);
        row.bind(statement::now, now);
        row.step();
        return row.integer(0);
    }

    // Whether others' transactions may be seen depends on the user's rights.
    void look_at_transactions()
    {
        constexpr std::int64_t long_seconds = 60;
        try {
            const auto seconds = number<sql::longest_transaction>();
            const bool fine = seconds < long_seconds;
            add(fine ? severity::ok : severity::warning, "long transactions",
                fine ? "none" : fmt::format("one has been open for {} seconds", seconds),
                fine ? "" : "claims get slower while one is open: end it");
        } catch (const error& failure) {
            if (failure.poisons_connection())
                throw;
            add(severity::ok, "long transactions", "not visible without the PROCESS right");
        }
    }

    connection& db_;
};

} // namespace

std::vector<finding> diagnose(std::string_view url, const store_options& options)
{
    connection db(parse_location(url, options));
    mariadb_examination all(db);
    try {
        all.look_at_server();
        db.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "begin");
        db.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY", "begin");
        if (all.look_at_tables())
            all.look_at_contents();
        db.execute("ROLLBACK", "rollback");
    } catch (const error& failure) {
        all.add(severity::problem, "reading", failure.what());
    }
    return std::move(all.findings);
}

} // namespace posthorn::mariadb
