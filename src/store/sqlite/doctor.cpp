// The diagnosis of an SQLite store. It opens the file itself,
// because it must work on stores that will not open.
#include "store/contract/examination.hpp"
#include "store/sqlite/batch_record.hpp"
#include "store/sqlite/location.hpp"
#include "store/sqlite/reader.hpp"
#include "store/sqlite/schema.hpp"
#include "store/sqlite/statements.hpp"
#include <posthorn/error.hpp>
#include <posthorn/sqlite.hpp>

#include <fmt/format.h>

namespace posthorn::sqlite {
namespace {

class sqlite_examination final : public contract::examination {
public:
    sqlite_examination(connection& db, const environment& world) : db_(db), world_(world) {}

    void look_at_library()
    {
        // SQLite before 3.51.3 can damage a file whose log is
        // reset by one process while another one writes.
        const bool old = sqlite3_libversion_number() < 3'051'003;
        add(old ? severity::warning : severity::ok, "sqlite version", sqlite3_libversion(),
            old ? "3.51.3 fixes a rare corruption when several processes write and checkpoint; "
                  "update when "
                  "you can, and keep to one writing connection per process"
                : "");
    }

    void look_at_file()
    {
        const auto result = db_.pragma("quick_check(1)");
        add(result == "ok" ? severity::ok : severity::problem, "file integrity", result,
            result == "ok" ? "" : "restore the file from a backup");
        const auto journal = db_.pragma("journal_mode");
        add(journal == "wal" ? severity::ok : severity::problem, "journal mode", journal,
            journal == "wal" ? "" : "run `posthorn migrate` to switch to the write-ahead log");
        const bool full = db_.pragma("synchronous") == "2";
        add(full ? severity::ok : severity::warning, "durability",
            full ? "every commit is synced to disk"
                 : "synchronous=normal: the last commits may be lost in a power failure",
            full ? "" : "leave out synchronous=normal");
    }

    bool look_at_tables()
    {
        return look_at_schema(newest_version(), [&] { require_current(db_); });
    }

    void look_at_contents()
    {
        expect_no<sql::missing_indexes>("indexes", "indexes are missing",
                                        "restore them: `posthorn migrate --print` shows them");
        expect_no<sql::queued_without_message>(
            "lost messages", "rows refer to messages that are gone",
            "somebody deleted rows by hand: restore from a backup");
        expect_no<sql::queued_and_finished>("double state",
                                            "messages are queued and finished at once",
                                            "somebody changed rows by hand");
        expect_no<sql::claimed_without_batch>("claims", "messages are claimed by nobody",
                                              "somebody changed rows by hand");
        expect_no<sql::waiting_without_reason>("ordering keys",
                                               "messages wait for a key that nobody holds",
                                               "somebody changed rows by hand");
        expect_no<sql::parked_without_topic>("parked messages",
                                             "rows do not say of which topic they are parked",
                                             "somebody changed rows by hand");
        expect_no<sql::inbox_astray>("inbox", "messages from outside have lost track of theirs",
                                     "somebody changed rows by hand");
        expect_no<sql::fences_ahead>(
            "fences", "leases have larger fences than the next one to be given",
            "set the column last of the table lease_fence to the largest of them");
        look_at_log();
        look_at_clock(from_the_future(),
                      "some machine's clock is wrong: check time synchronisation");
        look_at_work(reader(db_, world_).count(), overdue_batches());
    }

private:
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

    // What the tables cannot account for must be an open member of a batch that came from the log.
    void look_at_log()
    {
        std::vector<fence> fences;
        {
            auto row = db_.use(sql::all_batches::text);
            while (row.step())
                fences.push_back(fence{row.integer(0)});
        }
        std::int64_t members = 0;
        for (const auto each : fences) {
            const auto batch = batch_record::load(db_, each);
            for (std::uint32_t i = 0; batch && i < batch->members().size(); ++i)
                members += batch->is_open(i) && !batch->members()[i].queued ? 1 : 0;
        }
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
        row.bind(statement::limit_time, world_.clock->now() + std::chrono::minutes{1});
        row.step();
        return row.integer(0);
    }

    std::int64_t overdue_batches()
    {
        using statement = sql::overdue_batch_count;
        auto row = db_.use(statement::text);
        row.bind(statement::now, world_.clock->now());
        row.step();
        return row.integer(0);
    }

    connection& db_;
    const environment& world_;
};

std::vector<finding> examined(connection& db, const environment& world)
{
    sqlite_examination all(db, world);
    all.look_at_library();
    try {
        db.execute("BEGIN", "begin");
        all.look_at_file();
        if (all.look_at_tables())
            all.look_at_contents();
        db.execute("COMMIT", "commit");
    } catch (const error& failure) {
        all.add(severity::problem, "reading", failure.what());
    }
    return std::move(all.findings);
}

} // namespace

std::vector<finding> diagnose(std::string_view url, const store_options& options)
{
    const auto where = location::parse(url, options);
    if (where.in_memory())
        throw error(error_code::invalid_argument,
                    "a store in memory belongs to its process; there is nothing to examine");
    try {
        connection db(where.path, connection::access::existing, where.settings);
        return examined(db, options.environment);
    } catch (const error& failure) {
        // A file that is damaged from its first page on does not even open.
        if (failure.code() != error_code::corrupt)
            throw;
        return {{severity::problem, "file integrity", failure.what(),
                 "restore the file from a backup"}};
    }
}

} // namespace posthorn::sqlite
