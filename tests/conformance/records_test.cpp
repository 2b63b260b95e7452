// Records: what can be seen of a message at every step of its life, and how messages are found and
// counted.
#include "conformance/conformance_test.hpp"

namespace posthorn::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class records : public conformance_test {
protected:
    std::vector<message_id> find(const message_filter& filter)
    {
        return ids_of(list_messages(db(), filter));
    }
};

// Proves: OUT-12
TEST_P(records, a_new_message_shows_what_was_enqueued)
{
    const enqueue_options how{.ordering_key = "customer 7",
                              .priority = -3,
                              .delay = 1h,
                              .expires_after = 2h,
                              .correlation_id = "request 1",
                              .causation_id = "message 0",
                              .headers = {{"tenant", "ä"}}};
    const std::string payload("\0any bytes\xff", 11);
    const auto added = enqueue(db(), {.topic = "order.placed", .payload = payload}, how);

    const auto record = look(added.id);

    EXPECT_EQ(record.id, added.id);
    EXPECT_EQ(record.position, added.position);
    EXPECT_EQ(record.state, message_state::ready);
    EXPECT_EQ(record.topic, "order.placed");
    EXPECT_EQ(record.payload, payload);
    EXPECT_EQ(record.payload_bytes, 11U);
    EXPECT_EQ(record.ordering_key, "customer 7");
    EXPECT_EQ(record.correlation_id, "request 1");
    EXPECT_EQ(record.causation_id, "message 0");
    EXPECT_EQ(record.headers, how.headers);
    EXPECT_EQ(record.priority, -3);
    EXPECT_EQ(record.created_at, now());
    EXPECT_EQ(record.due_at, now() + 1h);
    EXPECT_EQ(record.expires_at, now() + 2h);
}

// Proves: OUT-12
TEST_P(records, a_new_message_has_no_history)
{
    for (const auto id : {add(), add_keyed("k")}) {
        const auto record = look(id);
        EXPECT_EQ(record.state, message_state::ready);
        EXPECT_FALSE(record.started);
        EXPECT_FALSE(record.blocks_key);
        EXPECT_EQ(record.due_at, record.created_at);
        EXPECT_EQ(record.expires_at, std::nullopt);
        EXPECT_EQ(record.started_at, std::nullopt);
        EXPECT_EQ(record.failed_at, std::nullopt);
        EXPECT_EQ(record.finished_at, std::nullopt);
        EXPECT_EQ(record.lease_until, std::nullopt);
        EXPECT_EQ(record.attempts, 0);
        EXPECT_EQ(record.errors, 0);
        EXPECT_EQ(record.redrives, 0);
        EXPECT_EQ(record.last_error, "");
        EXPECT_EQ(record.worker, "");
        EXPECT_EQ(record.fence, fence{});
    }
}

// Proves: OUT-12
TEST_P(records, a_held_message_shows_who_holds_it_and_until_when)
{
    for (const auto id : {add(), add_keyed("k")}) {
        const auto claimed = box().claim(alice, {.lease = 45s, .limit = 1, .start = 0});
        const auto claimed_at = now();

        auto record = look(id);
        EXPECT_EQ(record.state, message_state::claimed);
        EXPECT_FALSE(record.started);
        EXPECT_EQ(record.started_at, std::nullopt);
        EXPECT_EQ(record.worker, "alice");
        EXPECT_EQ(record.fence, claimed.fence);
        EXPECT_EQ(record.lease_until, claimed_at + 45s);
        EXPECT_EQ(record.attempts, 0);

        clock().advance(5s);
        ASSERT_EQ(start(claimed.receipts()[0]), start_answer::started);
        record = look(id);
        EXPECT_EQ(record.state, message_state::claimed);
        EXPECT_TRUE(record.started);
        EXPECT_EQ(record.started_at, now());
        EXPECT_EQ(record.lease_until, claimed_at + 45s);
        EXPECT_EQ(record.finished_at, std::nullopt);
    }
}

// Proves: OUT-11, OUT-12
TEST_P(records, a_running_message_counts_its_current_start)
{
    const auto plain = add();
    const auto keyed = add_keyed("k");
    const auto first = claim();
    EXPECT_EQ(look(plain).attempts, 1);
    EXPECT_EQ(look(keyed).attempts, 1);

    box().abandon(alice, first.receipts(), 0s, "again");
    EXPECT_EQ(look(plain).attempts, 1);
    ASSERT_EQ(claim().size(), 2U);
    EXPECT_EQ(look(plain).attempts, 2);
    EXPECT_EQ(look(keyed).attempts, 2);
}

// Proves: OUT-12
TEST_P(records, a_message_that_is_done_shows_when_it_started_and_finished)
{
    const auto created_at = now();
    const auto plain = add();
    const auto keyed = add_keyed("k");
    clock().advance(2s);
    const auto claimed = claim();
    const auto started_at = now();
    clock().advance(3s);
    ASSERT_EQ(box().acknowledge(alice, claimed.receipts()).settled(), 2U);

    for (const auto id : {plain, keyed}) {
        const auto record = look(id);
        EXPECT_EQ(record.state, message_state::done);
        EXPECT_FALSE(record.started);
        EXPECT_EQ(record.created_at, created_at);
        EXPECT_EQ(record.started_at, started_at);
        EXPECT_EQ(record.failed_at, std::nullopt);
        EXPECT_EQ(record.finished_at, now());
        EXPECT_EQ(record.lease_until, std::nullopt);
        EXPECT_EQ(record.attempts, 1);
        EXPECT_EQ(record.errors, 0);
        EXPECT_EQ(record.last_error, "");
        EXPECT_EQ(record.worker, "alice");
        EXPECT_EQ(record.fence, claimed.fence);
    }
}

// Proves: OUT-12
TEST_P(records, a_failed_attempt_leaves_its_trace)
{
    for (const auto id : {add(), add_keyed("k")}) {
        const auto claimed = box().claim(bob, {.limit = 1});
        const auto started_at = now();
        clock().advance(4s);
        box().abandon(bob, claimed.receipts(), 1h, "no connection");

        const auto record = look(id);
        EXPECT_EQ(record.state, message_state::ready);
        EXPECT_FALSE(record.started);
        EXPECT_EQ(record.started_at, started_at);
        EXPECT_EQ(record.failed_at, now());
        EXPECT_EQ(record.finished_at, std::nullopt);
        EXPECT_EQ(record.due_at, now() + 1h);
        EXPECT_EQ(record.lease_until, std::nullopt);
        EXPECT_EQ(record.attempts, 1);
        EXPECT_EQ(record.errors, 1);
        EXPECT_EQ(record.last_error, "no connection");
        EXPECT_EQ(record.worker, "bob");
        EXPECT_EQ(record.fence, claimed.fence);
    }
}

// Proves: OUT-12
TEST_P(records, the_latest_failure_and_start_replace_the_earlier_ones)
{
    const auto id = add();
    ASSERT_EQ(abandon(claim_one(), 10s, "first"), settled_as::retrying);
    clock().advance(10s);
    const auto second = claim_one(bob);
    const auto started_at = now();
    clock().advance(1s);
    box().abandon(bob, std::vector{second}, 10s, "second");
    const auto failed_at = now();

    auto record = look(id);
    EXPECT_EQ(record.attempts, 2);
    EXPECT_EQ(record.errors, 2);
    EXPECT_EQ(record.last_error, "second");
    EXPECT_EQ(record.started_at, started_at);
    EXPECT_EQ(record.failed_at, failed_at);
    EXPECT_EQ(record.worker, "bob");

    clock().advance(10s);
    const auto third = claim_one();
    clock().advance(1s);
    ASSERT_EQ(acknowledge(third), settled_as::done);
    record = look(id);
    EXPECT_EQ(record.state, message_state::done);
    EXPECT_EQ(record.attempts, 3);
    EXPECT_EQ(record.errors, 2);
    EXPECT_EQ(record.last_error, "second");
    EXPECT_EQ(record.started_at, now() - 1s);
    EXPECT_EQ(record.failed_at, failed_at);
    EXPECT_EQ(record.finished_at, now());
    EXPECT_EQ(record.worker, "alice");
    EXPECT_EQ(record.fence, third.fence);
}

// Proves: OUT-09, OUT-12
TEST_P(records, a_cancelled_message_shows_when_it_was_called_off)
{
    const auto id = add();
    clock().advance(1s);
    ASSERT_EQ(cancel(db(), id), cancel_answer::cancelled);
    clock().advance(1s);

    const auto record = look(id);
    EXPECT_EQ(record.state, message_state::cancelled);
    EXPECT_EQ(record.finished_at, now() - 1s);
    EXPECT_EQ(record.started_at, std::nullopt);
    EXPECT_EQ(record.attempts, 0);
}

// Proves: OUT-04, OUT-12
TEST_P(records, an_expired_message_shows_when_that_was_noticed)
{
    const auto id = add("orders", {.expires_after = 5s});
    clock().advance(7s);
    ASSERT_EQ(box().expire_due(), 1U);

    const auto record = look(id);
    EXPECT_EQ(record.state, message_state::expired);
    EXPECT_EQ(record.finished_at, now());
    EXPECT_EQ(record.attempts, 0);
    EXPECT_EQ(record.errors, 0);
}

// Proves: OUT-10, OUT-12
TEST_P(records, a_reaped_message_shows_whose_it_was)
{
    const auto id = add();
    const auto held = claim_one();
    clock().advance(30s);
    ASSERT_EQ(box().reap_expired().retrying, 1U);

    const auto record = look(id);
    EXPECT_EQ(record.state, message_state::ready);
    EXPECT_EQ(record.worker, "alice");
    EXPECT_EQ(record.fence, held.fence);
    EXPECT_EQ(record.started_at, now() - 30s);
    EXPECT_EQ(record.failed_at, now());
    EXPECT_EQ(record.errors, 1);
    EXPECT_EQ(record.lease_until, std::nullopt);
}

// Proves: OUT-12
TEST_P(records, an_unknown_id_has_no_record)
{
    add();
    EXPECT_FALSE(find_message(db(), message_id{}));
    EXPECT_FALSE(find_message(db(), *message_id::parse("01890a5d-ac96-774b-bcce-b302099a8057")));
}

// Proves: OUT-12
TEST_P(records, a_record_can_be_read_in_the_transaction_that_changes_it)
{
    auto tx = db().begin();
    const auto id = enqueue(tx, {.topic = "orders", .payload = "x"}).id;
    const auto record = find_message(tx, id);
    ASSERT_TRUE(record);
    EXPECT_EQ(record->state, message_state::ready);
    EXPECT_EQ(record->payload, "x");
    tx.rollback();
}

// Proves: OUT-12
TEST_P(records, messages_are_listed_by_state)
{
    const auto cancelled = add();
    ASSERT_EQ(cancel(db(), cancelled), cancel_answer::cancelled);
    const auto expired = add("orders", {.expires_after = 1us});
    clock().advance(1us);
    ASSERT_EQ(box().expire_due(), 1U);
    const auto done = add();
    work_off();
    const auto dead = add_dead();
    const auto dead_blocking = add_dead("broken", "orders", {.ordering_key = "blocked"});
    const auto retrying = add();
    ASSERT_EQ(abandon(claim_one(), 1h, "later"), settled_as::retrying);
    const auto claimed_plain = add();
    const auto claimed_keyed = add_keyed("k");
    ASSERT_EQ(claim().size(), 2U);
    const auto waiting = add_keyed("k");
    const auto ready = add();
    const auto delayed = add("orders", {.delay = 1h});

    EXPECT_THAT(find({.state = message_state::ready}), ElementsAre(retrying, ready, delayed));
    EXPECT_THAT(find({.state = message_state::waiting}), ElementsAre(waiting));
    EXPECT_THAT(find({.state = message_state::claimed}), ElementsAre(claimed_plain, claimed_keyed));
    EXPECT_THAT(find({.state = message_state::done}), ElementsAre(done));
    EXPECT_THAT(find({.state = message_state::dead}), ElementsAre(dead, dead_blocking));
    EXPECT_THAT(find({.state = message_state::cancelled}), ElementsAre(cancelled));
    EXPECT_THAT(find({.state = message_state::expired}), ElementsAre(expired));
    EXPECT_THAT(find({}), ElementsAre(cancelled, expired, done, dead, dead_blocking, retrying,
                                      claimed_plain, claimed_keyed, waiting, ready, delayed));
}

// Proves: OUT-12
TEST_P(records, messages_are_listed_by_topic_key_and_age_in_every_state)
{
    // The same three messages, brought from one state to the next.
    const auto a = add("order_placed", {.ordering_key = "k"});
    clock().advance(1s);
    const auto since = now();
    const auto b = add("orderXplaced");
    const auto c = add("Order_placed", {.ordering_key = "K"});
    const auto expect_found = [&](message_state state) {
        EXPECT_THAT(find({.state = state, .topic = "order_placed"}), ElementsAre(a));
        EXPECT_THAT(find({.state = state, .topic = "order_*"}), ElementsAre(a));
        EXPECT_THAT(find({.state = state, .topic = "order*"}), ElementsAre(a, b));
        EXPECT_THAT(find({.state = state, .topic = "order"}), IsEmpty());
        EXPECT_THAT(find({.state = state, .ordering_key = "K"}), ElementsAre(c));
        EXPECT_THAT(find({.state = state, .created_before = since}), ElementsAre(a));
        EXPECT_THAT(find({.state = state, .created_before = since + 1us}), ElementsAre(a, b, c));
        EXPECT_THAT(find({.state = state, .topic = "order*", .ordering_key = "K"}), IsEmpty());
    };

    expect_found(message_state::ready);
    const auto claimed = claim();
    ASSERT_EQ(claimed.size(), 3U);
    expect_found(message_state::claimed);
    box().fail(alice, claimed.receipts(), "broken");
    expect_found(message_state::dead);
    ASSERT_EQ(redrive(db(), message_filter{}), 3U);
    expect_found(message_state::ready);
    ASSERT_EQ(work_off().size(), 3U);
    expect_found(message_state::done);
}

// Proves: OUT-12
TEST_P(records, messages_are_found_by_a_part_of_their_last_error)
{
    const auto healthy = add();
    const auto plain = add();
    const auto keyed = add_keyed("k");
    auto r = claim().receipts();
    box().abandon(alice, std::vector{r[1]}, 0s, "disk 100% full_now");
    box().abandon(alice, std::vector{r[2]}, 0s, "disk gone");
    const auto expect_found = [&](message_state state) {
        EXPECT_THAT(find({.state = state, .error_contains = "disk"}), ElementsAre(plain, keyed));
        EXPECT_THAT(find({.state = state, .error_contains = "100%"}), ElementsAre(plain));
        EXPECT_THAT(find({.state = state, .error_contains = "1%"}), IsEmpty());
        EXPECT_THAT(find({.state = state, .error_contains = "full_"}), ElementsAre(plain));
        EXPECT_THAT(find({.state = state, .error_contains = "d_sk"}), IsEmpty());
        EXPECT_THAT(find({.error_contains = "gone"}), ElementsAre(keyed));
    };

    expect_found(message_state::ready);
    r = claim().receipts();
    ASSERT_EQ(r.size(), 2U);
    expect_found(message_state::claimed);
    box().acknowledge(alice, r);
    expect_found(message_state::done);
    EXPECT_EQ(look(healthy).last_error, "");
}

// Proves: OUT-12
TEST_P(records, a_list_is_read_page_by_page_in_the_order_of_enqueueing)
{
    std::vector<message_id> ids;
    for (int i = 0; i < 9; ++i)
        ids.push_back(i % 3 == 0 ? add_keyed("key " + std::to_string(i)) : add());
    const auto pages = [&](std::optional<message_state> state) {
        std::vector<message_id> result;
        message_filter filter{.state = state, .limit = 4};
        for (auto page = list_messages(db(), filter); !page.empty();
             page = list_messages(db(), filter)) {
            EXPECT_LE(page.size(), 4U);
            for (const auto& each : page)
                result.push_back(each.id);
            filter.after_position = page.back().position;
        }
        return result;
    };

    EXPECT_EQ(pages({}), ids);
    EXPECT_EQ(pages(message_state::ready), ids);
    const auto claimed = claim();
    EXPECT_EQ(pages(message_state::claimed), ids);
    box().acknowledge(alice, claimed.receipts());
    EXPECT_EQ(pages(message_state::done), ids);
    EXPECT_EQ(pages({}), ids);
    EXPECT_EQ(find({}).size(), 9U);
}

// Proves: OUT-12
TEST_P(records, a_list_carries_payloads_only_when_asked)
{
    enqueue(db(), {.topic = "orders", .payload = "twelve bytes"});

    const auto without = list_messages(db()).at(0);
    EXPECT_EQ(without.payload, "");
    EXPECT_EQ(without.payload_bytes, 12U);
    const auto with = list_messages(db(), {.with_payload = true}).at(0);
    EXPECT_EQ(with.payload, "twelve bytes");
    EXPECT_EQ(with.payload_bytes, 12U);
}

// Proves: OUT-12
TEST_P(records, a_page_has_fifty_messages_unless_told_otherwise)
{
    add_many(60);
    EXPECT_EQ(list_messages(db()).size(), 50U);
    EXPECT_EQ(list_messages(db(), {.limit = 1'000}).size(), 60U);
}

class counts : public conformance_test {};

// Proves: OUT-12
TEST_P(counts, an_empty_store_counts_nothing)
{
    const auto stats = count_messages(db());
    EXPECT_EQ(stats.ready + stats.delayed + stats.waiting + stats.claimed + stats.done +
                  stats.dead + stats.cancelled + stats.expired + stats.blocked_keys,
              0);
    EXPECT_EQ(stats.oldest_ready, std::nullopt);
    EXPECT_EQ(stats.enqueued, 0);
    EXPECT_TRUE(stats.exact);
}

// Proves: OUT-12
TEST_P(counts, what_was_enqueued_is_counted_also_when_it_is_gone)
{
    for (int i = 0; i < 3; ++i)
        add();
    add("orders", {.delay = 10s});
    add("orders", {.ordering_key = "k"});
    EXPECT_EQ(count_messages(db()).enqueued, 5);
    clock().advance(10s);
    ASSERT_EQ(work_off(10).size(), 5U);
    clock().advance(24h * 30);
    ASSERT_EQ(clean(db()).finished, 5U);
    EXPECT_EQ(count_messages(db()).enqueued, 5);
    add();
    EXPECT_EQ(count_messages(db()).enqueued, 6);
}

// Proves: OUT-12
TEST_P(counts, every_state_is_counted)
{
    add_many(3);
    ASSERT_EQ(work_off().size(), 3U);
    for (int i = 0; i < 2; ++i)
        add_dead("broken", "orders", {.ordering_key = "blocked " + std::to_string(i)});
    for (int i = 0; i < 2; ++i)
        add_dead();
    add_keyed("blocked 0");
    for (const auto id : {add(), add_keyed("c"), add("orders", {.delay = 1h}), add(), add()})
        ASSERT_EQ(cancel(db(), id), cancel_answer::cancelled);
    for (int i = 0; i < 6; ++i)
        add("orders", {.expires_after = 1us});
    clock().advance(1us);
    ASSERT_EQ(box().expire_due(), 6U);
    add_many(5);
    add_keyed("claimed");
    add_keyed("claimed");
    const auto claimed = claim();
    ASSERT_EQ(claimed.size(), 6U);
    ASSERT_EQ(abandon(claimed.receipts()[0], 1h, "later"), settled_as::retrying);
    add("orders", {.delay = 1h});
    add_many(7);
    add_keyed("ready");

    const auto stats = count_messages(db());

    EXPECT_EQ(stats.ready, 8);
    EXPECT_EQ(stats.delayed, 2);
    EXPECT_EQ(stats.waiting, 2);
    EXPECT_EQ(stats.claimed, 5);
    EXPECT_EQ(stats.done, 3);
    EXPECT_EQ(stats.dead, 4);
    EXPECT_EQ(stats.cancelled, 5);
    EXPECT_EQ(stats.expired, 6);
    EXPECT_EQ(stats.blocked_keys, 2);
    EXPECT_TRUE(stats.exact);
}

// Proves: OUT-12
TEST_P(counts, a_delayed_message_becomes_ready_when_it_is_due)
{
    add("orders", {.delay = 10s});
    clock().advance(10s - 1us);
    EXPECT_EQ(count_messages(db()).delayed, 1);
    EXPECT_EQ(count_messages(db()).ready, 0);
    EXPECT_EQ(count_messages(db()).oldest_ready, std::nullopt);

    clock().advance(1us);
    EXPECT_EQ(count_messages(db()).delayed, 0);
    EXPECT_EQ(count_messages(db()).ready, 1);
    EXPECT_EQ(count_messages(db()).oldest_ready, 0us);
}

// Proves: OUT-12
TEST_P(counts, the_oldest_ready_message_counts_from_when_it_was_due)
{
    add("orders", {.delay = 10s});
    clock().advance(12s);
    EXPECT_EQ(count_messages(db()).oldest_ready, 2s);

    add();
    clock().advance(1s);
    EXPECT_EQ(count_messages(db()).oldest_ready, 3s);
    ASSERT_EQ(work_off(1).size(), 1U);
    EXPECT_EQ(count_messages(db()).oldest_ready, 1s);
    const auto held = claim_one();
    EXPECT_EQ(count_messages(db()).oldest_ready, std::nullopt);

    ASSERT_EQ(abandon(held, 5s, "later"), settled_as::retrying);
    EXPECT_EQ(count_messages(db()).oldest_ready, std::nullopt);
    clock().advance(9s);
    EXPECT_EQ(count_messages(db()).oldest_ready, 4s);
}

// Proves: OUT-12
TEST_P(counts, what_waits_for_its_key_is_not_the_oldest_ready)
{
    add_keyed("k");
    add_keyed("k");
    clock().advance(10s);
    ASSERT_EQ(claim().size(), 1U);
    add();
    clock().advance(1s);

    EXPECT_EQ(count_messages(db()).waiting, 1);
    EXPECT_EQ(count_messages(db()).oldest_ready, 1s);
}

} // namespace

CONFORMANCE_SUITE(records);
CONFORMANCE_SUITE(counts);

} // namespace posthorn::conformance
