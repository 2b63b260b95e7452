// Transactions commit in another order than they enqueued in, some of them very late: however far
// workers have moved on meanwhile, each committed message is delivered, and once.
#include "checker/scratch_folder.hpp"
#include "integration/postgres/server_fixture.hpp"
#include "integration/sqlite/child_process.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace posthorn::test {
namespace {

using namespace std::chrono_literals;
using chance = std::mt19937;

class postgres_late_commits : public server_fixture {
protected:
    static constexpr int producers = 12;
    static constexpr int transactions = 25; ///< of each producer
    static constexpr int floods = 12;
    static constexpr std::size_t flood_size = 2'000;

    // ------------------------------------------------------------------------------- producers

    void note_committed(const std::vector<message_id>& ids)
    {
        const std::lock_guard lock(mutex_);
        committed_.insert(ids.begin(), ids.end());
    }

    /// Enqueues, waits, and commits or changes its mind; with savepoints that do the same.
    void produce(chance draw)
    {
        const auto app = under_test_->connect(system_);
        for (int number = 0; number < transactions; ++number) {
            std::vector<message_id> ids;
            app->begin();
            for (auto count = 1 + draw() % 3; count > 0; --count)
                ids.push_back(enqueue(app->borrow(), {"orders", "x"}).id);
            if (draw() % 3 == 0) {
                app->execute("SAVEPOINT inner_one");
                const auto inside = enqueue(app->borrow(), {"orders", "inside"}).id;
                const bool undone = draw() % 2 == 0;
                app->execute(undone ? "ROLLBACK TO SAVEPOINT inner_one"
                                    : "RELEASE SAVEPOINT inner_one");
                if (!undone)
                    ids.push_back(inside);
            }
            system_.clock->pause(duration{draw() % 300'000}); // that is what this test is about
            if (draw() % 5 == 0) {
                app->rollback();
            } else {
                note_committed(ids); // before anybody can deliver them
                app->commit();
            }
        }
    }

    /// So many that the workers' mark moves on, again and again.
    void flood()
    {
        auto db = open_with("");
        for (int i = 0; i < floods; ++i) {
            auto tx = db.begin();
            std::vector<message_id> ids;
            for (const auto& each :
                 enqueue(tx, std::vector<outgoing>(flood_size, {.message = {"orders", "flood"}})))
                ids.push_back(each.id);
            note_committed(ids);
            tx.commit();
        }
    }

    // --------------------------------------------------------------------------------- workers

    void note_delivered(message_id id)
    {
        const std::lock_guard lock(mutex_);
        ++delivered_[id];
    }

    void work(const std::string& name, std::size_t limit)
    {
        auto db = open_with("");
        outbox box(db);
        const auto me = owner::create(name, *system_.random);
        while (!finished_.load()) {
            const auto claimed = box.claim(me, {.limit = limit});
            for (const auto& each : claimed.deliveries)
                note_delivered(each.receipt.id);
            EXPECT_EQ(box.acknowledge(me, claimed.receipts()).lost(), 0U);
            if (claimed.empty())
                system_.clock->pause(1ms);
        }
    }

    /// Another process, which notes what it handles in a file and ends when a second one exists.
    [[nodiscard]] child_process other_process() const
    {
        return child_process([this] {
            execl(WORKER, WORKER, under_test_->url().c_str(), notes_.file("notes").c_str(),
                  notes_.file("stop").c_str(), nullptr);
        });
    }

    void read_notes()
    {
        std::istringstream lines(notes_.read("notes"));
        for (std::string id, process; lines >> id >> process;)
            note_delivered(message_id::parse(id).value());
    }

    bool is_drained()
    {
        auto db = open_with("");
        const auto stats = count_messages(db);
        return stats.ready + stats.claimed == 0;
    }

    /// Everybody at once; and when they have come to an end, what `at_last` still adds.
    void deliver_all(const std::function<void()>& at_last)
    {
        auto other = other_process();
        {
            std::vector<std::jthread> working;
            for (const std::size_t limit : {2, 3, 500})
                working.emplace_back([&, limit] { work("worker", limit); });
            chance draw(static_cast<chance::result_type>(system_.random->bits()));
            std::vector<std::jthread> producing;
            for (int i = 0; i < producers; ++i)
                producing.emplace_back([&, own = chance(draw())] { produce(own); });
            producing.emplace_back([&] { flood(); });
            producing.clear();
            EXPECT_NO_THROW(wait_until([&] { return is_drained(); })) << "some are left behind";
            at_last();
            EXPECT_NO_THROW(wait_until([&] { return is_drained(); })) << "the last are left behind";
            finished_ = true;
            notes_.write("stop", "");
        }
        EXPECT_EQ(other.wait(), 0);
        read_notes();
        judge();
    }

    void judge()
    {
        EXPECT_GT(committed_.size(), floods * flood_size);
        for (const auto id : committed_)
            EXPECT_EQ(delivered_[id], 1) << to_string(id);
        EXPECT_EQ(delivered_.size(), committed_.size()) << "what never was has been delivered";
        for (const auto& each : diagnose(under_test_->url()))
            if (each.check != "durability") { // the server of the tests has none
                EXPECT_NE(each.level, severity::problem) << each.check << ": " << each.detail;
            }
    }

    checker::scratch_folder notes_;
    std::mutex mutex_;
    std::set<message_id> committed_;
    std::map<message_id, int> delivered_;
    std::atomic<bool> finished_{false};
};

} // namespace

// Proves: I1, I2, I6, I9
TEST_F(postgres_late_commits, transactions_that_commit_out_of_order_are_delivered_once_each)
{
    deliver_all([&] {
        // Whoever else uses this server holds the mark back with every transaction that is open.
        EXPECT_NO_THROW(wait_for_strangers()) << "somebody's transaction has no end";
        EXPECT_NO_THROW(wait_until([&] {
            return admin_->count("SELECT low FROM " + schema_ + ".mark") > 0;
        })) << "nobody moved on";
    });
}

// Proves: I1, I2, I6, I9, F17
TEST_F(postgres_late_commits, what_was_enqueued_first_and_commits_last_is_delivered_too)
{
    const auto slowest = under_test_->connect(system_);
    slowest->begin();
    const auto first = enqueue(slowest->borrow(), {"orders", "the first and the last"}).id;
    const auto name = conformance::unused_name();
    admin_->begin();
    const auto prepared = enqueue(admin_->borrow(), {"orders", "prepared"}).id;
    admin_->execute("PREPARE TRANSACTION '" + name + "'");
    deliver_all([&] {
        note_committed({first, prepared});
        slowest->commit();
        admin_->execute("COMMIT PREPARED '" + name + "'");
    });
}

} // namespace posthorn::test
