// Priorities: among what is due the higher goes first; among equals the longer due, then the
// earlier enqueued. It makes no difference whether messages are claimed together or one by one.
#include "conformance/conformance_test.hpp"

#include <algorithm>
#include <tuple>

namespace posthorn::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

class priorities : public conformance_test {
protected:
    message_id send(int priority, std::optional<duration> delay = {})
    {
        return add("orders", {.priority = priority, .delay = delay});
    }

    /// Claims and acknowledges until nothing is due, `step` at a time.
    std::vector<message_id> drain(std::size_t step)
    {
        std::vector<message_id> result;
        for (auto part = work_off(step); !part.empty(); part = work_off(step))
            result.insert(result.end(), part.begin(), part.end());
        return result;
    }
};

// Proves: OUT-05
TEST_P(priorities, higher_goes_first)
{
    const auto low = send(1);
    const auto high = send(10);
    const auto middle = send(5);
    EXPECT_THAT(claimed_ids(), ElementsAre(high, middle, low));
}

// Proves: OUT-05
TEST_P(priorities, one_by_one_the_order_is_the_same)
{
    const auto low = send(1);
    const auto plain = send(0);
    const auto high = send(10);
    const auto negative = send(-10);
    EXPECT_THAT(drain(1), ElementsAre(high, low, plain, negative));
}

// Proves: OUT-05
TEST_P(priorities, the_whole_range_is_in_order)
{
    std::vector<message_id> expected;
    auto tx = db().begin();
    for (int priority = -limits::priority_max; priority <= limits::priority_max; ++priority)
        expected.push_back(enqueue(tx, {"orders", ""}, {.priority = priority}).id);
    tx.commit();
    std::ranges::reverse(expected);
    EXPECT_THAT(claimed_ids(1'000), ElementsAreArray(expected));
}

// Proves: OUT-05
TEST_P(priorities, messages_without_one_have_zero)
{
    const auto below = send(-1);
    const auto plain = add();
    const auto above = send(1);
    const auto zero = send(0);
    EXPECT_THAT(claimed_ids(), ElementsAre(above, plain, zero, below));
}

// Proves: OUT-05
TEST_P(priorities, negative_ones_come_last_but_they_come)
{
    const auto last = send(-100);
    const auto early = send(-1);
    const auto ids = add_many(50);
    auto expected = ids;
    expected.insert(expected.end(), {early, last});
    EXPECT_THAT(drain(7), ElementsAreArray(expected));
}

// Proves: OUT-05
TEST_P(priorities, equals_go_in_the_order_of_their_enqueueing)
{
    std::vector<message_id> expected;
    for (int i = 0; i < 20; ++i)
        expected.push_back(send(7));
    EXPECT_THAT(drain(3), ElementsAreArray(expected));
}

// Proves: OUT-04, OUT-05
TEST_P(priorities, equals_go_in_the_order_in_which_they_became_due)
{
    const auto third = send(7, 30s);
    const auto second = send(7, 20s);
    const auto also_second = send(7, 20s);
    const auto first = send(7, 10s);
    clock().advance(1min);
    const auto last = send(7);
    EXPECT_THAT(claimed_ids(), ElementsAre(first, second, also_second, third, last));
}

// Proves: OUT-04, OUT-05
TEST_P(priorities, without_a_priority_the_longer_due_goes_first_too)
{
    const auto delayed = add("orders", {.delay = 10s});
    const auto early = add();
    clock().advance(20s);
    const auto late = add();
    const auto keyed = add_keyed("k");
    const auto latest = add();
    EXPECT_THAT(claimed_ids(), ElementsAre(early, delayed, late, keyed, latest));
}

// Proves: OUT-04, OUT-05
TEST_P(priorities, a_delayed_message_takes_its_place_one_by_one_too)
{
    const auto delayed = add("orders", {.delay = 10s});
    const auto early = add();
    clock().advance(10s);
    const auto same_time = add(); // due at the same instant, but enqueued later
    clock().advance(1s);
    const auto late = add();
    EXPECT_THAT(drain(1), ElementsAre(early, delayed, same_time, late));
}

// Proves: OUT-04, OUT-05, I17
TEST_P(priorities, an_important_message_that_is_not_due_holds_nobody_back)
{
    const auto important = send(100, 10s);
    const auto plain = add();
    const auto low = send(-5);
    EXPECT_THAT(work_off(), ElementsAre(plain, low));
    EXPECT_THAT(work_off(), IsEmpty());
    clock().advance(10s);
    const auto next = add();
    EXPECT_THAT(work_off(), ElementsAre(important, next));
}

// Proves: OUT-05
TEST_P(priorities, a_later_and_more_important_message_overtakes_those_that_wait)
{
    const auto ids = add_many(10);
    EXPECT_THAT(work_off(4), ElementsAre(ids[0], ids[1], ids[2], ids[3]));
    const auto urgent = send(50);
    EXPECT_THAT(work_off(3), ElementsAre(urgent, ids[4], ids[5]));
    EXPECT_THAT(work_off(), ElementsAre(ids[6], ids[7], ids[8], ids[9]));
}

// Proves: OUT-05, OUT-11
TEST_P(priorities, a_message_keeps_its_priority_when_it_comes_back)
{
    const auto urgent = send(9);
    EXPECT_EQ(abandon(claim_one(), 10s), settled_as::retrying);
    clock().advance(10s);
    const auto plain = add();
    EXPECT_EQ(look(urgent).priority, 9);
    const auto claimed = claim();
    EXPECT_THAT(ids_of(claimed), ElementsAre(urgent, plain));
    EXPECT_EQ(claimed.deliveries[0].priority, 9);
    EXPECT_EQ(claimed.deliveries[1].priority, 0);
}

// Proves: OUT-05, OUT-11
TEST_P(priorities, a_plain_message_that_comes_back_queues_by_its_new_due_time)
{
    const auto retried = add();
    EXPECT_EQ(abandon(claim_one(), 10s), settled_as::retrying);
    clock().advance(5s);
    const auto before = add();
    clock().advance(10s);
    const auto after = add();
    EXPECT_THAT(drain(1), ElementsAre(before, retried, after));
}

// Proves: OUT-05, OUT-06, I8
TEST_P(priorities, importance_does_not_break_the_order_of_a_key)
{
    const auto first = add_keyed("k", {.priority = -10});
    const auto second = add_keyed("k", {.priority = 100});
    const auto other = add_keyed("other", {.priority = 50});
    EXPECT_THAT(work_off(), ElementsAre(other, first));
    EXPECT_THAT(work_off(), ElementsAre(second));
}

// Proves: OUT-05
TEST_P(priorities, the_limit_of_a_claim_takes_the_most_important)
{
    std::vector<message_id> low;
    std::vector<message_id> high;
    for (int i = 0; i < 10; ++i) {
        low.push_back(send(1));
        high.push_back(send(2));
    }
    EXPECT_THAT(work_off(10), ElementsAreArray(high));
    EXPECT_THAT(work_off(10), ElementsAreArray(low));
}

// Proves: OUT-04, OUT-05, OUT-08, I2, I6
TEST_P(priorities, a_mix_of_everything_comes_in_order_and_complete_whatever_the_step)
{
    for (const std::size_t step : {1U, 3U, 16U, 1'000U}) {
        struct sent {
            message_id id;
            int priority;
            timestamp due_at;
            std::int64_t position;
        };
        std::vector<sent> all;
        auto tx = db().begin();
        for (int i = 0; i < 120; ++i) {
            const int priority = i % 3 == 0 ? 0 : (i * 7) % 11 - 5;
            const duration delay = i % 4 == 0 ? 1s * ((i * 13) % 40) : 0s;
            const auto answer = enqueue(tx, {"orders", ""}, {.priority = priority, .delay = delay});
            all.push_back({answer.id, priority, now() + delay, answer.position});
            clock().advance(100ms);
        }
        tx.commit();
        clock().advance(1min);
        std::ranges::sort(all, [](const sent& a, const sent& b) {
            return std::tuple(-a.priority, a.due_at, a.position) <
                   std::tuple(-b.priority, b.due_at, b.position);
        });
        std::vector<message_id> expected;
        for (const auto& each : all)
            expected.push_back(each.id);
        EXPECT_EQ(drain(step), expected) << "with steps of " << step;
    }
    EXPECT_EQ(count_messages(db()).done, 4 * 120);
}

CONFORMANCE_SUITE(priorities);

} // namespace
} // namespace posthorn::conformance
