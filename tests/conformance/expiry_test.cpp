// Expiry: a message is never started once its time has passed. It ends as `expired` wherever it
// waits by then, and its key goes on without it. What has started in time may finish.
#include "conformance/conformance_test.hpp"

namespace posthorn::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class expiry : public conformance_test {
protected:
    void expect_expired_unstarted(message_id id)
    {
        const auto found = look(id);
        EXPECT_EQ(found.state, message_state::expired);
        EXPECT_FALSE(found.started);
        EXPECT_EQ(found.attempts, 0);
        EXPECT_EQ(found.started_at, std::nullopt);
        EXPECT_EQ(found.finished_at, now());
    }
};

// Proves: OUT-04, I17
TEST_P(expiry, a_message_can_be_started_until_it_expires)
{
    const auto id = add("orders", {.expires_after = 10s});
    clock().advance(10s - 1us);
    EXPECT_THAT(work_off(), ElementsAre(id));
    EXPECT_EQ(state_of(id), message_state::done);
}

// Proves: OUT-04, I17
TEST_P(expiry, a_message_that_has_expired_is_not_claimed_and_ends)
{
    const auto id = add("orders", {.expires_after = 10s});
    clock().advance(10s);
    EXPECT_THAT(claimed_ids(), IsEmpty());
    expect_expired_unstarted(id);
}

// Proves: OUT-04, I17
TEST_P(expiry, an_instant_of_expiry_is_kept_to_the_microsecond)
{
    const auto when = now() + 1h + 7us;
    const auto first = add("orders", {.expires_at = when});
    EXPECT_EQ(look(first).expires_at, when);
    clock().set(when - 1us);
    EXPECT_EQ(box().expire_due(), 0U);
    EXPECT_EQ(state_of(first), message_state::ready);
    clock().set(when);
    EXPECT_EQ(box().expire_due(), 1U);
    expect_expired_unstarted(first);
}

// Proves: OUT-04, I17
TEST_P(expiry, a_message_that_comes_too_late_never_starts)
{
    const auto id = add("orders", {.expires_at = now() - 1s});
    EXPECT_THAT(claimed_ids(), IsEmpty());
    EXPECT_EQ(state_of(id), message_state::expired);
}

// Proves: OUT-04
TEST_P(expiry, others_are_claimed_past_an_expired_message)
{
    const auto gone = add("orders", {.priority = 50, .expires_after = 1s});
    const auto plain = add();
    const auto later = add("orders", {.expires_after = 1h});
    clock().advance(1s);
    EXPECT_THAT(claimed_ids(), ElementsAre(plain, later));
    expect_expired_unstarted(gone);
}

// Proves: OUT-04, I17
TEST_P(expiry, a_delayed_message_expires_if_nobody_comes_in_time)
{
    const auto id = add("orders", {.delay = 10s, .expires_after = 20s});
    clock().advance(10s - 1us);
    EXPECT_THAT(claimed_ids(), IsEmpty());
    EXPECT_EQ(state_of(id), message_state::ready);
    clock().advance(10s + 1us);
    EXPECT_THAT(claimed_ids(), IsEmpty());
    expect_expired_unstarted(id);
}

// Proves: OUT-04, I17
TEST_P(expiry, a_delayed_message_has_a_window_to_start_in)
{
    const auto id = add("orders", {.due_at = now() + 10s, .expires_at = now() + 20s});
    clock().advance(15s);
    EXPECT_THAT(claimed_ids(), ElementsAre(id));
}

// Proves: OUT-04, OUT-06, I17
TEST_P(expiry, a_message_expires_while_it_waits_for_its_key)
{
    const auto head = add_keyed("k");
    const auto second = add_keyed("k", {.expires_after = 10s});
    const auto third = add_keyed("k");
    const auto receipt = claim_one();
    clock().advance(10s);
    EXPECT_THAT(claimed_ids(), IsEmpty());
    expect_expired_unstarted(second);
    EXPECT_EQ(state_of(third), message_state::waiting); // the head still runs
    EXPECT_EQ(acknowledge(receipt), settled_as::done);
    EXPECT_THAT(work_off(), ElementsAre(third));
    EXPECT_EQ(state_of(head), message_state::done);
}

// Proves: OUT-04, OUT-06, I8
TEST_P(expiry, a_key_goes_on_after_its_head_has_expired)
{
    const auto head = add_keyed("k", {.expires_after = 10s});
    const auto second = add_keyed("k");
    const auto third = add_keyed("k");
    clock().advance(10s);
    EXPECT_THAT(work_off(), ElementsAre(second));
    EXPECT_THAT(work_off(), ElementsAre(third));
    EXPECT_EQ(state_of(head), message_state::expired);
}

// Proves: OUT-04, OUT-06
TEST_P(expiry, a_delayed_head_that_expires_frees_its_key)
{
    const auto head = add_keyed("k", {.delay = 1h, .expires_after = 2h});
    const auto second = add_keyed("k");
    clock().advance(2h);
    EXPECT_EQ(box().expire_due(), 1U);
    EXPECT_EQ(state_of(head), message_state::expired);
    EXPECT_EQ(state_of(second), message_state::ready);
}

// Proves: OUT-04, OUT-06
TEST_P(expiry, a_whole_key_can_expire)
{
    std::vector<message_id> ids;
    for (int i = 0; i < 5; ++i)
        ids.push_back(add_keyed("k", {.expires_after = 10s}));
    clock().advance(10s);
    EXPECT_THAT(claimed_ids(), IsEmpty());
    for (const auto id : ids)
        expect_expired_unstarted(id);
    const auto next = add_keyed("k");
    EXPECT_THAT(claimed_ids(), ElementsAre(next));
}

// Proves: OUT-04, OUT-06
TEST_P(expiry, a_message_behind_a_dead_one_expires_too)
{
    add_dead("broken", "orders", {.ordering_key = "k"});
    const auto waiting = add_keyed("k", {.expires_after = 10s});
    EXPECT_EQ(state_of(waiting), message_state::waiting);
    clock().advance(10s);
    EXPECT_EQ(box().expire_due(), 1U);
    expect_expired_unstarted(waiting);
    EXPECT_EQ(list_blocked_keys(db()).size(), 1U);
}

// Proves: OUT-04, I17
TEST_P(expiry, a_message_claimed_before_but_started_after_is_gone_and_ends_expired)
{
    const auto expiring = add("orders", {.expires_after = 10s});
    const auto other = add("orders", {.expires_after = 20s});
    const auto claimed = claim(10, 0);
    ASSERT_THAT(ids_of(claimed), ElementsAre(expiring, other));
    clock().advance(10s);
    EXPECT_EQ(state_of(expiring), message_state::claimed);
    EXPECT_EQ(start(claimed.deliveries[0].receipt), start_answer::gone);
    expect_expired_unstarted(expiring);
    EXPECT_EQ(acknowledge(claimed.deliveries[0].receipt), settled_as::lost);
    EXPECT_EQ(start(claimed.deliveries[1].receipt), start_answer::started);
    EXPECT_EQ(acknowledge(claimed.deliveries[1].receipt), settled_as::done);
    EXPECT_EQ(state_of(expiring), message_state::expired);
}

// Proves: OUT-04, I17
TEST_P(expiry, the_only_message_of_a_batch_expires_at_its_start_too)
{
    const auto id = add("orders", {.expires_after = 10s});
    const auto claimed = claim(10, 0);
    ASSERT_THAT(ids_of(claimed), ElementsAre(id));
    clock().advance(10s);
    EXPECT_EQ(start(claimed.deliveries[0].receipt), start_answer::gone);
    expect_expired_unstarted(id);
    EXPECT_EQ(count_messages(db()).claimed, 0);
}

// Proves: OUT-04, OUT-06, I8, I17
TEST_P(expiry, a_key_goes_on_after_its_claimed_head_expired_at_its_start)
{
    const auto head = add_keyed("k", {.expires_after = 10s});
    const auto second = add_keyed("k");
    const auto claimed = claim(10, 0);
    ASSERT_THAT(ids_of(claimed), ElementsAre(head));
    clock().advance(10s);
    EXPECT_EQ(state_of(second), message_state::waiting);
    EXPECT_EQ(start(claimed.deliveries[0].receipt), start_answer::gone);
    EXPECT_THAT(work_off(), ElementsAre(second));
}

// Proves: OUT-04, I17
TEST_P(expiry, some_of_a_batch_expire_and_the_rest_start)
{
    std::vector<outgoing> all;
    for (int i = 0; i < 20; ++i)
        all.push_back({{"orders", ""}, {.expires_after = i % 2 == 0 ? 10s : 1h}});
    enqueue(db(), all);
    const auto claimed = box().claim(alice, {.limit = 20, .start = 0});
    ASSERT_EQ(claimed.size(), 20U);
    clock().advance(10s);
    const auto answers = box().start(alice, claimed.receipts());
    for (std::size_t i = 0; i < answers.size(); ++i)
        EXPECT_EQ(answers[i], i % 2 == 0 ? start_answer::gone : start_answer::started);
    EXPECT_EQ(count_messages(db()).expired, 10);
    EXPECT_EQ(box().acknowledge(alice, claimed.receipts()).settled(), 10U);
    EXPECT_EQ(count_messages(db()).done, 10);
}

// Proves: OUT-04
TEST_P(expiry, what_has_started_in_time_may_finish_afterwards)
{
    const auto with_claim = add("orders", {.expires_after = 10s});
    const auto first = claim_one();
    const auto by_start = add("orders", {.expires_after = 10s});
    const auto second = claim(10, 0).deliveries.at(0).receipt;
    EXPECT_EQ(start(second), start_answer::started);
    clock().advance(20s);
    EXPECT_EQ(box().expire_due(), 0U);
    EXPECT_EQ(start(second), start_answer::started); // it did, long ago
    EXPECT_EQ(acknowledge(first), settled_as::done);
    EXPECT_EQ(acknowledge(second), settled_as::done);
    EXPECT_THAT(states_of({with_claim, by_start}),
                ElementsAre(message_state::done, message_state::done));
}

// Proves: OUT-04, OUT-11, I17
TEST_P(expiry, a_message_that_waits_for_its_next_attempt_expires)
{
    const auto id = add("orders", {.expires_after = 10s});
    EXPECT_EQ(abandon(claim_one(), 30s, "try again"), settled_as::retrying);
    clock().advance(30s);
    EXPECT_THAT(claimed_ids(), IsEmpty());
    const auto found = look(id);
    EXPECT_EQ(found.state, message_state::expired);
    EXPECT_EQ(found.attempts, 1);
    EXPECT_EQ(found.errors, 1);
    EXPECT_EQ(found.last_error, "try again");
    EXPECT_EQ(found.finished_at, now());
}

// Proves: OUT-04, OUT-11, I17
TEST_P(expiry, a_retry_that_is_due_in_time_still_runs)
{
    const auto id = add("orders", {.expires_after = 10s});
    EXPECT_EQ(abandon(claim_one(), 9s), settled_as::retrying);
    clock().advance(9s);
    EXPECT_THAT(work_off(), ElementsAre(id));
}

// Proves: OUT-04, I17
TEST_P(expiry, what_a_worker_gives_back_too_late_expires)
{
    const auto released = add("orders", {.expires_after = 10s});
    const auto claimed = claim(10, 0);
    ASSERT_EQ(claimed.size(), 1U);
    clock().advance(10s);
    EXPECT_EQ(abandon(claimed.deliveries[0].receipt), settled_as::released);
    EXPECT_THAT(claimed_ids(), IsEmpty());
    expect_expired_unstarted(released);
}

// Proves: OUT-04, I17, I20
TEST_P(expiry, what_a_dead_worker_held_expires_once_it_is_taken_back)
{
    const auto unstarted = add("orders", {.expires_after = 10s});
    ASSERT_EQ(claim(10, 0).size(), 1U);
    const auto started = add("orders", {.expires_after = 10s});
    ASSERT_EQ(claim(10).size(), 1U);
    clock().advance(1min);
    const auto report = box().reap_expired();
    EXPECT_EQ(report.released, 1U);
    EXPECT_EQ(report.retrying, 1U);
    EXPECT_EQ(box().expire_due(), 2U);
    expect_expired_unstarted(unstarted);
    EXPECT_EQ(state_of(started), message_state::expired);
    EXPECT_EQ(look(started).attempts, 1);
}

// Proves: OUT-04
TEST_P(expiry, expiring_by_hand_respects_its_limit)
{
    std::vector<outgoing> all(25, {{"orders", ""}, {.expires_after = 1s}});
    enqueue(db(), all);
    clock().advance(1s);
    EXPECT_EQ(box().expire_due(10), 10U);
    EXPECT_EQ(count_messages(db()).expired, 10);
    EXPECT_EQ(box().expire_due(10), 10U);
    EXPECT_EQ(box().expire_due(10), 5U);
    EXPECT_EQ(box().expire_due(10), 0U);
    EXPECT_EQ(count_messages(db()).expired, 25);
}

// Proves: OUT-04, I17
TEST_P(expiry, however_many_have_expired_none_of_them_is_claimed)
{
    std::vector<outgoing> all(1'000, {{"orders", ""}, {.expires_after = 1s}});
    enqueue(db(), all);
    const auto alive = add();
    clock().advance(1s);
    EXPECT_THAT(work_off(5), ElementsAre(alive));
    while (box().expire_due(100) > 0) {}
    EXPECT_EQ(count_messages(db()).expired, 1'000);
    EXPECT_EQ(count_messages(db()).done, 1);
}

// Proves: OUT-04, I3
TEST_P(expiry, an_expired_message_stays_expired)
{
    const auto id = add("orders", {.expires_after = 1s});
    clock().advance(1s);
    ASSERT_EQ(box().expire_due(), 1U);
    const auto ended = now();
    clock().advance(24h);
    EXPECT_EQ(box().expire_due(), 0U);
    EXPECT_THAT(claimed_ids(), IsEmpty());
    EXPECT_FALSE(redrive(db(), id));
    EXPECT_EQ(look(id).finished_at, ended);
    EXPECT_EQ(state_of(id), message_state::expired);
}

// Proves: OUT-04
TEST_P(expiry, a_message_without_an_expiry_waits_for_ever)
{
    const auto id = add();
    const auto keyed = add_keyed("k");
    clock().advance(24h * 365 * 50);
    EXPECT_EQ(box().expire_due(), 0U);
    EXPECT_THAT(claimed_ids(), ElementsAre(id, keyed));
}

CONFORMANCE_SUITE(expiry);

} // namespace
} // namespace posthorn::conformance
