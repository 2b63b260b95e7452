// Cancelling: whoever hears `cancelled` can rely on it, whatever state the message was in; and
// whoever hears anything else knows that nothing was changed.
#include "conformance/conformance_test.hpp"

namespace posthorn::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class cancelling : public conformance_test {
protected:
    /// It can be cancelled, and from then on nothing brings it back.
    void expect_cancelled_for_good(message_id id)
    {
        EXPECT_EQ(cancel(db(), id), cancel_answer::cancelled);
        const auto found = look(id);
        EXPECT_EQ(found.state, message_state::cancelled);
        EXPECT_FALSE(found.started);
        EXPECT_EQ(found.finished_at, now());
        EXPECT_EQ(cancel(db(), id), cancel_answer::too_late);
        clock().advance(48h);
        box().reap_expired();
        box().expire_due();
        EXPECT_THAT(claimed_ids(), ::testing::Not(::testing::Contains(id)));
        EXPECT_FALSE(redrive(db(), id));
        EXPECT_EQ(state_of(id), message_state::cancelled);
    }

    /// It cannot be cancelled any more, and the attempt leaves no trace.
    void expect_too_late(message_id id)
    {
        const auto before = look(id);
        EXPECT_EQ(cancel(db(), id), cancel_answer::too_late);
        const auto after = look(id);
        EXPECT_EQ(after.state, before.state);
        EXPECT_EQ(after.started, before.started);
        EXPECT_EQ(after.blocks_key, before.blocks_key);
        EXPECT_EQ(after.finished_at, before.finished_at);
        EXPECT_EQ(after.attempts, before.attempts);
    }
};

// Proves: OUT-09, I18
TEST_P(cancelling, a_message_that_waits_to_be_claimed)
{
    const auto first = add();
    const auto second = add();
    const auto third = add();
    expect_cancelled_for_good(second);
    // They were claimed on the way, and the cancelled one between them was passed over.
    EXPECT_THAT(
        states_of({first, second, third}),
        ElementsAre(message_state::claimed, message_state::cancelled, message_state::claimed));
}

// Proves: OUT-09, I18
TEST_P(cancelling, the_first_and_the_last_of_what_waits)
{
    const auto ids = add_many(5);
    EXPECT_EQ(cancel(db(), ids.front()), cancel_answer::cancelled);
    EXPECT_EQ(cancel(db(), ids.back()), cancel_answer::cancelled);
    EXPECT_THAT(claimed_ids(), ElementsAre(ids[1], ids[2], ids[3]));
    const auto next = add();
    EXPECT_THAT(claimed_ids(), ElementsAre(next));
}

// Proves: OUT-09, I18
TEST_P(cancelling, the_only_message_there_is)
{
    expect_cancelled_for_good(add());
    const auto next = add();
    EXPECT_THAT(claimed_ids(), ElementsAre(next));
}

// Proves: OUT-05, OUT-09, I18
TEST_P(cancelling, a_message_with_a_priority)
{
    expect_cancelled_for_good(add("orders", {.priority = 9}));
    expect_cancelled_for_good(add("orders", {.priority = -9}));
}

// Proves: OUT-04, OUT-09, I18
TEST_P(cancelling, a_delayed_message)
{
    expect_cancelled_for_good(add("orders", {.delay = 1h}));
}

// Proves: OUT-03, OUT-09, I18
TEST_P(cancelling, a_message_whose_id_is_the_callers_own)
{
    const auto own = message_id::parse("6ba7b810-9dad-11d1-80b4-00c04fd430c8").value();
    expect_cancelled_for_good(add("orders", {.id = own}));
    EXPECT_EQ(thrown_by([&] { add("orders", {.id = own}); }).code(), error_code::constraint);
}

// Proves: OUT-06, OUT-09, I8, I18
TEST_P(cancelling, the_head_of_a_key_lets_the_next_go_on)
{
    const auto head = add_keyed("k");
    const auto second = add_keyed("k");
    const auto third = add_keyed("k");
    EXPECT_EQ(cancel(db(), head), cancel_answer::cancelled);
    EXPECT_THAT(
        states_of({head, second, third}),
        ElementsAre(message_state::cancelled, message_state::ready, message_state::waiting));
    EXPECT_THAT(work_off(), ElementsAre(second));
    EXPECT_THAT(work_off(), ElementsAre(third));
    EXPECT_EQ(state_of(head), message_state::cancelled);
}

// Proves: OUT-06, OUT-09, I8, I18
TEST_P(cancelling, a_message_that_waits_for_its_key)
{
    const auto head = add_keyed("k");
    const auto second = add_keyed("k");
    const auto third = add_keyed("k");
    EXPECT_EQ(cancel(db(), second), cancel_answer::cancelled);
    // The head still holds the key: nobody may start because somebody else gave up waiting.
    EXPECT_THAT(
        states_of({head, second, third}),
        ElementsAre(message_state::ready, message_state::cancelled, message_state::waiting));
    EXPECT_THAT(work_off(), ElementsAre(head));
    EXPECT_THAT(work_off(), ElementsAre(third));
}

// Proves: OUT-04, OUT-06, OUT-09
TEST_P(cancelling, a_delayed_head_frees_its_key_at_once)
{
    const auto head = add_keyed("k", {.delay = 24h});
    const auto second = add_keyed("k");
    EXPECT_THAT(claimed_ids(), IsEmpty());
    EXPECT_EQ(cancel(db(), head), cancel_answer::cancelled);
    EXPECT_THAT(work_off(), ElementsAre(second));
}

// Proves: OUT-09, I18
TEST_P(cancelling, a_claimed_message_that_has_not_started_is_gone_for_its_worker)
{
    const auto first = add();
    const auto second = add();
    const auto claimed = claim(10, 0);
    ASSERT_THAT(ids_of(claimed), ElementsAre(first, second));
    EXPECT_EQ(cancel(db(), first), cancel_answer::cancelled);
    EXPECT_EQ(start(claimed.deliveries[0].receipt), start_answer::gone);
    EXPECT_EQ(acknowledge(claimed.deliveries[0].receipt), settled_as::lost);
    EXPECT_EQ(abandon(claimed.deliveries[0].receipt), settled_as::lost);
    EXPECT_EQ(fail(claimed.deliveries[0].receipt), settled_as::lost);
    EXPECT_EQ(start(claimed.deliveries[1].receipt), start_answer::started);
    EXPECT_EQ(acknowledge(claimed.deliveries[1].receipt), settled_as::done);
    EXPECT_THAT(states_of({first, second}),
                ElementsAre(message_state::cancelled, message_state::done));
    EXPECT_EQ(look(first).attempts, 0);
    EXPECT_EQ(look(first).started_at, std::nullopt);
}

// Proves: OUT-09, I18
TEST_P(cancelling, every_message_of_a_batch_before_any_of_them_starts)
{
    const auto plain = add();
    const auto keyed = add_keyed("k");
    const auto claimed = claim(10, 0);
    ASSERT_THAT(ids_of(claimed), ElementsAre(plain, keyed));
    EXPECT_EQ(cancel(db(), plain), cancel_answer::cancelled);
    EXPECT_EQ(cancel(db(), keyed), cancel_answer::cancelled);
    for (const auto& each : claimed.receipts()) {
        EXPECT_NE(start(each), start_answer::started);
        EXPECT_EQ(acknowledge(each), settled_as::lost);
    }
    clock().advance(1min);
    const auto report = box().reap_expired();
    EXPECT_EQ(report.released + report.retrying + report.dead, 0U);
    EXPECT_THAT(states_of({plain, keyed}),
                ElementsAre(message_state::cancelled, message_state::cancelled));
}

// Proves: OUT-06, OUT-09, I8, I18
TEST_P(cancelling, a_claimed_head_that_has_not_started_lets_its_key_go_on)
{
    const auto head = add_keyed("k");
    const auto second = add_keyed("k");
    ASSERT_THAT(ids_of(claim(10, 0)), ElementsAre(head));
    EXPECT_EQ(cancel(db(), head), cancel_answer::cancelled);
    EXPECT_EQ(state_of(second), message_state::ready);
    EXPECT_THAT(work_off(), ElementsAre(second));
}

// Proves: OUT-09, I18
TEST_P(cancelling, an_unstarted_message_whose_worker_died)
{
    const auto id = add();
    const auto other = add();
    ASSERT_EQ(claim(10, 0).size(), 2U);
    clock().advance(1h);
    EXPECT_EQ(cancel(db(), id), cancel_answer::cancelled);
    EXPECT_EQ(box().reap_expired().released, 1U);
    EXPECT_THAT(work_off(), ElementsAre(other));
    EXPECT_EQ(state_of(id), message_state::cancelled);
}

// Proves: OUT-09, I18
TEST_P(cancelling, a_message_that_was_given_back_unharmed)
{
    const auto id = add();
    const auto claimed = claim(10, 0);
    ASSERT_EQ(claimed.size(), 1U);
    EXPECT_EQ(abandon(claimed.deliveries[0].receipt), settled_as::released);
    expect_cancelled_for_good(id);
}

// Proves: OUT-09, I18
TEST_P(cancelling, a_message_that_waits_for_its_next_attempt)
{
    const auto id = add();
    EXPECT_EQ(abandon(claim_one(), 1h, "try again"), settled_as::retrying);
    expect_cancelled_for_good(id);
    EXPECT_EQ(look(id).attempts, 1);
    EXPECT_EQ(look(id).last_error, "try again");
}

// Proves: OUT-09
TEST_P(cancelling, a_started_message_is_too_late_and_goes_on)
{
    const auto id = add();
    const auto receipt = claim_one();
    expect_too_late(id);
    EXPECT_EQ(acknowledge(receipt), settled_as::done);
}

// Proves: OUT-09
TEST_P(cancelling, a_message_that_started_by_itself_is_too_late)
{
    const auto first = add();
    const auto second = add_keyed("k");
    const auto claimed = claim(10, 0);
    ASSERT_EQ(claimed.size(), 2U);
    for (const auto& each : claimed.receipts())
        EXPECT_EQ(start(each), start_answer::started);
    expect_too_late(first);
    expect_too_late(second);
    EXPECT_EQ(box().acknowledge(alice, claimed.receipts()).settled(), 2U);
}

// Proves: OUT-09
TEST_P(cancelling, a_started_message_stays_too_late_when_its_lease_has_run_out)
{
    const auto id = add();
    (void)claim_one();
    clock().advance(1h);
    expect_too_late(id);
}

// Proves: OUT-09, I3
TEST_P(cancelling, a_done_message_is_too_late)
{
    const auto plain = add();
    const auto keyed = add_keyed("k");
    ASSERT_THAT(work_off(), ElementsAre(plain, keyed));
    expect_too_late(plain);
    expect_too_late(keyed);
}

// Proves: OUT-09, I3
TEST_P(cancelling, a_dead_message_is_too_late)
{
    expect_too_late(add_dead());
}

// Proves: OUT-06, OUT-09, I3
TEST_P(cancelling, a_dead_message_that_blocks_its_key_is_too_late_and_blocks_on)
{
    const auto dead = add_dead("broken", "orders", {.ordering_key = "k"});
    const auto second = add_keyed("k");
    ASSERT_TRUE(look(dead).blocks_key);
    expect_too_late(dead);
    EXPECT_EQ(state_of(second), message_state::waiting);
    EXPECT_THAT(claimed_ids(), IsEmpty());
}

// Proves: OUT-04, OUT-09, I3
TEST_P(cancelling, an_expired_message_is_too_late)
{
    const auto id = add("orders", {.expires_after = 1s});
    clock().advance(1s);
    ASSERT_EQ(box().expire_due(), 1U);
    expect_too_late(id);
    EXPECT_EQ(state_of(id), message_state::expired);
}

// Proves: OUT-09, I3
TEST_P(cancelling, a_cancelled_message_is_too_late)
{
    const auto id = add();
    EXPECT_EQ(cancel(db(), id), cancel_answer::cancelled);
    clock().advance(1h);
    expect_too_late(id);
}

// Proves: OUT-09
TEST_P(cancelling, a_message_that_never_was_is_not_found)
{
    const auto id = add();
    auto similar = id.value();
    similar.bytes[3] ^= 1U;
    for (const auto& unknown : {message_id{similar}, message_id{},
                                message_id::parse("6ba7b810-9dad-11d1-80b4-00c04fd430c8").value()})
        EXPECT_EQ(cancel(db(), unknown), cancel_answer::not_found);
    EXPECT_EQ(state_of(id), message_state::ready);
}

// Proves: OUT-09, OUT-14
TEST_P(cancelling, a_message_that_was_cleaned_away_is_not_found)
{
    const auto id = add();
    work_off();
    ASSERT_EQ(clean(db(), {.finished = 0s}).finished, 1U);
    EXPECT_EQ(cancel(db(), id), cancel_answer::not_found);
}

// Proves: OUT-09, OUT-13
TEST_P(cancelling, a_redriven_message)
{
    const auto id = add_dead();
    ASSERT_TRUE(redrive(db(), id));
    expect_cancelled_for_good(id);
}

// Proves: OUT-09, I1, I18
TEST_P(cancelling, a_cancel_that_is_rolled_back_never_was)
{
    const auto plain = add();
    const auto keyed = add_keyed("k");
    const auto second = add_keyed("k");
    {
        auto tx = db().begin();
        EXPECT_EQ(cancel(tx, plain), cancel_answer::cancelled);
        EXPECT_EQ(cancel(tx, keyed), cancel_answer::cancelled);
        EXPECT_EQ(cancel(tx, keyed), cancel_answer::too_late);
        tx.rollback();
    }
    EXPECT_THAT(states_of({plain, keyed, second}),
                ElementsAre(message_state::ready, message_state::ready, message_state::waiting));
    EXPECT_THAT(work_off(), ElementsAre(plain, keyed));
}

// Proves: OUT-09, I1
TEST_P(cancelling, a_message_of_the_same_transaction)
{
    auto tx = db().begin();
    const auto id = enqueue(tx, {"orders", ""}).id;
    EXPECT_EQ(cancel(tx, id), cancel_answer::cancelled);
    tx.commit();
    EXPECT_EQ(state_of(id), message_state::cancelled);
    EXPECT_THAT(claimed_ids(), IsEmpty());
}

// Proves: OUT-09, I18
TEST_P(cancelling, every_second_message_of_many)
{
    const auto ids = add_many(400);
    std::vector<message_id> rest;
    auto tx = db().begin();
    for (std::size_t i = 0; i < ids.size(); ++i) {
        if (i % 2 == 0)
            EXPECT_EQ(cancel(tx, ids[i]), cancel_answer::cancelled);
        else
            rest.push_back(ids[i]);
    }
    tx.commit();
    std::vector<message_id> claimed;
    for (auto part = work_off(37); !part.empty(); part = work_off(37))
        claimed.insert(claimed.end(), part.begin(), part.end());
    EXPECT_EQ(claimed, rest);
    EXPECT_EQ(count_messages(db()).cancelled, 200);
}

CONFORMANCE_SUITE(cancelling);

} // namespace
} // namespace posthorn::conformance
