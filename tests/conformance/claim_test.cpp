// Claiming: who gets what, in which order and for how long, and how little a claim is worth once it
// has passed on.
#include "conformance/conformance_test.hpp"

#include <algorithm>
#include <set>
#include <tuple>

namespace posthorn::conformance {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class claiming : public conformance_test {
protected:
    /// Five messages of every kind there is; all of them are due when it returns.
    std::set<message_id> add_a_mixture()
    {
        std::set<message_id> result;
        for (int i = 0; i < 5; ++i)
            result.insert(add_keyed("key " + std::to_string(i)));
        auto retried = box_with(steady_retries(1s, 9));
        const auto again = retried.claim(alice);
        retried.abandon(alice, again.receipts(), {}, "not yet");
        for (int i = 0; i < 5; ++i) {
            result.insert(add());
            result.insert(add("orders", {.priority = i - 2}));
            result.insert(add("orders", {.delay = 1s}));
            result.insert(add("orders", {.expires_after = 1h}));
        }
        clock().advance(1s);
        return result;
    }

    /// Lets go of everything, so that it can be claimed once more.
    void release(const batch& claimed) { box().abandon(alice, claimed.receipts()); }
};

// Proves: OUT-10
TEST_P(claiming, nothing_due_is_an_empty_batch)
{
    add("orders", {.delay = 1h});

    const auto claimed = claim();

    EXPECT_TRUE(claimed.empty());
    EXPECT_EQ(claimed.size(), 0U);
    EXPECT_EQ(claimed.fence, fence{});
    EXPECT_THAT(claimed.receipts(), IsEmpty());
    EXPECT_EQ(count_messages(db()).claimed, 0);
}

// Proves: OUT-10
TEST_P(claiming, a_claim_never_exceeds_its_limit)
{
    const auto all = add_a_mixture();
    ASSERT_THAT(all, SizeIs(25));

    for (const std::size_t limit : {1, 2, 3, 7, 24, 25, 26, 1'000}) {
        const auto claimed = claim(limit, 0);
        EXPECT_EQ(claimed.size(), std::min<std::size_t>(limit, 25)) << "limit " << limit;
        EXPECT_EQ(count_messages(db()).claimed, static_cast<std::int64_t>(claimed.size()));
        release(claimed);
    }
}

// Proves: OUT-10, I2, I6
TEST_P(claiming, claims_one_after_the_other_hand_out_everything_once)
{
    const auto all = add_a_mixture();

    std::vector<message_id> seen;
    for (auto claimed = claim(4); !claimed.empty(); claimed = claim(4))
        std::ranges::copy(ids_of(claimed), std::back_inserter(seen));

    EXPECT_THAT(seen, SizeIs(all.size()));
    EXPECT_EQ(std::set(seen.begin(), seen.end()), all);
}

// Proves: OUT-10
TEST_P(claiming, what_has_been_due_longest_comes_first)
{
    const auto third = add("orders", {.delay = 3s});
    const auto first = add("orders", {.delay = 1s});
    clock().advance(2s);
    const auto second = add();
    clock().advance(10s);
    const auto last = add();

    EXPECT_THAT(claimed_ids(), ElementsAre(first, second, third, last));
}

// Proves: OUT-10
TEST_P(claiming, what_is_due_since_the_same_moment_keeps_its_order)
{
    const auto a = add_keyed("a");
    const auto b = add();
    const auto c = add_keyed("c");
    const auto d = add("orders", {.expires_after = 1h});
    const auto e = add();

    EXPECT_THAT(claimed_ids(2), ElementsAre(a, b));
    EXPECT_THAT(claimed_ids(2), ElementsAre(c, d));
    EXPECT_THAT(claimed_ids(2), ElementsAre(e));
}

// Proves: OUT-10, I6
TEST_P(claiming, what_one_holds_nobody_else_gets)
{
    add_many(3);
    ASSERT_EQ(claim(2).size(), 2U);

    EXPECT_EQ(box().claim(bob).size(), 1U);
    EXPECT_EQ(box().claim(bob).size(), 0U);
    EXPECT_EQ(claim().size(), 0U);
}

// Proves: OUT-10
TEST_P(claiming, the_lease_counts_from_the_claim_on_the_stores_clock)
{
    const auto id = add();
    clock().advance(5s);

    const auto claimed = box().claim(alice, {.lease = 90s});

    EXPECT_EQ(claimed.claimed_at, now());
    EXPECT_EQ(claimed.lease_until, now() + 90s);
    EXPECT_EQ(look(id).lease_until, now() + 90s);
}

// Proves: OUT-10, OUT-03
TEST_P(claiming, the_members_of_a_batch_share_its_fence)
{
    const auto ids = add_many(3);

    const auto claimed = claim();

    ASSERT_EQ(claimed.size(), 3U);
    EXPECT_GT(claimed.fence, fence{});
    for (std::uint32_t i = 0; i < 3; ++i) {
        const auto& receipt = claimed.deliveries[i].receipt;
        EXPECT_EQ(receipt.id, ids[i]);
        EXPECT_EQ(receipt.position, look(ids[i]).position);
        EXPECT_EQ(receipt.fence, claimed.fence);
        EXPECT_EQ(receipt.ordinal, i);
        EXPECT_EQ(claimed.receipts()[i], receipt);
    }
}

// Proves: OUT-10
TEST_P(claiming, a_delivery_carries_all_that_was_enqueued)
{
    const enqueue_options how{.ordering_key = "customer 7",
                              .priority = 3,
                              .delay = 2s,
                              .expires_after = 1h,
                              .correlation_id = "request 1",
                              .causation_id = "message 0",
                              .headers = {{"language", "de"}, {"tenant", "ä"}}};
    const std::string payload("any\0bytes\xff", 10);
    const auto created_at = now();
    const auto id = enqueue(db(), {.topic = "order.placed", .payload = payload}, how).id;
    clock().advance(2s);

    const auto claimed = claim();

    ASSERT_EQ(claimed.size(), 1U);
    const auto& got = claimed.deliveries[0];
    EXPECT_EQ(got.receipt.id, id);
    EXPECT_EQ(got.topic, "order.placed");
    EXPECT_EQ(got.payload, payload);
    EXPECT_EQ(got.ordering_key, "customer 7");
    EXPECT_EQ(got.priority, 3);
    EXPECT_EQ(got.correlation_id, "request 1");
    EXPECT_EQ(got.causation_id, "message 0");
    EXPECT_EQ(got.headers, how.headers);
    EXPECT_EQ(got.created_at, created_at);
    EXPECT_EQ(got.due_at, created_at + 2s);
    EXPECT_EQ(got.expires_at, created_at + 1h);
    EXPECT_EQ(got.attempt, 1);
    EXPECT_TRUE(got.started);
}

// Proves: OUT-10, OUT-11
TEST_P(claiming, as_many_start_with_the_claim_as_asked_for)
{
    const auto ids = add_many(3);
    const auto started = [&](std::optional<std::size_t> start) {
        const auto claimed = claim(3, start);
        std::vector<bool> said;
        std::vector<bool> stored;
        for (const auto& each : claimed.deliveries) {
            said.push_back(each.started);
            stored.push_back(look(each.receipt.id).started);
        }
        EXPECT_EQ(said, stored);
        box().abandon(alice, claimed.receipts(), 0s);
        return said;
    };

    EXPECT_THAT(started(0), ElementsAre(false, false, false));
    EXPECT_THAT(started(2), ElementsAre(true, true, false));
    EXPECT_THAT(started(3), ElementsAre(true, true, true));
    EXPECT_THAT(started(99), ElementsAre(true, true, true));
    EXPECT_THAT(started({}), ElementsAre(true, true, true));
}

// Proves: OUT-10, F21
TEST_P(claiming, a_claim_without_owner_lease_or_limit_is_refused)
{
    const auto id = add();
    const auto refused = [&](const owner& who, const claim_options& how) {
        return thrown_by([&] { (void)box().claim(who, how); }).code();
    };
    const auto most = limits{}.batch_max;

    EXPECT_EQ(refused({}, {}), error_code::invalid_argument);
    EXPECT_EQ(refused({.token = "", .worker = "alice"}, {}), error_code::invalid_argument);
    EXPECT_EQ(refused(alice, {.lease = 0s}), error_code::invalid_argument);
    EXPECT_EQ(refused(alice, {.lease = -1us}), error_code::invalid_argument);
    EXPECT_EQ(refused(alice, {.limit = 0}), error_code::invalid_argument);
    EXPECT_EQ(refused(alice, {.limit = most + 1}), error_code::invalid_argument);
    EXPECT_EQ(state_of(id), message_state::ready);

    EXPECT_THAT(ids_of(box().claim(alice, {.lease = 1us, .limit = most})), ElementsAre(id));
}

// Proves: OUT-12
TEST_P(claiming, a_worker_needs_no_name)
{
    const auto id = add();
    const owner nameless{.token = "token of nobody"};
    ASSERT_THAT(ids_of(box().claim(nameless)), ElementsAre(id));
    EXPECT_EQ(look(id).worker, "");
}

// Proves: OUT-10
TEST_P(claiming, the_largest_claim_is_an_option_of_the_store)
{
    auto other = under_test().open({.environment = world(), .limits = {.batch_max = 5}});
    outbox narrow(other);

    const auto refused = thrown_by([&] { (void)narrow.claim(alice, {.limit = 6}); });
    EXPECT_EQ(refused.code(), error_code::invalid_argument);
    EXPECT_THAT(refused.what(), ::testing::HasSubstr("5"));
    EXPECT_TRUE(narrow.claim(alice, {.limit = 5}).empty());
}

// Proves: OUT-03, I4
TEST_P(claiming, the_fence_of_a_message_grows_with_every_claim_and_its_id_stays)
{
    auto patient = box_with(steady_retries(0s, 1'000));
    const auto id = add();
    fence last{};
    for (int round = 0; round < 60; ++round) {
        const auto claimed = patient.claim(round % 2 == 0 ? alice : bob,
                                           {.lease = 10s, .start = round % 3 == 0 ? 0 : 1});
        ASSERT_THAT(ids_of(claimed), ElementsAre(id));
        ASSERT_GT(claimed.fence, last) << "round " << round;
        ASSERT_EQ(look(id).fence, claimed.fence);
        last = claimed.fence;
        if (round % 5 == 0) {
            clock().advance(10s);
            ASSERT_EQ(patient.reap_expired().batches, 1U);
        } else {
            patient.abandon(round % 2 == 0 ? alice : bob, claimed.receipts());
        }
    }
}

// Proves: OUT-03, OUT-13, I4
TEST_P(claiming, the_fence_grows_through_a_redrive_and_an_empty_store)
{
    const auto id = add_dead();
    const auto before = look(id).fence;
    ASSERT_GT(before, fence{});
    ASSERT_TRUE(redrive(db(), id));

    const auto again = claim_one();
    EXPECT_GT(again.fence, before);
    ASSERT_EQ(acknowledge(again), settled_as::done);
    clean(db(), {.finished = 0s});
    ASSERT_EQ(total(), 0U);

    add();
    EXPECT_GT(claim_one().fence, again.fence);
}

/// What a claim that has passed on must not be able to change.
auto facts_of(const message_record& record)
{
    return std::tuple(record.state, record.started, record.fence, record.worker, record.attempts,
                      record.errors, record.last_error, record.due_at, record.lease_until,
                      record.failed_at, record.finished_at);
}

class leases : public conformance_test {
protected:
    /// Everything that the owner of an old claim may still try, and that it changes nothing.
    void expect_lost(const owner& who, const receipt& old)
    {
        const auto before = facts_of(look(old.id));
        const std::span<const receipt> what{&old, 1};
        const settlement twice[] = {{old, done()}, {old, posthorn::fail("broken")}};

        EXPECT_THAT(box().acknowledge(who, what).answers, ElementsAre(settled_as::lost));
        EXPECT_THAT(box().abandon(who, what, 0s, "late").answers, ElementsAre(settled_as::lost));
        EXPECT_THAT(box().fail(who, what, "late").answers, ElementsAre(settled_as::lost));
        EXPECT_THAT(box().settle(who, twice).answers, Each(settled_as::lost));
        EXPECT_THAT(box().start(who, what), ElementsAre(start_answer::lost));
        EXPECT_FALSE(box().renew(who, old.fence, 1h));
        EXPECT_EQ(facts_of(look(old.id)), before);
    }
};

// Proves: OUT-10
TEST_P(leases, a_batch_is_reaped_when_its_lease_has_run_out_and_not_before)
{
    const auto id = add();
    ASSERT_EQ(box().claim(alice, {.lease = 30s}).size(), 1U);

    clock().advance(30s - 1us);
    EXPECT_EQ(box().reap_expired().batches, 0U);
    EXPECT_EQ(state_of(id), message_state::claimed);

    clock().advance(1us);
    const auto report = box().reap_expired();
    EXPECT_EQ(report.batches, 1U);
    EXPECT_EQ(report.retrying, 1U);
    EXPECT_EQ(report.released, 0U);
    EXPECT_EQ(report.dead, 0U);
    EXPECT_EQ(state_of(id), message_state::ready);
}

// Proves: OUT-10
TEST_P(leases, reaping_again_does_nothing)
{
    const auto id = add();
    ASSERT_EQ(claim().size(), 1U);
    clock().advance(30s);
    ASSERT_EQ(box().reap_expired().batches, 1U);
    const auto before = facts_of(look(id));

    const auto report = box().reap_expired();

    EXPECT_EQ(report.batches + report.released + report.retrying + report.dead, 0U);
    EXPECT_EQ(facts_of(look(id)), before);
}

// Proves: OUT-10
TEST_P(leases, a_renewed_lease_counts_from_the_renewal_and_is_not_reaped)
{
    const auto id = add();
    const auto claimed = box().claim(alice, {.lease = 30s});
    clock().advance(20s);
    ASSERT_TRUE(box().renew(alice, claimed.fence, 30s));
    EXPECT_EQ(look(id).lease_until, now() + 30s);

    clock().advance(30s - 1us);
    EXPECT_EQ(box().reap_expired().batches, 0U);
    ASSERT_TRUE(box().renew(alice, claimed.fence, 1h));
    clock().advance(1h - 1us);
    EXPECT_EQ(box().reap_expired().batches, 0U);
    EXPECT_EQ(acknowledge(claimed.receipts()[0]), settled_as::done);
}

// Proves: OUT-10
TEST_P(leases, a_renewed_lease_runs_out_too)
{
    const auto id = add();
    const auto claimed = claim();
    ASSERT_TRUE(box().renew(alice, claimed.fence, 45s));

    clock().advance(45s);
    EXPECT_EQ(box().reap_expired().batches, 1U);
    EXPECT_EQ(state_of(id), message_state::ready);
}

// Proves: OUT-10
TEST_P(leases, a_stranger_renews_nothing)
{
    const auto id = add();
    const auto claimed = claim();
    const auto until = look(id).lease_until;
    const owner namesake{.token = "another token", .worker = alice.worker};

    EXPECT_FALSE(box().renew(bob, claimed.fence, 1h));
    EXPECT_FALSE(box().renew(namesake, claimed.fence, 1h));
    EXPECT_FALSE(box().renew(alice, fence{static_cast<std::int64_t>(claimed.fence) + 1}, 1h));
    EXPECT_FALSE(box().renew(alice, fence{}, 1h));
    EXPECT_EQ(look(id).lease_until, until);
}

// Proves: OUT-10, F21
TEST_P(leases, a_renewal_without_owner_or_lease_is_refused)
{
    const auto id = add();
    const auto claimed = claim();
    const auto until = look(id).lease_until;
    const auto refused = [&](const owner& who, duration lease) {
        return thrown_by([&] { (void)box().renew(who, claimed.fence, lease); }).code();
    };

    EXPECT_EQ(refused({}, 30s), error_code::invalid_argument);
    EXPECT_EQ(refused(alice, 0s), error_code::invalid_argument);
    EXPECT_EQ(refused(alice, -1us), error_code::invalid_argument);
    EXPECT_EQ(look(id).lease_until, until);
}

// Proves: OUT-10
TEST_P(leases, renewing_one_batch_leaves_the_others_as_they_are)
{
    const auto ids = add_many(2);
    const auto first = claim(1);
    const auto second = claim(1);
    ASSERT_TRUE(box().renew(alice, second.fence, 1h));

    clock().advance(30s);
    EXPECT_EQ(box().reap_expired().batches, 1U);
    EXPECT_THAT(states_of(ids), ElementsAre(message_state::ready, message_state::claimed));
    EXPECT_FALSE(box().renew(alice, first.fence, 1h));
    EXPECT_TRUE(box().renew(alice, second.fence, 1h));
}

// Proves: OUT-10
TEST_P(leases, a_settled_batch_has_no_lease_left)
{
    add_many(2);
    const auto claimed = claim();
    ASSERT_EQ(acknowledge(claimed.receipts()[0]), settled_as::done);
    EXPECT_TRUE(box().renew(alice, claimed.fence, 30s));
    ASSERT_EQ(acknowledge(claimed.receipts()[1]), settled_as::done);

    EXPECT_FALSE(box().renew(alice, claimed.fence, 30s));
    clock().advance(1h);
    EXPECT_EQ(box().reap_expired().batches, 0U);
}

// Proves: OUT-10
TEST_P(leases, reaping_takes_the_oldest_batches_up_to_its_limit)
{
    const auto ids = add_many(3);
    for (int i = 0; i < 3; ++i)
        ASSERT_EQ(claim(1).size(), 1U);
    clock().advance(30s);

    EXPECT_EQ(box().reap_expired(2).batches, 2U);
    EXPECT_THAT(states_of(ids),
                ElementsAre(message_state::ready, message_state::ready, message_state::claimed));
    EXPECT_EQ(box().reap_expired(2).batches, 1U);
    EXPECT_EQ(box().reap_expired(2).batches, 0U);
}

// Proves: OUT-10, OUT-11, I3
TEST_P(leases, reaping_counts_what_became_of_the_members_still_open)
{
    auto once = box_with(steady_retries(1s, 2));
    const auto worn = add();
    const auto tried_once = once.claim(alice);
    once.abandon(alice, tried_once.receipts(), 0s, "first failure");
    const auto ids = add_many(3);
    const auto claimed = once.claim(alice, {.start = 3});
    ASSERT_THAT(ids_of(claimed), ElementsAre(worn, ids[0], ids[1], ids[2]));
    ASSERT_EQ(acknowledge(claimed.receipts()[1]), settled_as::done);
    clock().advance(30s);

    const auto report = once.reap_expired();

    EXPECT_EQ(report.batches, 1U);
    EXPECT_EQ(report.dead, 1U);
    EXPECT_EQ(report.retrying, 1U);
    EXPECT_EQ(report.released, 1U);
    EXPECT_THAT(states_of({worn, ids[0], ids[1], ids[2]}),
                ElementsAre(message_state::dead, message_state::done, message_state::ready,
                            message_state::ready));
}

// Proves: OUT-03, OUT-10, I4, F15
TEST_P(leases, after_a_reaping_the_old_owner_changes_nothing)
{
    add();
    const auto old = claim_one();
    clock().advance(30s);
    ASSERT_EQ(box().reap_expired().batches, 1U);

    expect_lost(alice, old);
}

// Proves: OUT-03, OUT-10, I4, F15
TEST_P(leases, a_worker_that_wakes_up_late_cannot_disturb_its_successor)
{
    const auto id = add();
    const auto old = claim_one();
    clock().advance(30s);
    ASSERT_EQ(box().reap_expired().batches, 1U);
    clock().advance(1min);
    const auto successor = claim_one(bob);
    ASSERT_GT(successor.fence, old.fence);

    expect_lost(alice, old);

    EXPECT_EQ(acknowledge(bob, successor), settled_as::done);
    expect_lost(alice, old);
    EXPECT_EQ(look(id).worker, "bob");
}

// Proves: OUT-03, I4, F15
TEST_P(leases, an_owners_own_older_claim_is_lost_as_well)
{
    add();
    const auto old = claim_one();
    clock().advance(30s);
    ASSERT_EQ(box().reap_expired().batches, 1U);
    clock().advance(1min);
    const auto again = claim_one();

    expect_lost(alice, old);
    EXPECT_EQ(acknowledge(again), settled_as::done);
}

// Proves: OUT-03, I4
TEST_P(leases, what_was_given_back_from_a_batch_is_lost_while_the_batch_lives_on)
{
    add_many(2);
    const auto claimed = claim(2, 1);
    const auto old = claimed.receipts()[0];
    ASSERT_EQ(abandon(old, 0s, "later"), settled_as::retrying);
    const auto successor = claim_one(bob);
    ASSERT_EQ(successor.id, old.id);
    const auto before = facts_of(look(old.id));

    EXPECT_EQ(acknowledge(old), settled_as::lost);
    EXPECT_EQ(abandon(old, 0s, "late"), settled_as::lost);
    EXPECT_EQ(fail(old, "late"), settled_as::lost);
    EXPECT_EQ(start(old), start_answer::lost);
    EXPECT_EQ(facts_of(look(old.id)), before);
    EXPECT_EQ(acknowledge(bob, successor), settled_as::done);
    EXPECT_EQ(acknowledge(claimed.receipts()[1]), settled_as::done);
}

// Proves: OUT-10, I6
TEST_P(leases, a_late_answer_counts_as_long_as_nobody_has_taken_over)
{
    const auto id = add();
    const auto held = claim_one();
    clock().advance(1h);

    EXPECT_EQ(acknowledge(held), settled_as::done);
    EXPECT_EQ(box().reap_expired().batches, 0U);
    EXPECT_EQ(state_of(id), message_state::done);
}

} // namespace

CONFORMANCE_SUITE(claiming);
CONFORMANCE_SUITE(leases);

} // namespace posthorn::conformance
