// The reference model itself, on the scenarios that matter most.
#include "core/queue_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace posthorn::core {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr decision finished{};
const decision failed{.become = settled_as::dead, .error = "no", .blocks_key = true};
const decision again{.become = settled_as::retrying, .delay = 5s, .error = "later"};
const decision released{.become = settled_as::released};

class model : public ::testing::Test {
protected:
    message_id add(const enqueue_options& how = {})
    {
        uuid value;
        value.bytes[15] = ++last;
        return queue.enqueue(message_id{value}, {"order", ""}, how, now).id;
    }

    std::vector<message_id> claim(std::size_t limit = 10, std::size_t start = 10)
    {
        const auto result = queue.claim("me", 30s, limit, start, now);
        fence = result.fence;
        return result.ids;
    }

    settled_as settle(message_id id, const decision& what)
    {
        return queue.settle("me", fence, id, what, now);
    }

    message_state state(message_id id) { return queue.find(id)->state; }

    queue_model queue;
    timestamp now{1'000'000s};
    posthorn::fence fence{};
    std::uint8_t last = 0;
};

TEST_F(model, claims_go_by_priority_then_by_how_long_a_message_has_been_due)
{
    const auto late = add({.delay = 10s});
    const auto low = add({.priority = -1});
    const auto plain = add();
    const auto high = add({.priority = 5});
    EXPECT_THAT(claim(), ElementsAre(high, plain, low));
    now += 10s;
    EXPECT_THAT(claim(), ElementsAre(late));
}

TEST_F(model, a_due_time_in_the_past_means_now)
{
    const auto first = add();
    const auto past = add({.due_at = now - 1h});
    EXPECT_EQ(queue.find(past)->due_at, now);
    EXPECT_THAT(claim(), ElementsAre(first, past));
}

// Proves: I8
TEST_F(model, a_key_runs_one_message_after_the_other)
{
    const auto a = add({.ordering_key = "k"});
    const auto b = add({.ordering_key = "k", .priority = 100});
    const auto other = add({.ordering_key = "l"});
    EXPECT_EQ(state(b), message_state::waiting);
    EXPECT_THAT(claim(), ElementsAre(a, other));
    EXPECT_THAT(claim(), IsEmpty());
    EXPECT_EQ(queue.settle("me", posthorn::fence{1}, a, again, now), settled_as::retrying);
    EXPECT_EQ(state(b), message_state::waiting); // a retrying message holds its key
    now += 5s;
    EXPECT_THAT(claim(), ElementsAre(a));
    settle(a, finished);
    EXPECT_THAT(claim(), ElementsAre(b));
}

TEST_F(model, a_dead_message_blocks_its_key_until_it_is_skipped)
{
    const auto a = add({.ordering_key = "k"});
    const auto b = add({.ordering_key = "k"});
    claim();
    settle(a, failed);
    EXPECT_TRUE(queue.find(a)->blocks_key);
    EXPECT_THAT(claim(), IsEmpty());
    EXPECT_EQ(state(add({.ordering_key = "k"})), message_state::waiting);
    EXPECT_TRUE(queue.skip_key("k"));
    EXPECT_FALSE(queue.skip_key("k"));
    EXPECT_THAT(claim(), ElementsAre(b));
}

// Proves: I3
TEST_F(model, a_redriven_message_begins_anew_and_remembers_its_errors)
{
    const auto a = add({.expires_after = 1h});
    claim();
    settle(a, failed);
    EXPECT_FALSE(queue.redrive(message_id{}, now));
    EXPECT_TRUE(queue.redrive(a, now));
    EXPECT_FALSE(queue.redrive(a, now));
    const auto& found = *queue.find(a);
    EXPECT_EQ(found.attempts, 0);
    EXPECT_EQ(found.errors, 1);
    EXPECT_EQ(found.redrives, 1);
    EXPECT_EQ(found.last_error, "no");
    EXPECT_EQ(found.expires_at, std::nullopt);
    EXPECT_THAT(claim(), ElementsAre(a));
}

TEST_F(model, redriven_messages_of_a_key_run_in_their_old_order)
{
    const auto a = add({.ordering_key = "k"});
    const auto b = add({.ordering_key = "k"});
    claim();
    settle(a, failed);
    queue.skip_key("k");
    claim();
    settle(b, failed);
    EXPECT_TRUE(queue.redrive(a, now));
    EXPECT_EQ(state(a), message_state::waiting); // b still blocks the key
    EXPECT_TRUE(queue.redrive(b, now));
    EXPECT_THAT(claim(), ElementsAre(a));
    settle(a, finished);
    EXPECT_THAT(claim(), ElementsAre(b));
}

TEST_F(model, purging_a_blocking_message_frees_its_key)
{
    const auto a = add({.ordering_key = "k"});
    const auto b = add({.ordering_key = "k"});
    claim();
    EXPECT_FALSE(queue.purge(a));
    settle(a, failed);
    EXPECT_TRUE(queue.purge(a));
    EXPECT_EQ(queue.find(a), nullptr);
    EXPECT_THAT(claim(), ElementsAre(b));
}

// Proves: I4
TEST_F(model, an_old_fence_and_a_foreign_owner_change_nothing)
{
    const auto a = add();
    claim();
    const auto old = fence;
    settle(a, released);
    claim();
    EXPECT_GT(fence, old);
    EXPECT_EQ(queue.settle("me", old, a, finished, now), settled_as::lost);
    EXPECT_EQ(queue.settle("you", fence, a, finished, now), settled_as::lost);
    EXPECT_EQ(queue.start("you", fence, a, now), start_answer::lost);
    EXPECT_FALSE(queue.renew("you", fence, 1h, now));
    EXPECT_EQ(state(a), message_state::claimed);
    EXPECT_EQ(settle(a, finished), settled_as::done);
    EXPECT_EQ(settle(a, finished), settled_as::lost);
}

// Proves: I5
TEST_F(model, what_never_started_is_released_without_losing_an_attempt)
{
    const auto a = add();
    const auto b = add();
    claim(10, 1);
    EXPECT_TRUE(queue.find(a)->started);
    EXPECT_FALSE(queue.find(b)->started);
    settle(a, again);
    settle(b, released);
    EXPECT_EQ(queue.find(a)->attempts, 1);
    EXPECT_EQ(queue.find(b)->attempts, 0);
    EXPECT_EQ(state(b), message_state::ready);
}

// Proves: OUT-15
TEST_F(model, what_is_parked_comes_back_unharmed_to_whom_takes_its_topic)
{
    const auto head = add({.ordering_key = "k"});
    const auto next = add({.ordering_key = "k"});
    ASSERT_THAT(claim(), ElementsAre(head));
    EXPECT_EQ(settle(head, {.become = settled_as::parked, .reason = park_reason::paused}),
              settled_as::parked);
    EXPECT_EQ(state(head), message_state::parked);
    EXPECT_EQ(state(next), message_state::waiting);
    EXPECT_EQ(queue.find(head)->attempts, 0);
    EXPECT_THAT(claim(), IsEmpty());
    const std::vector<std::string> topics{"order"};
    EXPECT_THAT(queue.claim("me", 30s, 10, 10, now, topics).ids, ElementsAre(head));
    EXPECT_EQ(queue.find(head)->attempts, 1);
}

TEST_F(model, the_oldest_of_all_topics_come_back_first_and_no_more_than_fit)
{
    const auto first = add({.priority = -1});
    const auto second = add();
    const auto third = add({.priority = 1});
    claim();
    for (const auto id : {third, second, first})
        settle(id, {.become = settled_as::parked});
    const std::vector<std::string> topics{"other", "order", "order"};
    EXPECT_THAT(queue.claim("me", 30s, 2, 2, now, topics).ids, ElementsAre(second, first));
    EXPECT_EQ(state(third), message_state::parked);
}

TEST_F(model, what_is_postponed_waits_without_losing_an_attempt)
{
    const auto id = add();
    claim();
    settle(id, {.become = settled_as::released, .delay = 5s});
    EXPECT_EQ(queue.find(id)->attempts, 0);
    EXPECT_THAT(claim(), IsEmpty());
    now += 5s;
    EXPECT_THAT(claim(), ElementsAre(id));
    settle(id, released);
    EXPECT_EQ(queue.find(id)->due_at, now) << "without a delay it stays due since then";
}

TEST_F(model, a_batch_is_overdue_from_the_moment_its_lease_ends)
{
    const auto a = add();
    claim();
    now += 30s - 1us;
    EXPECT_THAT(queue.overdue_batches(now), IsEmpty());
    now += 1us;
    EXPECT_EQ(queue.start("me", fence, a, now), start_answer::lost);
    ASSERT_EQ(queue.overdue_batches(now).size(), 1U);
    EXPECT_THAT(queue.overdue_batches(now)[0].open, ElementsAre(a));
    EXPECT_TRUE(queue.renew("me", fence, 30s, now));
    EXPECT_THAT(queue.overdue_batches(now), IsEmpty());
}

// Proves: I17
TEST_F(model, an_expired_message_never_starts)
{
    const auto unclaimed = add({.expires_after = 10s});
    const auto waits_for_its_start = add({.expires_after = 20s});
    now += 10s;
    EXPECT_THAT(claim(10, 0), ElementsAre(waits_for_its_start));
    EXPECT_EQ(state(unclaimed), message_state::expired);
    now += 10s;
    EXPECT_EQ(queue.start("me", fence, waits_for_its_start, now), start_answer::gone);
    EXPECT_EQ(state(waits_for_its_start), message_state::expired);
}

TEST_F(model, a_started_message_outlives_its_expiry)
{
    const auto a = add({.expires_after = 10s});
    claim();
    now += 20s;
    EXPECT_EQ(queue.expire_due(now), 0U);
    EXPECT_EQ(queue.start("me", fence, a, now), start_answer::started);
    EXPECT_EQ(settle(a, finished), settled_as::done);
}

// Proves: I18
TEST_F(model, a_message_can_be_cancelled_until_it_starts)
{
    const auto a = add();
    const auto b = add();
    const auto c = add();
    EXPECT_EQ(queue.cancel(a, now), cancel_answer::cancelled);
    claim(10, 1);
    EXPECT_EQ(queue.cancel(b, now), cancel_answer::too_late);
    EXPECT_EQ(queue.cancel(c, now), cancel_answer::cancelled);
    EXPECT_EQ(queue.start("me", fence, c, now), start_answer::gone);
    EXPECT_EQ(queue.cancel(c, now), cancel_answer::too_late);
    EXPECT_EQ(queue.cancel(message_id{}, now), cancel_answer::not_found);
}

TEST_F(model, a_dedup_key_counts_per_topic_until_its_window_ends)
{
    const enqueue_options how{.dedup_key = "d", .dedup_window = 10s};
    const auto first = add(how);
    EXPECT_EQ(add(how), first);
    uuid other;
    other.bytes[0] = 1;
    EXPECT_EQ(queue.enqueue(message_id{other}, {"invoice", ""}, how, now).id, message_id{other});
    now += 10s;
    EXPECT_NE(add(how), first);
}

} // namespace
} // namespace posthorn::core
