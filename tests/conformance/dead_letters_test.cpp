// Dead letters: found, looked at, given new attempts, or removed; one, some or all of them.
#include "conformance/conformance_test.hpp"

#include <cmath>

namespace posthorn::conformance {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class dead_letters : public conformance_test {
protected:
    std::vector<message_id> find(message_filter filter = {})
    {
        filter.state = message_state::dead;
        return ids_of(list_messages(db(), filter));
    }

    /// Many dead letters at once.
    std::vector<message_id> add_many_dead(std::size_t count, const std::string& topic = "orders")
    {
        auto ids = add_many(count, topic);
        const auto claimed = claim(count);
        EXPECT_EQ(box().fail(alice, claimed.receipts(), "broken").settled(), count);
        return ids;
    }

    /// Messages that are anything but dead, in the same topic as the dead ones.
    std::vector<message_id> add_the_living()
    {
        const auto done = add();
        work_off();
        const auto claimed = add();
        EXPECT_EQ(claim().size(), 1U);
        const auto cancelled = add();
        EXPECT_EQ(cancel(db(), cancelled), cancel_answer::cancelled);
        const auto expired = add("orders", {.expires_after = 1us});
        clock().advance(1us);
        EXPECT_EQ(box().expire_due(), 1U);
        const auto ready = add("orders", {.delay = 24h});
        return {done, claimed, cancelled, expired, ready};
    }
};

const std::vector<message_state> living{message_state::done, message_state::claimed,
                                        message_state::cancelled, message_state::expired,
                                        message_state::ready};

// Proves: OUT-13
TEST_P(dead_letters, they_are_listed_in_the_order_of_their_enqueueing)
{
    const auto alive = add_the_living();
    const std::vector ids{add_dead(), add_dead(), add_dead()};

    EXPECT_EQ(find(), ids);
    EXPECT_EQ(states_of(alive), living);
    EXPECT_EQ(count_messages(db()).dead, 3);
}

// Proves: OUT-13
TEST_P(dead_letters, they_can_be_filtered)
{
    const auto a = add_dead("timed out after 5 s", "order.placed");
    clock().advance(1s);
    const auto b = add_dead("timed out after 9 s", "order.paid", {.ordering_key = "customer 7"});
    const auto since = now();
    const auto c = add_dead("refused", "order");
    clock().advance(1s);
    const auto d = add_dead("refused", "mail");

    EXPECT_THAT(find({.topic = "order.placed"}), ElementsAre(a));
    EXPECT_THAT(find({.topic = "order*"}), ElementsAre(a, b, c));
    EXPECT_THAT(find({.topic = "order.*"}), ElementsAre(a, b));
    EXPECT_THAT(find({.topic = "*"}), ElementsAre(a, b, c, d));
    EXPECT_THAT(find({.ordering_key = "customer 7"}), ElementsAre(b));
    EXPECT_THAT(find({.error_contains = "timed out"}), ElementsAre(a, b));
    EXPECT_THAT(find({.error_contains = "nothing like this"}), IsEmpty());
    EXPECT_THAT(find({.created_before = since}), ElementsAre(a));
    EXPECT_THAT(find({.topic = "order*", .error_contains = "9 s"}), ElementsAre(b));
    EXPECT_THAT(find({.after_position = look(b).position}), ElementsAre(c, d));
    EXPECT_THAT(find({.limit = 3}), ElementsAre(a, b, c));
}

// Proves: OUT-12, OUT-13
TEST_P(dead_letters, one_can_be_inspected)
{
    const auto id = enqueue(db(), {.topic = "order.placed", .payload = "the payload"},
                            {.ordering_key = "k", .correlation_id = "c", .headers = {{"h", "v"}}})
                        .id;
    ASSERT_EQ(fail(claim_one(), "broken"), settled_as::dead);

    const auto record = look(id);
    EXPECT_EQ(record.state, message_state::dead);
    EXPECT_TRUE(record.blocks_key);
    EXPECT_EQ(record.topic, "order.placed");
    EXPECT_EQ(record.payload, "the payload");
    EXPECT_EQ(record.ordering_key, "k");
    EXPECT_EQ(record.correlation_id, "c");
    EXPECT_THAT(record.headers, ElementsAre(::testing::Pair("h", "v")));
    EXPECT_EQ(record.last_error, "broken");
    EXPECT_EQ(record.failed_at, now());
    EXPECT_EQ(record.finished_at, now());
    EXPECT_EQ(record.worker, "alice");
    EXPECT_EQ(record.attempts, 1);
}

// Proves: OUT-13, I2
TEST_P(dead_letters, words_that_are_not_text_are_kept_readable)
{
    const auto dead = add();
    EXPECT_EQ(fail(claim_one(), "caf\xe9 au lait"), settled_as::dead);
    EXPECT_EQ(look(dead).last_error, "caf\xef\xbf\xbd au lait");

    const auto again = add();
    const auto held = claim_one();
    const std::string_view cut_off("out of \0memory", 14);
    EXPECT_EQ(box().abandon(alice, {&held, 1}, {}, cut_off).answers.front(), settled_as::retrying);
    EXPECT_EQ(look(again).last_error, "out of \xef\xbf\xbdmemory");
}

// Proves: OUT-13, I3
TEST_P(dead_letters, a_redriven_message_starts_over)
{
    const auto id = add();
    for (int i = 0; i < 3; ++i)
        ASSERT_EQ(abandon(claim_one(), 0s, "broken"), settled_as::retrying);
    ASSERT_EQ(fail(claim_one(), "given up"), settled_as::dead);
    const auto failed_at = now();
    clock().advance(1h);

    EXPECT_TRUE(redrive(db(), id));

    auto record = look(id);
    EXPECT_EQ(record.state, message_state::ready);
    EXPECT_EQ(record.attempts, 0);
    EXPECT_EQ(record.redrives, 1);
    EXPECT_EQ(record.due_at, now());
    EXPECT_EQ(record.finished_at, std::nullopt);
    EXPECT_EQ(record.errors, 4);
    EXPECT_EQ(record.last_error, "given up");
    EXPECT_EQ(record.failed_at, failed_at);

    const auto claimed = claim();
    ASSERT_THAT(ids_of(claimed), ElementsAre(id));
    EXPECT_EQ(claimed.deliveries[0].attempt, 1);
    box().acknowledge(alice, claimed.receipts());
    record = look(id);
    EXPECT_EQ(record.state, message_state::done);
    EXPECT_EQ(record.attempts, 1);
    EXPECT_EQ(record.redrives, 1);
}

// Proves: OUT-11, OUT-13, I3
TEST_P(dead_letters, a_redriven_message_has_all_its_attempts_again_and_can_die_again)
{
    auto strict = box_with(steady_retries(1s, 2));
    const auto id = add();
    for (int redrives = 0; redrives < 3; ++redrives) {
        ASSERT_EQ(look(id).redrives, redrives);
        strict.abandon(alice, strict.claim(alice).receipts(), 0s, "broken");
        ASSERT_EQ(state_of(id), message_state::ready);
        strict.abandon(alice, strict.claim(alice).receipts(), 0s, "broken");
        ASSERT_EQ(state_of(id), message_state::dead);
        ASSERT_TRUE(redrive(db(), id));
    }
    EXPECT_EQ(look(id).redrives, 3);
    EXPECT_EQ(look(id).errors, 6);
}

// Proves: OUT-04, OUT-13
TEST_P(dead_letters, a_redriven_message_runs_though_its_time_has_passed)
{
    const auto id = add_dead("broken", "orders", {.expires_after = 10s});
    clock().advance(1h);

    ASSERT_TRUE(redrive(db(), id));

    EXPECT_THAT(work_off(), ElementsAre(id));
    EXPECT_EQ(state_of(id), message_state::done);
}

// Proves: OUT-13, I3
TEST_P(dead_letters, only_what_is_dead_can_be_redriven_or_purged)
{
    const auto alive = add_the_living();
    const auto dead = add_dead();
    const auto purged = add_dead();
    ASSERT_TRUE(purge(db(), purged));
    ASSERT_TRUE(redrive(db(), dead));

    for (const auto id : alive) {
        EXPECT_FALSE(redrive(db(), id));
        EXPECT_FALSE(purge(db(), id));
    }
    EXPECT_FALSE(redrive(db(), dead));
    EXPECT_FALSE(purge(db(), dead));
    EXPECT_FALSE(redrive(db(), purged));
    EXPECT_FALSE(purge(db(), purged));
    EXPECT_FALSE(redrive(db(), message_id{}));
    EXPECT_FALSE(purge(db(), message_id{}));
    EXPECT_EQ(states_of(alive), living);
    EXPECT_EQ(look(dead).redrives, 1);
}

// Proves: OUT-03, OUT-13, I4
TEST_P(dead_letters, a_receipt_from_before_the_redrive_changes_nothing)
{
    const auto id = add();
    const auto old = claim_one();
    ASSERT_EQ(fail(old), settled_as::dead);
    ASSERT_TRUE(redrive(db(), id));
    EXPECT_EQ(acknowledge(old), settled_as::lost);
    const auto current = claim_one(bob);

    EXPECT_EQ(acknowledge(old), settled_as::lost);
    EXPECT_EQ(fail(old), settled_as::lost);
    EXPECT_EQ(state_of(id), message_state::claimed);
    EXPECT_EQ(acknowledge(bob, current), settled_as::done);
}

// Proves: OUT-13, I3
TEST_P(dead_letters, those_that_match_are_redriven_and_the_others_stay)
{
    const auto alive = add_the_living();
    const auto a = add_dead("timed out", "orders");
    const auto b = add_dead("refused", "orders");
    const auto c = add_dead("timed out", "mail");

    EXPECT_EQ(redrive(db(), {.topic = "orders", .error_contains = "timed"}), 1U);
    EXPECT_THAT(states_of({a, b, c}),
                ElementsAre(message_state::ready, message_state::dead, message_state::dead));
    EXPECT_EQ(redrive(db(), {.topic = "or*"}), 1U);
    EXPECT_EQ(redrive(db(), {.topic = "nothing"}), 0U);
    EXPECT_THAT(states_of({a, b, c}),
                ElementsAre(message_state::ready, message_state::ready, message_state::dead));
    EXPECT_EQ(states_of(alive), living);
    EXPECT_EQ(look(a).redrives, 1);
}

// Proves: OUT-13, I3
TEST_P(dead_letters, all_are_redriven_whatever_state_and_page_the_filter_asks_for)
{
    const auto alive = add_the_living();
    const std::vector ids{add_dead(), add_dead(), add_dead()};

    EXPECT_EQ(redrive(db(), {.state = message_state::done, .after_position = 1'000, .limit = 1}),
              3U);

    EXPECT_THAT(states_of(ids), Each(message_state::ready));
    EXPECT_EQ(states_of(alive), living);
    EXPECT_EQ(redrive(db(), message_filter{}), 0U);
}

// Proves: OUT-13
TEST_P(dead_letters, a_dry_run_counts_and_changes_nothing)
{
    const std::vector ids{add_dead("timed out"), add_dead("refused"), add_dead("timed out")};

    EXPECT_EQ(redrive(db(), message_filter{}, {.dry_run = true}), 3U);
    EXPECT_EQ(redrive(db(), {.error_contains = "timed", .limit = 1}, {.dry_run = true}), 2U);
    EXPECT_EQ(redrive(db(), {.topic = "mail"}, {.dry_run = true}), 0U);
    EXPECT_EQ(purge(db(), message_filter{}, true), 3U);
    EXPECT_EQ(purge(db(), {.error_contains = "refused"}, true), 1U);

    EXPECT_EQ(find(), ids);
    EXPECT_EQ(look(ids[0]).redrives, 0);
    EXPECT_TRUE(claim().empty());
}

// Proves: OUT-13, I17
TEST_P(dead_letters, a_rate_spreads_redriven_messages_over_time)
{
    const auto ids = add_many_dead(5);

    EXPECT_EQ(redrive(db(), message_filter{}, {.per_second = 2.0}), 5U);

    for (std::size_t i = 0; i < ids.size(); ++i)
        EXPECT_EQ(look(ids[i]).due_at, now() + i * 500ms);
    EXPECT_THAT(work_off(), ElementsAre(ids[0]));
    clock().advance(1s);
    EXPECT_THAT(work_off(), ElementsAre(ids[1], ids[2]));
    clock().advance(1s);
    EXPECT_THAT(work_off(), ElementsAre(ids[3], ids[4]));
}

// Proves: OUT-13
TEST_P(dead_letters, a_rate_below_one_takes_longer_than_a_second_each)
{
    const auto ids = add_many_dead(3);
    EXPECT_EQ(redrive(db(), message_filter{}, {.per_second = 0.1}), 3U);
    EXPECT_EQ(look(ids[2]).due_at, now() + 20s);
}

// Proves: OUT-13, F21
TEST_P(dead_letters, a_rate_that_is_not_positive_is_refused)
{
    const auto id = add_dead();
    for (const double rate : {0.0, -1.0, std::nan("")}) {
        const auto refused =
            thrown_by([&] { redrive(db(), message_filter{}, {.per_second = rate}); });
        EXPECT_EQ(refused.code(), error_code::invalid_argument);
    }
    EXPECT_EQ(state_of(id), message_state::dead);
}

// Proves: OUT-13
TEST_P(dead_letters, more_than_a_page_is_counted_redriven_and_spread_completely)
{
    const auto ids = add_many_dead(1'203);
    add_many_dead(1, "other");

    EXPECT_EQ(redrive(db(), {.topic = "orders"}, {.dry_run = true}), 1'203U);
    EXPECT_EQ(redrive(db(), {.topic = "orders"}, {.per_second = 1'000.0}), 1'203U);

    EXPECT_THAT(find(), SizeIs(1));
    for (const std::size_t i : {0, 1, 499, 500, 501, 999, 1'000, 1'202})
        EXPECT_EQ(look(ids[i]).due_at, now() + i * 1ms) << "message " << i;
    clock().advance(2s);
    EXPECT_EQ(claimed_ids(10'000), ids);
}

// Proves: OUT-13
TEST_P(dead_letters, exactly_a_page_is_redriven_once)
{
    const auto ids = add_many_dead(500);
    EXPECT_EQ(redrive(db(), message_filter{}), 500U);
    EXPECT_EQ(look(ids[0]).redrives, 1);
    EXPECT_EQ(look(ids[499]).redrives, 1);
}

// Proves: OUT-13
TEST_P(dead_letters, a_purged_message_is_removed_for_good)
{
    const auto purged = add_dead();
    const auto kept = add_dead();

    EXPECT_TRUE(purge(db(), purged));

    EXPECT_FALSE(find_message(db(), purged));
    EXPECT_THAT(find(), ElementsAre(kept));
    EXPECT_EQ(total(), 1U);
    EXPECT_EQ(cancel(db(), purged), cancel_answer::not_found);
}

// Proves: OUT-13
TEST_P(dead_letters, those_that_match_are_purged_and_the_others_stay)
{
    const auto alive = add_the_living();
    const auto a = add_dead("timed out");
    const auto b = add_dead("refused");
    const auto c = add_dead("timed out", "mail");

    EXPECT_EQ(purge(db(), {.error_contains = "refused"}), 1U);
    EXPECT_THAT(find(), ElementsAre(a, c));
    EXPECT_FALSE(find_message(db(), b));
    EXPECT_EQ(purge(db(), {.state = message_state::done, .topic = "orders"}), 1U);
    EXPECT_THAT(find(), ElementsAre(c));
    EXPECT_EQ(states_of(alive), living);
}

// Proves: OUT-13
TEST_P(dead_letters, more_than_a_page_is_purged_completely)
{
    add_many_dead(1'203);
    const auto kept = add_many_dead(1, "other");

    EXPECT_EQ(purge(db(), {.topic = "orders"}, true), 1'203U);
    EXPECT_EQ(purge(db(), {.topic = "orders"}), 1'203U);

    EXPECT_EQ(find(), kept);
    EXPECT_EQ(total(), 1U);
}

} // namespace

CONFORMANCE_SUITE(dead_letters);

} // namespace posthorn::conformance
