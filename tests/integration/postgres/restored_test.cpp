// Tables that are dropped and restored, made anew, or filled with older rows while a worker runs:
// what it knew of the old ones keeps no message of the new ones back.
#include "integration/postgres/server_fixture.hpp"
#include "store/contract/backend.hpp"
#include <posthorn/enqueue.hpp>
#include <posthorn/messages.hpp>
#include <posthorn/outbox.hpp>
#include <posthorn/worker.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <stop_token>
#include <string>
#include <thread>

namespace posthorn::test {
namespace {

using namespace std::chrono_literals;

class postgres_restored : public server_fixture {
protected:
    static constexpr int many = 12'000; ///< the mark is raised every ten thousand

    postgres_restored() { admin_->execute("CREATE SCHEMA " + copy_); }
    ~postgres_restored() override { admin_->execute("DROP SCHEMA " + copy_ + " CASCADE"); }

    std::string for_tables(const std::string& statement)
    {
        return admin_->text("SELECT string_agg(format('" + statement +
                            "', relname), '; ') FROM pg_class WHERE relkind = 'r' AND "
                            "relnamespace = '" +
                            schema_ + "'::regnamespace");
    }

    void send(int count)
    {
        admin_->execute("SELECT count(" + schema_ + ".enqueue('orders')) FROM generate_series(1, " +
                        std::to_string(count) + ")");
    }

    void back_up()
    {
        admin_->execute(
            for_tables("CREATE TABLE " + copy_ + ".%1$I AS TABLE " + schema_ + ".%1$I"));
        numbers_ = admin_->text("SELECT string_agg(format('SELECT setval(%L, %s)', "
                                "format('%I.%I', schemaname, sequencename), last_value), '; ') "
                                "FROM pg_sequences WHERE last_value IS NOT NULL AND schemaname = "
                                "'" +
                                schema_ + "'");
    }

    /// Into empty tables.
    void restore()
    {
        admin_->execute(for_tables("INSERT INTO " + schema_ +
                                   ".%1$I OVERRIDING SYSTEM VALUE TABLE " + copy_ + ".%1$I"));
        admin_->execute(numbers_);
    }

    std::int64_t done()
    {
        return admin_->count("SELECT count(*) FROM " + schema_ + ".message WHERE state = 6");
    }

    std::int64_t mark() { return admin_->count("SELECT low FROM " + schema_ + ".mark"); }

    /// With the path of a migration that an administrator runs by hand.
    void make_anew()
    {
        admin_->execute("DROP SCHEMA " + schema_ + " CASCADE");
        auto text = postgres::migration_sql(under_test_->url());
        text = text.substr(text.find("SET LOCAL"));
        admin_->execute(text.substr(0, text.rfind("COMMIT;")));
    }

    std::string copy_ = conformance::unused_name();
    std::string numbers_;
};

/// A worker that runs beside the test.
class running_worker {
public:
    explicit running_worker(store& on) : worker_(on, {.look_at_least_every = 200ms})
    {
        worker_.handle("orders", [this](const delivery_view&) { ++handled; });
        thread_ = std::jthread([this](const std::stop_token& stop) { (void)worker_.run(stop); });
    }

    std::atomic<int> handled = 0;

private:
    worker worker_;
    std::jthread thread_;
};

} // namespace

// Proves: I2, I9
TEST_F(postgres_restored, tables_dropped_and_restored_under_a_worker_are_worked_off_again)
{
    send(many);
    back_up();
    auto db = open_with("&pool=4");
    running_worker busy(db);
    wait_until([&] { return done() == many; });
    wait_until([&] { return mark() >= 10'000; });
    admin_->begin();
    make_anew();
    admin_->execute(for_tables("DELETE FROM " + schema_ + ".%1$I"));
    restore();
    admin_->commit();
    wait_until([&] { return done() == many; });
    EXPECT_EQ(busy.handled, 2 * many);
    send(10);
    wait_until([&] { return done() == many + 10; });
}

// Proves: I2, I9
TEST_F(postgres_restored, rows_put_back_into_the_same_tables_are_worked_off_again)
{
    send(many);
    back_up();
    auto db = open_with("&pool=4");
    running_worker busy(db);
    wait_until([&] { return done() == many; });
    admin_->begin();
    admin_->execute(for_tables("TRUNCATE " + schema_ + ".%1$I CASCADE"));
    restore();
    admin_->commit();
    wait_until([&] { return done() == many; });
    EXPECT_EQ(busy.handled, 2 * many);
}

// Numbers that go on where they were: nothing but the tables tells that they are others.
// Proves: I2, I9
TEST_F(postgres_restored, a_worker_of_old_tables_does_not_raise_the_mark_of_new_ones)
{
    send(many);
    back_up();
    auto db = open_with("&pool=1");
    outbox queue(db);
    const auto who = owner::create("alice", *system_.random);
    const auto claim_all = [&] {
        int claimed = 0;
        while (const auto next = queue.claim(who, {.limit = 500}).size())
            claimed += static_cast<int>(next);
        return claimed;
    };
    int before = 0;
    while (before < 9'500) // it knows of them, and has not written it down
        before += static_cast<int>(queue.claim(who, {.limit = 500}).size());
    ASSERT_EQ(mark(), 0);
    admin_->begin();
    make_anew();
    admin_->execute(for_tables("DELETE FROM " + schema_ + ".%1$I"));
    restore();
    admin_->commit();
    EXPECT_EQ(queue.claim(who, {.limit = 500}).size(), 500U); // raises it by its count
    EXPECT_EQ(mark(), 0) << "9,500 of these were never claimed";
    auto another = open_with("");
    EXPECT_EQ(claim_all() + static_cast<int>(outbox(another).claim(who).size()), many - 500);
}

// Proves: I2
TEST_F(postgres_restored, a_worker_whose_row_has_gone_is_registered_again)
{
    auto db = open_with("&pool=1");
    outbox queue(db);
    const auto who = owner::create("alice", *system_.random);
    const auto bell = db.backend().make_bell();
    bell->arm();
    for (const bool plain : {true, false}) {
        EXPECT_TRUE(queue.claim(who).empty());
        admin_->execute("DELETE FROM " + schema_ + ".worker");
        const auto sent = enqueue(db, {"orders", ""}, {.priority = plain ? 0 : 1});
        EXPECT_EQ(queue.claim(who).size(), 1U);
        EXPECT_EQ(find_message(db, sent.id)->worker, "alice");
    }
    admin_->execute("DELETE FROM " + schema_ + ".worker");
    const contract::place_offer terms{.owner = who.token,
                                      .worker = who.worker,
                                      .lease = 30s,
                                      .topics = {"orders"},
                                      .prefixes = {}};
    bell->offer(terms, 1);
    admin_->execute("DELETE FROM " + schema_ + ".worker");
    bell->offer(terms, 4);
    EXPECT_EQ(admin_->count("SELECT count(*) FROM " + schema_ + ".offer"), 4);
}

} // namespace posthorn::test
