// How joins end: sealed, with k of n, by a deadline, cancelled; and how they begin again.
#include "joins/joining_test.hpp"
#include "store/contract/backend.hpp"

namespace posthorn::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class join_ends : public joining<conformance_test> {};

// Proves: JOIN-023
TEST_P(join_ends, more_members_than_expected_are_refused)
{
    const auto join = open(1);
    add_to(join);
    EXPECT_EQ(thrown_by([&] { add_to(join); }).code(), error_code::constraint);
    EXPECT_EQ(thrown_by([&] { add_many_to(join, 2); }).code(), error_code::constraint);
    const auto other = add();
    EXPECT_EQ(thrown_by([&] { attach(db(), join, other); }).code(), error_code::constraint);
    EXPECT_EQ(look_at(join).attached, 1);
    EXPECT_EQ(total(), 2U);
    work_off();
    EXPECT_EQ(end_of(join), join_state::completed);
    EXPECT_EQ(thrown_by([&] { add_to(join); }).code(), error_code::constraint) << "it has ended";
}

// Proves: JOIN-023, I11
TEST_P(join_ends, an_open_join_ends_only_after_it_was_sealed)
{
    const auto join = open(join_options{});
    EXPECT_EQ(look_at(join).expected, std::nullopt);
    add_to(join);
    add_to(join);
    work_off();
    EXPECT_EQ(look_at(join).completed, 2);
    EXPECT_EQ(end_of(join), join_state::pending);
    add_to(join);
    EXPECT_TRUE(seal_join(db(), join));
    EXPECT_EQ(look_at(join).expected, 3);
    EXPECT_EQ(thrown_by([&] { add_to(join); }).code(), error_code::constraint);
    EXPECT_EQ(end_of(join), join_state::pending);
    work_off();
    EXPECT_EQ(end_of(join), join_state::completed);
    EXPECT_FALSE(seal_join(db(), join));
    EXPECT_EQ(continuations(), 1U);

    const auto nothing = open(join_options{});
    EXPECT_TRUE(seal_join(db(), nothing));
    EXPECT_EQ(end_of(nothing), join_state::completed) << "nothing is left to wait for";
    EXPECT_EQ(enqueued_of(complete_topic), 2U);
}

// Proves: JOIN-023
TEST_P(join_ends, sealing_says_how_many_are_to_come)
{
    const auto join = open(5);
    add_to(join);
    add_to(join);
    EXPECT_EQ(thrown_by([&] { seal_join(db(), join, 1); }).code(), error_code::constraint);
    EXPECT_TRUE(seal_join(db(), join, 3));
    work_off();
    EXPECT_EQ(end_of(join), join_state::pending);
    EXPECT_TRUE(seal_join(db(), join)) << "the third will never be attached";
    EXPECT_EQ(end_of(join), join_state::completed);
}

// Proves: JOIN-023, I10, I11
TEST_P(join_ends, k_of_n_completes_with_the_kth_and_counts_no_more)
{
    const auto join = open({.expected = 4, .needed = 2});
    for (int i = 0; i < 4; ++i)
        add_to(join);
    const auto claimed = claim().receipts();
    fail(claimed[0]);
    acknowledge(claimed[1]);
    EXPECT_EQ(end_of(join), join_state::pending);
    acknowledge(claimed[2]);
    EXPECT_EQ(end_of(join), join_state::completed);
    EXPECT_THAT(member_states(join), ElementsAre(member_state::failed, member_state::completed,
                                                 member_state::completed, member_state::left));
    EXPECT_EQ(acknowledge(claimed[3]), settled_as::done);
    EXPECT_EQ(look_at(join).completed, 2);
    EXPECT_EQ(continuations(), 1U);
}

// Proves: JOIN-023, I11
TEST_P(join_ends, k_of_n_fails_as_soon_as_k_cannot_be_reached)
{
    const auto join = open({.expected = 4, .needed = 3});
    for (int i = 0; i < 4; ++i)
        add_to(join);
    const auto claimed = claim().receipts();
    fail(claimed[0]);
    EXPECT_EQ(end_of(join), join_state::pending);
    fail(claimed[1]);
    EXPECT_EQ(end_of(join), join_state::failed);
    acknowledge(claimed[2]);
    fail(claimed[3]);
    EXPECT_EQ(look_at(join).completed, 0);
    EXPECT_EQ(look_at(join).failed, 2);
    EXPECT_EQ(enqueued_of(fail_topic), 1U);
    EXPECT_EQ(continuations(), 1U);
}

// Proves: JOIN-023, I11
TEST_P(join_ends, a_deadline_fails_what_is_still_pending)
{
    const auto join = open({.expected = 2, .deadline = 1h});
    EXPECT_EQ(look_at(join).deadline_at, now() + 1h);
    add_to(join);
    const auto slow = add_to(join, {.delay = 2h});
    work_off();
    clock().advance(1h - 1us);
    EXPECT_TRUE(claim().empty());
    EXPECT_EQ(end_of(join), join_state::pending);
    clock().advance(1us);
    const auto next = claim();
    ASSERT_THAT(next.deliveries, SizeIs(1)) << "the claim that finds it late has its continuation";
    EXPECT_EQ(next.deliveries[0].topic, fail_topic);
    const auto ended = look_at(join);
    EXPECT_EQ(ended.state, join_state::failed);
    EXPECT_EQ(ended.ended_by, join_end::deadline);
    EXPECT_EQ(ended.completed, 1);
    clock().advance(1h);
    EXPECT_THAT(claimed_ids(), ElementsAre(slow));
    EXPECT_EQ(look_at(join).completed, 1);
    EXPECT_EQ(continuations(), 1U);
}

// Proves: JOIN-023
TEST_P(join_ends, a_join_that_ends_in_time_leaves_no_deadline_behind)
{
    const auto join = open({.expected = 1, .deadline = 1h});
    add_to(join);
    EXPECT_EQ(count_messages(db()).waiting, 1) << "the deadline is a message that never runs";
    work_off();
    EXPECT_EQ(end_of(join), join_state::completed);
    EXPECT_EQ(count_messages(db()).waiting, 0);
    work_off();
    clock().advance(2h);
    EXPECT_EQ(box().expire_due(), 0U);
    EXPECT_TRUE(claim().empty());
    EXPECT_EQ(end_of(join), join_state::completed);
    EXPECT_EQ(continuations(), 1U);
}

// Proves: JOIN-023
TEST_P(join_ends, an_idle_worker_knows_when_a_deadline_comes)
{
    open({.expected = 1, .deadline = 1h});
    const auto ahead = db().backend().outlook();
    EXPECT_FALSE(ahead.due);
    EXPECT_EQ(ahead.next, 1h);
    clock().advance(1h);
    EXPECT_TRUE(db().backend().outlook().due);
}

// Proves: JOIN-023
TEST_P(join_ends, a_cancelled_join_counts_and_enqueues_nothing)
{
    const auto join = open({.expected = 2, .deadline = 1h});
    const auto first = add_to(join);
    add_to(join);
    EXPECT_TRUE(cancel_join(db(), join));
    EXPECT_FALSE(cancel_join(db(), join));
    EXPECT_EQ(end_of(join), join_state::cancelled);
    EXPECT_EQ(look_at(join).ended_by, join_end::cancel);
    EXPECT_THAT(member_states(join), ElementsAre(member_state::left, member_state::left));
    EXPECT_EQ(report_step_completed(db(), join, first), report_answer::ended);
    EXPECT_THAT(work_off(), SizeIs(2)) << "its members go on";
    EXPECT_EQ(look_at(join).completed, 0);
    EXPECT_EQ(continuations(), 0U);
}

// Proves: JOIN-023
TEST_P(join_ends, cancelling_may_take_the_members_along)
{
    const auto join = open(3);
    const auto waiting = add_many_to(join, 3);
    const auto running = claim(1).receipts().front();
    EXPECT_TRUE(cancel_join(db(), join, {.members = true}));
    EXPECT_EQ(end_of(join), join_state::cancelled);
    EXPECT_THAT(states_of(waiting),
                UnorderedElementsAre(message_state::claimed, message_state::cancelled,
                                     message_state::cancelled));
    EXPECT_EQ(acknowledge(running), settled_as::done);
    EXPECT_EQ(look_at(join).failed + look_at(join).completed, 0);

    const auto again = open(2);
    const auto members = add_many_to(again, 2);
    auto tx = db().begin();
    EXPECT_TRUE(cancel_join(tx, again, {.members = true}));
    tx.commit();
    EXPECT_EQ(states_of(members), std::vector(2, message_state::cancelled));
    EXPECT_EQ(continuations(), 0U);
}

// Proves: JOIN-003, JOIN-022, I10
TEST_P(join_ends, cancelled_and_expired_members_have_failed)
{
    const auto join = open({.expected = 3, .fail_if_any_step_failed = false});
    const auto unwanted = add_to(join);
    add_to(join, {.expires_after = 1s});
    const auto late = add_to(join, {.expires_after = 2s});
    EXPECT_EQ(cancel(db(), unwanted), cancel_answer::cancelled);
    EXPECT_EQ(look_at(join).failed, 1);
    const auto held = claim(100, 0);
    ASSERT_THAT(held.deliveries, SizeIs(2));
    clock().advance(1s);
    EXPECT_EQ(start(held.receipts()[0]), start_answer::gone) << "it expired before it started";
    EXPECT_EQ(look_at(join).failed, 2);
    EXPECT_EQ(abandon(held.receipts()[1]), settled_as::released);
    clock().advance(2s);
    EXPECT_TRUE(claim().empty() || continuations() == 1U);
    EXPECT_EQ(state_of(late), message_state::expired);
    EXPECT_EQ(look_at(join).failed, 3);
    EXPECT_EQ(end_of(join), join_state::completed);
    EXPECT_EQ(continuations(), 1U);
}

// Proves: JOIN-003, I10
TEST_P(join_ends, a_member_whose_worker_died_once_too_often_has_failed)
{
    const auto join = open(1);
    add_to(join);
    auto strict = box_with(steady_retries(1s, 1));
    ASSERT_THAT(strict.claim(alice).deliveries, SizeIs(1));
    clock().advance(1h);
    EXPECT_EQ(strict.reap_expired().dead, 1U);
    EXPECT_EQ(end_of(join), join_state::failed);
    EXPECT_EQ(enqueued_of(fail_topic), 1U);
}

// Proves: JOIN-023, I3, I10
TEST_P(join_ends, a_redriven_member_of_a_pending_join_is_counted_by_its_new_end)
{
    const auto join = open(2);
    const auto id = add_to(join);
    fail(claim_one());
    EXPECT_EQ(look_at(join).failed, 1);
    EXPECT_TRUE(redrive(db(), id));
    EXPECT_EQ(look_at(join).failed, 0);
    EXPECT_THAT(member_states(join), ElementsAre(member_state::pending));
    add_to(join);
    work_off();
    EXPECT_EQ(look_at(join).completed, 2);
    EXPECT_EQ(end_of(join), join_state::completed);
}

// Proves: JOIN-023, I3, I11
TEST_P(join_ends, a_join_that_has_ended_stays_so_until_it_is_redriven_itself)
{
    const auto join = open(2);
    const auto good = add_to(join);
    EXPECT_EQ(redrive_join(db(), join), 0U) << "it is pending";
    const auto bad = add_to(join);
    const auto claimed = claim().receipts();
    acknowledge(claimed[0]);
    fail(claimed[1]);
    EXPECT_EQ(end_of(join), join_state::failed);
    work_off();

    EXPECT_TRUE(redrive(db(), bad));
    fail(claim_one());
    EXPECT_EQ(end_of(join), join_state::failed);
    EXPECT_EQ(look_at(join).failed, 1);
    EXPECT_EQ(continuations(), 1U);

    EXPECT_EQ(redrive_join(db(), join), 1U);
    EXPECT_EQ(end_of(join), join_state::pending);
    EXPECT_EQ(look_at(join).reopened, 1);
    EXPECT_EQ(look_at(join).failed, 0);
    EXPECT_EQ(look_at(join).ended_at, std::nullopt);
    EXPECT_THAT(work_off(), ElementsAre(bad));
    EXPECT_EQ(end_of(join), join_state::completed);
    EXPECT_EQ(look_at(join).completed, 2);
    EXPECT_EQ(enqueued_of(complete_topic), 1U);
    EXPECT_EQ(state_of(good), message_state::done);
    EXPECT_EQ(redrive_join(db(), join), 0U) << "it has completed";
}

// Proves: JOIN-023, I10, I11
TEST_P(join_ends, redriving_a_join_counts_members_that_were_redriven_singly)
{
    const auto join = open(4);
    const auto ids = add_many_to(join, 4);
    for (const auto& each : claim().receipts())
        fail(each);
    EXPECT_EQ(look_at(join).failed, 4);
    work_off(); // the continuation

    EXPECT_TRUE(redrive(db(), ids[0]));
    EXPECT_THAT(work_off(), ElementsAre(ids[0]));
    EXPECT_TRUE(redrive(db(), ids[2]));
    const auto running = claim_one();
    EXPECT_TRUE(redrive(db(), ids[1]));
    EXPECT_EQ(look_at(join).failed, 4) << "a join that has ended stays as it is";

    EXPECT_EQ(redrive_join(db(), join), 4U);
    EXPECT_EQ(end_of(join), join_state::pending);
    EXPECT_EQ(look_at(join).completed, 1);
    EXPECT_EQ(look_at(join).failed, 0);
    EXPECT_THAT(member_states(join), ElementsAre(member_state::completed, member_state::pending,
                                                 member_state::pending, member_state::pending));
    EXPECT_EQ(acknowledge(running), settled_as::done);
    EXPECT_EQ(look_at(join).completed, 2);
    work_off();
    EXPECT_EQ(look_at(join).completed, 4);
    EXPECT_EQ(end_of(join), join_state::completed);
    EXPECT_EQ(enqueued_of(fail_topic), 1U);
    EXPECT_EQ(enqueued_of(complete_topic), 1U);
}

// Proves: JOIN-023, I11
TEST_P(join_ends, redriving_a_join_whose_members_have_all_completed_completes_it_at_once)
{
    const auto join = open(2);
    const auto ids = add_many_to(join, 2);
    const auto claimed = claim().receipts();
    acknowledge(claimed[0]);
    fail(claimed[1]);
    EXPECT_TRUE(redrive(db(), ids[1]));
    work_off();
    EXPECT_EQ(end_of(join), join_state::failed);
    EXPECT_EQ(redrive_join(db(), join), 1U);
    EXPECT_EQ(end_of(join), join_state::completed);
    EXPECT_EQ(look_at(join).completed, 2);
    EXPECT_EQ(look_at(join).failed, 0);
    EXPECT_EQ(look_at(join).reopened, 1);
    EXPECT_EQ(enqueued_of(complete_topic), 1U);
    EXPECT_EQ(redrive_join(db(), join), 0U) << "it has completed";
    EXPECT_EQ(enqueued_of(complete_topic), 1U);
}

// Proves: JOIN-023
TEST_P(join_ends, what_cannot_change_its_end_stays_failed_when_a_join_is_redriven)
{
    const auto join = open(2);
    const auto cancelled = add_to(join);
    EXPECT_EQ(cancel(db(), cancelled), cancel_answer::cancelled);
    const auto late = add_to(join, {.expires_after = 1s});
    clock().advance(2s);
    EXPECT_EQ(box().expire_due(), 1U);
    EXPECT_EQ(state_of(late), message_state::expired);
    EXPECT_EQ(end_of(join), join_state::failed);
    EXPECT_EQ(redrive_join(db(), join), 0U);
    EXPECT_EQ(end_of(join), join_state::failed);
    EXPECT_EQ(look_at(join).reopened, 0);
    EXPECT_EQ(continuations(), 1U);
}

// Proves: JOIN-023
TEST_P(join_ends, a_join_that_was_too_late_waits_again_for_those_it_left)
{
    const auto join = open({.expected = 3, .deadline = 1h});
    const auto done_late = add_to(join);
    const auto still_open = add_to(join, {.delay = 3h});
    const auto running = claim_one();
    clock().advance(10s);
    EXPECT_TRUE(box().renew(alice, running.fence, 5h));
    const auto dead = add_to(join);
    fail(claim_one());
    clock().advance(1h);
    EXPECT_EQ(box().expire_due(), 1U);
    EXPECT_EQ(look_at(join).ended_by, join_end::deadline);
    EXPECT_EQ(acknowledge(running), settled_as::done);
    EXPECT_EQ(redrive_join(db(), join), 3U) << "two have another chance, one is done";
    const auto again = look_at(join);
    EXPECT_EQ(again.completed, 1);
    EXPECT_EQ(again.failed, 0);
    EXPECT_EQ(again.deadline_at, std::nullopt);
    EXPECT_EQ(state_of(done_late), message_state::done);
    EXPECT_EQ(state_of(dead), message_state::ready);
    clock().advance(3h);
    work_off();
    EXPECT_EQ(state_of(still_open), message_state::done);
    EXPECT_EQ(end_of(join), join_state::completed);
}

// Proves: JOIN-015
TEST_P(join_ends, joins_that_ended_are_removed_with_their_members_after_a_while)
{
    const auto ended = open(3);
    for (int i = 0; i < 3; ++i)
        add_to(ended);
    const auto pending = open(1);
    work_off();
    clock().advance(24h * 7 - 1us);
    EXPECT_EQ(clean(db()).joins, 0U);
    clock().advance(1us);
    EXPECT_EQ(clean(db(), {.batch = 2}, 1).joins, 2U) << "in small transactions";
    EXPECT_EQ(clean(db(), {.batch = 2}).joins, 2U);
    EXPECT_FALSE(find_join(db(), ended));
    EXPECT_TRUE(find_join(db(), pending));
    const auto early = open(1);
    add_to(early);
    work_off();
    EXPECT_EQ(clean(db(), {.joins = duration::zero()}).joins, 2U);
}

CONFORMANCE_SUITE(join_ends);

} // namespace
} // namespace posthorn::conformance
