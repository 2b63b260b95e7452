// Settling: every answer is given per message, to its owner alone, once, and in one transaction
// with whatever hangs on it.
#include "conformance/conformance_test.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace posthorn::conformance {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

class settling : public conformance_test {};

// Proves: OUT-10, OUT-12
TEST_P(settling, what_is_acknowledged_is_done)
{
    const auto ids = add_many(3);
    const auto claimed = claim();

    const auto result = box().acknowledge(alice, claimed.receipts());

    EXPECT_THAT(result.answers, ElementsAre(settled_as::done, settled_as::done, settled_as::done));
    EXPECT_EQ(result.settled(), 3U);
    EXPECT_EQ(result.lost(), 0U);
    EXPECT_THAT(states_of(ids), Each(message_state::done));
    EXPECT_TRUE(claim().empty());
}

// Proves: OUT-10
TEST_P(settling, an_empty_list_does_nothing_and_needs_no_transaction)
{
    const auto id = add();
    ASSERT_EQ(claim().size(), 1U);
    {
        // Whoever opened a second transaction to write would have to wait for this one.
        const auto occupied = db().begin();
        EXPECT_THAT(box().acknowledge(alice, {}).answers, IsEmpty());
        EXPECT_THAT(box().abandon(alice, {}, 1s, "error").answers, IsEmpty());
        EXPECT_THAT(box().fail(alice, {}, "error").answers, IsEmpty());
        EXPECT_THAT(box().settle(alice, {}).answers, IsEmpty());
        EXPECT_THAT(box().start(alice, {}), IsEmpty());
    }
    EXPECT_EQ(state_of(id), message_state::claimed);
}

// Proves: OUT-10
TEST_P(settling, an_empty_list_leaves_the_callers_transaction_alone)
{
    auto tx = db().begin();
    EXPECT_THAT(box().acknowledge(tx, alice, {}).answers, IsEmpty());
    EXPECT_THAT(box().settle(tx, alice, {}).answers, IsEmpty());
    const auto id = enqueue(tx, {.topic = "orders", .payload = ""}).id;
    tx.commit();

    EXPECT_EQ(state_of(id), message_state::ready);
}

// Proves: OUT-10, F21
TEST_P(settling, an_empty_owner_is_refused)
{
    const auto id = add();
    const std::vector<receipt> held{claim_one()};
    const std::vector<settlement> all{{held[0], done()}};
    const owner nobody{.token = "", .worker = "alice"};
    const auto refused = [](const auto& call) { return thrown_by(call).code(); };

    EXPECT_EQ(refused([&] { box().acknowledge(nobody, held); }), error_code::invalid_argument);
    EXPECT_EQ(refused([&] { box().abandon(nobody, held); }), error_code::invalid_argument);
    EXPECT_EQ(refused([&] { box().fail(nobody, held, "why"); }), error_code::invalid_argument);
    EXPECT_EQ(refused([&] { box().settle(nobody, all); }), error_code::invalid_argument);
    EXPECT_EQ(refused([&] { (void)box().start(nobody, held); }), error_code::invalid_argument);
    {
        auto tx = db().begin();
        EXPECT_EQ(refused([&] { box().acknowledge(tx, nobody, held); }),
                  error_code::invalid_argument);
        tx.commit();
    }
    EXPECT_EQ(state_of(id), message_state::claimed);
}

// Proves: OUT-10
TEST_P(settling, repeated_entries_get_the_same_answer_and_count_once)
{
    auto patient = box_with(steady_retries(1s, 5));
    const auto ids = add_many(3);
    const auto r = patient.claim(alice).receipts();

    EXPECT_THAT(patient.acknowledge(alice, std::vector{r[0], r[0], r[0]}).answers,
                ElementsAre(settled_as::done, settled_as::done, settled_as::done));
    EXPECT_THAT(patient.abandon(alice, std::vector{r[1], r[1]}, {}, "no").answers,
                ElementsAre(settled_as::retrying, settled_as::retrying));
    EXPECT_THAT(patient.fail(alice, std::vector{r[2], r[2]}, "no").answers,
                ElementsAre(settled_as::dead, settled_as::dead));

    for (const auto id : ids)
        EXPECT_EQ(look(id).attempts, 1);
    EXPECT_EQ(look(ids[0]).errors, 0);
    EXPECT_EQ(look(ids[1]).errors, 1);
    EXPECT_EQ(look(ids[2]).errors, 1);
    EXPECT_EQ(count_messages(db()).done, 1);
    EXPECT_EQ(count_messages(db()).claimed, 0);
}

// Proves: OUT-10, OUT-11
TEST_P(settling, repeated_entries_of_what_never_started_release_it_once)
{
    const auto id = add();
    const auto r = claim(1, 0).receipts();

    EXPECT_THAT(box().abandon(alice, std::vector{r[0], r[0]}).answers,
                ElementsAre(settled_as::released, settled_as::released));
    EXPECT_EQ(look(id).attempts, 0);
    EXPECT_THAT(claimed_ids(), ElementsAre(id));
}

// Proves: OUT-10
TEST_P(settling, of_two_outcomes_for_one_message_the_first_counts)
{
    const auto ids = add_many(2);
    const auto r = claim().receipts();
    const std::vector<settlement> all{{r[0], done()},
                                      {r[1], posthorn::fail("broken")},
                                      {r[0], posthorn::fail("too late")},
                                      {r[1], done()}};

    EXPECT_THAT(box().settle(alice, all).answers, ElementsAre(settled_as::done, settled_as::dead,
                                                              settled_as::done, settled_as::dead));
    EXPECT_THAT(states_of(ids), ElementsAre(message_state::done, message_state::dead));
    EXPECT_EQ(look(ids[0]).errors, 0);
    EXPECT_EQ(look(ids[1]).last_error, "broken");
}

// Proves: OUT-10, I3
TEST_P(settling, a_second_call_finds_the_message_settled)
{
    add();
    const auto held = claim_one();
    ASSERT_EQ(acknowledge(held), settled_as::done);

    const auto again = box().acknowledge(alice, std::vector{held, held});
    EXPECT_THAT(again.answers, ElementsAre(settled_as::lost, settled_as::lost));
    EXPECT_EQ(again.settled(), 0U);
    EXPECT_EQ(again.lost(), 2U);
}

// Proves: OUT-10
TEST_P(settling, another_owners_messages_are_left_alone_and_counted_as_lost)
{
    const auto ids = add_many(2);
    const auto r = claim().receipts();
    const owner namesake{.token = "another token", .worker = alice.worker};

    for (const auto& stranger : {bob, namesake}) {
        EXPECT_EQ(box().acknowledge(stranger, r).lost(), 2U);
        EXPECT_EQ(box().abandon(stranger, r, 0s, "no").lost(), 2U);
        EXPECT_EQ(box().fail(stranger, r, "no").lost(), 2U);
        EXPECT_THAT(box().start(stranger, r), Each(start_answer::lost));
    }

    EXPECT_THAT(states_of(ids), Each(message_state::claimed));
    EXPECT_EQ(look(ids[0]).errors, 0);
    EXPECT_EQ(look(ids[0]).worker, "alice");
    EXPECT_EQ(box().acknowledge(alice, r).settled(), 2U);
}

// Proves: OUT-10, F28
TEST_P(settling, one_bad_receipt_among_many_spoils_nothing)
{
    const auto ids = add_many(4);
    auto r = claim(2).receipts();
    const auto foreign = box().claim(bob, {.limit = 1}).receipts();
    r.insert(r.begin() + 1, foreign[0]);
    const auto more = claim(1).receipts();
    r.push_back(more[0]);

    EXPECT_THAT(
        box().acknowledge(alice, r).answers,
        ElementsAre(settled_as::done, settled_as::lost, settled_as::done, settled_as::done));
    EXPECT_THAT(states_of(ids), ElementsAre(message_state::done, message_state::done,
                                            message_state::claimed, message_state::done));
}

// Proves: OUT-10
TEST_P(settling, receipts_of_several_batches_go_into_one_call_in_any_order)
{
    auto patient = box_with(steady_retries(1s, 5));
    const auto ids = add_many(6);
    const auto a = patient.claim(alice, {.limit = 2}).receipts();
    const auto b = patient.claim(alice, {.limit = 2, .start = 0}).receipts();
    const auto c = patient.claim(alice, {.limit = 2}).receipts();

    EXPECT_THAT(patient.abandon(alice, std::vector{c[1], b[0], a[1], a[0], b[1]}, {}, "no").answers,
                ElementsAre(settled_as::retrying, settled_as::released, settled_as::retrying,
                            settled_as::retrying, settled_as::released));
    EXPECT_EQ(state_of(ids[4]), message_state::claimed);
    EXPECT_EQ(acknowledge(c[0]), settled_as::done);
}

// Proves: OUT-10, I4
TEST_P(settling, messages_with_ids_of_the_callers_own_settle_for_good)
{
    const auto world = environment::system();
    std::vector<message_id> ids;
    for (int i = 0; i < 3; ++i)
        ids.push_back(add("orders", {.id = message_id{uuid::version_7(now(), *world.random)}}));
    ids.push_back(add());

    EXPECT_EQ(box().acknowledge(alice, claim().receipts()).settled(), 4U);

    EXPECT_THAT(states_of(ids), Each(message_state::done));
    EXPECT_EQ(count_messages(db()).claimed, 0);
}

// Proves: OUT-11, I4
TEST_P(settling, a_receipt_that_does_not_fit_its_batch_is_lost)
{
    const auto ids = add_many(3);
    const auto first = claim(2).receipts();
    const auto second = claim(1).receipts();

    auto other_position = first[0];
    other_position.position = first[1].position;
    auto other_batch = first[1];
    other_batch.fence = second[0].fence;
    auto no_batch = first[0];
    no_batch.fence = fence{999'999};
    const std::vector forged{other_position, other_batch, no_batch, receipt{}};

    EXPECT_THAT(box().acknowledge(alice, forged).answers, Each(settled_as::lost));
    EXPECT_THAT(box().abandon(alice, forged, 0s, "no").answers, Each(settled_as::lost));
    EXPECT_THAT(states_of(ids), Each(message_state::claimed));
}

// Proves: OUT-10, OUT-11
TEST_P(settling, one_call_takes_any_mix_of_outcomes)
{
    auto patient = box_with(steady_retries(7s, 5));
    const auto ids = add_many(5);
    const auto r = patient.claim(alice, {.start = 4}).receipts();
    const std::vector<settlement> all{{r[0], posthorn::fail("broken")},
                                      {r[1], done()},
                                      {r[2], retry("later")},
                                      {r[3], retry_in(90s, "much later")},
                                      {r[4], retry("never started")}};

    EXPECT_THAT(patient.settle(alice, all).answers,
                ElementsAre(settled_as::dead, settled_as::done, settled_as::retrying,
                            settled_as::retrying, settled_as::released));
    EXPECT_THAT(states_of(ids),
                ElementsAre(message_state::dead, message_state::done, message_state::ready,
                            message_state::ready, message_state::ready));
    EXPECT_EQ(look(ids[2]).due_at, now() + 7s);
    EXPECT_EQ(look(ids[3]).due_at, now() + 90s);
    EXPECT_EQ(look(ids[4]).due_at, now());
}

// Proves: OUT-10
TEST_P(settling, a_batch_can_be_settled_bit_by_bit_and_backwards)
{
    const auto ids = add_many(1'000);
    auto r = claim(1'000).receipts();
    std::ranges::reverse(r);

    for (std::size_t i = 0; i < r.size(); i += 300) {
        const auto part = std::span(r).subspan(i, std::min<std::size_t>(300, r.size() - i));
        EXPECT_EQ(box().acknowledge(alice, part).settled(), part.size());
        EXPECT_EQ(count_messages(db()).claimed,
                  static_cast<std::int64_t>(r.size() - i - part.size()));
    }
    EXPECT_EQ(count_messages(db()).done, 1'000);
}

// Proves: OUT-09, OUT-10, I3
TEST_P(settling, an_end_is_final)
{
    const auto id_done = add();
    const auto id_dead = add();
    const auto id_cancelled = add();
    const auto id_expired = add("orders", {.expires_after = 10s});
    const auto held = add();
    const auto r = claim(5, 2).receipts();
    ASSERT_EQ(acknowledge(r[0]), settled_as::done);
    ASSERT_EQ(fail(r[1], "broken"), settled_as::dead);
    ASSERT_EQ(cancel(db(), id_cancelled), cancel_answer::cancelled);
    clock().advance(10s);
    ASSERT_EQ(start(r[3]), start_answer::gone);
    ASSERT_EQ(state_of(held), message_state::claimed);

    const std::span ended(r.data(), 4);
    EXPECT_THAT(box().acknowledge(alice, ended).answers, Each(settled_as::lost));
    EXPECT_THAT(box().abandon(alice, ended, 0s, "late").answers, Each(settled_as::lost));
    EXPECT_THAT(box().fail(alice, ended, "late").answers, Each(settled_as::lost));
    clock().advance(1h);
    EXPECT_EQ(box().reap_expired().released, 1U);
    EXPECT_EQ(box().expire_due(), 0U);
    EXPECT_THAT(claimed_ids(), ElementsAre(held));

    EXPECT_THAT(states_of({id_done, id_dead, id_cancelled, id_expired}),
                ElementsAre(message_state::done, message_state::dead, message_state::cancelled,
                            message_state::expired));
    EXPECT_EQ(look(id_done).errors, 0);
    EXPECT_EQ(look(id_dead).last_error, "broken");
}

// Proves: OUT-10, OUT-13
TEST_P(settling, a_receipt_of_a_removed_message_is_lost)
{
    add_many(2);
    const auto r = claim().receipts();
    ASSERT_EQ(fail(r[0], "broken"), settled_as::dead);
    ASSERT_TRUE(purge(db(), r[0].id));

    EXPECT_EQ(acknowledge(r[0]), settled_as::lost);
    EXPECT_EQ(abandon(r[0]), settled_as::lost);
    EXPECT_EQ(acknowledge(r[1]), settled_as::done);
}

// Proves: OUT-10, I1
TEST_P(settling, an_acknowledgement_commits_with_the_transaction_it_is_given)
{
    const auto id = add();
    const std::vector<receipt> held{claim_one()};

    auto tx = db().begin();
    EXPECT_THAT(box().acknowledge(tx, alice, held).answers, ElementsAre(settled_as::done));
    const auto follow_up = enqueue(tx, {.topic = "invoices", .payload = ""}).id;
    EXPECT_EQ(find_message(tx, id)->state, message_state::done);
    tx.commit();

    EXPECT_EQ(state_of(id), message_state::done);
    EXPECT_EQ(state_of(follow_up), message_state::ready);
}

// Proves: OUT-10, I1
TEST_P(settling, an_acknowledgement_goes_with_a_transaction_that_is_rolled_back)
{
    const auto id = add();
    const std::vector<receipt> held{claim_one()};
    std::optional<message_id> follow_up;
    {
        auto tx = db().begin();
        ASSERT_THAT(box().acknowledge(tx, alice, held).answers, ElementsAre(settled_as::done));
        follow_up = enqueue(tx, {.topic = "invoices", .payload = ""}).id;
        tx.rollback();
    }
    EXPECT_EQ(state_of(id), message_state::claimed);
    EXPECT_FALSE(find_message(db(), *follow_up));
    {
        auto forgotten = db().begin();
        ASSERT_THAT(
            box()
                .settle(forgotten, alice, std::vector{settlement{held[0], posthorn::fail("no")}})
                .answers,
            ElementsAre(settled_as::dead));
    }
    EXPECT_EQ(state_of(id), message_state::claimed);
    EXPECT_EQ(acknowledge(held[0]), settled_as::done);
}

using report = std::vector<std::pair<message_id, settled_as>>;

class settlement_hooks : public conformance_test {
protected:
    /// Writes down what it is told.
    settlement_hook listener()
    {
        return [this](transaction&, std::span<const settled_message> changed) {
            ++calls;
            for (const auto& each : changed)
                heard.emplace_back(each.id, each.answer);
        };
    }

    static settlement_hook thrower()
    {
        return [](transaction&, std::span<const settled_message>) {
            throw std::runtime_error("the hook does not want it");
        };
    }

    /// Enqueues a message per message, due after everything else here.
    static settlement_hook continuation()
    {
        return [](transaction& tx, std::span<const settled_message> all) {
            for (const auto& each : all)
                enqueue(tx, {.topic = "continuation", .payload = to_string(each.id)},
                        {.delay = 24h});
        };
    }

    outbox box_with_hooks(std::vector<settlement_hook> hooks)
    {
        auto options = steady_retries(1s, 2);
        options.hooks = std::move(hooks);
        return box_with(std::move(options));
    }

    std::size_t of_topic(const std::string& topic)
    {
        return list_messages(db(), {.topic = topic}).size();
    }

    int calls = 0;
    report heard;
};

// Proves: OUT-10
TEST_P(settlement_hooks, a_hook_hears_of_exactly_the_messages_whose_fate_changed)
{
    auto heard_by = box_with_hooks({listener()});
    add_many(6);
    const auto r = heard_by.claim(alice, {.limit = 5, .start = 4}).receipts();
    const auto foreign = heard_by.claim(bob).receipts();
    ASSERT_EQ(acknowledge(r[3]), settled_as::done);

    const std::vector<settlement> all{{r[0], done()},
                                      {foreign[0], done()},
                                      {r[1], posthorn::fail("broken")},
                                      {r[3], done()},
                                      {r[2], retry("later")},
                                      {r[4], retry("unstarted")},
                                      {receipt{}, posthorn::fail("no")}};
    heard_by.settle(alice, all);

    EXPECT_EQ(calls, 1);
    EXPECT_THAT(heard, ElementsAre(Pair(r[0].id, settled_as::done), Pair(r[1].id, settled_as::dead),
                                   Pair(r[2].id, settled_as::retrying),
                                   Pair(r[4].id, settled_as::released)));
}

// Proves: OUT-10
TEST_P(settlement_hooks, a_repeated_entry_is_reported_once)
{
    auto heard_by = box_with_hooks({listener()});
    const auto ids = add_many(2);
    const auto r = heard_by.claim(alice).receipts();

    heard_by.acknowledge(alice, std::vector{r[0], r[1], r[0], r[1]});

    EXPECT_THAT(heard, ElementsAre(Pair(ids[0], settled_as::done), Pair(ids[1], settled_as::done)));
}

// Proves: OUT-10, I4
TEST_P(settlement_hooks, a_hook_is_not_called_when_everything_was_lost)
{
    auto heard_by = box_with_hooks({listener()});
    add_many(2);
    const auto r = heard_by.claim(alice).receipts();
    clock().advance(30s);
    ASSERT_EQ(box().reap_expired().batches, 1U);

    ASSERT_EQ(heard_by.acknowledge(alice, r).lost(), 2U);
    heard_by.acknowledge(alice, {});
    EXPECT_EQ(heard_by.reap_expired().batches, 0U);

    EXPECT_EQ(calls, 0);
}

// Proves: OUT-10
TEST_P(settlement_hooks, a_hook_that_throws_undoes_the_settlement)
{
    auto refused = box_with_hooks({continuation(), thrower()});
    const auto ids = add_many(2);
    const auto r = refused.claim(alice).receipts();

    EXPECT_THROW(refused.acknowledge(alice, r), std::runtime_error);
    EXPECT_THROW(refused.fail(alice, r, "broken"), std::runtime_error);

    EXPECT_THAT(states_of(ids), Each(message_state::claimed));
    EXPECT_EQ(look(ids[0]).errors, 0);
    EXPECT_EQ(of_topic("continuation"), 0U);
    EXPECT_EQ(box().acknowledge(alice, r).settled(), 2U);
}

// Proves: OUT-10, I1
TEST_P(settlement_hooks, what_a_hook_enqueues_commits_with_the_settlement)
{
    auto chained = box_with_hooks({continuation()});
    const auto id = add();
    const auto r = chained.claim(alice).receipts();

    chained.acknowledge(alice, r);
    chained.acknowledge(alice, r);

    const auto next = list_messages(db(), {.topic = "continuation", .with_payload = true});
    ASSERT_THAT(next, SizeIs(1));
    EXPECT_EQ(next[0].payload, to_string(id));
    EXPECT_EQ(next[0].state, message_state::ready);
    EXPECT_EQ(state_of(id), message_state::done);
}

// Proves: OUT-10
TEST_P(settlement_hooks, hooks_run_in_order_and_see_the_settlement)
{
    std::vector<std::string> seen;
    const auto looking = [&](const std::string& name) -> settlement_hook {
        return [&seen, name](transaction& tx, std::span<const settled_message> all) {
            const auto found = find_message(tx, all[0].id);
            seen.push_back(name + " " + std::string(to_string(found->state)));
        };
    };
    auto watched = box_with_hooks({looking("first"), looking("second")});
    add();

    watched.acknowledge(alice, watched.claim(alice).receipts());

    EXPECT_THAT(seen, ElementsAre("first done", "second done"));
}

// Proves: OUT-10, I1
TEST_P(settlement_hooks, in_a_given_transaction_hooks_share_its_fate)
{
    auto chained = box_with_hooks({continuation()});
    const auto id = add();
    const auto r = chained.claim(alice).receipts();
    {
        auto tx = db().begin();
        ASSERT_EQ(chained.acknowledge(tx, alice, r).settled(), 1U);
        tx.rollback();
    }
    EXPECT_EQ(of_topic("continuation"), 0U);
    EXPECT_EQ(state_of(id), message_state::claimed);

    auto tx = db().begin();
    ASSERT_EQ(chained.acknowledge(tx, alice, r).settled(), 1U);
    tx.commit();
    EXPECT_EQ(of_topic("continuation"), 1U);
    EXPECT_EQ(state_of(id), message_state::done);
}

// Proves: OUT-10, OUT-11
TEST_P(settlement_hooks, reaping_reports_too)
{
    auto heard_by = box_with_hooks({listener(), continuation()});
    const auto worn = add();
    heard_by.abandon(alice, heard_by.claim(alice).receipts(), 0s, "first failure");
    const auto ids = add_many(3);
    const auto r = heard_by.claim(alice, {.start = 2}).receipts();
    ASSERT_EQ(box().acknowledge(alice, std::vector{r[2]}).settled(), 1U);
    calls = 0;
    heard.clear();
    clock().advance(30s);

    ASSERT_EQ(heard_by.reap_expired().batches, 1U);

    EXPECT_EQ(calls, 1);
    EXPECT_THAT(heard, ElementsAre(Pair(worn, settled_as::dead), Pair(ids[0], settled_as::retrying),
                                   Pair(ids[2], settled_as::released)));
    EXPECT_EQ(of_topic("continuation"), 4U);
}

// Proves: OUT-10
TEST_P(settlement_hooks, a_hook_that_throws_undoes_the_reaping)
{
    auto refused = box_with_hooks({thrower()});
    const auto id = add();
    const auto r = refused.claim(alice).receipts();
    clock().advance(30s);

    EXPECT_THROW(refused.reap_expired(), std::runtime_error);

    EXPECT_EQ(state_of(id), message_state::claimed);
    EXPECT_EQ(look(id).errors, 0);
    EXPECT_EQ(box().reap_expired().batches, 1U);
    EXPECT_EQ(look(id).errors, 1);
}

} // namespace

CONFORMANCE_SUITE(settling);
CONFORMANCE_SUITE(settlement_hooks);

} // namespace posthorn::conformance
