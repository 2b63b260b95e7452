// The unit of work on every store: rows and events together or not at all, and events that stay on
// their entities until they are safe.
#include "conformance/conformance_test.hpp"
#include <posthorn/correlation.hpp>
#include <posthorn/testing/fake_unit_of_work.hpp>
#include <posthorn/trace.hpp>
#include <posthorn/unit_of_work.hpp>

#include <stdexcept>
#include <string>
#include <vector>

namespace posthorn::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// An entity as applications have them.
struct account {
    explicit account(std::shared_ptr<const posthorn::clock> time) : events(std::move(time)) {}

    void verify(const std::string& name) { events.raise(message{"account.verified", name}); }

    domain_events events;
};

class units_of_work : public conformance_test {
protected:
    account make() { return account(world().clock); }

    /// What a repository does: it says what to write, and never commits. Here a row is a message.
    static void add(unit_of_work& into, account& which)
    {
        into.write([](transaction& tx) {
            enqueue(tx, message{"row", ""});
            return std::size_t{1};
        });
        into.track(which.events);
    }

    std::size_t of(const std::string& topic)
    {
        return list_messages(db(), {.topic = topic, .limit = 100}).size();
    }
};

} // namespace

// The queries are those of docs/sql-contract.md.
// Proves: UOW-02
TEST_P(units_of_work, sql_reads_when_an_event_occurred)
{
    using namespace std::chrono;
    clock().set(sys_days{year{2027} / 3 / 1} + 12h + 5ms);
    auto one = make();
    store_unit_of_work work(db());
    work.track(one.events);
    one.verify("a");
    clock().advance(1h);
    work.save_changes();

    const auto& engine = GetParam().name;
    const std::string time =
        engine == "postgres" ? "to_char((timestamptz 'epoch' + (nullif(headers, '')::jsonb ->> "
                               "'posthorn-occurred-at')::bigint * interval '1 microsecond') AT "
                               "TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS')"
        : engine == "mariadb"
            ? "LEFT(TIMESTAMP '1970-01-01 00:00:00' + INTERVAL JSON_VALUE(CONVERT(headers USING "
              "utf8mb4), '$.\"posthorn-occurred-at\"') MICROSECOND, 23)"
            : "strftime('%Y-%m-%d %H:%M:%f', json_extract(headers, "
              "'$.\"posthorn-occurred-at\"') / 1e6, 'unixepoch')";
    const auto read = [&](const std::string& what) {
        auto tx = db().begin();
        return under_test().run_in(tx,
                                   "SELECT " + what + " FROM " + under_test().table_of_messages());
    };
    EXPECT_EQ(read(time), "2027-03-01 12:00:00.005");
    enqueue(db(), message{"row", ""});
    EXPECT_EQ(read("count(" + time + ")"), "1") << "NULL for all others";
}

// Proves: UOW-01, UOW-02, I1
TEST_P(units_of_work, rows_and_events_are_saved_together)
{
    auto first = make();
    auto second = make();
    store_unit_of_work work(db());
    add(work, first);
    add(work, second);
    add(work, first);
    first.verify("a");
    const auto raised_at = now();
    clock().advance(5s);
    second.verify("b");
    first.verify("c");
    EXPECT_EQ(total(), 0U) << "nothing is written before it is saved";

    EXPECT_EQ(work.save_changes(), 6U);
    EXPECT_EQ(of("row"), 3U);
    EXPECT_TRUE(first.events.empty());
    EXPECT_TRUE(second.events.empty());
    std::vector<std::string> names;
    for (const auto& each : claim().deliveries) {
        if (each.topic != "account.verified")
            continue;
        if (each.payload == "a") {
            EXPECT_EQ(each.headers.at(std::string(occurred_at_header)),
                      std::to_string(raised_at.time_since_epoch().count()));
        }
        names.push_back(each.payload);
    }
    EXPECT_THAT(names, ElementsAre("a", "c", "b"));
    EXPECT_EQ(work.save_changes(), 0U) << "all of it was saved";
}

// Proves: UOW-01, I1
TEST_P(units_of_work, a_failure_at_any_step_leaves_everything_as_it_was)
{
    constexpr std::size_t steps = 4;
    for (std::size_t failing = 0; failing <= steps; ++failing) {
        auto entity = make();
        store_unit_of_work work(db());
        bool broken = true;
        for (std::size_t i = 0; i < steps; ++i)
            work.write([&broken, i, failing](transaction& tx) {
                if (broken && i == failing)
                    throw std::runtime_error("broken");
                enqueue(tx, message{"row", ""});
                return std::size_t{1};
            });
        work.track(entity.events);
        entity.verify("a");
        if (failing == steps) // after all rows: an event that the outbox refuses
            entity.events.raise(message{"", "no topic"});
        bool acted = false;
        work.on_commit([&] { acted = true; });
        const auto before = total();
        EXPECT_ANY_THROW(work.save_changes()) << failing;
        EXPECT_EQ(total(), before) << failing;
        EXPECT_FALSE(acted);
        EXPECT_THAT(entity.events.pending(), SizeIs(failing == steps ? 2 : 1));
        if (failing == steps)
            continue;
        broken = false; // and then it goes through
        EXPECT_EQ(work.save_changes(), steps + 1) << failing;
        EXPECT_TRUE(entity.events.empty());
        EXPECT_TRUE(acted);
    }
}

// Proves: UOW-03, I1
TEST_P(units_of_work, in_a_given_transaction_events_stay_until_it_has_committed)
{
    auto entity = make();
    {
        auto tx = db().begin();
        store_unit_of_work work(tx);
        int acted = 0;
        work.on_commit([&] { ++acted; });
        add(work, entity);
        entity.verify("a");
        EXPECT_EQ(work.save_changes(), 2U);
        EXPECT_EQ(work.save_changes(), 0U) << "once in a transaction";
        entity.verify("b");
        EXPECT_EQ(work.save_changes(), 1U);
        EXPECT_THAT(entity.events.pending(), SizeIs(2));
        tx.rollback();
        work.rolled_back();
        EXPECT_THAT(entity.events.pending(), SizeIs(2));
        EXPECT_EQ(acted, 0);
    }
    EXPECT_EQ(total(), 0U);

    auto tx = db().begin();
    store_unit_of_work work(tx);
    int acted = 0;
    work.on_commit([&] { ++acted; });
    add(work, entity);
    EXPECT_EQ(work.save_changes(), 3U);
    EXPECT_EQ(acted, 0);
    tx.commit();
    work.committed();
    EXPECT_EQ(acted, 1);
    EXPECT_TRUE(entity.events.empty());
    EXPECT_EQ(total(), 3U);
}

// Proves: UOW-04
TEST_P(units_of_work, actions_run_after_the_commit_and_cannot_undo_it)
{
    store_unit_of_work work(db());
    auto entity = make();
    entity.verify("a");
    work.track(entity.events);
    std::vector<std::string> seen;
    work.on_commit([&] {
        EXPECT_EQ(of("account.verified"), 1U);
        seen.emplace_back("first");
    });
    work.on_commit([] { throw std::runtime_error("no mail today"); });
    work.on_commit([] { throw 42; }); // NOLINT: what no action should throw
    work.on_commit([&] { seen.emplace_back("last"); });
    EXPECT_EQ(work.save_changes(), 1U);
    EXPECT_THAT(seen, ElementsAre("first", "last"));
    EXPECT_EQ(logged("no mail today"), 1U);
    EXPECT_EQ(logged("no std::exception"), 1U);
    work.save_changes();
    EXPECT_THAT(seen, SizeIs(2));
}

// Proves: COR-05, COR-06, UOW-02
TEST_P(units_of_work, the_trace_goes_on_in_events_and_what_is_saved_together_belongs_together)
{
    constexpr auto trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const auto only = [&](const std::string& topic) {
        const auto all = list_messages(db(), {.topic = topic});
        EXPECT_EQ(all.size(), 1U);
        return all.at(0);
    };
    auto first = make();
    {
        const auto scope = correlation_scope::begin_from(
            {.id = "order-7", .cause = "a click", .traceparent = trace, .tracestate = "a=1"});
        store_unit_of_work work(db());
        work.track(first.events);
        first.verify("a");
        work.save_changes();
    }
    const auto event = only("account.verified");
    EXPECT_EQ(event.correlation_id, "order-7");
    EXPECT_EQ(event.causation_id, "a click");
    EXPECT_EQ(event.headers.at("traceparent").substr(0, 36), std::string(trace).substr(0, 36));
    EXPECT_NE(event.headers.at("traceparent"), trace) << "a span of its own";
    EXPECT_EQ(event.headers.at("tracestate"), "a=1");
    EXPECT_TRUE(event.headers.contains(std::string(occurred_at_header)));

    auto second = make();
    store_unit_of_work work(db());
    add(work, second);
    second.events.raise(message{"other", ""});
    second.events.raise(message{"another", ""});
    work.save_changes();
    const auto row = only("row");
    EXPECT_NE(row.correlation_id, "");
    EXPECT_EQ(only("other").correlation_id, row.correlation_id);
    EXPECT_EQ(trace_messages(db(), to_string(row.id)).messages.size(), 3U);
    EXPECT_EQ(correlation_scope::current(), nullptr);
}

// Proves: UOW-01, UOW-02
TEST_P(units_of_work, a_stop_before_the_saving_keeps_everything_as_it_was)
{
    auto one = make();
    store_unit_of_work work(db());
    add(work, one);
    one.verify("a");
    bool acted = false;
    work.on_commit([&] { acted = true; });
    std::stop_source stop;
    stop.request_stop();
    const auto told = thrown_by([&] { work.save_changes(stop.get_token()); });
    EXPECT_EQ(told.code(), error_code::stopped);
    EXPECT_TRUE(told.retryable());
    EXPECT_EQ(total(), 0U);
    EXPECT_FALSE(acted);
    EXPECT_THAT(one.events.pending(), SizeIs(1));
    EXPECT_EQ(work.save_changes(stop_request{}), 2U);
    EXPECT_TRUE(acted);
    EXPECT_THAT(one.events.pending(), IsEmpty());
}

// Proves: UOW-01, UOW-02
TEST_P(units_of_work, a_saving_that_has_begun_is_not_stopped)
{
    auto one = make();
    store_unit_of_work work(db());
    std::stop_source stop;
    work.write([&](transaction& tx) {
        stop.request_stop();
        enqueue(tx, message{"row", ""});
        return std::size_t{1};
    });
    EXPECT_EQ(work.save_changes(stop.get_token()), 1U);
    EXPECT_EQ(of("row"), 1U);
}

// Proves: UOW-01
TEST_P(units_of_work, in_a_given_transaction_a_stop_leaves_the_transaction_as_it_was)
{
    auto one = make();
    one.verify("a");
    auto tx = db().begin();
    store_unit_of_work work(tx);
    work.track(one.events);
    std::stop_source stop;
    stop.request_stop();
    EXPECT_EQ(thrown_by([&] { work.save_changes(stop.get_token()); }).code(), error_code::stopped);
    EXPECT_EQ(work.save_changes(), 1U);
    tx.commit();
    work.committed();
    EXPECT_EQ(of("account.verified"), 1U);
}

CONFORMANCE_SUITE(units_of_work);

// Proves: UOW-01
TEST(fake_units_of_work, remember_what_they_were_asked_for)
{
    domain_events events;
    testing::fake_unit_of_work work;
    bool acted = false;
    work.write([](transaction&) { return std::size_t{1}; });
    work.track(events);
    work.on_commit([&] { acted = true; });
    events.raise(message{"account.verified", "a"});

    work.fails_with = std::make_exception_ptr(std::runtime_error("broken"));
    EXPECT_THROW(work.save_changes(), std::runtime_error);
    EXPECT_FALSE(acted);
    EXPECT_THAT(events.pending(), SizeIs(1));
    EXPECT_EQ(work.save_changes(), 2U);
    EXPECT_TRUE(acted);
    EXPECT_THAT(events.pending(), IsEmpty());
    ASSERT_THAT(work.saved, SizeIs(1));
    EXPECT_EQ(work.saved[0].message.topic, "account.verified");
    EXPECT_EQ(work.save_calls, 2U);
    EXPECT_EQ(testing::stub_unit_of_work().save_changes(), 1U);
    std::stop_source stop;
    stop.request_stop();
    testing::fake_unit_of_work fake;
    EXPECT_EQ(thrown_by([&] { fake.save_changes(stop.get_token()); }).code(), error_code::stopped);
    EXPECT_EQ(fake.save_calls, 0U);
}

} // namespace posthorn::conformance
