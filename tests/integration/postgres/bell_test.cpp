// The bell between processes: who sleeps is woken by every way of enqueueing, and as long as nobody
// sleeps nobody is notified of anything.
#include "hang_limit.hpp"
#include "integration/postgres/server_fixture.hpp"
#include "store/contract/backend.hpp"
#include "store/contract/polling_bell.hpp"
#include <posthorn/dead_letters.hpp>
#include <posthorn/enqueue.hpp>
#include <posthorn/outbox.hpp>
#include <posthorn/pauses.hpp>
#include <posthorn/worker.hpp>

#include <gtest/gtest.h>
#include <libpq-fe.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace posthorn::test {
namespace {

using namespace std::chrono_literals;

constexpr auto soon = hang_limit; // much less than the time that is waited for
constexpr auto very_long = 10min;

class postgres_bell : public server_fixture {
protected:
    using sleeper = std::unique_ptr<contract::bell>;

    postgres_bell() { expect_notifications(0); }

    sleeper make_bell() { return store_.backend().make_bell(); }

    /// Whether a wait ends at once, and by a ring.
    static bool rings(contract::bell& which)
    {
        const auto begun = std::chrono::steady_clock::now();
        const bool rung = which.wait(very_long);
        return rung && std::chrono::steady_clock::now() - begun < soon;
    }

    /// Waits until whatever ran when the bell was armed has ended, here and in other tests.
    static void settle_down(contract::bell& which)
    {
        wait_until([&] {
            which.arm();
            return !which.wait(300ms);
        });
    }

    sleeper sleeping()
    {
        auto result = make_bell();
        result->arm();
        settle_down(*result);
        return result;
    }

    /// The same, and nobody on this server can end a transaction that it would look after.
    sleeper undisturbed()
    {
        auto result = sleeping();
        wait_for_strangers();
        settle_down(*result);
        return result;
    }

    void enqueue_by_sql(const std::string& arguments = "'orders'")
    {
        admin_->execute("SELECT " + schema_ + ".enqueue(" + arguments + ")");
    }

    std::string lock(int which) const
    {
        return "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND database = "
               "(SELECT oid FROM pg_database WHERE datname = current_database()) AND classid::int8 "
               "& 4294967295 = hashtext('" +
               schema_ + ".bell')::int8 & 4294967295 AND objid = " + std::to_string(which);
    }
    std::int64_t holders() { return admin_->count("SELECT count(*) FROM (" + lock(1) + ") h"); }
    std::int64_t sleepers() { return admin_->count("SELECT count(*) FROM (" + lock(2) + ") s"); }

    void end_holder()
    {
        ASSERT_EQ(admin_->count("SELECT count(pg_terminate_backend(pid, 10000)) FROM (" + lock(1) +
                                ") h"),
                  1);
    }

    /// How many notifications have been sent since the last time.
    void expect_notifications(int count)
    {
        if (PQstatus(witness_.get()) != CONNECTION_OK)
            throw std::runtime_error(PQerrorMessage(witness_.get()));
        // Any statement brings what was sent before it.
        PQclear(PQexec(witness_.get(), ("LISTEN \"" + schema_ + ".bell\"").c_str()));
        int found = 0;
        while (auto* const each = PQnotifies(witness_.get())) {
            PQfreemem(each);
            ++found;
        }
        EXPECT_EQ(found, count);
    }

    std::string plain_url_ = under_test_->url().substr(0, under_test_->url().find('?'));
    store store_ = open_with("");
    std::unique_ptr<PGconn, void (*)(PGconn*)> witness_{PQconnectdb(plain_url_.c_str()), &PQfinish};
};

} // namespace

TEST_F(postgres_bell, another_process_wakes_who_sleeps)
{
    const auto bell = sleeping();
    ASSERT_EQ(std::system(("psql -X -q -At '" + plain_url_ + "' -c \"SELECT " + schema_ +
                           ".enqueue('orders')\" > /dev/null")
                              .c_str()),
              0);
    EXPECT_TRUE(rings(*bell));
    expect_notifications(1);
}

TEST_F(postgres_bell, nobody_is_notified_unless_somebody_sleeps)
{
    outbox queue(store_);
    const auto who = owner::create("alice", *system_.random);
    int round = 0;
    const auto do_everything = [&] {
        enqueue(store_, {"orders", ""});
        enqueue(store_, {"orders", ""}, {.ordering_key = "key"});
        enqueue(store_, {"orders", ""}, {.delay = 1h});
        enqueue(store_, {"orders", ""}, {.dedup_key = std::to_string(++round)});
        enqueue(store_, std::vector<outgoing>(100, {{"orders", ""}}));
        enqueue_by_sql();
        enqueue_by_sql("'orders', payload => 'text'");
        queue.fail(who, queue.claim(who, {.limit = 1}).receipts(), "broken");
        EXPECT_EQ(redrive(store_, message_filter{}), 1U);
        EXPECT_TRUE(pause(store_, "orders"));
        EXPECT_TRUE(resume(store_, "orders"));
    };
    constexpr int ringing = 9; // a failure and a pause are no reason to wake anybody
    do_everything();
    expect_notifications(0);
    const auto bell = sleeping();
    do_everything();
    EXPECT_TRUE(rings(*bell));
    expect_notifications(ringing);
    bell->disarm();
    EXPECT_EQ(holders() + sleepers(), 0);
    do_everything();
    expect_notifications(0);
}

// Proves: I9
TEST_F(postgres_bell, who_enqueued_before_the_arming_is_heard_when_it_commits)
{
    auto endless = under_test_->connect(system_); // and never mind who else still runs
    endless->begin();
    endless->execute("SELECT pg_current_xact_id()");
    auto tx = store_.begin();
    enqueue(tx, {"orders", ""});
    const auto bell = sleeping();
    tx.commit();
    EXPECT_TRUE(rings(*bell));
    expect_notifications(0);
    EXPECT_TRUE(store_.backend().outlook().due);
    settle_down(*bell);
    enqueue(store_, {"orders", ""});
    EXPECT_TRUE(rings(*bell));
    endless->rollback();
}

TEST_F(postgres_bell, a_transaction_that_is_rolled_back_rings_for_nobody)
{
    const auto bell = undisturbed();
    {
        auto tx = store_.begin();
        enqueue(tx, {"orders", ""});
        tx.rollback();
    }
    EXPECT_FALSE(bell->wait(50ms));
    expect_notifications(0);
}

// Proves: F18, I20
TEST_F(postgres_bell, a_bell_whose_connection_is_cut_comes_back_and_rings)
{
    const auto bell = sleeping();
    auto woken = std::async(std::launch::async, [&] { return rings(*bell); });
    end_holder();
    EXPECT_TRUE(woken.get()) << "something may have been missed";
    EXPECT_EQ(holders(), 1) << "it subscribed again before it said so";
    settle_down(*bell);
    enqueue_by_sql();
    EXPECT_TRUE(rings(*bell));
}

// Proves: F18
TEST_F(postgres_bell, a_bell_that_is_cut_while_nobody_waits_comes_back_at_the_next_arming)
{
    const auto bell = sleeping();
    end_holder();
    wait_until([&] {
        bell->arm();
        (void)bell->wait(10ms);
        return holders() == 1;
    });
    enqueue_by_sql();
    EXPECT_TRUE(rings(*bell));
    bell->disarm();
    EXPECT_EQ(holders() + sleepers(), 0);
}

// Proves: F18
TEST_F(postgres_bell, a_bell_without_a_server_is_a_clock)
{
    std::vector<std::string> said;
    auto world = system_;
    world.log = [&](log_level, std::string_view line) { said.emplace_back(line); };
    const scratch_role guest(*admin_);
    admin_->execute("GRANT USAGE ON SCHEMA " + schema_ + " TO " + guest.name() +
                    "; GRANT ALL ON ALL TABLES IN SCHEMA " + schema_ + " TO " + guest.name() +
                    "; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA " + schema_ + " TO " +
                    guest.name());
    auto store = postgres::open(url_as(guest.name()), {.environment = world});
    const auto bell = store.backend().make_bell();
    admin_->execute("ALTER ROLE " + guest.name() + " NOLOGIN");
    bell->arm();
    const auto begun = std::chrono::steady_clock::now();
    while (bell->wait(100ms)) {}
    EXPECT_LT(std::chrono::steady_clock::now() - begun, soon);
    EXPECT_EQ(said.size(), 1U) << "once is enough";
    admin_->execute("ALTER ROLE " + guest.name() + " LOGIN");
    wait_until([&] {
        bell->arm();
        (void)bell->wait(10ms);
        return holders() == 1;
    });
    EXPECT_EQ(said.size(), 2U);
    enqueue_by_sql();
    EXPECT_TRUE(rings(*bell));
}

TEST_F(postgres_bell, when_one_of_two_sleepers_rises_the_other_takes_the_bell)
{
    const auto first = sleeping();
    const auto second = make_bell();
    second->arm();
    EXPECT_EQ(holders(), 1);
    EXPECT_EQ(sleepers(), 2);
    settle_down(*second);
    first->disarm();
    EXPECT_TRUE(rings(*second)) << "while nobody held the bell, nobody rang";
    EXPECT_EQ(holders(), 1);
    EXPECT_EQ(sleepers(), 1);
    settle_down(*second);
    enqueue_by_sql();
    EXPECT_TRUE(rings(*second));
}

// Proves: F1, F18
TEST_F(postgres_bell, when_one_of_two_sleepers_dies_the_other_takes_the_bell)
{
    auto first = sleeping();
    const auto second = make_bell();
    second->arm();
    settle_down(*second);
    auto woken = std::async(std::launch::async, [&] { return rings(*second); });
    end_holder();
    EXPECT_TRUE(woken.get());
    EXPECT_EQ(holders(), 1);
    settle_down(*second);
    enqueue_by_sql();
    EXPECT_TRUE(rings(*second));
}

TEST_F(postgres_bell, who_is_awake_can_wake_the_others)
{
    const auto first = make_bell();
    first->ring_others();
    first->arm();
    first->ring_others();
    expect_notifications(0);
    settle_down(*first);
    const auto second = sleeping();
    first->disarm();
    EXPECT_TRUE(rings(*second)); // it takes the bell
    settle_down(*second);
    expect_notifications(1);
    first->ring_others();
    EXPECT_TRUE(rings(*second));
    expect_notifications(1);
    second->ring_others(); // nobody else sleeps
    expect_notifications(0);
    first->arm();
    wait_for_strangers();
    settle_down(*first);
    first->ring_others();
    EXPECT_TRUE(rings(*second));
    EXPECT_FALSE(first->wait(50ms)) << "it knows already";
}

TEST_F(postgres_bell, a_transaction_that_will_be_prepared_does_not_ring)
{
    const auto bell = sleeping();
    const auto name = "'" + schema_ + "'";
    admin_->begin();
    enqueue_by_sql("'orders', ring => false");
    enqueue_by_sql("'orders', payload => 'text', ring => false");
    const std::unique_ptr<PGconn, void (*)(PGconn*)> db(PQconnectdb(plain_url_.c_str()), &PQfinish);
    PQclear(PQexec(db.get(), "BEGIN"));
    {
        postgres::borrowed_transaction tx(db.get(), {.schema = schema_, .ring = false});
        enqueue(tx, {"orders", ""});
        enqueue(tx, {"orders", ""}, {.priority = 3});
        enqueue(tx, {"orders", ""}, {.dedup_key = "once"});
        enqueue(tx, std::vector<outgoing>(3, {{"orders", ""}}));
    }
    const auto prepare = [&] {
        const std::unique_ptr<PGresult, void (*)(PGresult*)> result(
            PQexec(db.get(), ("PREPARE TRANSACTION '" + schema_ + " lent'").c_str()), &PQclear);
        return PQresultStatus(result.get()) == PGRES_COMMAND_OK;
    };
    EXPECT_TRUE(prepare());
    admin_->execute("PREPARE TRANSACTION " + name);
    admin_->execute("COMMIT PREPARED " + name);
    admin_->execute("COMMIT PREPARED '" + schema_ + " lent'");
    EXPECT_EQ(count_messages(store_).ready, 8);
    expect_notifications(0);

    admin_->begin();
    enqueue_by_sql();
    EXPECT_THROW(admin_->execute("PREPARE TRANSACTION " + name), std::runtime_error);
}

TEST_F(postgres_bell, behind_a_pooler_it_looks_instead)
{
    auto pooled = open_with("&pooler=transaction");
    const auto bell = pooled.backend().make_bell();
    ASSERT_NE(dynamic_cast<contract::polling_bell*>(bell.get()), nullptr);
    bell->arm();
    EXPECT_EQ(holders() + sleepers(), 0);
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_FALSE(bell->wait(very_long)) << "nobody can have rung";
    EXPECT_LT(std::chrono::steady_clock::now() - begun, soon);
    enqueue(pooled, {"orders", ""});
    expect_notifications(0);
}

// What cannot be handed over wakes all who sleep, so the wrong one may come first. It puts the
// message aside, and the right one must not sleep on until it looks by itself. Proves: OUT-15
TEST_F(postgres_bell, who_parks_a_message_wakes_the_worker_that_handles_it)
{
    const worker_options sleepy{.look_at_least_every = very_long};
    worker wrong(store_, sleepy);
    wrong.handle("others", [](const delivery_view&) {});
    auto elsewhere = open_with("");
    worker right(elsewhere, sleepy);
    std::atomic<int> handled = 0;
    right.handle("orders", [&](const delivery_view&) { ++handled; });
    std::stop_source over;
    std::jthread first([&] { wrong.run(over.get_token()); });
    std::jthread second([&] { right.run(over.get_token()); });

    std::uint64_t parked = 0;
    for (int number = 1; number <= 40 || (parked == 0 && number <= 400); ++number) {
        enqueue_by_sql("'orders', priority => 1");
        const auto begun = std::chrono::steady_clock::now();
        wait_until([&] { return handled == number; });
        ASSERT_EQ(handled, number);
        ASSERT_LT(std::chrono::steady_clock::now() - begun, soon) << "message " << number;
        parked = wrong.status().so_far.parked;
    }

    over.request_stop();
    EXPECT_GT(parked, 0U) << "the right one was always first";
}

} // namespace posthorn::test
