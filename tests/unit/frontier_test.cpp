// Where claims on PostgreSQL begin: never past a number that may still appear.
#include "store/postgres/frontier.hpp"

#include <gtest/gtest.h>

namespace posthorn::postgres {
namespace {

using namespace std::chrono_literals;

constexpr monotonic_time start{};

// Proves: I9
TEST(frontier, a_number_counts_only_when_all_transactions_before_a_later_one_have_ended)
{
    frontier front;
    (void)front.learn({.number_before = 0, .own_transaction = 70, .last_number = 100});
    EXPECT_EQ(front.last_sighting().seen_before, 0) << "nothing was known before transaction 70";

    (void)front.learn({.number_before = 100, .own_transaction = 80, .last_number = 150});
    EXPECT_EQ(front.last_sighting().seen_to, 100);
    EXPECT_EQ(front.last_sighting().seen_before, 80);

    (void)front.learn({.number_before = 150, .own_transaction = 90, .last_number = 200});
    EXPECT_EQ(front.last_sighting().seen_to, 100) << "it is still being waited for";
    EXPECT_EQ(front.low(), 0);

    (void)front.learn({.number_before = 200,
                       .own_transaction = 95,
                       .last_number = 210,
                       .low = 100,
                       .sighting_counts = true});
    EXPECT_EQ(front.low(), 100);
    EXPECT_EQ(front.last_sighting().seen_to, 200);
}

TEST(frontier, a_look_that_wrote_nothing_sees_nothing_and_asks_for_a_transaction)
{
    frontier front;
    EXPECT_FALSE(front.wants_sighting()) << "there is nothing to pass";
    (void)front.learn({.last_number = 10});
    EXPECT_TRUE(front.wants_sighting());
    (void)front.learn({.number_before = 10, .own_transaction = 0, .last_number = 10});
    EXPECT_TRUE(front.wants_sighting());
    (void)front.learn({.number_before = 10, .own_transaction = 7, .last_number = 10});
    EXPECT_FALSE(front.wants_sighting()) << "one is enough";
}

// Proves: I9
TEST(frontier, stretches_without_gaps_move_it_and_gaps_stop_it)
{
    frontier front;
    front.claimed(1, 10, 10, 0);
    EXPECT_EQ(front.low(), 10);
    front.claimed(21, 30, 10, 0);
    EXPECT_EQ(front.low(), 10) << "11 to 20 may be somebody else's, or not committed yet";
    front.claimed(11, 20, 9, 0);
    EXPECT_EQ(front.low(), 10) << "one of them is missing";
    front.claimed(11, 20, 10, 0);
    EXPECT_EQ(front.low(), 30);
}

// Proves: I9
TEST(frontier, with_a_gap_behind_it_a_walk_comes_due_again_and_again)
{
    frontier front;
    EXPECT_EQ(front.front(start), 0);
    front.claimed(1, 10, 10, 0);
    EXPECT_EQ(front.front(start), 10) << "no gap, no walk";
    front.claimed(12, 20, 9, 0);
    EXPECT_EQ(front.front(start), std::nullopt) << "11 may have come meanwhile";
    front.walked(start, start + 1ms);
    EXPECT_EQ(front.front(start + 50ms), 20);
    EXPECT_EQ(front.front(start + 102ms), std::nullopt);
    front.walked(start, start + 1s);
    EXPECT_EQ(front.front(start + 10s), 20) << "a long walk takes a tenth of the time";
    EXPECT_EQ(front.front(start + 12s), std::nullopt);
}

// Proves: I9
TEST(frontier, numbers_that_start_again_begin_a_new_search)
{
    frontier front;
    front.claimed(1, 1'000, 1'000, 0);
    (void)front.learn({.number_before = 0, .own_transaction = 5, .last_number = 1'000});
    (void)front.learn({.number_before = 1'000, .own_transaction = 6, .last_number = 3});
    EXPECT_EQ(front.low(), 0);
    EXPECT_EQ(front.front(start), 0);
}

TEST(frontier, it_is_worth_remembering_every_ten_thousand)
{
    frontier front;
    front.claimed(1, 9'999, 9'999, 0);
    EXPECT_EQ(front.worth_remembering().low, 0);
    front.claimed(10'000, 10'500, 501, 0);
    EXPECT_EQ(front.worth_remembering().low, 10'500);
    EXPECT_EQ(front.worth_remembering().low, 0);
    front.reset(10'500, 0);
    EXPECT_EQ(front.low(), 10'500);
}

} // namespace
} // namespace posthorn::postgres
