// Many workers, few keys: never two of one key at once, always in order, and nothing is left over.
#include "integration/mariadb/fresh_database.hpp"
#include <posthorn/testing/manual_clock.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace posthorn::test {
namespace {

constexpr int messages_per_writer = 60;
constexpr int writers = 4;
constexpr int workers = 6;

// What all workers together see of one key.
class witness {
public:
    void begins(const delivery& which)
    {
        const std::lock_guard lock(mutex_);
        auto& key = keys_[which.ordering_key];
        if (key.running)
            complaints_.push_back("two at once: " + which.ordering_key);
        key.running = true;
        // A payload is WRITER:NUMBER; what one writer enqueued comes in its order.
        const auto colon = which.payload.find(':');
        auto& last = key.last_of[which.payload.substr(0, colon)];
        const int number = std::stoi(which.payload.substr(colon + 1));
        if (number <= last && which.attempt == 1)
            complaints_.push_back("out of order: " + which.payload);
        last = std::max(last, number);
    }

    void ends(const delivery& which)
    {
        const std::lock_guard lock(mutex_);
        keys_[which.ordering_key].running = false;
    }

    std::vector<std::string> complaints() const { return complaints_; }

private:
    struct key_state {
        bool running = false;
        std::map<std::string, int> last_of;
    };

    std::mutex mutex_;
    std::map<std::string, key_state> keys_;
    std::vector<std::string> complaints_;
};

// Proves: OUT-08, I8
TEST(keys_under_load, messages_of_a_key_run_one_by_one_and_in_order)
{
    migrated_database database;
    auto db = mariadb::open(database.url("?pool=16"));
    witness seen;
    std::atomic<int> done = 0;
    std::atomic<int> cancelled = 0;
    std::vector<std::thread> threads;
    for (int w = 0; w < writers; ++w)
        threads.emplace_back([&, w] {
            for (int i = 1; i <= messages_per_writer; ++i) {
                const auto id =
                    enqueue(db,
                            {.topic = "t", .payload = std::to_string(w) + ":" + std::to_string(i)},
                            {.ordering_key = "key " + std::to_string(i % 3)})
                        .id;
                if (i % 7 == 0 && cancel(db, id) == cancel_answer::cancelled)
                    ++cancelled;
            }
        });
    for (int w = 0; w < workers; ++w)
        threads.emplace_back([&, w] {
            outbox box(db);
            const owner who{.token = "token " + std::to_string(w), .worker = "w"};
            int turn = w;
            while (done + cancelled < writers * messages_per_writer) {
                const auto claimed = box.claim(who, {.limit = 3});
                for (const auto& each : claimed.deliveries) {
                    seen.begins(each);
                    seen.ends(each);
                }
                std::vector<settlement> answers;
                for (const auto& each : claimed.receipts())
                    answers.push_back({each, ++turn % 5 == 0 ? retry_in(duration::zero(), "again")
                                                             : posthorn::done()});
                for (const auto answer : box.settle(who, answers).answers)
                    done += answer == settled_as::done ? 1 : 0;
            }
        });
    for (auto& each : threads)
        each.join();
    EXPECT_EQ(seen.complaints(), std::vector<std::string>{});
    native_client look(database.name);
    EXPECT_EQ(look.run("SELECT COUNT(*) FROM posthorn_queue"), "0");
    EXPECT_EQ(look.run("SELECT COUNT(*) FROM posthorn_key_head"), "0");
    EXPECT_EQ(look.run("SELECT COUNT(*) FROM posthorn_batch"), "0");
    for (const auto& each : mariadb::diagnose(database.url()))
        EXPECT_NE(each.level, severity::problem) << each.check << ": " << each.detail;
}

// Proves: I9
TEST(plain_under_load, no_message_is_skipped_when_a_slow_transaction_commits_last)
{
    migrated_database database;
    auto db = mariadb::open(database.url());
    native_client slow(database.name);
    mariadb::borrowed_transaction tx(slow.handle());
    slow.run("START TRANSACTION");
    const auto first = enqueue(tx, {.topic = "t", .payload = "slow"}).id;
    const auto second = enqueue(db, {.topic = "t", .payload = "fast"}).id;
    outbox box(db);
    const owner who{.token = "token"};
    const auto early = box.claim(who);
    ASSERT_EQ(early.size(), 1U);
    EXPECT_EQ(early.deliveries.front().receipt.id, second);
    slow.run("COMMIT");
    const auto late = box.claim(who);
    ASSERT_EQ(late.size(), 1U);
    EXPECT_EQ(late.deliveries.front().receipt.id, first);
}

// A claim begins where the last one ended, and still finds what was committed late, backlog or not.
// Proves: I9
TEST(plain_under_load, what_commits_late_is_found_although_others_keep_coming)
{
    migrated_database database;
    const auto clock = std::make_shared<testing::manual_clock>();
    auto world = environment::system();
    world.clock = clock;
    auto db = mariadb::open(database.url(), {.environment = world});
    native_client slow(database.name);
    mariadb::borrowed_transaction tx(slow.handle(), {.environment = world});
    slow.run("START TRANSACTION");
    const auto late = enqueue(tx, {.topic = "t", .payload = "late"}).id;
    enqueue(db, std::vector<outgoing>(50, {.message = {.topic = "t", .payload = "early"}}));
    outbox box(db);
    const owner who{.token = "token"};
    const auto claims_late_one = [&] {
        const auto claimed = box.claim(who, {.limit = 10});
        EXPECT_EQ(claimed.size(), 10U);
        return claimed.deliveries.front().receipt.id == late;
    };
    EXPECT_FALSE(claims_late_one());
    slow.run("COMMIT");
    EXPECT_FALSE(claims_late_one()) << "a hint that is never used";
    clock->advance(std::chrono::milliseconds{100});
    EXPECT_TRUE(claims_late_one());
}

} // namespace
} // namespace posthorn::test
