// Bells: whoever sleeps is woken soon after an enqueue, whatever way it took into the store. They
// are about threads and processes, so these tests run on the real clock.
#include "conformance/conformance_test.hpp"
#include "hang_limit.hpp"
#include "store/contract/backend.hpp"

#include <chrono>
#include <functional>
#include <future>
#include <thread>

namespace posthorn::conformance {
namespace {

using real_clock = std::chrono::steady_clock;

constexpr auto at_once = test::hang_limit; // much less than the time that is waited for
constexpr auto very_long = 10min;

class bells : public conformance_test {
protected:
    void SetUp() override
    {
        conformance_test::SetUp();
        if (!IsSkipped())
            real_.emplace(under_test().open({}));
    }

    store& real() { return *real_; }
    std::unique_ptr<contract::bell> bell_of(store& where) { return where.backend().make_bell(); }

    /// How long a wait lasts.
    static real_clock::duration time_of(contract::bell& which, duration at_most)
    {
        const auto begun = real_clock::now();
        (void)which.wait(at_most);
        return real_clock::now() - begun;
    }

    /// Sleeps as a worker does: arms, looks, and waits, until something is due or announced.
    static bool learns_of_work(store& where, contract::bell& which)
    {
        const auto end = real_clock::now() + very_long;
        while (real_clock::now() < end) {
            which.arm();
            const auto seen = where.backend().outlook();
            if (seen.due || seen.next)
                return true;
            (void)which.wait(very_long);
        }
        return false;
    }

    /// Lets somebody sleep, enqueues, and says how long after that the sleeper knew.
    real_clock::duration time_to_learn(store& sleeper, const std::function<void()>& enqueueing)
    {
        const auto which = bell_of(sleeper);
        which->arm();
        (void)which->wait(50ms); // so that it sleeps as those do who have slept for a while
        auto learnt = std::async(std::launch::async, [&] {
            EXPECT_TRUE(learns_of_work(sleeper, *which));
            return real_clock::now();
        });
        enqueueing();
        const auto enqueued = real_clock::now();
        return learnt.get() - enqueued;
    }

    static void empty(store& where)
    {
        outbox own(where);
        const owner who{.token = "sweeper"};
        for (auto part = own.claim(who); !part.empty(); part = own.claim(who))
            own.acknowledge(who, part.receipts());
        for (const auto& each : list_messages(where, {.state = message_state::ready}))
            (void)cancel(where, each.id);
    }

private:
    std::optional<store> real_;
};

TEST_P(bells, an_enqueue_in_the_same_process_ends_a_wait)
{
    const auto which = bell_of(real());
    for (int round = 0; round < 20; ++round) {
        which->arm();
        const std::jthread other([&] { enqueue(real(), {"orders", ""}); });
        EXPECT_LT(time_of(*which, very_long), at_once) << "round " << round;
    }
}

TEST_P(bells, every_way_to_enqueue_rings)
{
    const std::vector<std::pair<std::string, std::function<void()>>> ways{
        {"plain",
         [&] {
             enqueue(real(), {"orders", ""});
         }},
        {"keyed",
         [&] {
             enqueue(real(), {"orders", ""}, {.ordering_key = "k"});
         }},
        {"urgent",
         [&] {
             enqueue(real(), {"orders", ""}, {.priority = 9});
         }},
        {"delayed",
         [&] {
             enqueue(real(), {"orders", ""}, {.delay = 1h});
         }},
        {"bulk",
         [&] {
             enqueue(real(), std::vector<outgoing>(100, {{"orders", ""}}));
         }},
        {"transaction",
         [&] {
             auto tx = real().begin();
             enqueue(tx, {"orders", ""});
             tx.commit();
         }},
    };
    for (const auto& [name, way] : ways) {
        EXPECT_LT(time_to_learn(real(), way), at_once) << name;
        empty(real());
    }
}

TEST_P(bells, what_is_enqueued_between_arming_and_waiting_ends_the_wait_at_once)
{
    const auto which = bell_of(real());
    which->arm();
    enqueue(real(), {"orders", ""});
    EXPECT_LT(time_of(*which, very_long), at_once);
}

TEST_P(bells, what_commits_after_the_arming_rings_even_if_it_was_enqueued_before)
{
    const auto which = bell_of(real());
    auto tx = real().begin();
    enqueue(tx, {"orders", ""});
    which->arm();
    tx.commit();
    EXPECT_LT(time_of(*which, very_long), at_once);
    EXPECT_TRUE(real().backend().outlook().due);
}

TEST_P(bells, all_who_sleep_learn_of_it)
{
    const auto first = bell_of(real());
    const auto second = bell_of(real());
    first->arm();
    second->arm();
    auto one = std::async(std::launch::async, [&] { return time_of(*first, very_long); });
    auto other = std::async(std::launch::async, [&] { return time_of(*second, very_long); });
    enqueue(real(), {"orders", ""});
    EXPECT_LT(one.get(), at_once);
    EXPECT_LT(other.get(), at_once);
}

TEST_P(bells, a_bell_rings_again_and_again)
{
    const auto which = bell_of(real());
    for (int round = 0; round < 5; ++round) {
        EXPECT_FALSE(real().backend().outlook().due);
        const std::jthread other([&] { enqueue(real(), {"orders", ""}); });
        EXPECT_TRUE(learns_of_work(real(), *which));
        which->disarm();
        empty(real());
    }
}

TEST_P(bells, a_wait_in_which_nothing_happens_ends_in_time)
{
    const auto which = bell_of(real());
    which->arm();
    EXPECT_LT(time_of(*which, 10ms), at_once);
    EXPECT_LT(time_of(*which, 0s), at_once);
    EXPECT_LT(time_of(*which, -1s), at_once);
}

// A store that cannot ring may end waits to look, but ever more seldom.
TEST_P(bells, who_has_nothing_to_do_rests)
{
    const auto which = bell_of(real());
    const auto end = real_clock::now() + 300ms;
    int looks = 0;
    while (real_clock::now() < end) {
        which->arm();
        (void)which->wait(std::chrono::duration_cast<duration>(end - real_clock::now()));
        ++looks;
    }
    EXPECT_LE(looks, 15);
}

TEST_P(bells, a_waiting_thread_can_be_woken_by_another)
{
    const auto which = bell_of(real());
    for (int round = 0; round < 20; ++round) {
        which->arm();
        const std::jthread other([&] { which->wake(); });
        EXPECT_LT(time_of(*which, very_long), at_once) << "round " << round;
    }
}

TEST_P(bells, a_wake_that_comes_before_the_wait_is_not_lost)
{
    const auto which = bell_of(real());
    which->arm();
    which->wake();
    EXPECT_LT(time_of(*which, very_long), at_once);
    which->wake();
    which->arm();
    EXPECT_LT(time_of(*which, very_long), at_once);
}

TEST_P(bells, a_bell_that_nobody_armed_is_a_clock_that_can_be_woken)
{
    const auto which = bell_of(real());
    EXPECT_LT(time_of(*which, 10ms), at_once);
    which->arm();
    which->disarm();
    which->disarm();
    EXPECT_LT(time_of(*which, 10ms), at_once);
    which->wake();
    EXPECT_LT(time_of(*which, very_long), at_once);
}

CONFORMANCE_SUITE(bells);

class bells_from_elsewhere : public bells {};

TEST_P(bells_from_elsewhere, an_enqueue_through_another_handle_is_noticed_soon)
{
    auto other = under_test().open({});
    EXPECT_LT(time_to_learn(real(), [&] { enqueue(other, {"orders", ""}); }), at_once);
}

TEST_P(bells_from_elsewhere, an_enqueue_in_the_applications_transaction_is_noticed_soon)
{
    const auto app = under_test().connect(environment::system());
    EXPECT_LT(time_to_learn(real(),
                            [&] {
                                app->begin();
                                enqueue(app->borrow(), {"orders", ""});
                                app->commit();
                            }),
              at_once);
}

TEST_P(bells_from_elsewhere, an_enqueue_by_sql_is_noticed_soon)
{
    const auto app = under_test().connect(environment::system());
    EXPECT_LT(time_to_learn(real(),
                            [&] {
                                app->send({{"topic", "orders"}, {"payload", "by hand"}});
                            }),
              at_once);
}

TEST_P(bells_from_elsewhere, what_was_enqueued_elsewhere_before_the_wait_is_noticed_soon)
{
    auto other = under_test().open({});
    const auto which = bell_of(real());
    which->arm();
    enqueue(other, {"orders", ""});
    const auto begun = real_clock::now();
    EXPECT_TRUE(learns_of_work(real(), *which));
    EXPECT_LT(real_clock::now() - begun, at_once);
    empty(real());

    which->arm();
    enqueue(other, {"orders", ""});
    EXPECT_LT(time_of(*which, very_long), at_once);
}

CONFORMANCE_SUITE(bells_from_elsewhere);

} // namespace
} // namespace posthorn::conformance
