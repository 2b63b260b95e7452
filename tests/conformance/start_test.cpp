// Starting: an attempt is a committed start. Whoever dies takes an attempt from what it had
// started, and nothing from the rest of its batch.
#include "conformance/conformance_test.hpp"

#include <algorithm>

namespace posthorn::conformance {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

class starting : public conformance_test {
protected:
    /// Claims with nothing started, for the usual thirty seconds.
    std::vector<receipt> hold(outbox& where, std::size_t limit = 100)
    {
        return where.claim(alice, {.limit = limit, .start = 0}).receipts();
    }

    std::vector<int> attempts_of(const std::vector<message_id>& ids)
    {
        std::vector<int> result;
        for (const auto id : ids)
            result.push_back(look(id).attempts);
        return result;
    }
};

// Proves: OUT-11, OUT-12
TEST_P(starting, a_start_is_recorded_with_its_time)
{
    const auto ids = add_many(2);
    const auto r = hold(box());
    EXPECT_FALSE(look(ids[0]).started);
    EXPECT_EQ(look(ids[0]).started_at, std::nullopt);
    clock().advance(3s);

    EXPECT_EQ(start(r[0]), start_answer::started);

    EXPECT_TRUE(look(ids[0]).started);
    EXPECT_EQ(look(ids[0]).started_at, now());
    EXPECT_FALSE(look(ids[1]).started);
    EXPECT_EQ(look(ids[1]).started_at, std::nullopt);
}

// Proves: OUT-11, OUT-12
TEST_P(starting, a_committed_start_is_an_attempt_at_once)
{
    const auto ids = add_many(2);
    const auto r = hold(box());
    EXPECT_THAT(attempts_of(ids), ElementsAre(0, 0));

    ASSERT_EQ(start(r[1]), start_answer::started);

    EXPECT_THAT(attempts_of(ids), ElementsAre(0, 1));
}

// Proves: OUT-11, I5
TEST_P(starting, a_worker_that_dies_takes_an_attempt_only_from_what_it_had_started)
{
    auto patient = box_with(steady_retries(1s, 5));
    const auto ids = add_many(5);
    const auto r = hold(patient);
    ASSERT_THAT(patient.start(alice, std::vector{r[1], r[3]}), Each(start_answer::started));
    clock().advance(30s);

    const auto report = patient.reap_expired();

    EXPECT_EQ(report.retrying, 2U);
    EXPECT_EQ(report.released, 3U);
    EXPECT_THAT(attempts_of(ids), ElementsAre(0, 1, 0, 1, 0));
    EXPECT_EQ(look(ids[0]).errors, 0);
    EXPECT_EQ(look(ids[1]).errors, 1);
    EXPECT_THAT(look(ids[1]).last_error, ::testing::HasSubstr("lease"));
}

// Proves: OUT-11, I5, F26
TEST_P(starting, a_poison_message_dies_after_its_attempts_and_takes_none_from_its_neighbours)
{
    constexpr int attempts_max = 4;
    auto relay = box_with(steady_retries(1s, attempts_max));
    auto neighbours = add_many(4);
    const auto poison = add("poison");
    std::ranges::copy(add_many(5), std::back_inserter(neighbours));

    int starts = 0;
    while (state_of(poison) != message_state::dead) {
        const auto claimed = relay.claim(alice, {.start = 0});
        ASSERT_EQ(claimed.size(), 10U);
        for (const auto& each : claimed.deliveries) {
            if (each.topic != "poison")
                continue;
            ASSERT_EQ(relay.start(alice, {&each.receipt, 1}).at(0), start_answer::started);
            EXPECT_EQ(each.attempt, ++starts);
        }
        clock().advance(30s); // the worker is gone
        ASSERT_EQ(relay.reap_expired().batches, 1U);
        clock().advance(1s);
        ASSERT_LE(starts, attempts_max);
        ASSERT_THAT(attempts_of(neighbours), Each(0));
    }

    EXPECT_EQ(starts, attempts_max);
    EXPECT_EQ(look(poison).attempts, attempts_max);
    EXPECT_EQ(work_off().size(), 9U);
    EXPECT_THAT(states_of(neighbours), Each(message_state::done));
    EXPECT_THAT(attempts_of(neighbours), Each(1));
    for (const auto id : neighbours)
        EXPECT_EQ(look(id).errors, 0);
}

// Proves: OUT-11, I5, F1
TEST_P(starting, starts_never_exceed_the_attempts_allowed_even_when_every_worker_dies)
{
    auto relay = box_with(steady_retries(1s, 3));
    const auto plain = add();
    const auto keyed = add_keyed("key");
    int starts_of_plain = 0;
    int starts_of_keyed = 0;

    for (int round = 0; round < 10; ++round) {
        for (const auto& each : relay.claim(alice).deliveries) {
            EXPECT_TRUE(each.started);
            ++(each.receipt.id == plain ? starts_of_plain : starts_of_keyed);
        }
        clock().advance(31s);
        relay.reap_expired();
        clock().advance(1s);
    }

    EXPECT_EQ(starts_of_plain, 3);
    EXPECT_EQ(starts_of_keyed, 3);
    EXPECT_THAT(states_of({plain, keyed}), Each(message_state::dead));
    EXPECT_THAT(attempts_of({plain, keyed}), Each(3));
}

// Proves: OUT-11, OUT-13, I5
TEST_P(starting, a_redrive_allows_as_many_starts_again)
{
    auto relay = box_with(steady_retries(1s, 3));
    const auto id = add();
    int starts = 0;
    const auto crash_until_dead = [&] {
        while (state_of(id) != message_state::dead) {
            starts += static_cast<int>(relay.claim(alice).size());
            clock().advance(31s);
            relay.reap_expired();
            clock().advance(1s);
        }
    };

    crash_until_dead();
    ASSERT_TRUE(redrive(db(), id));
    crash_until_dead();

    EXPECT_EQ(starts, 6);
    EXPECT_EQ(look(id).redrives, 1);
    EXPECT_EQ(look(id).attempts, 3);
}

// Proves: OUT-10, F15
TEST_P(starting, nothing_starts_once_the_lease_has_run_out)
{
    const auto id = add();
    const auto r = hold(box());
    clock().advance(30s);

    EXPECT_EQ(start(r[0]), start_answer::lost);
    EXPECT_FALSE(look(id).started);
    EXPECT_EQ(box().reap_expired().released, 1U);
    EXPECT_EQ(look(id).attempts, 0);
}

// Proves: OUT-10
TEST_P(starting, up_to_its_last_moment_a_lease_is_good_for_a_start)
{
    add();
    const auto r = hold(box());
    clock().advance(30s - 1us);

    EXPECT_EQ(start(r[0]), start_answer::started);
}

// Proves: OUT-10
TEST_P(starting, a_renewed_lease_is_good_for_a_start)
{
    add();
    const auto r = hold(box());
    clock().advance(29s);
    ASSERT_TRUE(box().renew(alice, r[0].fence, 30s));
    clock().advance(29s);

    EXPECT_EQ(start(r[0]), start_answer::started);
}

// Proves: OUT-10, OUT-11
TEST_P(starting, starting_twice_is_one_attempt)
{
    const auto id = add();
    const auto r = hold(box());
    const auto first = now();

    EXPECT_THAT(box().start(alice, std::vector{r[0], r[0]}), Each(start_answer::started));
    clock().advance(5s);
    EXPECT_EQ(start(r[0]), start_answer::started);

    EXPECT_EQ(look(id).started_at, first);
    ASSERT_EQ(abandon(r[0], 0s, "later"), settled_as::retrying);
    EXPECT_EQ(look(id).attempts, 1);
}

// Proves: OUT-10
TEST_P(starting, what_started_with_the_claim_may_be_started_again)
{
    const auto id = add();
    const auto held = claim_one();
    const auto claimed_at = now();
    clock().advance(1s);

    EXPECT_EQ(start(held), start_answer::started);
    EXPECT_EQ(look(id).started_at, claimed_at);
    ASSERT_EQ(acknowledge(held), settled_as::done);
    EXPECT_EQ(look(id).attempts, 1);
}

// Proves: OUT-10, F28
TEST_P(starting, every_receipt_gets_its_own_answer)
{
    const auto ids = add_many(4);
    const auto a = hold(box(), 1);
    const auto b = hold(box(), 2);
    const auto foreign = box().claim(bob, {.start = 0}).receipts();
    ASSERT_EQ(cancel(db(), ids[1]), cancel_answer::cancelled);

    EXPECT_THAT(box().start(alice, std::vector{b[1], foreign[0], b[0], a[0], receipt{}}),
                ElementsAre(start_answer::started, start_answer::lost, start_answer::gone,
                            start_answer::started, start_answer::lost));
    EXPECT_FALSE(look(ids[3]).started);
}

// Proves: OUT-09, OUT-10, I18
TEST_P(starting, what_was_cancelled_meanwhile_is_gone)
{
    const auto alone = add();
    const auto r = hold(box());
    ASSERT_EQ(cancel(db(), alone), cancel_answer::cancelled);

    EXPECT_EQ(start(r[0]), start_answer::gone);
    EXPECT_EQ(state_of(alone), message_state::cancelled);
    EXPECT_EQ(look(alone).attempts, 0);
    EXPECT_EQ(look(alone).started_at, std::nullopt);
}

// Proves: OUT-04, OUT-10, I17
TEST_P(starting, what_has_expired_meanwhile_is_gone)
{
    const auto id = add("orders", {.expires_after = 10s});
    const auto in_time = add("orders", {.expires_after = 11s});
    const auto r = hold(box());
    clock().advance(10s);

    EXPECT_EQ(start(r[0]), start_answer::gone);
    EXPECT_EQ(start(r[1]), start_answer::started);
    EXPECT_EQ(state_of(id), message_state::expired);
    EXPECT_EQ(look(id).attempts, 0);
    clock().advance(5s);
    EXPECT_EQ(start(r[1]), start_answer::started);
    EXPECT_EQ(acknowledge(r[1]), settled_as::done);
    EXPECT_EQ(state_of(in_time), message_state::done);
}

// Proves: OUT-10, I3
TEST_P(starting, what_its_owner_has_settled_is_lost)
{
    const auto ids = add_many(3);
    const auto r = hold(box());
    ASSERT_EQ(acknowledge(r[0]), settled_as::done);
    ASSERT_EQ(abandon(r[1]), settled_as::released);

    EXPECT_THAT(box().start(alice, r),
                ElementsAre(start_answer::lost, start_answer::lost, start_answer::started));
    EXPECT_THAT(states_of(ids),
                ElementsAre(message_state::done, message_state::ready, message_state::claimed));
}

// Proves: OUT-10, OUT-11, I5
TEST_P(starting, what_never_started_is_given_back_unharmed_and_keeps_its_place)
{
    const auto late = add("orders", {.delay = 4s});
    const auto first = add("orders", {.delay = 1s});
    clock().advance(2s);
    const auto second = add();
    const auto due = look(first).due_at;
    clock().advance(1s);
    const auto r = hold(box(), 1);
    ASSERT_EQ(r[0].id, first);
    clock().advance(5s);
    const auto third = add();

    EXPECT_EQ(abandon(r[0], 1h, "not today"), settled_as::released);

    const auto record = look(first);
    EXPECT_EQ(record.due_at, due);
    EXPECT_EQ(record.attempts, 0);
    EXPECT_EQ(record.errors, 0);
    EXPECT_EQ(record.last_error, "");
    EXPECT_EQ(record.failed_at, std::nullopt);
    EXPECT_THAT(claimed_ids(), ElementsAre(first, second, late, third));
}

// Proves: OUT-10, OUT-11, I5
TEST_P(starting, a_plain_message_that_is_given_back_unstarted_keeps_its_place)
{
    const auto ids = add_many(4);
    const auto r = hold(box(), 2);
    clock().advance(5s);

    EXPECT_THAT(box().abandon(alice, std::vector{r[1], r[0]}).answers, Each(settled_as::released));
    EXPECT_EQ(look(ids[0]).due_at, look(ids[0]).created_at);
    EXPECT_EQ(claimed_ids(), ids);
}

// Proves: OUT-11, I5
TEST_P(starting, giving_back_unstarted_work_for_ever_uses_up_no_attempt)
{
    auto strict = box_with(steady_retries(1s, 1));
    const auto id = add();
    for (int round = 0; round < 30; ++round) {
        const auto r = hold(strict);
        ASSERT_EQ(r.size(), 1U);
        if (round % 2 == 0) {
            ASSERT_EQ(strict.abandon(alice, r).answers.at(0), settled_as::released);
        } else {
            clock().advance(30s);
            ASSERT_EQ(strict.reap_expired().released, 1U);
        }
        ASSERT_EQ(look(id).attempts, 0);
    }
    const auto claimed = strict.claim(alice);
    ASSERT_EQ(claimed.size(), 1U);
    EXPECT_EQ(claimed.deliveries[0].attempt, 1);
}

// Proves: OUT-11, OUT-12, I5
TEST_P(starting, an_end_without_a_start_is_no_attempt)
{
    const auto ids = add_many(2);
    const auto keyed = add_keyed("key");
    const auto r = hold(box());

    ASSERT_EQ(acknowledge(r[0]), settled_as::done);
    ASSERT_EQ(fail(r[1], "nobody knows this topic"), settled_as::dead);
    ASSERT_EQ(fail(r[2], "nobody knows this topic"), settled_as::dead);

    EXPECT_THAT(attempts_of({ids[0], ids[1], keyed}), ElementsAre(0, 0, 0));
    EXPECT_EQ(look(ids[0]).started_at, std::nullopt);
}

// Proves: OUT-11
TEST_P(starting, the_attempt_of_a_delivery_counts_the_starts_before_it)
{
    auto patient = box_with(steady_retries(0s, 10));
    add();
    const auto next = [&](std::size_t start) {
        const auto claimed = patient.claim(alice, {.start = start});
        patient.abandon(alice, claimed.receipts(), {}, "again");
        return claimed.deliveries.at(0).attempt;
    };

    EXPECT_EQ(next(1), 1);
    EXPECT_EQ(next(0), 2);
    EXPECT_EQ(next(1), 2);
    EXPECT_EQ(next(0), 3);
    EXPECT_EQ(next(1), 3);
}

} // namespace

CONFORMANCE_SUITE(starting);

} // namespace posthorn::conformance
