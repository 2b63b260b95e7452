// Dedup keys: inside the window of a key the first message is the only one, and later enqueues
// learn its id, whatever has become of it.
#include "conformance/conformance_test.hpp"

namespace posthorn::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class dedup : public conformance_test {
protected:
    enqueued send(const std::string& key, const std::string& topic = "orders", duration window = 1h)
    {
        return enqueue(db(), {.topic = topic, .payload = "payload"},
                       {.dedup_key = key, .dedup_window = window});
    }

    /// The key still stands for `first`, and nothing is added.
    void expect_duplicate_of(const enqueued& first, const std::string& key)
    {
        const auto before = total();
        const auto again = send(key);
        EXPECT_TRUE(again.duplicate);
        EXPECT_EQ(again.id, first.id);
        EXPECT_EQ(again.position, first.position);
        EXPECT_EQ(total(), before);
    }
};

// Proves: OUT-07
TEST_P(dedup, a_repeated_key_gives_the_first_message_and_adds_nothing)
{
    const auto first = send("a");
    EXPECT_FALSE(first.duplicate);
    expect_duplicate_of(first, "a");
    expect_duplicate_of(first, "a");
    EXPECT_EQ(total(), 1U);
    EXPECT_THAT(claimed_ids(), ElementsAre(first.id));
}

// Proves: OUT-07
TEST_P(dedup, a_repetition_changes_nothing_about_the_first_message)
{
    const auto first = send("a");
    const auto again = enqueue(db(), {.topic = "orders", .payload = "another"},
                               {.ordering_key = "k",
                                .priority = 5,
                                .delay = 1h,
                                .expires_after = 2h,
                                .dedup_key = "a",
                                .correlation_id = "c",
                                .headers = {{"x", "y"}}});
    EXPECT_TRUE(again.duplicate);
    EXPECT_EQ(again.id, first.id);
    const auto found = look(first.id);
    EXPECT_EQ(found.payload, "payload");
    EXPECT_EQ(found.ordering_key, "");
    EXPECT_EQ(found.priority, 0);
    EXPECT_EQ(found.due_at, now());
    EXPECT_EQ(found.expires_at, std::nullopt);
    EXPECT_EQ(found.correlation_id, "");
    EXPECT_EQ(found.headers, headers{});
    // Its ordering key is not held by a message that does not exist.
    EXPECT_EQ(state_of(add_keyed("k")), message_state::ready);
}

// Proves: OUT-07
TEST_P(dedup, a_key_belongs_to_its_topic)
{
    const auto orders = send("a", "orders");
    const auto invoices = send("a", "invoices");
    const auto upper_case = send("a", "Orders");
    EXPECT_FALSE(invoices.duplicate);
    EXPECT_FALSE(upper_case.duplicate);
    EXPECT_EQ(send("a", "orders").id, orders.id);
    EXPECT_EQ(send("a", "invoices").id, invoices.id);
    EXPECT_EQ(send("a", "Orders").id, upper_case.id);
    EXPECT_EQ(total(), 3U);
}

// Proves: OUT-07
TEST_P(dedup, keys_are_compared_byte_by_byte)
{
    for (const auto* key : {"a", "A", " a", "a ", "ä", "a\xcc\x88"})
        EXPECT_FALSE(send(key).duplicate) << key;
    EXPECT_EQ(total(), 6U);
    EXPECT_TRUE(send("a\xcc\x88").duplicate);
}

// Proves: OUT-07
TEST_P(dedup, an_empty_key_is_none)
{
    EXPECT_FALSE(send("").duplicate);
    EXPECT_FALSE(send("").duplicate);
    EXPECT_EQ(total(), 2U);
}

// Proves: OUT-07
TEST_P(dedup, the_window_ends_when_the_clock_says_so)
{
    const auto first = send("a", "orders", 10min);
    clock().advance(10min - 1us);
    expect_duplicate_of(first, "a");
    clock().advance(1us);
    const auto second = send("a");
    EXPECT_FALSE(second.duplicate);
    EXPECT_NE(second.id, first.id);
    EXPECT_EQ(total(), 2U);
}

// Proves: OUT-07
TEST_P(dedup, a_repetition_does_not_make_the_window_longer)
{
    const auto first = send("a", "orders", 10min);
    clock().advance(9min);
    EXPECT_TRUE(send("a", "orders", 24h).duplicate);
    clock().advance(1min);
    const auto second = send("a", "orders", 5min);
    EXPECT_FALSE(second.duplicate);
    EXPECT_NE(second.id, first.id);
}

// Proves: OUT-07
TEST_P(dedup, a_new_message_opens_a_new_window)
{
    send("a", "orders", 10min);
    clock().advance(10min);
    const auto second = send("a", "orders", 20min);
    ASSERT_FALSE(second.duplicate);
    clock().advance(20min - 1us);
    expect_duplicate_of(second, "a");
    clock().advance(1us);
    EXPECT_FALSE(send("a").duplicate);
}

// Proves: OUT-07
TEST_P(dedup, a_window_lasts_a_day_unless_told_otherwise)
{
    const enqueue_options how{.dedup_key = "a"};
    const auto first = add("orders", how);
    clock().advance(24h - 1us);
    EXPECT_EQ(add("orders", how), first);
    clock().advance(1us);
    EXPECT_NE(add("orders", how), first);
}

// Proves: OUT-07
TEST_P(dedup, a_key_stands_for_its_message_however_that_ended)
{
    const auto finished = send("done");
    EXPECT_THAT(work_off(), ElementsAre(finished.id));
    const auto failed = send("dead");
    EXPECT_EQ(fail(claim_one()), settled_as::dead);
    const auto withdrawn = send("cancelled");
    EXPECT_EQ(cancel(db(), withdrawn.id), cancel_answer::cancelled);
    const auto held = send("claimed");
    (void)claim_one();
    expect_duplicate_of(finished, "done");
    expect_duplicate_of(failed, "dead");
    expect_duplicate_of(withdrawn, "cancelled");
    expect_duplicate_of(held, "claimed");
    EXPECT_THAT(claimed_ids(), IsEmpty());
}

// Proves: OUT-07, OUT-14
TEST_P(dedup, a_key_outlives_a_message_that_was_cleaned_away)
{
    const auto first = send("a", "orders", 1h);
    work_off();
    EXPECT_EQ(clean(db(), {.finished = 0s}).finished, 1U);
    EXPECT_EQ(find_message(db(), first.id), std::nullopt);
    expect_duplicate_of(first, "a");
    clock().advance(1h);
    EXPECT_FALSE(send("a").duplicate);
    EXPECT_EQ(total(), 1U);
}

// Proves: OUT-07, OUT-14
TEST_P(dedup, cleaning_keeps_keys_whose_window_is_open)
{
    const auto first = send("open", "orders", 2h);
    send("over", "orders", 1h);
    clock().advance(1h);
    EXPECT_EQ(clean(db()).dedup_keys, 1U);
    expect_duplicate_of(first, "open");
    EXPECT_FALSE(send("over").duplicate);
}

// Proves: OUT-07, I1
TEST_P(dedup, a_first_message_that_was_rolled_back_does_not_count)
{
    auto tx = db().begin();
    const auto lost = enqueue(tx, {"orders", ""}, {.dedup_key = "a"});
    EXPECT_FALSE(lost.duplicate);
    tx.rollback();
    const auto first = send("a");
    EXPECT_FALSE(first.duplicate);
    EXPECT_NE(first.id, lost.id);
    expect_duplicate_of(first, "a");
}

// Proves: OUT-07
TEST_P(dedup, a_repetition_in_the_same_transaction_is_found)
{
    auto tx = db().begin();
    const auto first = enqueue(tx, {"orders", ""}, {.dedup_key = "a"});
    const auto again = enqueue(tx, {"orders", ""}, {.dedup_key = "a"});
    tx.commit();
    EXPECT_TRUE(again.duplicate);
    EXPECT_EQ(again.id, first.id);
    EXPECT_EQ(total(), 1U);
}

// Proves: OUT-07, OUT-08
TEST_P(dedup, a_bulk_may_repeat_itself_and_what_came_before)
{
    const auto before = send("old");
    const auto answers =
        enqueue(db(), std::vector<outgoing>{{{"orders", "1"}, {.dedup_key = "new"}},
                                            {{"orders", "2"}},
                                            {{"orders", "3"}, {.dedup_key = "old"}},
                                            {{"orders", "4"}, {.dedup_key = "new"}},
                                            {{"invoices", "5"}, {.dedup_key = "new"}},
                                            {{"orders", "6"}}});
    ASSERT_EQ(answers.size(), 6U);
    std::vector<bool> duplicates;
    for (const auto& each : answers)
        duplicates.push_back(each.duplicate);
    EXPECT_THAT(duplicates, ElementsAre(false, false, true, true, false, false));
    EXPECT_EQ(answers[2].id, before.id);
    EXPECT_EQ(answers[2].position, before.position);
    EXPECT_EQ(answers[3].id, answers[0].id);
    EXPECT_EQ(answers[3].position, answers[0].position);
    EXPECT_THAT(work_off(),
                ElementsAre(before.id, answers[0].id, answers[1].id, answers[4].id, answers[5].id));
    EXPECT_EQ(total(), 5U);
}

// Proves: OUT-03, OUT-07
TEST_P(dedup, an_id_of_the_callers_own_yields_to_the_first_message)
{
    const auto own = message_id::parse("018bcfe5-687b-7fff-bfff-000000000001").value();
    const auto other = message_id::parse("018bcfe5-687b-7fff-bfff-000000000002").value();
    EXPECT_EQ(add("orders", {.id = own, .dedup_key = "a"}), own);
    EXPECT_EQ(add("orders", {.id = other, .dedup_key = "a"}), own);
    EXPECT_EQ(find_message(db(), other), std::nullopt);
    // A producer that repeats itself word for word has made no mistake.
    EXPECT_EQ(add("orders", {.id = own, .dedup_key = "a"}), own);
    EXPECT_EQ(total(), 1U);
}

// Proves: OUT-02, OUT-07
TEST_P(dedup, a_repetition_must_be_valid_too)
{
    send("a");
    const auto refused = thrown_by([&] {
        enqueue(db(), {"orders", ""}, {.dedup_key = "a", .headers = {{"", "x"}}});
    });
    EXPECT_EQ(refused.code(), error_code::invalid_argument);
    EXPECT_EQ(total(), 1U);
}

// Proves: OUT-04, OUT-05, OUT-06, OUT-07
TEST_P(dedup, every_kind_of_message_can_have_a_key)
{
    const auto keyed = add("orders", {.ordering_key = "k", .dedup_key = "1"});
    const auto delayed = add("orders", {.delay = 1s, .dedup_key = "2"});
    const auto urgent = add("orders", {.priority = 1, .dedup_key = "3"});
    EXPECT_EQ(send("1").id, keyed);
    EXPECT_EQ(send("2").id, delayed);
    EXPECT_EQ(send("3").id, urgent);
    EXPECT_THAT(work_off(), ElementsAre(urgent, keyed));
    clock().advance(1s);
    EXPECT_THAT(work_off(), ElementsAre(delayed));
}

CONFORMANCE_SUITE(dedup);

} // namespace
} // namespace posthorn::conformance
