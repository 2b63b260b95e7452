// Messages from outside that are handled at once: the memory of them, what they write and what they
// enqueue are one transaction.
#include "conformance/conformance_test.hpp"
#include <posthorn/inbox.hpp>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace posthorn::conformance {
namespace {

using ::testing::IsEmpty;

class inbox_once : public conformance_test {
protected:
    /// Runs with an effect that can be counted.
    bool run(const std::string& id = "1")
    {
        return once(db(), "shop", id, [](transaction& tx) {
            enqueue(tx, message{"effect", "payload"});
        });
    }

    std::size_t effects() { return list_messages(db(), {.topic = "effect", .limit = 100}).size(); }

    std::optional<inbox_state> state(const std::string& id = "1")
    {
        const auto found = find_inbound(db(), {"shop", id});
        return found ? std::optional{found->state} : std::nullopt;
    }
};

} // namespace

// Proves: INB-04, I7
TEST_P(inbox_once, it_runs_once)
{
    EXPECT_TRUE(run());
    EXPECT_EQ(state(), inbox_state::done);
    EXPECT_FALSE(run());
    EXPECT_TRUE(run("2"));
    EXPECT_EQ(effects(), 2U);
    EXPECT_TRUE(already_processed(db(), {"shop", "1"}));
    EXPECT_EQ(enqueue_inbound(db(), {"shop", "1"}, {"orders", ""}).answer, inbox_answer::known);
}

// Proves: INB-04, I1, I7
TEST_P(inbox_once, what_is_rolled_back_may_run_again)
{
    {
        auto tx = db().begin();
        EXPECT_TRUE(once(tx, "shop", "1", [&] { enqueue(tx, message{"effect", ""}); }));
        EXPECT_FALSE(once(tx, "shop", "1", [] { FAIL() << "it ran in this transaction"; }));
        tx.rollback();
    }
    EXPECT_EQ(state(), std::nullopt);
    EXPECT_EQ(effects(), 0U);
    EXPECT_TRUE(run());
    EXPECT_EQ(effects(), 1U);
}

// Proves: INB-04
TEST_P(inbox_once, what_throws_may_run_again)
{
    EXPECT_THROW(once(db(), "shop", "1", [] { throw std::runtime_error("broken"); }),
                 std::runtime_error);
    EXPECT_EQ(state(), std::nullopt);
    {
        auto tx = db().begin(); // whose owner goes on nevertheless
        EXPECT_THROW(once(tx, "shop", "1", [] { throw std::runtime_error("broken"); }),
                     std::runtime_error);
        tx.commit();
    }
    EXPECT_EQ(state(), inbox_state::seen);
    EXPECT_TRUE(run());
    EXPECT_EQ(state(), inbox_state::done);
    EXPECT_EQ(effects(), 1U);
}

// Proves: INB-04, I7
TEST_P(inbox_once, what_is_in_the_queue_is_left_to_its_handler)
{
    enqueue_inbound(db(), {"shop", "1"}, {"orders", ""});
    EXPECT_FALSE(run());
    EXPECT_EQ(state(), inbox_state::seen);
    const auto held = claim_one();
    EXPECT_FALSE(run());
    EXPECT_EQ(acknowledge(held), settled_as::done);
    EXPECT_FALSE(run());
    EXPECT_EQ(effects(), 0U);
}

// Proves: INB-01
TEST_P(inbox_once, marks_tell_where_it_stands)
{
    const inbound from{"shop", "1"};
    EXPECT_FALSE(already_processed(db(), from));
    EXPECT_EQ(state(), inbox_state::seen);
    EXPECT_EQ(mark_processing(db(), from), mark_answer::marked);
    EXPECT_EQ(state(), inbox_state::processing);
    EXPECT_EQ(mark_processing(db(), from), mark_answer::known);
    EXPECT_FALSE(already_processed(db(), from));
    EXPECT_EQ(mark_dead(db(), from), mark_answer::marked);
    EXPECT_EQ(state(), inbox_state::dead);
    EXPECT_TRUE(revive(db(), from));
    EXPECT_EQ(state(), inbox_state::seen);
    EXPECT_EQ(mark_processed(db(), from), mark_answer::marked);
    EXPECT_TRUE(already_processed(db(), from));
    EXPECT_EQ(mark_dead(db(), from), mark_answer::known) << "done is final";
    EXPECT_EQ(mark_processing(db(), from), mark_answer::known);
    EXPECT_EQ(state(), inbox_state::done);

    EXPECT_EQ(mark_processed(db(), {"shop", "2"}), mark_answer::marked) << "never seen before";
    EXPECT_EQ(state("2"), inbox_state::done);
    enqueue_inbound(db(), {"shop", "3"}, {"orders", ""});
    EXPECT_EQ(mark_processed(db(), {"shop", "3"}), mark_answer::queued);
    EXPECT_EQ(state("3"), inbox_state::seen);
}

// Proves: INB-02
TEST_P(inbox_once, what_is_only_marked_can_be_enqueued)
{
    mark_processing(db(), {"shop", "1"});
    EXPECT_EQ(enqueue_inbound(db(), {"shop", "1"}, {"orders", ""}).answer, inbox_answer::added);
    EXPECT_EQ(state(), inbox_state::seen);
    EXPECT_EQ(acknowledge(claim_one()), settled_as::done);
    EXPECT_EQ(state(), inbox_state::done);
}

// Proves: INB-04, I7
TEST_P(inbox_once, many_deliveries_at_once_have_one_effect)
{
    constexpr int senders = 8;
    constexpr int rounds = 5;
    std::atomic<int> ran{0};
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < senders; ++i)
            threads.emplace_back([&] {
                for (int round = 0; round < rounds; ++round)
                    ran += run(std::to_string(round)) ? 1 : 0;
            });
    }
    EXPECT_EQ(ran, rounds);
    EXPECT_EQ(effects(), static_cast<std::size_t>(rounds));
}

// Proves: INB-02, I7
TEST_P(inbox_once, many_enqueues_at_once_make_one_message)
{
    constexpr int senders = 8;
    constexpr int rounds = 5;
    std::atomic<int> added{0};
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < senders; ++i)
            threads.emplace_back([&] {
                for (int round = 0; round < rounds; ++round) {
                    const auto got = enqueue_inbound(db(), {"shop", std::to_string(round)},
                                                     {"orders", "payload"});
                    added += got.answer == inbox_answer::added ? 1 : 0;
                }
            });
    }
    EXPECT_EQ(added, rounds);
    EXPECT_EQ(total(), static_cast<std::size_t>(rounds));
    EXPECT_EQ(work_off().size(), static_cast<std::size_t>(rounds));
    EXPECT_THAT(list_inbound(db(), {.state = inbox_state::seen}), IsEmpty());
}

CONFORMANCE_SUITE(inbox_once);

} // namespace posthorn::conformance
