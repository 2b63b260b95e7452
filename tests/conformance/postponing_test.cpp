// Postponing: not now, and nobody's fault. The message comes back after its delay as if this
// delivery had never been.
#include "conformance/conformance_test.hpp"

#include <utility>

namespace posthorn::conformance {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class postponing : public conformance_test {
protected:
    settled_as put_off(const receipt& what, const outcome& how)
    {
        const settlement one{what, how};
        return box().settle(alice, {&one, 1}).answers.at(0);
    }
    settled_as put_off(const receipt& what, duration delay)
    {
        return put_off(what, postpone(delay));
    }

    const outcome without_delay{.verdict = outcome::kind::postpone};
};

// Proves: OUT-03, OUT-10
TEST_P(postponing, it_comes_back_after_its_delay)
{
    const auto id = add();
    clock().advance(1s);
    EXPECT_EQ(put_off(claim_one(), 30s), settled_as::released);
    EXPECT_EQ(state_of(id), message_state::ready);
    EXPECT_EQ(look(id).due_at, now() + 30s);
    EXPECT_EQ(count_messages(db()).delayed, 1);
    clock().advance(30s - 1us);
    EXPECT_THAT(claimed_ids(), IsEmpty());
    clock().advance(1us);
    EXPECT_THAT(claimed_ids(), ElementsAre(id));
}

// Proves: OUT-10, OUT-11
TEST_P(postponing, without_a_delay_it_keeps_its_due_time_and_its_place)
{
    const auto ids = add_many(3);
    const auto delayed = add("orders", {.delay = 1s});
    clock().advance(5s);
    const auto r = claim().receipts();
    ASSERT_EQ(r.size(), 4U);
    const std::vector<settlement> all{
        {r[3], without_delay}, {r[1], postpone(0s)}, {r[0], postpone(-1h)}, {r[2], without_delay}};
    clock().advance(5s);
    EXPECT_THAT(box().settle(alice, all).answers, Each(settled_as::released));
    EXPECT_EQ(look(ids[0]).due_at, look(ids[0]).created_at);
    EXPECT_EQ(look(delayed).due_at, look(delayed).created_at + 1s);
    const auto later = add();
    EXPECT_THAT(claimed_ids(), ElementsAre(ids[0], ids[1], ids[2], delayed, later));
}

// Proves: OUT-11, I5
TEST_P(postponing, no_attempt_is_counted_whether_it_had_started_or_not)
{
    auto patient = box_with(steady_retries(1s, 10));
    for (const std::size_t starts : {0U, 1U}) {
        for (const auto& how : {enqueue_options{}, enqueue_options{.priority = 3}}) {
            const auto id = add("orders", how);
            ASSERT_EQ(put_off(claim(1, starts).receipts().at(0), 1s), settled_as::released);
            EXPECT_EQ(look(id).attempts, 0);
            EXPECT_EQ(look(id).errors, 0);
            EXPECT_FALSE(look(id).started);
            clock().advance(1s);

            patient.abandon(alice, patient.claim(alice).receipts(), {}, "trouble");
            const auto failed_at = look(id).failed_at;
            clock().advance(1s);
            const auto again = patient.claim(alice, {.start = starts});
            EXPECT_EQ(again.deliveries.at(0).attempt, 2);
            ASSERT_EQ(put_off(again.deliveries.at(0).receipt, 1s), settled_as::released);
            EXPECT_EQ(look(id).attempts, 1);
            EXPECT_EQ(look(id).errors, 1);
            EXPECT_EQ(look(id).last_error, "trouble");
            EXPECT_EQ(look(id).failed_at, failed_at);
            clock().advance(1s);
            EXPECT_THAT(work_off(), ElementsAre(id));
            EXPECT_EQ(look(id).attempts, 2);
        }
    }
}

// Proves: OUT-11, I5
TEST_P(postponing, what_started_after_the_claim_is_unharmed_too)
{
    const auto id = add();
    const auto held = claim(1, 0).receipts().at(0);
    ASSERT_EQ(start(held), start_answer::started);
    ASSERT_EQ(put_off(held, 1s), settled_as::released);
    EXPECT_EQ(look(id).attempts, 0);
}

// Proves: OUT-11, I5
TEST_P(postponing, postponing_for_ever_uses_up_no_attempt)
{
    auto strict = box_with(steady_retries(1s, 1));
    const auto id = add();
    for (int round = 0; round < 30; ++round) {
        const auto claimed = strict.claim(alice);
        ASSERT_EQ(claimed.size(), 1U);
        ASSERT_EQ(claimed.deliveries[0].attempt, 1);
        const settlement one{claimed.deliveries[0].receipt, postpone(1s)};
        ASSERT_THAT(strict.settle(alice, {&one, 1}).answers, ElementsAre(settled_as::released));
        clock().advance(1s);
    }
    EXPECT_EQ(look(id).attempts, 0);
    EXPECT_EQ(look(id).errors, 0);
}

// Proves: OUT-11, I5
TEST_P(postponing, an_error_beside_it_is_not_recorded)
{
    const auto id = add();
    ASSERT_EQ(put_off(claim_one(), {.verdict = outcome::kind::postpone,
                                    .delay = 1s,
                                    .error = "the other side is down"}),
              settled_as::released);
    EXPECT_EQ(look(id).errors, 0);
    EXPECT_EQ(look(id).last_error, "");
    EXPECT_EQ(look(id).failed_at, std::nullopt);
}

// Proves: OUT-06, I8
TEST_P(postponing, a_postponed_head_holds_its_key)
{
    const auto head = add_keyed("k");
    const auto next = add_keyed("k");
    ASSERT_EQ(put_off(claim_one(), 10s), settled_as::released);
    EXPECT_THAT(claimed_ids(), IsEmpty());
    EXPECT_THAT(states_of({head, next}), ElementsAre(message_state::ready, message_state::waiting));
    clock().advance(10s);
    EXPECT_THAT(work_off(), ElementsAre(head));
    EXPECT_THAT(work_off(), ElementsAre(next));
}

// Proves: OUT-05
TEST_P(postponing, it_keeps_its_priority)
{
    const auto high = add("orders", {.priority = 5});
    ASSERT_EQ(put_off(claim_one(), 10s), settled_as::released);
    clock().advance(10s);
    const auto low = add("orders", {.priority = 1});
    const auto plain = add();
    EXPECT_THAT(claimed_ids(), ElementsAre(high, low, plain));
}

// Proves: OUT-04, I17
TEST_P(postponing, a_message_can_expire_while_it_waits)
{
    const auto id = add("orders", {.expires_after = 10s});
    ASSERT_EQ(put_off(claim_one(), 30s), settled_as::released);
    clock().advance(10s);
    EXPECT_THAT(claimed_ids(), IsEmpty());
    EXPECT_EQ(state_of(id), message_state::expired);
    EXPECT_EQ(look(id).attempts, 0);
}

// Proves: OUT-09, I18
TEST_P(postponing, a_postponed_message_can_be_cancelled)
{
    const auto id = add();
    ASSERT_EQ(put_off(claim_one(), 30s), settled_as::released);
    EXPECT_EQ(cancel(db(), id), cancel_answer::cancelled);
    clock().advance(30s);
    EXPECT_THAT(claimed_ids(), IsEmpty());
}

// Proves: OUT-10, I3
TEST_P(postponing, an_old_receipt_changes_nothing)
{
    const auto id = add();
    const auto old = claim_one();
    ASSERT_EQ(put_off(old, without_delay), settled_as::released);
    EXPECT_EQ(put_off(old, 1h), settled_as::lost);
    const auto bobs = claim_one(bob);
    EXPECT_EQ(put_off(old, 1h), settled_as::lost);
    EXPECT_EQ(put_off(bobs, 1h), settled_as::lost) << "it is not alice's";
    EXPECT_EQ(state_of(id), message_state::claimed);
    EXPECT_EQ(look(id).attempts, 1);
    EXPECT_EQ(acknowledge(bob, bobs), settled_as::done);
}

// Proves: OUT-10
TEST_P(postponing, a_receipt_that_stands_twice_is_postponed_once)
{
    const auto id = add();
    const auto held = claim_one();
    const std::vector<settlement> all{{held, postpone(5s)}, {held, postpone(9s)}};
    EXPECT_THAT(box().settle(alice, all).answers, Each(settled_as::released));
    EXPECT_EQ(look(id).due_at, now() + 5s);
    EXPECT_EQ(look(id).attempts, 0);
    EXPECT_EQ(count_messages(db()).claimed, 0);
}

// Proves: OUT-03
TEST_P(postponing, a_delay_beyond_all_measure_is_a_hundred_years)
{
    const auto id = add();
    ASSERT_EQ(put_off(claim_one(), duration::max()), settled_as::released);
    EXPECT_EQ(look(id).due_at, now() + limits::span_max);
}

CONFORMANCE_SUITE(postponing);

} // namespace
} // namespace posthorn::conformance
