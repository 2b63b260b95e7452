// Parked messages where several connections meet: nobody waits for an unpark, an unpark waits for
// nobody, and the two tables that know a parked message never disagree.
#include "integration/mariadb/fresh_database.hpp"
#include "integration/mariadb/own_server.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace posthorn::test {
namespace {

using ::testing::ElementsAre;

/// Workers that park every other message and take parked ones back, until all have ended; some
/// messages have keys. Nobody's call may fail.
class crowd {
public:
    enum class cancels { none, some };

    crowd(store& db, cancels how) : db_(db), how_(how) {}

    void run()
    {
        std::vector<std::thread> threads;
        threads.emplace_back([&] { guarded([&] { enqueue_all(); }); });
        for (int w = 0; w < workers; ++w)
            threads.emplace_back([&, w] { guarded([&] { work(w); }); });
        for (auto& each : threads)
            each.join();
    }

private:
    static constexpr int messages = 300;
    static constexpr int workers = 5;

    void guarded(const std::function<void()>& work)
    {
        try {
            work();
        } catch (const std::exception& failure) {
            ADD_FAILURE() << failure.what();
            failed_ = true;
        }
    }

    void enqueue_all()
    {
        std::vector<message_id> ids;
        for (int i = 0; i < messages; ++i) {
            const auto key = i % 3 == 0 ? "key " + std::to_string(i % 4) : std::string();
            ids.push_back(
                enqueue(db_, {.topic = topics_[i % 3U], .payload = ""}, {.ordering_key = key}).id);
            if (how_ == cancels::some && i % 5 == 4 &&
                cancel(db_, ids[ids.size() - 3]) == cancel_answer::cancelled)
                ++ended_;
        }
    }

    void work(int number)
    {
        outbox box(db_);
        const owner who{.token = "token " + std::to_string(number), .worker = "w"};
        int turn = number;
        while (ended_ < messages && !failed_) {
            const auto claimed = box.claim(who, {.limit = 4, .unpark = topics_});
            std::vector<settlement> all;
            for (const auto& each : claimed.receipts())
                all.push_back({each, ++turn % 2 == 0 ? done() : park(park_reason::at_limit)});
            for (const auto answer : box.settle(who, all).answers)
                ended_ += answer == settled_as::done ? 1 : 0;
        }
    }

    store& db_;
    cancels how_;
    std::atomic<int> ended_ = 0;
    std::atomic<bool> failed_ = false;
    const std::vector<std::string> topics_{"topic 0", "topic 1", "topic 2"};
};

class mariadb_parking : public ::testing::Test {
protected:
    std::vector<message_id> park(std::size_t count, const std::string& topic = "orders",
                                 const enqueue_options& how = {})
    {
        std::vector<message_id> ids;
        for (std::size_t i = 0; i < count; ++i)
            ids.push_back(enqueue(db, {.topic = topic, .payload = ""}, how).id);
        std::vector<settlement> all;
        for (const auto& each : box.claim(worker, {.limit = count}).receipts())
            all.push_back({each, posthorn::park(park_reason::paused)});
        EXPECT_EQ(box.settle(worker, all).answers, std::vector(count, settled_as::parked));
        return ids;
    }

    std::vector<message_id> unpark(std::size_t limit,
                                   const std::vector<std::string>& topics = {"orders"})
    {
        std::vector<message_id> ids;
        for (const auto& each : box.claim(worker, {.limit = limit, .unpark = topics}).deliveries)
            ids.push_back(each.receipt.id);
        return ids;
    }

    void expect_health()
    {
        for (const auto& each : mariadb::diagnose(database.url()))
            EXPECT_NE(each.level, severity::problem) << each.check << ": " << each.detail;
    }

    migrated_database database;
    store db = mariadb::open(database.url("?lock_timeout=1s&pool=16"));
    outbox box{db};
    native_client other{database.name};
    owner worker{.token = "token", .worker = "worker"};
};

TEST_F(mariadb_parking, an_unpark_passes_over_messages_that_others_hold)
{
    const auto ids = park(3);
    const auto first = std::to_string(find_message(db, ids[0])->position);
    other.run("START TRANSACTION");
    other.run("SELECT * FROM posthorn_queue WHERE seq = " + first + " FOR UPDATE");
    EXPECT_THAT(unpark(1), ElementsAre()) << "the only one it may take is held";
    EXPECT_THAT(unpark(2), ElementsAre(ids[1]));
    other.run("ROLLBACK");
    other.run("START TRANSACTION");
    other.run("SELECT * FROM posthorn_parked WHERE topic = 'orders' AND seq = " + first +
              " FOR UPDATE");
    EXPECT_THAT(unpark(1), ElementsAre(ids[2]));
    other.run("ROLLBACK");
    EXPECT_THAT(unpark(1), ElementsAre(ids[0]));
    expect_health();
}

TEST_F(mariadb_parking, a_claim_that_unparks_stands_in_nobodys_way)
{
    park(3);
    mariadb::borrowed_transaction tx{other.handle()};
    other.run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
    other.run("START TRANSACTION");
    other.run("SELECT * FROM posthorn_parked WHERE topic = 'orders' ORDER BY seq LIMIT 1 "
              "FOR UPDATE SKIP LOCKED");
    // The same topic, before and behind what is locked, and another one.
    EXPECT_EQ(park(1).size(), 1U);
    EXPECT_EQ(park(1, "letters").size(), 1U);
    EXPECT_EQ(unpark(10, {"letters", "orders"}).size(), 4U);
    other.run("ROLLBACK");
    expect_health();
}

TEST_F(mariadb_parking, a_cancel_takes_a_parked_message_off_every_list)
{
    const auto ids = park(2);
    EXPECT_EQ(cancel(db, ids[0]), cancel_answer::cancelled);
    EXPECT_EQ(other.run("SELECT COUNT(*) FROM posthorn_parked"), "1");
    EXPECT_THAT(unpark(10), ElementsAre(ids[1]));
    EXPECT_EQ(other.run("SELECT COUNT(*) FROM posthorn_parked"), "0");
    expect_health();
}

// The claim that ends it looked before there was anything ready.
TEST_F(mariadb_parking, a_parked_head_that_expires_lets_its_key_go_on_in_the_same_claim)
{
    park(1, "orders", {.ordering_key = "k", .expires_after = std::chrono::hours{1}});
    const auto next = enqueue(db, {.topic = "orders", .payload = ""}, {.ordering_key = "k"}).id;
    EXPECT_TRUE(box.claim(worker).empty());
    EXPECT_EQ(find_message(db, next)->state, message_state::waiting);
    other.run("UPDATE posthorn_queue SET expires_at = 1 WHERE place = 9");
    const auto claimed = box.claim(worker);
    ASSERT_EQ(claimed.size(), 1U);
    EXPECT_EQ(claimed.deliveries.front().receipt.id, next);
    expect_health();
}

TEST_F(mariadb_parking, a_lent_transaction_parks_and_unparks_what_came_after_its_first_look)
{
    mariadb::borrowed_transaction tx{other.handle()}; // at REPEATABLE READ
    enqueue(db, {.topic = "orders", .payload = ""});
    other.run("START TRANSACTION");
    other.run("SELECT COUNT(*) FROM posthorn_message");
    enqueue(db, {.topic = "orders", .payload = ""});
    std::vector<settlement> all;
    for (const auto& each : box.claim(worker).receipts())
        all.push_back({each, posthorn::park(park_reason::no_handler)});
    EXPECT_EQ(box.settle(tx, worker, all).answers, std::vector(2, settled_as::parked));
    other.run("COMMIT");
    EXPECT_EQ(count_messages(db).parked, 2);
    EXPECT_EQ(unpark(10).size(), 2U);
    expect_health();
}

TEST_F(mariadb_parking, many_who_park_and_unpark_and_cancel_leave_nothing_behind)
{
    crowd(db, crowd::cancels::some).run();
    EXPECT_EQ(other.run("SELECT COUNT(*) FROM posthorn_parked"), "0");
    EXPECT_EQ(other.run("SELECT COUNT(*) FROM posthorn_queue"), "0");
    EXPECT_EQ(other.run("SELECT COUNT(*) FROM posthorn_key_head"), "0");
    expect_health();
}

// Calls run again after a deadlock, so that only the server knows: one that nobody else uses.
TEST(mariadb_parking_alone, claims_that_unpark_and_settlements_that_park_never_deadlock)
{
    const own_server server;
    const auto port = server.port();
    const std::unique_ptr<MYSQL, void (*)(MYSQL*)> root(mysql_init(nullptr), &mysql_close);
    ASSERT_NE(mysql_real_connect(root.get(), "127.0.0.1", "root", nullptr, nullptr,
                                 static_cast<unsigned>(std::stoul(port)), nullptr, 0),
              nullptr);
    ASSERT_EQ(mysql_query(root.get(), "CREATE DATABASE shop"), 0);
    const auto url = "mariadb://root@127.0.0.1:" + port + "/shop?pool=16";
    mariadb::migrate(url);
    auto db = mariadb::open(url);
    crowd(db, crowd::cancels::none).run();
    ASSERT_EQ(mysql_query(root.get(), "SELECT variable_value FROM information_schema.global_status "
                                      "WHERE variable_name = 'Innodb_deadlocks'"),
              0);
    const std::unique_ptr<MYSQL_RES, void (*)(MYSQL_RES*)> rows(mysql_store_result(root.get()),
                                                                &mysql_free_result);
    ASSERT_TRUE(rows);
    EXPECT_STREQ(mysql_fetch_row(rows.get())[0], "0");
}

TEST_F(mariadb_parking, a_diagnosis_finds_lists_that_disagree)
{
    park(2);
    expect_health();
    other.run("DELETE FROM posthorn_parked LIMIT 1");
    std::set<std::string> complaints;
    for (const auto& each : mariadb::diagnose(database.url()))
        if (each.level == severity::problem)
            complaints.insert(each.check);
    EXPECT_THAT(complaints, ElementsAre("parked messages"));
}

} // namespace
} // namespace posthorn::test
