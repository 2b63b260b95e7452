// The outlook: one look tells an idle worker whether there is anything to do, and otherwise how
// long it may sleep unless somebody enqueues.
#include "conformance/conformance_test.hpp"
#include "store/contract/backend.hpp"

#include <utility>

namespace posthorn::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

class outlooks : public conformance_test {
protected:
    contract::outlook view() { return db().backend().outlook(); }

    void expect_due() { EXPECT_TRUE(view().due); }

    void expect_rest(std::optional<duration> next)
    {
        const auto seen = view();
        EXPECT_FALSE(seen.due);
        EXPECT_EQ(seen.next, next);
    }

    void put_aside(park_reason why)
    {
        for (const auto& each : claim().receipts()) {
            const settlement one{each, park(why)};
            ASSERT_THAT(box().settle(alice, {&one, 1}).answers, ElementsAre(settled_as::parked));
        }
    }

    std::vector<std::pair<std::string, park_reason>> parked_topics()
    {
        std::vector<std::pair<std::string, park_reason>> result;
        for (const auto& each : view().parked)
            result.emplace_back(each.topic, each.reason);
        return result;
    }
};

TEST_P(outlooks, an_empty_store_has_nothing_to_wait_for)
{
    const auto seen = view();
    EXPECT_FALSE(seen.due);
    EXPECT_EQ(seen.next, std::nullopt);
    EXPECT_THAT(seen.parked, IsEmpty());
    EXPECT_THAT(seen.pauses, IsEmpty());
}

TEST_P(outlooks, a_message_that_can_be_claimed_is_due)
{
    add();
    expect_due();
    expect_due(); // looking changes nothing
    EXPECT_EQ(work_off().size(), 1U);
    expect_rest(std::nullopt);
}

TEST_P(outlooks, each_kind_of_message_is_due)
{
    for (const auto& how : {enqueue_options{.priority = 9},
                            {.priority = -9},
                            {.ordering_key = "k"},
                            {.expires_after = 1h},
                            {.due_at = now() - 1h}}) {
        add("orders", how);
        expect_due();
        EXPECT_EQ(work_off().size(), 1U);
        expect_rest(std::nullopt);
    }
}

TEST_P(outlooks, a_delayed_message_says_how_long_to_wait)
{
    add("orders", {.delay = 10s});
    expect_rest(10s);
    clock().advance(4s);
    expect_rest(6s);
    clock().advance(6s - 1us);
    expect_rest(1us);
    clock().advance(1us);
    expect_due();
}

TEST_P(outlooks, the_nearest_of_all_times_counts)
{
    add("orders", {.priority = 9, .delay = 30s});
    expect_rest(30s);
    add("orders", {.priority = -9, .delay = 20s});
    expect_rest(20s);
    add("orders", {.ordering_key = "k", .delay = 10s});
    (void)claim(); // where keys are looked after when somebody claims
    expect_rest(10s);
    add("orders", {.delay = 15s});
    expect_rest(10s);
    clock().advance(10s);
    expect_due();
    EXPECT_EQ(work_off().size(), 1U);
    expect_rest(5s);
}

TEST_P(outlooks, a_claimed_batch_counts_until_its_lease_ends)
{
    add();
    const auto claimed = claim();
    expect_rest(30s);
    clock().advance(20s);
    expect_rest(10s);
    ASSERT_TRUE(box().renew(alice, claimed.fence, 30s));
    expect_rest(30s);
    clock().advance(30s);
    expect_due();
    ASSERT_EQ(box().reap_expired().batches, 1U);
    EXPECT_FALSE(view().due && claim().empty());
}

TEST_P(outlooks, what_is_settled_counts_no_more)
{
    const auto ids = add_many(3);
    const auto r = claim().receipts();
    ASSERT_EQ(acknowledge(r[0]), settled_as::done);
    expect_rest(30s);
    ASSERT_EQ(fail(r[1]), settled_as::dead);
    ASSERT_EQ(acknowledge(r[2]), settled_as::done);
    expect_rest(std::nullopt);
    EXPECT_EQ(ids.size(), 3U);
}

TEST_P(outlooks, what_comes_back_later_says_when)
{
    add_many(2);
    const auto r = claim().receipts();
    ASSERT_EQ(abandon(r[0], 7s, "later"), settled_as::retrying);
    const settlement put_off{r[1], postpone(3s)};
    ASSERT_THAT(box().settle(alice, {&put_off, 1}).answers, ElementsAre(settled_as::released));
    expect_rest(3s);
    clock().advance(3s);
    expect_due();
    EXPECT_EQ(work_off().size(), 1U);
    expect_rest(4s);
}

// Proves: OUT-04
TEST_P(outlooks, an_expiry_counts_even_for_what_cannot_start)
{
    add_keyed("k");
    add_keyed("k", {.expires_after = 5s});
    ASSERT_EQ(claim().size(), 1U);
    ASSERT_TRUE(claim().empty());
    expect_rest(5s);
    clock().advance(5s);
    expect_due();
    ASSERT_EQ(box().expire_due(), 1U);
    expect_rest(25s);
}

// Proves: OUT-06
TEST_P(outlooks, what_waits_for_its_key_is_not_due_once_a_claim_has_looked)
{
    const auto head = add_keyed("k");
    expect_due();
    const auto claimed = claim();
    ASSERT_THAT(ids_of(claimed), ElementsAre(head));
    const auto next = add_keyed("k");
    EXPECT_TRUE(claim().empty());
    expect_rest(30s);
    ASSERT_EQ(acknowledge(claimed.deliveries[0].receipt), settled_as::done);
    expect_due();
    EXPECT_THAT(work_off(), ElementsAre(next));
    expect_rest(std::nullopt);
}

TEST_P(outlooks, many_that_are_not_due_do_not_look_due_once_a_claim_has_looked)
{
    const std::vector<outgoing> all(
        1'500, {.message = {.topic = "orders", .payload = ""}, .options = {.delay = 1h}});
    enqueue(db(), all);
    EXPECT_TRUE(claim().empty());
    expect_rest(1h);
    add();
    expect_due();
    EXPECT_EQ(work_off().size(), 1U);
    expect_rest(1h);
}

TEST_P(outlooks, what_is_over_counts_nothing)
{
    add_dead();
    add_dead("broken", "orders", {.ordering_key = "k"});
    const auto cancelled = add("orders", {.delay = 1h});
    ASSERT_EQ(cancel(db(), cancelled), cancel_answer::cancelled);
    add("orders", {.expires_after = 1s});
    clock().advance(1s);
    ASSERT_EQ(box().expire_due(), 1U);
    expect_rest(std::nullopt);
}

// Proves: OUT-15
TEST_P(outlooks, parked_messages_are_named_by_topic_and_are_not_due)
{
    add_many(3, "b");
    add("a");
    put_aside(park_reason::paused);
    add_many(2, "c");
    add_keyed("k");
    put_aside(park_reason::no_handler);
    add_many(2, "a");
    put_aside(park_reason::at_limit);
    expect_rest(std::nullopt);
    EXPECT_THAT(parked_topics(),
                UnorderedElementsAre(Pair("a", park_reason::paused), Pair("b", park_reason::paused),
                                     Pair("c", park_reason::no_handler),
                                     Pair("orders", park_reason::no_handler)));
    ASSERT_EQ(box().claim(alice, {.limit = 5, .unpark = {"a", "b"}}).size(), 5U);
    EXPECT_THAT(parked_topics(), UnorderedElementsAre(Pair("a", park_reason::at_limit),
                                                      Pair("c", park_reason::no_handler),
                                                      Pair("orders", park_reason::no_handler)));
    expect_rest(30s);
}

// Proves: OUT-15
TEST_P(outlooks, many_parked_topics_are_all_named)
{
    std::vector<std::string> topics;
    for (int i = 0; i < 200; ++i) {
        topics.push_back("topic " + std::to_string(1'000 + i));
        add_many(2, topics.back());
    }
    std::vector<settlement> all;
    for (const auto& each : claim(1'000).receipts())
        all.push_back({each, park(park_reason::no_handler)});
    box().settle(alice, all);
    std::vector<std::string> named;
    for (const auto& each : view().parked)
        named.push_back(each.topic);
    EXPECT_THAT(named, ::testing::UnorderedElementsAreArray(topics));
}

// Proves: OUT-04, OUT-15
TEST_P(outlooks, the_expiry_of_a_parked_message_counts)
{
    add("orders", {.expires_after = 10s});
    put_aside(park_reason::no_handler);
    expect_rest(10s);
    clock().advance(10s);
    expect_due();
    ASSERT_EQ(box().expire_due(), 1U);
    expect_rest(std::nullopt);
    EXPECT_THAT(view().parked, IsEmpty());
}

TEST_P(outlooks, pauses_are_told_and_hide_nothing)
{
    ASSERT_TRUE(pause(db()));
    clock().advance(1s);
    ASSERT_TRUE(pause(db(), "orders"));
    std::vector<std::pair<std::string, timestamp>> told;
    for (const auto& each : view().pauses)
        told.emplace_back(each.topic, each.since);
    EXPECT_THAT(told, UnorderedElementsAre(Pair("", now() - 1s), Pair("orders", now())));
    expect_rest(std::nullopt);
    add("orders", {.delay = 5s});
    expect_rest(5s);
    add();
    expect_due();
}

CONFORMANCE_SUITE(outlooks);

class outlooks_beside_writers : public conformance_test {};

// Proves: I1
TEST_P(outlooks_beside_writers, a_look_waits_for_nobody_and_sees_what_is_committed)
{
    auto impatient = under_test().open_impatient({.environment = world()});
    auto tx = db().begin();
    enqueue(tx, {"orders", ""});
    enqueue(tx, {"orders", ""}, {.ordering_key = "k"});
    for (auto* handle : {&db(), &impatient}) {
        EXPECT_FALSE(handle->backend().outlook().due);
        EXPECT_EQ(handle->backend().outlook().next, std::nullopt);
    }
    tx.commit();
    EXPECT_TRUE(db().backend().outlook().due);
    EXPECT_TRUE(impatient.backend().outlook().due);
}

// Proves: I1
TEST_P(outlooks_beside_writers, a_look_does_not_wait_for_whoever_calls_off_a_parked_message)
{
    auto impatient = under_test().open_impatient({.environment = world()});
    const std::vector<message_id> ids{add("first"), add("second"), add("third")};
    for (const auto& each : claim().receipts()) {
        const settlement one{each, park(park_reason::paused)};
        ASSERT_THAT(box().settle(alice, {&one, 1}).answers, ElementsAre(settled_as::parked));
    }
    auto tx = db().begin();
    for (const auto id : {ids[0], ids[1]})
        EXPECT_EQ(cancel(tx, id), cancel_answer::cancelled);
    EXPECT_EQ(impatient.backend().outlook().parked.size(), 3U);
    tx.commit();
    EXPECT_EQ(impatient.backend().outlook().parked.size(), 1U);
}

CONFORMANCE_SUITE(outlooks_beside_writers);

} // namespace
} // namespace posthorn::conformance
