// What a hundred thousand jobs cost a worker that has nothing to do: as much as one.
#include "conformance/meters.hpp"
#include "schedules/jobs_testing.hpp"
#include "store/contract/backend.hpp"
#include "store/contract/message_reader.hpp"
#include "store/contract/session.hpp"
#include <posthorn/sqlite.hpp>

#include <sqlite3.h>

#include <string>

namespace posthorn::conformance {
namespace {

class job_costs : public jobs_test {
protected:
    /// What the look of an idle worker touches: pages on SQLite, buffers on PostgreSQL, rows on
    /// MariaDB, with what the question itself costs there.
    std::int64_t touched_by_a_look()
    {
        auto tx = db().begin();
        const auto before = read(tx);
        EXPECT_FALSE(tx.session().reader().outlook().due);
        return read(tx) - before;
    }

    /// Jobs as they are made, and the ticks of so many more.
    void make_jobs(std::size_t count)
    {
        constexpr std::size_t really = 500;
        {
            auto tx = db().begin();
            for (std::size_t i = 0; i < std::min(count, really); ++i)
                put_job(tx, "job " + std::to_string(i), hourly());
            tx.commit();
        }
        std::vector<outgoing> ticks;
        for (std::size_t i = really; i < count; ++i)
            ticks.push_back({.message = {std::string(job_tick_topic), std::to_string(i)},
                             .options = {.due_at = now() + 1h + 1s * (i % 3'000)}});
        for (std::size_t i = 0; i < ticks.size(); i += 10'000)
            enqueue(db(),
                    std::span(ticks).subspan(i, std::min<std::size_t>(10'000, ticks.size() - i)));
    }

private:
    std::int64_t read(transaction& tx)
    {
        const auto& kind = GetParam().name;
        if (kind == "postgres")
            return std::stoll(under_test()
                                  .run_in(tx, "SELECT COALESCE(sum(pg_stat_get_xact_blocks_fetched("
                                              "c.oid)), 0)::bigint FROM pg_class c JOIN "
                                              "pg_namespace n ON n.oid = c.relnamespace WHERE "
                                              "n.nspname NOT IN ('pg_catalog', 'pg_toast')")
                                  .value());
        if (kind == "mariadb")
            return std::stoll(under_test()
                                  .run_in(tx, "SELECT SUM(VARIABLE_VALUE) FROM "
                                              "information_schema.SESSION_STATUS WHERE "
                                              "VARIABLE_NAME IN ('HANDLER_READ_KEY', "
                                              "'HANDLER_READ_NEXT', 'HANDLER_READ_PREV', "
                                              "'HANDLER_READ_FIRST', 'HANDLER_READ_LAST')")
                                  .value());
        int hits = 0;
        int misses = 0;
        int unused = 0;
        auto* native = sqlite::native_handle(tx);
        sqlite3_db_status(native, SQLITE_DBSTATUS_CACHE_HIT, &hits, &unused, 0);
        sqlite3_db_status(native, SQLITE_DBSTATUS_CACHE_MISS, &misses, &unused, 0);
        return hits + misses;
    }
};

} // namespace

// Proves: SCH-01
TEST_P(job_costs, an_idle_worker_reads_no_more_with_a_hundred_thousand_jobs_than_with_a_few)
{
    worker own(db(), {});
    make_jobs(10);
    own.process_outbox();
    (void)touched_by_a_look(); // which prepares the statements
    const auto with_a_few = touched_by_a_look();
    make_jobs(100'000);
    EXPECT_GT(with_a_few, 0);
    // Claims that find nothing leave behind them what is not due; on a server, when transactions of
    // others that were open then have ended.
    std::int64_t with_many = 0;
    for (int tries = 0; tries < 1'000; ++tries) {
        own.process_outbox();
        with_many = touched_by_a_look();
        if (with_many <= with_a_few + 20)
            break;
        environment::system().clock->pause(50ms);
    }
    EXPECT_LE(with_many, with_a_few + 20) << "a tree that is a little higher, at most";
}

// Proves: SCH-01
TEST_P(job_costs, an_idle_worker_asks_no_more_often_with_a_hundred_thousand_jobs_than_with_a_few)
{
    auto watched = std::make_optional(store_to_watch(GetParam(), under_test(), db(), world()));
    const auto counter = meter_of(GetParam(), *watched, under_test(), {"message", "log", "job"});
    const auto statements = [&] { // of a claim that finds nothing, and of the look that follows
        counter->reset();
        EXPECT_EQ(outbox(*watched).claim(alice, {.limit = 10}).size(), 0U);
        auto tx = watched->begin();
        EXPECT_FALSE(tx.session().reader().outlook().due);
        tx.rollback();
        return counter->read().statements;
    };
    make_jobs(10);
    (void)statements(); // which prepares them
    const auto with_a_few = statements();
    EXPECT_GT(with_a_few, 0) << "the meter hears nothing";
    make_jobs(100'000);
    (void)statements(); // the first claim after something was added looks around
    EXPECT_LE(statements(), with_a_few);
    watched.reset();
}

// Proves: SCH-01
TEST_P(job_costs, of_a_hundred_thousand_jobs_only_what_is_due_is_fired)
{
    make_jobs(100'000);
    auto soon = hourly();
    soon.cron = "*/5 * * * *";
    put_job(db(), "soon", soon);
    clock().advance(5min);
    auto own = make_worker();
    const auto report = own.process_outbox();
    EXPECT_EQ(report.done, 2U) << "its tick, and its run";
    ASSERT_EQ(seen().size(), 1U);
    EXPECT_EQ(seen().front().run.job, "soon");
}

CONFORMANCE_SUITE(job_costs);

} // namespace posthorn::conformance
