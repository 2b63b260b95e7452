// The bell that looks: it rings within the process at once, and otherwise asks ever more seldom.
#include "store/contract/polling_bell.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

namespace posthorn::contract {
namespace {

using namespace std::chrono_literals;

constexpr auto very_long = 60s;
constexpr polling_bell::pace brisk{.first = 1ms, .cap = 4ms};

class bell_that_polls : public ::testing::Test {
protected:
    /// Says whether somebody else has changed something, and counts how often it is asked.
    std::function<bool()> elsewhere()
    {
        return [this] {
            ++questions;
            return changed.exchange(false);
        };
    }

    std::shared_ptr<doorbell> door = std::make_shared<doorbell>();
    std::atomic<bool> changed = false;
    std::atomic<int> questions = 0;
};

TEST_F(bell_that_polls, a_ring_ends_the_wait)
{
    polling_bell bell(door, {.first = very_long, .cap = very_long}, elsewhere());
    bell.arm();
    const std::jthread other([&] { door->ring(); });
    EXPECT_TRUE(bell.wait(very_long));
}

TEST_F(bell_that_polls, a_ring_between_arming_and_waiting_counts_and_an_earlier_one_does_not)
{
    polling_bell bell(door, brisk, elsewhere());
    door->ring();
    bell.arm();
    EXPECT_FALSE(bell.wait(10ms));
    door->ring();
    EXPECT_TRUE(bell.wait(very_long));
    EXPECT_FALSE(bell.wait(10ms)) << "it has been told";
}

TEST_F(bell_that_polls, a_change_elsewhere_is_found)
{
    polling_bell bell(door, brisk, elsewhere());
    bell.arm();
    EXPECT_FALSE(bell.wait(10ms));
    changed = true;
    EXPECT_TRUE(bell.wait(very_long));
}

TEST_F(bell_that_polls, what_changed_before_arming_is_left_to_the_look)
{
    polling_bell bell(door, brisk, elsewhere());
    changed = true;
    bell.arm();
    EXPECT_FALSE(bell.wait(10ms));
}

TEST_F(bell_that_polls, questions_become_ever_more_seldom_up_to_the_cap)
{
    polling_bell bell(door, {.first = 1ms, .cap = very_long}, elsewhere());
    bell.arm();
    questions = 0;
    EXPECT_FALSE(bell.wait(100ms));
    EXPECT_LE(questions, 7) << "after 1, 2, 4 … 64 ms";
    bell.arm(); // who looks in between has not been busy
    EXPECT_FALSE(bell.wait(10ms));
    EXPECT_LE(questions, 9);
}

TEST_F(bell_that_polls, after_disarming_it_asks_quickly_again)
{
    polling_bell bell(door, {.first = 1ms, .cap = very_long}, elsewhere());
    bell.arm();
    EXPECT_FALSE(bell.wait(50ms));
    bell.disarm();
    bell.arm();
    changed = true;
    EXPECT_TRUE(bell.wait(very_long));
}

TEST_F(bell_that_polls, without_a_question_to_ask_the_wait_is_soon_over)
{
    polling_bell bell(door, brisk);
    bell.arm();
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_FALSE(bell.wait(very_long)) << "nobody has rung";
    EXPECT_LT(std::chrono::steady_clock::now() - begun, very_long / 2);
    bell.wake();
    EXPECT_TRUE(bell.wait(very_long));
}

TEST_F(bell_that_polls, rings_for_the_others_of_its_process_and_not_for_itself)
{
    polling_bell bell(door, brisk, elsewhere());
    polling_bell other(door, {.first = very_long, .cap = very_long}, elsewhere());
    bell.arm();
    other.arm();
    bell.ring_others();
    EXPECT_FALSE(bell.wait(10ms));
    EXPECT_TRUE(other.wait(very_long));
}

TEST_F(bell_that_polls, a_question_that_fails_is_answered_by_the_look)
{
    polling_bell bell(door, brisk, []() -> bool { throw std::runtime_error("no such file"); });
    EXPECT_NO_THROW(bell.arm());
    EXPECT_TRUE(bell.wait(very_long));
}

TEST_F(bell_that_polls, a_wake_ends_this_wait_or_the_next_one_and_no_other)
{
    polling_bell bell(door, brisk, elsewhere());
    bell.arm();
    {
        const std::jthread other([&] { bell.wake(); });
        EXPECT_TRUE(bell.wait(very_long));
    }
    bell.wake();
    bell.arm(); // forgets rings, but not that somebody wants this thread
    EXPECT_TRUE(bell.wait(very_long));
    bell.arm();
    EXPECT_FALSE(bell.wait(10ms));
}

TEST_F(bell_that_polls, no_time_is_no_wait)
{
    polling_bell bell(door, brisk, elsewhere());
    bell.arm();
    EXPECT_FALSE(bell.wait(0s));
    EXPECT_FALSE(bell.wait(-1s));
}

} // namespace
} // namespace posthorn::contract
