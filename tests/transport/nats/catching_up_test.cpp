// Who comes first after an interruption.
#include "transport/nats/catching_up.hpp"

#include <gtest/gtest.h>

namespace posthorn::transports {
namespace {

using namespace std::chrono_literals;
using step = catching_up::step;

const catching_up::time start{1h};
constexpr auto their_time = 30s;

TEST(catching_up_with_others, is_done_at_once_if_they_have_nothing)
{
    catching_up others;
    others.begin(start, false);
    EXPECT_EQ(others.next(start, 0, their_time), step::read);
}

TEST(catching_up_with_others, gathers_what_is_there_before_it_waits_for_the_rest)
{
    catching_up others;
    others.begin(start, false);
    EXPECT_EQ(others.next(start, 3, their_time), step::gather);
    EXPECT_EQ(others.next(start, 2, their_time), step::gather) << "there may be more of it";
    others.gathered();
    EXPECT_EQ(others.next(start, 2, their_time), step::rest);
    EXPECT_EQ(others.next(start + 30s, 2, their_time), step::rest) << "a server needs a moment";
    EXPECT_EQ(others.next(start + 31s, 2, their_time), step::gather);
    others.gathered();
    EXPECT_EQ(others.next(start + 31s, 2, their_time), step::read) << "they are gone";
}

TEST(catching_up_with_others, ends_as_soon_as_they_are_done)
{
    catching_up others;
    others.begin(start, false);
    (void)others.next(start, 1, their_time);
    others.gathered();
    EXPECT_EQ(others.next(start + 1s, 1, their_time), step::rest);
    EXPECT_EQ(others.next(start + 2s, 0, their_time), step::read);
}

TEST(catching_up_with_others, counts_from_when_something_may_have_been_lost)
{
    catching_up others;
    others.begin(start, false);
    others.begin(start + 20s, false); // nothing was asked for in between
    EXPECT_EQ(others.next(start + 31s, 1, their_time), step::gather);
    others.gathered();
    EXPECT_EQ(others.next(start + 31s, 1, their_time), step::read);
}

TEST(catching_up_with_others, gathers_early_only_once)
{
    catching_up others;
    others.begin(start, false);
    (void)others.next(start, 1, their_time);
    others.gathered();
    others.begin(start + 10s, true);
    EXPECT_EQ(others.next(start + 31s, 1, their_time), step::rest);
    EXPECT_EQ(others.next(start + 41s, 1, their_time), step::gather);
}

TEST(catching_up_with_others, gathers_early_again_what_was_given_back)
{
    catching_up others;
    others.begin(start, false);
    (void)others.next(start, 1, their_time);
    others.gathered();
    others.begin(start + 10s, true);
    others.given_back();
    EXPECT_EQ(others.next(start + 11s, 1, their_time), step::gather);
}

TEST(catching_up_with_others, waits_while_a_request_of_somebody_gone_may_take_something)
{
    catching_up others;
    others.begin(start, false);
    EXPECT_TRUE(others.must_wait_for_requests(start));
    EXPECT_TRUE(others.must_wait_for_requests(start + 10s));
    // It took one with it at the last moment, whose time counts from there.
    EXPECT_EQ(others.next(start + 11s, 1, their_time), step::gather);
    others.gathered();
    EXPECT_EQ(others.next(start + 40s, 1, their_time), step::rest);
    EXPECT_EQ(others.next(start + 41s, 1, their_time), step::gather);
    others.gathered();
    EXPECT_EQ(others.next(start + 41s, 1, their_time), step::read);
}

TEST(catching_up_with_others, does_not_wait_for_ever_for_requests_of_somebody_who_lives)
{
    catching_up others;
    others.begin(start, false);
    EXPECT_TRUE(others.must_wait_for_requests(start + catching_up::request_time_max));
    EXPECT_FALSE(others.must_wait_for_requests(start + catching_up::request_time_max + 1s));
    others.begin(start + 60s, true);
    EXPECT_TRUE(others.must_wait_for_requests(start + 61s)) << "of our own, on another connection";
}

TEST(messages_in_other_hands, are_those_that_are_pending_and_not_ours)
{
    EXPECT_EQ(in_other_hands(5, 20, {}), 5U);
    EXPECT_EQ(in_other_hands(5, 20, {18, 20}), 3U);
    EXPECT_EQ(in_other_hands(2, 20, {17, 18, 20}), 0U) << "an answer has arrived meanwhile";
}

TEST(messages_in_other_hands, are_not_made_up_for_by_what_came_after_the_count)
{
    EXPECT_EQ(in_other_hands(3, 20, {21, 22, 23}), 3U);
    EXPECT_EQ(in_other_hands(3, 20, {20, 21, 22, 23}), 2U);
}

} // namespace
} // namespace posthorn::transports
