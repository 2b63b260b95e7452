// Many threads on one store: nothing is delivered twice, nothing is lost, and order per key holds.
// Real time and real connections; everything else in this suite runs on a clock that tests move.
#include "conformance/conformance_test.hpp"

#include <algorithm>
#include <atomic>
#include <latch>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace posthorn::conformance {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::size_t scale = 1;
#else
constexpr std::size_t scale = 4;
#endif

constexpr std::size_t workers = 8;
constexpr std::size_t producers = 3;

class concurrency : public conformance_test {
protected:
    void SetUp() override
    {
        conformance_test::SetUp();
        if (!IsSkipped())
            real_.emplace(under_test().open({}));
    }

    /// A handle on the real clock.
    store& real() { return *real_; }

    static owner somebody(const store& of, std::size_t number)
    {
        return owner::create("worker " + std::to_string(number), *of.environment().random);
    }

private:
    std::optional<store> real_;
};

/// What handlers saw, in the order in which they saw it.
class record_of_starts {
public:
    void add(const batch& claimed)
    {
        const std::lock_guard lock(mutex_);
        for (const auto& each : claimed.deliveries) {
            ++starts_[each.receipt.id];
            if (!each.ordering_key.empty())
                by_key_[each.ordering_key].push_back(std::stoi(each.payload));
        }
    }

    [[nodiscard]] const std::map<message_id, int>& starts() const { return starts_; }
    [[nodiscard]] const std::map<std::string, std::vector<int>>& by_key() const { return by_key_; }

private:
    std::mutex mutex_;
    std::map<message_id, int> starts_;
    std::map<std::string, std::vector<int>> by_key_;
};

/// Claims and acknowledges until everything that is announced has been handled.
void work(store where, const owner& who, std::size_t limit, record_of_starts& seen,
          std::atomic<std::size_t>& left)
{
    outbox box(std::move(where));
    while (left.load() > 0) {
        const auto claimed = box.claim(who, {.limit = limit});
        ASSERT_LE(claimed.size(), limit);
        seen.add(claimed);
        ASSERT_EQ(box.acknowledge(who, claimed.receipts()).lost(), 0U);
        left.fetch_sub(claimed.size());
    }
}

} // namespace

// Proves: OUT-10, I2, I6
TEST_P(concurrency, no_message_is_claimed_twice_and_none_is_lost)
{
    const std::size_t per_producer = 250 * scale;
    std::atomic<std::size_t> left{producers * per_producer};
    record_of_starts seen;
    {
        std::vector<std::jthread> threads;
        for (std::size_t i = 0; i < workers; ++i)
            threads.emplace_back([&, i] { work(real(), somebody(real(), i), 7, seen, left); });
        for (std::size_t i = 0; i < producers; ++i)
            threads.emplace_back([&] {
                for (std::size_t n = 0; n < per_producer; n += 10)
                    enqueue(real(), std::vector<outgoing>(10, {.message = {"orders", "x"}}));
            });
    }
    EXPECT_EQ(seen.starts().size(), producers * per_producer);
    for (const auto& [id, count] : seen.starts())
        EXPECT_EQ(count, 1) << to_string(id);
    const auto stats = count_messages(real());
    EXPECT_EQ(stats.done, static_cast<std::int64_t>(producers * per_producer));
    EXPECT_EQ(stats.ready + stats.claimed + stats.waiting + stats.dead, 0);
}

// Proves: OUT-10, I2, I6
TEST_P(concurrency, workers_with_handles_of_their_own_share_a_store)
{
    const std::size_t messages = 400 * scale;
    enqueue(real(), std::vector<outgoing>(messages, {.message = {"orders", "x"}}));
    std::atomic<std::size_t> left{messages};
    record_of_starts seen;
    {
        std::vector<std::jthread> threads;
        for (std::size_t i = 0; i < workers; ++i)
            threads.emplace_back([&, i] {
                auto own = under_test().open({});
                work(own, somebody(own, i), 9, seen, left);
            });
    }
    EXPECT_EQ(seen.starts().size(), messages);
    for (const auto& [id, count] : seen.starts())
        EXPECT_EQ(count, 1) << to_string(id);
}

// Proves: OUT-06, I8
TEST_P(concurrency, messages_of_one_key_start_in_the_order_of_their_enqueueing)
{
    constexpr int keys = 10;
    const int per_key = static_cast<int>(15 * scale);
    std::atomic<std::size_t> left{static_cast<std::size_t>(keys * per_key)};
    record_of_starts seen;
    {
        std::vector<std::jthread> threads;
        for (std::size_t i = 0; i < workers; ++i)
            threads.emplace_back([&, i] { work(real(), somebody(real(), i), 5, seen, left); });
        threads.emplace_back([&] {
            for (int n = 0; n < per_key; ++n)
                for (int key = 0; key < keys; ++key)
                    enqueue(real(), {"orders", std::to_string(n)},
                            {.ordering_key = "key " + std::to_string(key)});
        });
    }
    ASSERT_EQ(seen.by_key().size(), static_cast<std::size_t>(keys));
    for (const auto& [key, numbers] : seen.by_key()) {
        EXPECT_EQ(numbers.size(), static_cast<std::size_t>(per_key)) << key;
        EXPECT_TRUE(std::ranges::is_sorted(numbers)) << key;
    }
}

// Proves: OUT-09, I18
TEST_P(concurrency, what_was_cancelled_has_not_started_however_close_the_race)
{
    const std::size_t messages = 100 * scale;
    std::vector<message_id> ids;
    for (const auto& each :
         enqueue(real(), std::vector<outgoing>(messages, {.message = {"orders", "x"}})))
        ids.push_back(each.id);

    std::latch together(3);
    std::set<message_id> cancelled;
    std::set<message_id> started;
    {
        std::jthread canceller([&] {
            together.arrive_and_wait();
            for (auto id = ids.rbegin(); id != ids.rend(); ++id)
                if (cancel(real(), *id) == cancel_answer::cancelled)
                    cancelled.insert(*id);
        });
        std::vector<std::jthread> starters;
        std::mutex mutex;
        for (std::size_t i = 0; i < 2; ++i)
            starters.emplace_back([&, i] {
                outbox box(real());
                const auto who = somebody(real(), i);
                together.arrive_and_wait();
                for (auto claimed = box.claim(who, {.limit = 5, .start = 0}); !claimed.empty();
                     claimed = box.claim(who, {.limit = 5, .start = 0})) {
                    const auto receipts = claimed.receipts();
                    const auto answers = box.start(who, receipts);
                    for (std::size_t n = 0; n < answers.size(); ++n) {
                        const std::lock_guard lock(mutex);
                        if (answers[n] == start_answer::started)
                            started.insert(receipts[n].id);
                    }
                    box.acknowledge(who, receipts);
                }
            });
    }
    EXPECT_EQ(cancelled.size() + started.size(), messages);
    for (const auto id : cancelled) {
        EXPECT_FALSE(started.contains(id)) << to_string(id);
        EXPECT_EQ(find_message(real(), id)->state, message_state::cancelled);
    }
}

// Proves: OUT-07
TEST_P(concurrency, one_dedup_key_adds_one_message_however_many_enqueue_it)
{
    std::mutex mutex;
    std::set<message_id> ids;
    std::atomic<int> added{0};
    {
        std::latch together(static_cast<std::ptrdiff_t>(workers));
        std::vector<std::jthread> threads;
        for (std::size_t i = 0; i < workers; ++i)
            threads.emplace_back([&] {
                together.arrive_and_wait();
                const auto answer = enqueue(real(), {"orders", "x"}, {.dedup_key = "once"});
                added += answer.duplicate ? 0 : 1;
                const std::lock_guard lock(mutex);
                ids.insert(answer.id);
            });
    }
    EXPECT_EQ(added.load(), 1);
    EXPECT_EQ(ids.size(), 1U);
    EXPECT_EQ(count_messages(real()).ready, 1);
}

TEST(ledger_of_skips_of_threads, every_entry_names_a_test_that_exists)
{
    EXPECT_THAT(entries_without_a_test([](std::string_view suite) {
                    return suite == "bells_from_elsewhere" || suite == "concurrency";
                }),
                ::testing::IsEmpty());
}

CONFORMANCE_SUITE(concurrency);

} // namespace posthorn::conformance
