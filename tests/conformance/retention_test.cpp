// Retention: what has ended is kept for a while and then removed in small steps; what has not ended
// is never touched.
#include "conformance/conformance_test.hpp"

namespace posthorn::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr duration a_day = 24h;

class cleaning : public conformance_test {
protected:
    message_id add_cancelled()
    {
        const auto id = add();
        EXPECT_EQ(cancel(db(), id), cancel_answer::cancelled);
        return id;
    }

    message_id add_expired()
    {
        const auto id = add("orders", {.due_at = now(), .expires_at = now() + 1us});
        clock().advance(1us);
        EXPECT_EQ(box().expire_due(), 1U);
        return id;
    }

    message_id add_done(const std::string& topic = "orders")
    {
        const auto id = add(topic);
        EXPECT_THAT(work_off(), ElementsAre(id));
        return id;
    }

    bool exists(message_id id) { return find_message(db(), id).has_value(); }
};

// Proves: OUT-14
TEST_P(cleaning, what_is_done_is_kept_for_seven_days)
{
    const auto id = add_done();

    clock().advance(7 * a_day - 1us);
    EXPECT_EQ(clean(db()).finished, 0U);
    EXPECT_TRUE(exists(id));

    clock().advance(1us);
    const auto report = clean(db());
    EXPECT_EQ(report.finished, 1U);
    EXPECT_EQ(report.dead, 0U);
    EXPECT_FALSE(exists(id));
    EXPECT_EQ(total(), 0U);
    EXPECT_EQ(clean(db()).finished, 0U);
}

// Proves: OUT-14
TEST_P(cleaning, cancelled_and_expired_messages_are_kept_as_long)
{
    const auto cancelled = add_cancelled();
    const auto expired = add_expired();
    const auto ended_at = now();

    clock().set(ended_at + 7 * a_day - 2us);
    EXPECT_EQ(clean(db()).finished, 0U);
    EXPECT_TRUE(exists(cancelled));
    EXPECT_TRUE(exists(expired));

    clock().set(ended_at + 7 * a_day);
    EXPECT_EQ(clean(db()).finished, 2U);
    EXPECT_FALSE(exists(cancelled));
    EXPECT_FALSE(exists(expired));
}

// Proves: OUT-14
TEST_P(cleaning, the_time_counts_from_the_end_of_a_message)
{
    const auto id = add("orders", {.delay = 6 * a_day});
    clock().advance(6 * a_day);
    ASSERT_THAT(work_off(), ElementsAre(id));

    clock().advance(7 * a_day - 1us);
    EXPECT_EQ(clean(db()).finished, 0U);
    clock().advance(1us);
    EXPECT_EQ(clean(db()).finished, 1U);
}

// Proves: OUT-14
TEST_P(cleaning, what_ended_later_stays_longer)
{
    const auto early = add_done();
    clock().advance(a_day);
    const auto late = add_done();

    clock().advance(6 * a_day);
    EXPECT_EQ(clean(db()).finished, 1U);
    EXPECT_FALSE(exists(early));
    EXPECT_TRUE(exists(late));
}

// Proves: OUT-14
TEST_P(cleaning, another_time_can_be_configured)
{
    add_done();
    clock().advance(1h - 1us);
    EXPECT_EQ(clean(db(), {.finished = 1h}).finished, 0U);
    clock().advance(1us);
    EXPECT_EQ(clean(db(), {.finished = 1h}).finished, 1U);
}

// Proves: OUT-14
TEST_P(cleaning, with_no_time_at_all_the_next_cleaning_removes_what_has_ended)
{
    add_done();
    add_cancelled();
    add_expired();

    EXPECT_EQ(clean(db(), {.finished = 0s}).finished, 3U);
    EXPECT_EQ(total(), 0U);
}

// Proves: OUT-14
TEST_P(cleaning, dead_letters_stay_unless_configured_otherwise)
{
    const auto id = add_dead();
    clock().advance(10 * 365 * a_day);

    EXPECT_EQ(clean(db()).dead, 0U);
    EXPECT_EQ(clean(db(), {.finished = 0s}).dead, 0U);

    EXPECT_EQ(state_of(id), message_state::dead);
}

// Proves: OUT-14
TEST_P(cleaning, dead_letters_can_have_a_time_of_their_own)
{
    const auto id = add("orders", {.delay = a_day});
    clock().advance(a_day);
    ASSERT_EQ(fail(claim_one()), settled_as::dead);
    const auto finished = add_done();
    const retention rules{.finished = 7 * a_day, .dead = 2 * a_day};

    clock().advance(2 * a_day - 1us);
    EXPECT_EQ(clean(db(), rules).dead, 0U);
    EXPECT_TRUE(exists(id));
    clock().advance(1us);
    const auto report = clean(db(), rules);
    EXPECT_EQ(report.dead, 1U);
    EXPECT_EQ(report.finished, 0U);
    EXPECT_FALSE(exists(id));
    EXPECT_TRUE(exists(finished));
}

// Proves: OUT-06, OUT-14
TEST_P(cleaning, a_removed_dead_letter_no_longer_blocks_its_key)
{
    add_dead("broken", "orders", {.ordering_key = "k"});
    const auto next = add_keyed("k");
    clock().advance(a_day);

    ASSERT_EQ(clean(db(), {.dead = a_day}).dead, 1U);

    EXPECT_THAT(list_blocked_keys(db()), IsEmpty());
    EXPECT_THAT(work_off(), ElementsAre(next));
}

// Proves: OUT-14, I2
TEST_P(cleaning, what_has_not_ended_is_never_removed)
{
    const auto claimed = add();
    ASSERT_EQ(claim().size(), 1U);
    const auto retrying = add();
    ASSERT_EQ(abandon(claim_one(), 10 * 365 * a_day, "later"), settled_as::retrying);
    const auto redriven = add_dead();
    ASSERT_TRUE(redrive(db(), redriven));
    const auto unstarted = claim(1, 0).receipts();
    ASSERT_EQ(abandon(unstarted[0]), settled_as::released);
    const auto ready = add();
    const auto delayed = add("orders", {.delay = 10 * 365 * a_day});
    const auto expiring = add("orders", {.expires_after = 1h});
    const auto head = add_keyed("k", {.delay = 10 * 365 * a_day});
    const auto waiting = add_keyed("k");
    const std::vector ids{claimed, retrying, redriven, ready, delayed, expiring, head, waiting};
    const auto before = states_of(ids);
    clock().advance(5 * 365 * a_day);

    const auto report = clean(db(), {.finished = 0s, .dead = 0s});

    EXPECT_EQ(report.finished + report.dead, 0U);
    EXPECT_EQ(states_of(ids), before);
    EXPECT_THAT(claimed_ids(), ElementsAre(redriven, ready));
    clock().advance(6 * 365 * a_day);
    EXPECT_THAT(claimed_ids(), ElementsAre(retrying, delayed, head));
}

// Proves: OUT-14
TEST_P(cleaning, no_more_batches_run_than_allowed)
{
    add_many(25);
    ASSERT_EQ(work_off().size(), 25U);
    const retention rules{.finished = 0s, .batch = 10};

    EXPECT_EQ(clean(db(), rules, 0).finished, 0U);
    EXPECT_EQ(total(), 25U);
    EXPECT_EQ(clean(db(), rules, 1).finished, 10U);
    EXPECT_EQ(total(), 15U);
    EXPECT_EQ(clean(db(), rules, 2).finished, 15U);
    EXPECT_EQ(total(), 0U);
    EXPECT_EQ(clean(db(), rules, 2).finished, 0U);
}

// Proves: OUT-14
TEST_P(cleaning, the_oldest_go_first)
{
    const std::vector ids{add(), add(), add()};
    const auto r = claim().receipts();
    for (const auto i : {0U, 1U, 2U}) {
        ASSERT_EQ(acknowledge(r[i]), settled_as::done);
        clock().advance(1s);
    }

    ASSERT_EQ(clean(db(), {.finished = 0s, .batch = 1}, 1).finished, 1U);
    EXPECT_FALSE(exists(ids[0]));
    ASSERT_EQ(clean(db(), {.finished = 0s, .batch = 1}, 1).finished, 1U);
    EXPECT_FALSE(exists(ids[1]));
    EXPECT_TRUE(exists(ids[2]));
}

// Proves: OUT-14
TEST_P(cleaning, all_batches_run_when_nothing_limits_them)
{
    add_many(1'203);
    ASSERT_EQ(work_off(2'000).size(), 1'203U);
    for (int i = 0; i < 7; ++i)
        add_dead();

    const auto report = clean(db(), {.finished = 0s, .dead = 0s, .batch = 5});

    EXPECT_EQ(report.finished, 1'203U);
    EXPECT_EQ(report.dead, 7U);
    EXPECT_EQ(total(), 0U);
}

// Proves: OUT-07, OUT-14
TEST_P(cleaning, a_dedup_key_outlives_its_message_until_its_window_has_passed)
{
    const enqueue_options how{.dedup_key = "order 7", .dedup_window = 1h};
    const auto first = add("orders", how);
    ASSERT_THAT(work_off(), ElementsAre(first));
    clock().advance(1h - 1us);
    const auto early = clean(db(), {.finished = 0s});
    EXPECT_EQ(early.finished, 1U);
    EXPECT_EQ(early.dedup_keys, 0U);
    ASSERT_FALSE(exists(first));

    const auto again = enqueue(db(), {.topic = "orders", .payload = ""}, how);
    EXPECT_TRUE(again.duplicate);
    EXPECT_EQ(again.id, first);
    EXPECT_EQ(total(), 0U);

    clock().advance(1us);
    EXPECT_EQ(clean(db()).dedup_keys, 1U);
    EXPECT_EQ(clean(db()).dedup_keys, 0U);
    const auto later = enqueue(db(), {.topic = "orders", .payload = ""}, how);
    EXPECT_FALSE(later.duplicate);
    EXPECT_NE(later.id, first);
    EXPECT_THAT(work_off(), ElementsAre(later.id));
}

// Proves: OUT-07, OUT-14
TEST_P(cleaning, forgetting_a_dedup_key_leaves_its_message_and_other_keys_alone)
{
    const auto id = add("orders", {.delay = 30 * a_day, .dedup_key = "short", .dedup_window = 1h});
    add("orders", {.delay = 30 * a_day, .dedup_key = "long", .dedup_window = 2h});
    clock().advance(1h);

    EXPECT_EQ(clean(db()).dedup_keys, 1U);

    EXPECT_EQ(state_of(id), message_state::ready);
    EXPECT_TRUE(enqueue(db(), {.topic = "orders", .payload = ""}, {.dedup_key = "long"}).duplicate);
}

// Proves: OUT-07, OUT-14
TEST_P(cleaning, dedup_keys_are_forgotten_in_batches_too)
{
    for (int i = 0; i < 7; ++i)
        add("orders", {.dedup_key = std::to_string(i), .dedup_window = 1h});
    clock().advance(1h);

    EXPECT_EQ(clean(db(), {.batch = 3}, 1).dedup_keys, 3U);
    EXPECT_EQ(clean(db(), {.batch = 3}).dedup_keys, 4U);
}

// Proves: OUT-14, F21
TEST_P(cleaning, rules_that_make_no_sense_are_refused)
{
    add_done();
    const auto refused = [&](const retention& rules) {
        return thrown_by([&] { clean(db(), rules); }).code();
    };
    EXPECT_EQ(refused({.batch = 0}), error_code::invalid_argument);
    EXPECT_EQ(refused({.finished = -1us}), error_code::invalid_argument);
    EXPECT_EQ(refused({.dead = -1us}), error_code::invalid_argument);
    EXPECT_EQ(total(), 1U);
}

// Proves: OUT-14, I2
TEST_P(cleaning, after_everything_is_gone_new_messages_are_delivered)
{
    for (int round = 0; round < 3; ++round) {
        add_many(20);
        add_keyed("k");
        const auto last = add();
        const auto before = look(last).position;
        const auto old = claim();
        ASSERT_EQ(old.size(), 22U);
        ASSERT_EQ(box().acknowledge(alice, old.receipts()).settled(), 22U);
        add_cancelled();
        ASSERT_EQ(clean(db(), {.finished = 0s}).finished, 23U);
        ASSERT_EQ(total(), 0U);

        const auto plain = add();
        const auto keyed = add_keyed("k");
        EXPECT_GT(look(plain).position, before);
        EXPECT_EQ(box().acknowledge(alice, old.receipts()).lost(), 22U);
        EXPECT_THAT(work_off(), ElementsAre(plain, keyed));
        ASSERT_EQ(clean(db(), {.finished = 0s}).finished, 2U);
    }
}

// Proves: OUT-14
TEST_P(cleaning, a_store_can_forget_messages_the_moment_they_are_done)
{
    auto forgetful = box_with({.keep_done = false});
    const auto plain = add();
    const auto first = add_keyed("k");
    const auto second = add_keyed("k");
    const auto claimed = forgetful.claim(alice);
    ASSERT_THAT(ids_of(claimed), ElementsAre(plain, first));

    EXPECT_THAT(forgetful.acknowledge(alice, claimed.receipts()).answers,
                ElementsAre(settled_as::done, settled_as::done));

    EXPECT_FALSE(exists(plain));
    EXPECT_FALSE(exists(first));
    EXPECT_EQ(count_messages(db()).done, 0);
    EXPECT_EQ(forgetful.acknowledge(alice, claimed.receipts()).lost(), 2U);
    EXPECT_EQ(cancel(db(), plain), cancel_answer::not_found);
    EXPECT_THAT(ids_of(forgetful.claim(bob)), ElementsAre(second));
}

// Proves: OUT-14, I2
TEST_P(cleaning, a_forgetful_store_keeps_what_failed_and_what_was_called_off)
{
    auto forgetful = box_with({.keep_done = false});
    const auto ids = add_many(3);
    const auto r = forgetful.claim(alice, {.start = 2}).receipts();
    forgetful.fail(alice, std::vector{r[0]}, "broken");
    forgetful.abandon(alice, std::vector{r[1]}, 1h, "later");
    ASSERT_EQ(cancel(db(), ids[2]), cancel_answer::cancelled);

    EXPECT_THAT(states_of(ids),
                ElementsAre(message_state::dead, message_state::ready, message_state::cancelled));
}

// Proves: OUT-07, OUT-14
TEST_P(cleaning, a_forgetful_store_still_knows_its_dedup_keys)
{
    auto forgetful = box_with({.keep_done = false});
    const auto id = add("orders", {.dedup_key = "order 7"});
    forgetful.acknowledge(alice, forgetful.claim(alice).receipts());
    ASSERT_FALSE(exists(id));

    const auto again = enqueue(db(), {.topic = "orders", .payload = ""}, {.dedup_key = "order 7"});
    EXPECT_TRUE(again.duplicate);
    EXPECT_EQ(again.id, id);
    EXPECT_TRUE(forgetful.claim(alice).empty());
}

} // namespace

CONFORMANCE_SUITE(cleaning);

} // namespace posthorn::conformance
