// Parking: a message that nobody here can take is put aside unharmed, keeps its place in its key,
// and comes back when somebody claims with its topic.
#include "conformance/parking_fixture.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace posthorn::conformance {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr std::array every_reason{park_reason::no_handler, park_reason::paused,
                                  park_reason::at_limit};

class parking : public parking_test {};

// Proves: OUT-15
TEST_P(parking, a_parked_message_is_not_claimed)
{
    const auto id = add_parked();
    EXPECT_EQ(state_of(id), message_state::parked);
    EXPECT_THAT(claimed_ids(), IsEmpty());
    clock().advance(24h);
    EXPECT_THAT(claimed_ids(), IsEmpty());
    EXPECT_EQ(state_of(id), message_state::parked);
}

// Proves: OUT-12, OUT-15
TEST_P(parking, each_reason_is_kept_and_shown)
{
    for (const auto why : every_reason) {
        const auto id = add_parked("orders", {}, why);
        const auto keyed = add_parked("orders", {.ordering_key = to_string(id)}, why);
        EXPECT_EQ(look(id).parked_for, why) << to_string(why);
        EXPECT_EQ(look(keyed).parked_for, why) << to_string(why);
    }
    const auto listed = list_messages(db(), {.topic = "orders"});
    ASSERT_EQ(listed.size(), 2 * every_reason.size());
    for (std::size_t i = 0; i < listed.size(); ++i) {
        const auto why = every_reason[i / 2];
        EXPECT_EQ(listed[i].parked_for, why);
        EXPECT_EQ(listed[i].state,
                  why == park_reason::at_limit ? message_state::ready : message_state::parked);
    }
}

// Proves: OUT-12, OUT-15
TEST_P(parking, only_parked_messages_have_a_reason)
{
    const auto id = add();
    EXPECT_EQ(look(id).parked_for, std::nullopt);
    const auto held = claim_one();
    EXPECT_EQ(look(id).parked_for, std::nullopt);
    put_aside(held, park_reason::paused);
    const auto again = claim_with({"orders"}).receipts();
    EXPECT_EQ(look(id).parked_for, std::nullopt);
    ASSERT_EQ(abandon(again.at(0), 0s, "later"), settled_as::retrying);
    EXPECT_EQ(look(id).parked_for, std::nullopt);
    put_aside(claim_one(), park_reason::at_limit);
    ASSERT_EQ(cancel(db(), id), cancel_answer::cancelled);
    EXPECT_EQ(look(id).parked_for, std::nullopt);
}

// Proves: OUT-15
TEST_P(parking, a_reason_can_change_each_time)
{
    const auto id = add();
    put_aside(claim_one(), park_reason::no_handler);
    for (const auto why : {park_reason::at_limit, park_reason::paused, park_reason::no_handler}) {
        put_aside(claim_with({"orders"}).receipts().at(0), why);
        EXPECT_EQ(look(id).parked_for, why);
    }
}

// Proves: OUT-11, OUT-15, I5
TEST_P(parking, the_first_delivery_leaves_no_trace_of_an_attempt)
{
    for (const std::size_t starts : {0U, 1U}) {
        for (const auto& how : {enqueue_options{}, enqueue_options{.priority = 3}}) {
            const auto id = add("orders", how);
            const auto claimed = claim(1, starts);
            ASSERT_EQ(claimed.deliveries.at(0).started, starts == 1);
            ASSERT_EQ(put_aside(claimed.deliveries[0].receipt), settled_as::parked);
            const auto record = look(id);
            EXPECT_EQ(record.attempts, 0);
            EXPECT_EQ(record.errors, 0);
            EXPECT_EQ(record.last_error, "");
            EXPECT_EQ(record.failed_at, std::nullopt);
            EXPECT_FALSE(record.started);
            EXPECT_EQ(claim_with({"orders"}).deliveries.at(0).attempt, 1);
        }
    }
}

// Proves: OUT-11, OUT-15, I5
TEST_P(parking, a_later_delivery_leaves_attempts_and_errors_as_they_were)
{
    auto patient = box_with(steady_retries(1s, 10));
    for (const std::size_t starts : {0U, 1U}) {
        for (const auto& how : {enqueue_options{}, enqueue_options{.priority = 3}}) {
            const auto id = add("orders", how);
            for (const auto* trouble : {"first", "second"}) {
                patient.abandon(alice, patient.claim(alice).receipts(), {}, trouble);
                clock().advance(1s);
            }
            const auto before = look(id);
            ASSERT_EQ(before.attempts, 2);
            const auto claimed = patient.claim(alice, {.start = starts});
            ASSERT_EQ(put_aside(claimed.deliveries.at(0).receipt), settled_as::parked);
            const auto record = look(id);
            EXPECT_EQ(record.attempts, 2);
            EXPECT_EQ(record.errors, 2);
            EXPECT_EQ(record.last_error, "second");
            EXPECT_EQ(record.failed_at, before.failed_at);
            EXPECT_EQ(record.due_at, before.due_at);
            const auto again = claim_with({"orders"});
            EXPECT_EQ(again.deliveries.at(0).attempt, 3);
            EXPECT_EQ(acknowledge(again.deliveries[0].receipt), settled_as::done);
            EXPECT_EQ(look(id).attempts, 3);
        }
    }
}

// Proves: OUT-11, OUT-15, I5
TEST_P(parking, what_started_after_the_claim_is_unharmed_too)
{
    const auto id = add();
    const auto held = claim(1, 0).receipts().at(0);
    ASSERT_EQ(start(held), start_answer::started);
    ASSERT_EQ(look(id).attempts, 1);
    ASSERT_EQ(put_aside(held), settled_as::parked);
    EXPECT_EQ(look(id).attempts, 0);
}

// Proves: OUT-11, OUT-15, I5
TEST_P(parking, parking_for_ever_uses_up_no_attempt)
{
    auto strict = box_with(steady_retries(1s, 1));
    const auto id = add();
    for (int round = 0; round < 30; ++round) {
        const auto claimed = strict.claim(alice, {.unpark = {"orders"}});
        ASSERT_EQ(claimed.size(), 1U);
        ASSERT_EQ(claimed.deliveries[0].attempt, 1);
        const settlement one{claimed.deliveries[0].receipt, park(park_reason::at_limit)};
        ASSERT_THAT(strict.settle(alice, {&one, 1}).answers, ElementsAre(settled_as::parked));
    }
    EXPECT_EQ(look(id).attempts, 0);
    EXPECT_EQ(look(id).errors, 0);
}

// Proves: OUT-06, OUT-15, I8
TEST_P(parking, a_parked_head_holds_its_key)
{
    const auto head = add_keyed("k");
    park_all();
    const auto second = add_keyed("k");
    const auto third = add_keyed("k");
    const auto other = add_keyed("other");
    EXPECT_THAT(claimed_ids(), ElementsAre(other));
    EXPECT_THAT(states_of({head, second, third}),
                ElementsAre(message_state::parked, message_state::waiting, message_state::waiting));

    const auto back = claim_with({"orders"});
    ASSERT_THAT(ids_of(back), ElementsAre(head));
    EXPECT_EQ(state_of(second), message_state::waiting);
    box().acknowledge(alice, back.receipts());
    EXPECT_THAT(work_off(), ElementsAre(second));
    EXPECT_THAT(work_off(), ElementsAre(third));
}

// Proves: OUT-06, OUT-15, I8
TEST_P(parking, those_behind_a_claimed_head_wait_on_when_it_is_parked)
{
    const auto head = add_keyed("k");
    const auto second = add("other topic", {.ordering_key = "k"});
    park_all();
    EXPECT_THAT(ids_of(claim_with({"other topic"})), IsEmpty());
    EXPECT_THAT(states_of({head, second}),
                ElementsAre(message_state::parked, message_state::waiting));
    EXPECT_THAT(ids_of(claim_with({"orders"})), ElementsAre(head));
    EXPECT_EQ(state_of(second), message_state::waiting);
}

// Proves: OUT-06, OUT-13, OUT-15, I8
TEST_P(parking, a_redriven_message_waits_for_a_parked_one_of_its_key)
{
    auto passing = box_with(steady_retries(1s, 1, dead_key::skips));
    const auto dead = add_keyed("k");
    passing.fail(alice, passing.claim(alice).receipts(), "broken");
    const auto parked = add_keyed("k");
    park_all();
    ASSERT_TRUE(redrive(db(), dead));
    EXPECT_THAT(states_of({dead, parked}),
                ElementsAre(message_state::waiting, message_state::parked));
    const auto back = claim_with({"orders"});
    ASSERT_THAT(ids_of(back), ElementsAre(parked));
    box().acknowledge(alice, back.receipts());
    EXPECT_THAT(claimed_ids(), ElementsAre(dead));
}

// Proves: OUT-09, OUT-15, I18
TEST_P(parking, a_parked_message_can_be_cancelled)
{
    const auto id = add_parked();
    clock().advance(1s);
    EXPECT_EQ(cancel(db(), id), cancel_answer::cancelled);
    EXPECT_EQ(state_of(id), message_state::cancelled);
    EXPECT_EQ(look(id).finished_at, now());
    EXPECT_EQ(look(id).attempts, 0);
    EXPECT_THAT(ids_of(claim_with({"orders"})), IsEmpty());
    EXPECT_EQ(cancel(db(), id), cancel_answer::too_late);
}

// Proves: OUT-06, OUT-09, OUT-15, I2
TEST_P(parking, cancelling_a_parked_head_lets_its_key_go_on)
{
    const auto head = add_keyed("k");
    park_all();
    const auto next = add_keyed("k");
    EXPECT_THAT(claimed_ids(), IsEmpty());
    ASSERT_EQ(cancel(db(), head), cancel_answer::cancelled);
    EXPECT_THAT(claimed_ids(), ElementsAre(next));
}

// Proves: OUT-04, OUT-15, I17
TEST_P(parking, a_parked_message_expires)
{
    const auto id = add_parked("orders", {.expires_after = 10s});
    clock().advance(10s - 1us);
    EXPECT_EQ(box().expire_due(), 0U);
    EXPECT_EQ(state_of(id), message_state::parked);
    clock().advance(1us);
    EXPECT_EQ(box().expire_due(), 1U);
    EXPECT_EQ(state_of(id), message_state::expired);
    EXPECT_EQ(look(id).parked_for, std::nullopt);
    EXPECT_EQ(look(id).finished_at, now());
}

// Proves: OUT-04, OUT-06, OUT-15, I2
TEST_P(parking, a_parked_head_that_expires_lets_its_key_go_on)
{
    const auto head = add_keyed("k", {.expires_after = 10s});
    park_all();
    const auto next = add_keyed("k");
    clock().advance(10s);
    (void)claim(); // it may be this claim or the next one that finds the key free
    if (state_of(next) != message_state::claimed) {
        EXPECT_THAT(claimed_ids(), ElementsAre(next));
    }
    EXPECT_EQ(state_of(head), message_state::expired);
    EXPECT_EQ(state_of(next), message_state::claimed);
}

// Proves: OUT-10, OUT-15, I3
TEST_P(parking, an_old_receipt_changes_nothing)
{
    const auto id = add();
    const auto old = claim_one();
    ASSERT_EQ(put_aside(old), settled_as::parked);
    EXPECT_EQ(put_aside(old), settled_as::lost);
    EXPECT_EQ(acknowledge(old), settled_as::lost);
    EXPECT_EQ(abandon(old), settled_as::lost);
    EXPECT_EQ(start(old), start_answer::lost);
    EXPECT_FALSE(box().renew(alice, old.fence, 30s));
    EXPECT_EQ(state_of(id), message_state::parked);

    const auto bobs = box().claim(bob, {.unpark = {"orders"}});
    ASSERT_THAT(ids_of(bobs), ElementsAre(id));
    EXPECT_NE(bobs.fence, old.fence);
    EXPECT_EQ(put_aside(old), settled_as::lost);
    EXPECT_EQ(put_aside(bobs.deliveries[0].receipt), settled_as::lost) << "it is not alice's";
    EXPECT_EQ(look(id).attempts, 1);
    EXPECT_EQ(acknowledge(bob, bobs.deliveries[0].receipt), settled_as::done);
}

// Proves: OUT-10, OUT-15
TEST_P(parking, a_receipt_that_stands_twice_is_parked_once)
{
    const auto id = add();
    const auto held = claim_one();
    const std::vector<settlement> all{{held, park(park_reason::paused)},
                                      {held, park(park_reason::paused)}};
    EXPECT_THAT(box().settle(alice, all).answers, Each(settled_as::parked));
    EXPECT_EQ(look(id).attempts, 0);
    EXPECT_EQ(count_messages(db()).parked, 1);
    EXPECT_EQ(count_messages(db()).claimed, 0);
}

// Proves: OUT-10, OUT-15
TEST_P(parking, a_parked_message_belongs_to_nobody)
{
    const auto id = add_parked();
    clock().advance(1h);
    EXPECT_EQ(box().reap_expired().batches, 0U);
    EXPECT_EQ(state_of(id), message_state::parked);
    EXPECT_EQ(look(id).lease_until, std::nullopt);
}

// Proves: OUT-12, OUT-15
TEST_P(parking, parked_messages_are_counted_by_themselves)
{
    add_parked();
    add_parked("orders", {.priority = 1});
    add_keyed("k");
    park_all();
    add_keyed("k");
    clock().advance(1min);
    const auto before = count_messages(db());
    EXPECT_EQ(before.parked, 3);
    EXPECT_EQ(before.ready, 0);
    EXPECT_EQ(before.delayed, 0);
    EXPECT_EQ(before.claimed, 0);
    EXPECT_EQ(before.dead, 0);
    EXPECT_EQ(before.oldest_ready, std::nullopt) << "what is parked is not late";
    EXPECT_EQ(claim_with({"orders"}).size(), 3U);
    EXPECT_EQ(count_messages(db()).parked, 0);
    EXPECT_EQ(count_messages(db()).claimed, 3);
}

// Proves: OUT-12, OUT-15
TEST_P(parking, parked_messages_are_listed_by_page_topic_and_key)
{
    const auto a = add_parked("a.1");
    const auto b = add_parked("b");
    const auto keyed = add_parked("a.2", {.ordering_key = "k"});
    add("a.3");
    EXPECT_THAT(parked_ids(), ElementsAre(a, b, keyed));
    EXPECT_THAT(parked_ids({.topic = "a.*"}), ElementsAre(a, keyed));
    EXPECT_THAT(parked_ids({.topic = "b"}), ElementsAre(b));
    EXPECT_THAT(parked_ids({.ordering_key = "k"}), ElementsAre(keyed));
    EXPECT_THAT(parked_ids({.limit = 2}), ElementsAre(a, b));
    EXPECT_THAT(parked_ids({.after_position = look(b).position}), ElementsAre(keyed));
    EXPECT_THAT(ids_of(list_messages(db(), {.state = message_state::ready})), ::testing::SizeIs(1));
}

// Proves: OUT-13, OUT-14, OUT-15
TEST_P(parking, what_is_for_the_dead_and_the_finished_leaves_it_alone)
{
    const auto dead = add_dead();
    const auto id = add_parked();
    EXPECT_FALSE(redrive(db(), id));
    EXPECT_FALSE(purge(db(), id));
    EXPECT_EQ(purge(db(), message_filter{}, true), 1U);
    EXPECT_EQ(redrive(db(), message_filter{}), 1U);
    clock().advance(24h * 365);
    clean(db(), {.finished = 0s, .dead = duration::zero()});
    EXPECT_EQ(state_of(id), message_state::parked);
    EXPECT_EQ(state_of(dead), message_state::ready);
}

// Proves: OUT-10, OUT-11, OUT-15
TEST_P(parking, one_settlement_can_say_everything)
{
    for (const int priority : {0, 7}) {
        auto patient = box_with(steady_retries(5s, 5));
        std::vector<message_id> ids;
        for (int i = 0; i < 6; ++i)
            ids.push_back(add("orders", {.priority = priority}));
        const auto claimed = patient.claim(alice, {.start = 5});
        ASSERT_EQ(ids_of(claimed), ids);
        const auto r = claimed.receipts();
        const std::vector<settlement> all{{r[4], park(park_reason::paused)},
                                          {r[0], done()},
                                          {r[3], postpone(9s)},
                                          {r[2], posthorn::fail("broken")},
                                          {r[5], park(park_reason::no_handler)},
                                          {r[1], retry("later")}};
        EXPECT_THAT(patient.settle(alice, all).answers,
                    ElementsAre(settled_as::parked, settled_as::done, settled_as::released,
                                settled_as::dead, settled_as::parked, settled_as::retrying));
        EXPECT_THAT(states_of(ids), ElementsAre(message_state::done, message_state::ready,
                                                message_state::dead, message_state::ready,
                                                message_state::parked, message_state::parked));
        std::vector<std::pair<int, int>> counts;
        for (const auto id : ids)
            counts.emplace_back(look(id).attempts, look(id).errors);
        EXPECT_THAT(counts, ElementsAre(Pair(1, 0), Pair(1, 1), Pair(1, 1), Pair(0, 0), Pair(0, 0),
                                        Pair(0, 0)));
        EXPECT_EQ(look(ids[1]).due_at, now() + 5s);
        EXPECT_EQ(look(ids[3]).due_at, now() + 9s);
        EXPECT_EQ(count_messages(db()).claimed, 0);
        clock().advance(10s);
        const auto back = claim_with({"orders"});
        EXPECT_THAT(ids_of(back), ElementsAre(ids[4], ids[5], ids[1], ids[3]));
        EXPECT_THAT(box().acknowledge(alice, back.receipts()).answers, Each(settled_as::done));
    }
}

// Proves: OUT-15
TEST_P(parking, hooks_hear_of_it)
{
    std::vector<std::pair<message_id, settled_as>> heard;
    auto options = steady_retries(1s, 5);
    options.hooks = {[&](transaction&, std::span<const settled_message> changed) {
        for (const auto& each : changed)
            heard.emplace_back(each.id, each.answer);
    }};
    auto heard_by = box_with(std::move(options));
    const auto ids = add_many(2);
    const auto r = heard_by.claim(alice).receipts();
    const std::vector<settlement> all{{r[0], park(park_reason::no_handler)}, {r[1], postpone(1s)}};
    heard_by.settle(alice, all);
    EXPECT_THAT(heard,
                ElementsAre(Pair(ids[0], settled_as::parked), Pair(ids[1], settled_as::released)));
}

// Proves: OUT-15, I1
TEST_P(parking, a_parking_that_is_rolled_back_never_was)
{
    const auto id = add();
    const auto held = claim_one();
    const settlement one{held, park(park_reason::no_handler)};
    {
        auto tx = db().begin();
        EXPECT_THAT(box().settle(tx, alice, {&one, 1}).answers, ElementsAre(settled_as::parked));
        tx.rollback();
    }
    EXPECT_EQ(state_of(id), message_state::claimed);
    EXPECT_EQ(look(id).attempts, 1);
    auto tx = db().begin();
    EXPECT_THAT(box().settle(tx, alice, {&one, 1}).answers, ElementsAre(settled_as::parked));
    tx.commit();
    EXPECT_EQ(state_of(id), message_state::parked);
    EXPECT_EQ(look(id).attempts, 0);
}

CONFORMANCE_SUITE(parking);

class parking_in_a_loan : public conformance_test {};

// Proves: OUT-01, OUT-15
TEST_P(parking_in_a_loan, it_counts_when_the_application_commits)
{
    const auto app = under_test().connect(world());
    const auto ids = add_many(2);
    const auto r = claim().receipts();
    const std::vector<settlement> all{{r[0], park(park_reason::paused)}, {r[1], postpone(1s)}};
    app->begin();
    EXPECT_THAT(box().settle(app->borrow(), alice, all).answers,
                ElementsAre(settled_as::parked, settled_as::released));
    EXPECT_TRUE(app->in_transaction());
    app->rollback();
    EXPECT_THAT(states_of(ids), Each(message_state::claimed));

    app->begin();
    box().settle(app->borrow(), alice, all);
    app->commit();
    EXPECT_THAT(states_of(ids), ElementsAre(message_state::parked, message_state::ready));
    EXPECT_EQ(look(ids[0]).parked_for, park_reason::paused);
}

CONFORMANCE_SUITE(parking_in_a_loan);

} // namespace
} // namespace posthorn::conformance
