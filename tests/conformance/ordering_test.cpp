// Ordering: messages of one key run one after the other, whatever happens to the first of them, and
// nothing else has to wait for that.
#include "conformance/conformance_test.hpp"

#include <algorithm>

namespace posthorn::conformance {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ordering : public conformance_test {
protected:
    /// A key whose first message is dead; the dead one and those behind it.
    std::vector<message_id> block(const std::string& key, std::size_t behind)
    {
        std::vector ids{add_dead("broken", "orders", {.ordering_key = key})};
        for (std::size_t i = 0; i < behind; ++i)
            ids.push_back(add_keyed(key));
        return ids;
    }
};

// Proves: OUT-06, I8
TEST_P(ordering, messages_of_one_key_run_one_by_one_in_their_order)
{
    const std::vector ids{add_keyed("k"), add_keyed("k"), add_keyed("k")};
    EXPECT_THAT(states_of(ids),
                ElementsAre(message_state::ready, message_state::waiting, message_state::waiting));

    for (const auto id : ids) {
        const auto held = claim_one();
        EXPECT_EQ(held.id, id);
        EXPECT_TRUE(box().claim(bob).empty());
        EXPECT_EQ(acknowledge(held), settled_as::done);
    }
    EXPECT_TRUE(claim().empty());
}

// Proves: OUT-06, I8
TEST_P(ordering, a_batch_holds_at_most_one_message_of_a_key)
{
    std::vector<message_id> heads;
    for (const auto* key : {"a", "b", "c"})
        heads.push_back(add_keyed(key));
    for (int i = 0; i < 10; ++i)
        for (const auto* key : {"c", "b", "a"})
            add_keyed(key);

    EXPECT_EQ(claimed_ids(1'000), heads);
    EXPECT_TRUE(claim(1'000).empty());
}

// Proves: OUT-06, I8
TEST_P(ordering, a_bulk_of_one_key_keeps_its_order)
{
    std::vector<outgoing> all(
        20, {.message = {.topic = "orders", .payload = ""}, .options = {.ordering_key = "k"}});
    std::vector<message_id> ids;
    for (const auto& each : enqueue(db(), all))
        ids.push_back(each.id);

    std::vector<message_id> seen;
    for (auto some = work_off(); !some.empty(); some = work_off()) {
        EXPECT_THAT(some, SizeIs(1));
        seen.push_back(some[0]);
    }
    EXPECT_EQ(seen, ids);
}

// Proves: OUT-06, I8
TEST_P(ordering, a_key_holds_across_topics)
{
    const auto first = add("orders", {.ordering_key = "k"});
    const auto second = add("invoices", {.ordering_key = "k"});

    EXPECT_THAT(work_off(), ElementsAre(first));
    EXPECT_THAT(work_off(), ElementsAre(second));
}

// Proves: OUT-06, I8, I17
TEST_P(ordering, a_delayed_message_holds_back_those_behind_it)
{
    const auto first = add_keyed("k", {.delay = 1h});
    const auto second = add_keyed("k");
    EXPECT_TRUE(claim().empty());
    EXPECT_EQ(state_of(second), message_state::waiting);

    clock().advance(1h);
    EXPECT_THAT(work_off(), ElementsAre(first));
    EXPECT_THAT(work_off(), ElementsAre(second));
}

// Proves: OUT-06, I8, I17
TEST_P(ordering, a_message_behind_another_still_waits_for_its_own_time)
{
    const auto first = add_keyed("k");
    const auto second = add_keyed("k", {.delay = 1h});
    ASSERT_THAT(work_off(), ElementsAre(first));

    clock().advance(1h - 1us);
    EXPECT_TRUE(claim().empty());
    clock().advance(1us);
    EXPECT_THAT(work_off(), ElementsAre(second));
}

// Proves: OUT-06, OUT-11, I8
TEST_P(ordering, a_retrying_message_holds_back_those_behind_it)
{
    const auto first = add_keyed("k");
    const auto second = add_keyed("k");
    for (int round = 0; round < 5; ++round) {
        const auto held = claim_one();
        ASSERT_EQ(held.id, first);
        ASSERT_EQ(abandon(held, 10s, "not yet"), settled_as::retrying);
        EXPECT_TRUE(claim().empty());
        clock().advance(10s);
    }
    EXPECT_THAT(work_off(), ElementsAre(first));
    EXPECT_THAT(work_off(), ElementsAre(second));
}

// Proves: OUT-06, I8, F1
TEST_P(ordering, a_message_of_a_dead_worker_holds_back_those_behind_it)
{
    auto patient = box_with(steady_retries(10s, 9));
    const auto first = add_keyed("k");
    const auto second = add_keyed("k");
    ASSERT_EQ(patient.claim(alice).size(), 1U);
    clock().advance(30s);
    EXPECT_TRUE(claim().empty());
    ASSERT_EQ(patient.reap_expired().retrying, 1U);
    EXPECT_TRUE(claim().empty());

    clock().advance(10s);
    EXPECT_THAT(work_off(), ElementsAre(first));
    EXPECT_THAT(work_off(), ElementsAre(second));
}

// Proves: OUT-06, I8
TEST_P(ordering, a_message_given_back_unstarted_keeps_its_place_in_its_key)
{
    const auto first = add_keyed("k");
    const auto second = add_keyed("k");
    const auto r = claim(100, 0).receipts();
    ASSERT_EQ(box().abandon(alice, r).answers.at(0), settled_as::released);

    EXPECT_THAT(work_off(), ElementsAre(first));
    EXPECT_THAT(work_off(), ElementsAre(second));
}

// Proves: OUT-05, OUT-06, I8
TEST_P(ordering, a_higher_priority_does_not_overtake_inside_a_key)
{
    const auto first = add_keyed("k", {.priority = -5});
    const auto second = add_keyed("k", {.priority = 100});

    EXPECT_THAT(work_off(), ElementsAre(first));
    EXPECT_THAT(work_off(), ElementsAre(second));
}

// Proves: OUT-06
TEST_P(ordering, one_blocked_key_with_many_waiting_stops_nobody_else)
{
    block("blocked", 50);
    const auto retried = add_keyed("retrying");
    ASSERT_EQ(abandon(claim_one(), 1h, "later"), settled_as::retrying);
    add_keyed("retrying");
    const std::vector others{add(), add_keyed("a"), add_keyed("b"), add("orders", {.priority = 0})};

    EXPECT_THAT(claimed_ids(4), ElementsAre(others[0], others[1], others[2], others[3]));
    EXPECT_EQ(count_messages(db()).waiting, 51);
    EXPECT_EQ(state_of(retried), message_state::ready);
}

// Proves: OUT-06
TEST_P(ordering, messages_without_a_key_do_not_wait_for_each_other)
{
    const auto ids = add_many(2);
    ASSERT_EQ(claim(1).size(), 1U);
    EXPECT_THAT(claimed_ids(), ElementsAre(ids[1]));
}

// Proves: OUT-06, OUT-09
TEST_P(ordering, cancelling_the_first_lets_the_next_run)
{
    const std::vector ids{add_keyed("k"), add_keyed("k"), add_keyed("k"), add_keyed("k")};
    ASSERT_EQ(cancel(db(), ids[0]), cancel_answer::cancelled);
    ASSERT_EQ(cancel(db(), ids[2]), cancel_answer::cancelled);

    EXPECT_THAT(work_off(), ElementsAre(ids[1]));
    EXPECT_THAT(work_off(), ElementsAre(ids[3]));
    EXPECT_TRUE(claim().empty());
}

// Proves: OUT-06, OUT-09
TEST_P(ordering, cancelling_a_claimed_first_lets_the_next_run)
{
    const std::vector ids{add_keyed("k"), add_keyed("k")};
    ASSERT_EQ(claim(1, 0).size(), 1U);
    ASSERT_EQ(cancel(db(), ids[0]), cancel_answer::cancelled);

    EXPECT_THAT(work_off(), ElementsAre(ids[1]));
}

// Proves: OUT-04, OUT-06
TEST_P(ordering, an_expired_first_lets_the_next_run)
{
    const std::vector ids{add_keyed("k", {.delay = 1s, .expires_after = 10s}),
                          add_keyed("k", {.expires_after = 5s}), add_keyed("k")};
    clock().advance(10s);

    EXPECT_THAT(work_off(), ElementsAre(ids[2]));
    EXPECT_THAT(states_of(ids),
                ElementsAre(message_state::expired, message_state::expired, message_state::done));
}

// Proves: OUT-04, OUT-06
TEST_P(ordering, a_first_that_expires_while_claimed_lets_the_next_run)
{
    const std::vector ids{add_keyed("k", {.expires_after = 10s}), add_keyed("k")};
    const auto r = claim(1, 0).receipts();
    clock().advance(10s);
    ASSERT_EQ(start(r[0]), start_answer::gone);

    EXPECT_THAT(work_off(), ElementsAre(ids[1]));
}

// Proves: OUT-06
TEST_P(ordering, a_dead_message_blocks_its_key)
{
    const auto ids = block("k", 2);
    EXPECT_TRUE(look(ids[0]).blocks_key);
    EXPECT_THAT(states_of(ids),
                ElementsAre(message_state::dead, message_state::waiting, message_state::waiting));
    const auto newer = add_keyed("k");
    EXPECT_EQ(state_of(newer), message_state::waiting);

    clock().advance(24h * 365);
    EXPECT_TRUE(claim().empty());
}

// Proves: OUT-06, OUT-11
TEST_P(ordering, a_message_that_runs_out_of_attempts_blocks_its_key)
{
    auto strict = box_with(steady_retries(1s, 1));
    const auto first = add_keyed("k");
    const auto second = add_keyed("k");
    ASSERT_EQ(strict.claim(alice).size(), 1U);
    clock().advance(30s);
    ASSERT_EQ(strict.reap_expired().dead, 1U);

    EXPECT_TRUE(look(first).blocks_key);
    EXPECT_EQ(state_of(second), message_state::waiting);
    EXPECT_THAT(list_blocked_keys(db()), SizeIs(1));
}

// Proves: OUT-06
TEST_P(ordering, a_dead_message_is_skipped_where_configured)
{
    auto lenient = box_with(steady_retries(1s, 1, dead_key::skips));
    const auto failing = add_keyed("k");
    const auto worn_out = add_keyed("k");
    const auto crashing = add_keyed("k");
    const auto last = add_keyed("k");

    lenient.fail(alice, lenient.claim(alice).receipts(), "broken");
    lenient.abandon(alice, lenient.claim(alice).receipts(), {}, "broken");
    ASSERT_THAT(ids_of(lenient.claim(alice)), ElementsAre(crashing));
    clock().advance(30s);
    ASSERT_EQ(lenient.reap_expired().dead, 1U);

    EXPECT_THAT(states_of({failing, worn_out, crashing}), Each(message_state::dead));
    EXPECT_FALSE(look(failing).blocks_key);
    EXPECT_THAT(list_blocked_keys(db()), IsEmpty());
    EXPECT_THAT(work_off(), ElementsAre(last));
}

// Proves: OUT-06
TEST_P(ordering, a_dead_message_without_a_key_blocks_nothing)
{
    const auto id = add_dead();
    EXPECT_FALSE(look(id).blocks_key);
    EXPECT_THAT(list_blocked_keys(db()), IsEmpty());
    EXPECT_EQ(count_messages(db()).blocked_keys, 0);
}

// Proves: OUT-06
TEST_P(ordering, keys_are_compared_byte_by_byte)
{
    // Upper and lower case, a space at the end, and two ways to write the same letter.
    const std::vector<std::string> keys{"key",  "Key",        "KEY",        "key ",
                                        " key", "k\xc3\xa9y", "ke\xcc\x81y"};
    std::vector<message_id> heads;
    for (const auto& key : keys)
        heads.push_back(add_keyed(key));
    for (const auto& key : keys)
        add_keyed(key);

    EXPECT_EQ(claimed_ids(), heads);
}

class blocked_keys : public ordering {};

// Proves: OUT-06
TEST_P(blocked_keys, a_blocked_key_is_listed_with_its_dead_message_and_those_waiting)
{
    const auto first = add("invoices", {.ordering_key = "customer 7"});
    add_keyed("customer 7");
    add_keyed("customer 7", {.delay = 1h});
    clock().advance(10s);
    const auto died_at = now();
    ASSERT_EQ(fail(claim_one(), "no such customer"), settled_as::dead);
    clock().advance(1h);
    add_keyed("customer 7");

    const auto all = list_blocked_keys(db());

    ASSERT_THAT(all, SizeIs(1));
    EXPECT_EQ(all[0].ordering_key, "customer 7");
    EXPECT_EQ(all[0].dead_message, first);
    EXPECT_EQ(all[0].topic, "invoices");
    EXPECT_EQ(all[0].last_error, "no such customer");
    EXPECT_EQ(all[0].since, died_at);
    EXPECT_EQ(all[0].waiting, 3);
    EXPECT_EQ(count_messages(db()).blocked_keys, 1);
}

// Proves: OUT-06
TEST_P(blocked_keys, keys_are_listed_longest_blocked_first_up_to_the_limit)
{
    for (const auto* key : {"c", "a", "b"}) {
        block(key, 0);
        clock().advance(1s);
    }
    const auto keys = [&](std::size_t limit) {
        std::vector<std::string> result;
        for (const auto& each : list_blocked_keys(db(), limit))
            result.push_back(each.ordering_key);
        return result;
    };

    EXPECT_THAT(keys(100), ElementsAre("c", "a", "b"));
    EXPECT_THAT(keys(2), ElementsAre("c", "a"));
}

// Proves: OUT-06
TEST_P(blocked_keys, a_key_that_runs_is_not_listed)
{
    add_keyed("running");
    add_keyed("running");
    ASSERT_EQ(claim().size(), 1U);
    EXPECT_THAT(list_blocked_keys(db()), IsEmpty());
}

// Proves: OUT-06, OUT-13, I8
TEST_P(blocked_keys, retrying_a_blocked_key_runs_the_dead_message_first)
{
    const auto ids = block("k", 2);

    EXPECT_TRUE(retry_blocked_key(db(), "k"));

    EXPECT_THAT(list_blocked_keys(db()), IsEmpty());
    EXPECT_EQ(look(ids[0]).redrives, 1);
    for (const auto id : ids)
        EXPECT_THAT(work_off(), ElementsAre(id));
    EXPECT_THAT(states_of(ids), Each(message_state::done));
}

// Proves: OUT-06
TEST_P(blocked_keys, a_retried_key_that_fails_again_is_blocked_again)
{
    const auto ids = block("k", 1);
    ASSERT_TRUE(retry_blocked_key(db(), "k"));
    ASSERT_EQ(fail(claim_one(), "still broken"), settled_as::dead);

    const auto all = list_blocked_keys(db());
    ASSERT_THAT(all, SizeIs(1));
    EXPECT_EQ(all[0].dead_message, ids[0]);
    EXPECT_EQ(all[0].last_error, "still broken");
    EXPECT_TRUE(claim().empty());
}

// Proves: OUT-06
TEST_P(blocked_keys, skipping_a_blocked_key_leaves_the_dead_message_dead_and_goes_on)
{
    const auto ids = block("k", 2);

    EXPECT_TRUE(skip_blocked_key(db(), "k"));

    EXPECT_THAT(list_blocked_keys(db()), IsEmpty());
    EXPECT_EQ(state_of(ids[0]), message_state::dead);
    EXPECT_FALSE(look(ids[0]).blocks_key);
    EXPECT_THAT(work_off(), ElementsAre(ids[1]));
    EXPECT_THAT(work_off(), ElementsAre(ids[2]));
    EXPECT_EQ(state_of(ids[0]), message_state::dead);
}

// Proves: OUT-06
TEST_P(blocked_keys, a_key_that_is_not_blocked_can_be_neither_retried_nor_skipped)
{
    block("skipped", 0);
    ASSERT_TRUE(skip_blocked_key(db(), "skipped"));
    const std::vector ids{add_keyed("k"), add_keyed("k")};

    for (const auto* key : {"k", "skipped", "unknown", "K", ""}) {
        EXPECT_FALSE(retry_blocked_key(db(), key)) << key;
        EXPECT_FALSE(skip_blocked_key(db(), key)) << key;
    }
    EXPECT_THAT(states_of(ids), ElementsAre(message_state::ready, message_state::waiting));
}

// Proves: OUT-06
TEST_P(blocked_keys, helping_one_key_leaves_the_others_blocked)
{
    const auto a = block("a", 1);
    const auto b = block("b", 1);
    const auto c = block("c", 1);
    ASSERT_TRUE(skip_blocked_key(db(), "a"));
    ASSERT_TRUE(retry_blocked_key(db(), "b"));

    EXPECT_THAT(claimed_ids(), ElementsAre(a[1], b[0]));
    const auto still = list_blocked_keys(db());
    ASSERT_THAT(still, SizeIs(1));
    EXPECT_EQ(still[0].ordering_key, "c");
    EXPECT_EQ(state_of(c[1]), message_state::waiting);
}

// Proves: OUT-06, OUT-13
TEST_P(blocked_keys, a_redrive_after_a_skip_does_not_run_beside_the_current_head)
{
    const auto ids = block("k", 2);
    ASSERT_TRUE(skip_blocked_key(db(), "k"));
    const auto head = claim_one();
    ASSERT_EQ(head.id, ids[1]);

    ASSERT_TRUE(redrive(db(), ids[0]));

    EXPECT_EQ(state_of(ids[0]), message_state::waiting);
    EXPECT_TRUE(box().claim(bob).empty());
    ASSERT_EQ(acknowledge(head), settled_as::done);
    const auto second = work_off();
    const auto third = work_off();
    EXPECT_THAT(second, ElementsAre(ids[0]));
    EXPECT_THAT(third, ElementsAre(ids[2]));
}

// Proves: OUT-06, OUT-13
TEST_P(blocked_keys, a_redrive_waits_while_another_dead_message_blocks_the_key)
{
    const auto ids = block("k", 2);
    ASSERT_TRUE(skip_blocked_key(db(), "k"));
    ASSERT_EQ(fail(claim_one(), "broken too"), settled_as::dead);
    ASSERT_TRUE(redrive(db(), ids[0]));

    EXPECT_TRUE(claim().empty());
    EXPECT_EQ(list_blocked_keys(db()).at(0).dead_message, ids[1]);
    EXPECT_EQ(list_blocked_keys(db()).at(0).waiting, 2);
    ASSERT_TRUE(skip_blocked_key(db(), "k"));
    EXPECT_THAT(work_off(), ElementsAre(ids[0]));
    EXPECT_THAT(work_off(), ElementsAre(ids[2]));
}

// Proves: OUT-06, OUT-13, I8
TEST_P(blocked_keys, redriven_messages_of_one_key_run_one_by_one_in_their_order)
{
    auto lenient = box_with(steady_retries(1s, 1, dead_key::skips));
    const std::vector ids{add_keyed("k"), add_keyed("k"), add_keyed("k")};
    for (int i = 0; i < 3; ++i)
        lenient.fail(alice, lenient.claim(alice).receipts(), "broken");
    ASSERT_THAT(states_of(ids), Each(message_state::dead));

    ASSERT_EQ(redrive(db(), message_filter{}), 3U);

    for (const auto id : ids)
        EXPECT_THAT(work_off(), ElementsAre(id));
}

// Proves: OUT-06, OUT-13, I8
TEST_P(blocked_keys, a_skipped_message_that_was_redriven_runs_before_the_blocker_behind_it)
{
    const std::vector ids{add_keyed("k"), add_keyed("k")};
    fail(claim_one());
    ASSERT_TRUE(skip_blocked_key(db(), "k"));
    fail(claim_one());
    ASSERT_THAT(states_of(ids), Each(message_state::dead));

    ASSERT_TRUE(redrive(db(), ids[0]));
    EXPECT_EQ(state_of(ids[0]), message_state::waiting) << "the second one still blocks the key";
    ASSERT_TRUE(retry_blocked_key(db(), "k"));

    EXPECT_THAT(work_off(), ElementsAre(ids[0]));
    EXPECT_THAT(work_off(), ElementsAre(ids[1]));
}

// Proves: OUT-06, OUT-13
TEST_P(blocked_keys, purging_the_dead_message_that_blocks_a_key_frees_it)
{
    const auto ids = block("k", 2);

    ASSERT_TRUE(purge(db(), ids[0]));

    EXPECT_THAT(list_blocked_keys(db()), IsEmpty());
    EXPECT_THAT(work_off(), ElementsAre(ids[1]));
    EXPECT_THAT(work_off(), ElementsAre(ids[2]));
}

// Proves: OUT-06, OUT-13
TEST_P(blocked_keys, purging_a_skipped_message_does_not_disturb_its_key)
{
    const auto ids = block("k", 2);
    ASSERT_TRUE(skip_blocked_key(db(), "k"));
    const auto head = claim_one();

    ASSERT_TRUE(purge(db(), ids[0]));

    EXPECT_TRUE(box().claim(bob).empty());
    ASSERT_EQ(acknowledge(head), settled_as::done);
    EXPECT_THAT(work_off(), ElementsAre(ids[2]));
}

// Proves: OUT-06
TEST_P(blocked_keys, a_key_is_free_again_when_all_its_messages_have_ended)
{
    const std::vector ids{add_keyed("k"), add_keyed("k")};
    ASSERT_THAT(work_off(), ElementsAre(ids[0]));
    ASSERT_THAT(work_off(), ElementsAre(ids[1]));

    const auto later = add_keyed("k");
    EXPECT_EQ(state_of(later), message_state::ready);
}

} // namespace

CONFORMANCE_SUITE(ordering);
CONFORMANCE_SUITE(blocked_keys);

} // namespace posthorn::conformance
