// Two who want the same thing, in every order of their steps: whatever the order, the promises
// hold. Which of them wins is the engine's affair, and so is who waits for whom; a test asks only
// that the answers agree with each other and with what is stored in the end.
#include "conformance/interleaved_test.hpp"
#include "core/settlement.hpp"
#include "store/contract/message_queue.hpp"
#include "store/contract/session.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace posthorn::conformance {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class interleavings : public interleaved_test {
protected:
    /// Reaps as the outbox does, but inside a transaction. Returns: what became of each message.
    static std::map<message_id, settled_as> reap(transaction& tx)
    {
        std::map<message_id, settled_as> result;
        auto& queue = tx.session().queue();
        for (const auto& overdue : queue.overdue_batches(100)) {
            std::vector<contract::decided> all;
            for (const auto& each : overdue.open)
                all.push_back(
                    {each.receipt, core::decide_for_absent({.topic = each.topic,
                                                            .starts_before = each.starts_before,
                                                            .started = each.started},
                                                           {}, dead_key::blocks, 0.5)});
            const auto answers = queue.settle(overdue.owner, overdue.fence, all, true);
            for (std::size_t i = 0; i < all.size(); ++i)
                result.insert_or_assign(all[i].receipt.id, answers[i]);
        }
        return result;
    }

    static batch claim_in(transaction& tx, const owner& who, std::size_t limit,
                          const std::vector<std::string>& unpark = {})
    {
        return tx.session().queue().claim({.owner = who.token,
                                           .worker = who.worker,
                                           .lease = 30s,
                                           .limit = limit,
                                           .start = limit,
                                           .unpark = unpark});
    }

    settled_as put_aside(transaction& tx, const receipt& what)
    {
        const settlement one{what, park(park_reason::no_handler)};
        return box().settle(tx, alice, {&one, 1}).answers.at(0);
    }

    /// Parks the only message that is due.
    message_id park_one()
    {
        auto tx = db().begin();
        const auto held = claim_in(tx, alice, 1).receipts().at(0);
        EXPECT_EQ(put_aside(tx, held), settled_as::parked);
        tx.commit();
        return held.id;
    }

    const owner carol{.token = "token of carol", .worker = "carol"};
};

// Proves: OUT-10, I6
TEST_P(interleavings, of_two_claims_each_message_goes_to_one)
{
    std::vector<message_id> ids;
    batch of_alice;
    batch of_bob;
    in_every_order(
        {in_a_transaction([&](transaction& tx) { of_alice = claim_in(tx, alice, 2); }),
         in_a_transaction([&](transaction& tx) { of_bob = claim_in(tx, bob, 2); })},
        [&] { ids = add_many(3); },
        [&] {
            auto claimed = ids_of(of_alice);
            std::ranges::copy(ids_of(of_bob), std::back_inserter(claimed));
            for (const auto id : ids)
                EXPECT_LE(std::ranges::count(claimed, id), 1) << to_string(id);
            EXPECT_TRUE(of_alice.empty() || of_bob.empty() || of_alice.fence != of_bob.fence);
            // What nobody got is still there for the next, and nothing else is.
            std::ranges::copy(ids_of(box().claim(carol)), std::back_inserter(claimed));
            EXPECT_THAT(claimed, ::testing::UnorderedElementsAreArray(ids));
            for (const auto& [who, what] : {std::pair{alice, of_alice}, {bob, of_bob}})
                EXPECT_EQ(box().acknowledge(who, what.receipts()).lost(), 0U) << who.worker;
        });
}

// Proves: OUT-06, I8
TEST_P(interleavings, of_two_claims_only_one_gets_the_head_of_a_key_and_none_what_is_behind)
{
    message_id head;
    message_id next;
    batch of_alice;
    batch of_bob;
    in_every_order(
        {in_a_transaction([&](transaction& tx) { of_alice = claim_in(tx, alice, 10); }),
         in_a_transaction([&](transaction& tx) { of_bob = claim_in(tx, bob, 10); })},
        [&] {
            head = add_keyed("k");
            next = add_keyed("k");
        },
        [&] {
            EXPECT_EQ(of_alice.size() + of_bob.size(), 1U);
            const auto& [who, won] =
                of_alice.empty() ? std::pair{bob, of_bob} : std::pair{alice, of_alice};
            EXPECT_THAT(ids_of(won), ElementsAre(head));
            EXPECT_EQ(state_of(next), message_state::waiting);
            EXPECT_EQ(box().acknowledge(who, won.receipts()).lost(), 0U);
            EXPECT_EQ(state_of(next), message_state::ready);
        });
}

// Proves: OUT-10, OUT-12, I4, I5
TEST_P(interleavings, an_acknowledgement_and_a_reaping_cannot_both_win)
{
    receipt claimed;
    settled_as answer{};
    std::map<message_id, settled_as> reaped;
    std::set<bool> seen;
    in_every_order(
        {in_a_transaction([&](transaction& tx) {
             answer = box().acknowledge(tx, alice, {&claimed, 1}).answers.at(0);
         }),
         in_a_transaction([&](transaction& tx) { reaped = reap(tx); })},
        [&] {
            add();
            claimed = claim_one();
            clock().advance(1h);
        },
        [&] {
            const bool taken_back =
                reaped.contains(claimed.id) && reaped[claimed.id] != settled_as::lost;
            seen.insert(taken_back);
            EXPECT_EQ(answer, taken_back ? settled_as::lost : settled_as::done);
            EXPECT_EQ(state_of(claimed.id),
                      taken_back ? message_state::ready : message_state::done);
            EXPECT_EQ(look(claimed.id).attempts, 1);
            EXPECT_EQ(acknowledge(claimed), settled_as::lost) << "once is enough";
        });
    EXPECT_EQ(seen.size(), 2U) << "each of them wins when it comes first";
}

// Proves: OUT-09, OUT-10, I18
TEST_P(interleavings, an_acknowledgement_and_a_cancel_cannot_both_win)
{
    receipt claimed;
    settled_as answer{};
    cancel_answer cancelled{};
    std::set<bool> seen;
    in_every_order(
        {in_a_transaction([&](transaction& tx) {
             answer = box().acknowledge(tx, alice, {&claimed, 1}).answers.at(0);
         }),
         in_a_transaction([&](transaction& tx) { cancelled = cancel(tx, claimed.id); })},
        [&] {
            add();
            claimed = claim(1, 0).deliveries.at(0).receipt; // not started: it can be cancelled
        },
        [&] {
            const bool done = answer == settled_as::done;
            seen.insert(done);
            EXPECT_TRUE(done || answer == settled_as::lost) << to_string(answer);
            EXPECT_THAT(cancelled, done ? AnyOf(cancel_answer::too_late, cancel_answer::pending)
                                        : AnyOf(cancel_answer::cancelled, cancel_answer::pending));
            EXPECT_EQ(state_of(claimed.id), done ? message_state::done : message_state::cancelled);
        });
    EXPECT_EQ(seen.size(), 2U) << "each of them wins when it comes first";
}

// Proves: OUT-09, I18
TEST_P(interleavings, what_is_cancelled_never_starts)
{
    receipt claimed;
    start_answer started{};
    cancel_answer cancelled{};
    std::set<bool> seen;
    in_every_order(
        {in_a_transaction([&](transaction& tx) {
             started = tx.session().queue().start(alice.token, claimed.fence, {&claimed, 1}).at(0);
         }),
         in_a_transaction([&](transaction& tx) { cancelled = cancel(tx, claimed.id); })},
        [&] {
            add();
            claimed = claim(1, 0).deliveries.at(0).receipt;
        },
        [&] {
            const bool runs = started == start_answer::started;
            seen.insert(runs);
            EXPECT_THAT(cancelled, runs ? AnyOf(cancel_answer::too_late, cancel_answer::pending)
                                        : AnyOf(cancel_answer::cancelled, cancel_answer::pending));
            EXPECT_EQ(state_of(claimed.id),
                      runs ? message_state::claimed : message_state::cancelled);
            EXPECT_EQ(acknowledge(claimed), runs ? settled_as::done : settled_as::lost);
        });
    EXPECT_EQ(seen.size(), 2U) << "each of them wins when it comes first";
}

// Proves: OUT-07
TEST_P(interleavings, of_two_with_one_dedup_key_the_loser_hears_of_the_winner)
{
    std::string key;
    enqueued first;
    enqueued second;
    std::set<bool> seen;
    in_every_order(
        {in_a_transaction([&](transaction& tx) {
             first = enqueue(tx, {"orders", "first"}, {.dedup_key = key});
         }),
         in_a_transaction([&](transaction& tx) {
             second = enqueue(tx, {"orders", "second"}, {.dedup_key = key});
         })},
        [&] { key += 'd'; },
        [&] {
            EXPECT_NE(first.duplicate, second.duplicate);
            seen.insert(first.duplicate);
            EXPECT_EQ(first.id, second.id);
            EXPECT_EQ(look(first.id).payload, first.duplicate ? "second" : "first");
            EXPECT_THAT(claimed_ids(), ElementsAre(first.id));
        });
    EXPECT_EQ(seen.size(), 2U) << "each of them wins when it comes first";
}

// Proves: OUT-07, I1
TEST_P(interleavings, a_dedup_key_that_was_rolled_back_stops_nobody)
{
    std::string key;
    enqueued lost;
    enqueued kept;
    in_every_order(
        {in_a_transaction(
             [&](transaction& tx) {
                 lost = enqueue(tx, {"orders", "lost"}, {.dedup_key = key});
             },
             false),
         in_a_transaction([&](transaction& tx) {
             kept = enqueue(tx, {"orders", "kept"}, {.dedup_key = key});
         })},
        [&] { key += 'd'; },
        [&] {
            EXPECT_FALSE(kept.duplicate);
            EXPECT_EQ(look(kept.id).payload, "kept");
            EXPECT_THAT(claimed_ids(), ElementsAre(kept.id));
        });
}

// Proves: OUT-06, I8
TEST_P(interleavings, of_two_new_messages_of_a_key_one_waits_for_the_other)
{
    message_id one;
    message_id two;
    const auto adding = [](message_id& id) {
        return in_a_transaction([&id](transaction& tx) {
            id = enqueue(tx, {"orders", ""}, {.ordering_key = "k"}).id;
        });
    };
    in_every_order(
        {adding(one), adding(two)}, [] {},
        [&] {
            EXPECT_THAT(states_of({one, two}),
                        UnorderedElementsAre(message_state::ready, message_state::waiting));
            auto delivered = work_off();
            std::ranges::copy(work_off(), std::back_inserter(delivered));
            ASSERT_THAT(delivered, UnorderedElementsAre(one, two));
            EXPECT_LT(look(delivered[0]).position, look(delivered[1]).position);
        });
}

// Proves: OUT-06, I2, I8
TEST_P(interleavings, a_message_that_comes_while_its_key_is_set_free_does_not_wait_for_ever)
{
    receipt claimed;
    message_id next;
    in_every_order(
        {in_a_transaction([&](transaction& tx) {
             EXPECT_EQ(box().acknowledge(tx, alice, {&claimed, 1}).lost(), 0U);
         }),
         in_a_transaction([&](transaction& tx) {
             next = enqueue(tx, {"orders", ""}, {.ordering_key = "k"}).id;
         })},
        [&] {
            add_keyed("k");
            claimed = claim_one();
        },
        [&] {
            EXPECT_EQ(state_of(next), message_state::ready);
            EXPECT_THAT(claimed_ids(), ElementsAre(next));
        });
}

// Proves: OUT-06, OUT-09, I2
TEST_P(interleavings, a_message_that_comes_while_the_one_before_is_cancelled_does_not_wait_for_ever)
{
    message_id first;
    message_id next;
    in_every_order(
        {in_a_transaction(
             [&](transaction& tx) { EXPECT_EQ(cancel(tx, first), cancel_answer::cancelled); }),
         in_a_transaction([&](transaction& tx) {
             next = enqueue(tx, {"orders", ""}, {.ordering_key = "k"}).id;
         })},
        [&] { first = add_keyed("k"); },
        [&] {
            EXPECT_EQ(state_of(next), message_state::ready);
            EXPECT_THAT(claimed_ids(), ElementsAre(next));
        });
}

// Proves: I2, I9
TEST_P(interleavings, a_message_that_commits_late_is_not_passed_over)
{
    message_id slow;
    message_id quick;
    std::vector<message_id> seen;
    in_every_order(
        {in_a_transaction([&](transaction& tx) {
             slow = enqueue(tx, {"orders", "slow"}).id;
         }),
         alone([&](store& where) {
             quick = enqueue(where, {"orders", "quick"}).id;
         }),
         alone([&](store& where) {
             outbox own(where);
             const auto claimed = own.claim(bob);
             seen = ids_of(claimed);
             EXPECT_EQ(own.acknowledge(bob, claimed.receipts()).lost(), 0U);
         })},
        [&] { seen.clear(); },
        [&] {
            std::ranges::copy(work_off(), std::back_inserter(seen));
            EXPECT_THAT(seen, UnorderedElementsAre(slow, quick));
            EXPECT_THAT(work_off(), IsEmpty());
        });
}

// Proves: OUT-15, I2, I6
TEST_P(interleavings, a_message_that_is_being_parked_is_taken_back_now_or_later)
{
    receipt held;
    settled_as answer{};
    batch of_bob;
    std::set<bool> seen;
    in_every_order(
        {in_a_transaction([&](transaction& tx) { answer = put_aside(tx, held); }),
         in_a_transaction([&](transaction& tx) { of_bob = claim_in(tx, bob, 10, orders); })},
        [&] {
            add_keyed("k");
            held = claim_one();
        },
        [&] {
            EXPECT_EQ(answer, settled_as::parked);
            seen.insert(of_bob.empty());
            if (of_bob.empty()) {
                EXPECT_EQ(state_of(held.id), message_state::parked);
                EXPECT_EQ(look(held.id).attempts, 0);
                of_bob = box().claim(bob, {.unpark = orders});
            }
            EXPECT_THAT(ids_of(of_bob), ElementsAre(held.id));
            EXPECT_EQ(look(held.id).attempts, 1);
            EXPECT_EQ(acknowledge(held), settled_as::lost);
            EXPECT_EQ(box().acknowledge(bob, of_bob.receipts()).lost(), 0U);
        });
    EXPECT_EQ(seen.size(), 2U) << "it depends on who comes first";
}

// Proves: OUT-09, OUT-15, I18
TEST_P(interleavings, what_is_parked_and_cancelled_is_cancelled)
{
    receipt held;
    settled_as answer{};
    cancel_answer cancelled{};
    std::set<settled_as> seen;
    in_every_order(
        {in_a_transaction([&](transaction& tx) { answer = put_aside(tx, held); }),
         in_a_transaction([&](transaction& tx) { cancelled = cancel(tx, held.id); })},
        [&] {
            add_keyed("k");
            held = claim(1, 0).deliveries.at(0).receipt; // not started: it can be cancelled
        },
        [&] {
            seen.insert(answer);
            EXPECT_THAT(answer, AnyOf(settled_as::parked, settled_as::lost));
            EXPECT_THAT(cancelled, AnyOf(cancel_answer::cancelled, cancel_answer::pending));
            EXPECT_EQ(state_of(held.id), message_state::cancelled);
            EXPECT_TRUE(box().claim(bob, {.unpark = orders}).empty());
        });
    EXPECT_EQ(seen.size(), 2U) << "each of them wins when it comes first";
}

// Proves: OUT-15, I6
TEST_P(interleavings, of_two_who_take_a_topic_only_one_gets_a_parked_message)
{
    message_id parked;
    batch of_alice;
    batch of_bob;
    in_every_order(
        {in_a_transaction([&](transaction& tx) { of_alice = claim_in(tx, alice, 10, orders); }),
         in_a_transaction([&](transaction& tx) { of_bob = claim_in(tx, bob, 10, orders); })},
        [&] {
            add();
            parked = park_one();
        },
        [&] {
            EXPECT_LE(of_alice.size() + of_bob.size(), 1U);
            auto claimed = ids_of(of_alice);
            std::ranges::copy(ids_of(of_bob), std::back_inserter(claimed));
            std::ranges::copy(ids_of(box().claim(carol, {.unpark = orders})),
                              std::back_inserter(claimed));
            EXPECT_THAT(claimed, ElementsAre(parked));
            EXPECT_EQ(look(parked).attempts, 1);
        });
}

// Proves: OUT-09, OUT-15, I18
TEST_P(interleavings, a_parked_message_is_taken_back_or_cancelled_and_never_both)
{
    message_id parked;
    batch of_bob;
    cancel_answer cancelled{};
    std::set<bool> seen;
    in_every_order(
        {in_a_transaction([&](transaction& tx) { of_bob = claim_in(tx, bob, 10, orders); }),
         in_a_transaction([&](transaction& tx) { cancelled = cancel(tx, parked); })},
        [&] {
            add();
            parked = park_one();
        },
        [&] {
            seen.insert(of_bob.empty());
            if (of_bob.empty()) {
                EXPECT_EQ(cancelled, cancel_answer::cancelled);
                EXPECT_EQ(state_of(parked), message_state::cancelled);
            } else {
                EXPECT_EQ(cancelled, cancel_answer::too_late);
                EXPECT_EQ(box().acknowledge(bob, of_bob.receipts()).lost(), 0U);
                EXPECT_EQ(state_of(parked), message_state::done);
            }
        });
    EXPECT_EQ(seen.size(), 2U) << "each of them wins when it comes first";
}

// Proves: OUT-06, OUT-15, I2, I8
TEST_P(interleavings, a_message_that_comes_while_its_head_is_being_parked_waits_behind_it)
{
    receipt held;
    message_id next;
    in_every_order(
        {in_a_transaction(
             [&](transaction& tx) { EXPECT_EQ(put_aside(tx, held), settled_as::parked); }),
         in_a_transaction([&](transaction& tx) {
             next = enqueue(tx, {"orders", ""}, {.ordering_key = "k"}).id;
         })},
        [&] {
            add_keyed("k");
            held = claim_one();
        },
        [&] {
            EXPECT_TRUE(claim().empty());
            EXPECT_THAT(states_of({held.id, next}),
                        ElementsAre(message_state::parked, message_state::waiting));
            const auto back = box().claim(bob, {.unpark = orders});
            EXPECT_THAT(ids_of(back), ElementsAre(held.id));
            EXPECT_EQ(box().acknowledge(bob, back.receipts()).lost(), 0U);
            EXPECT_THAT(claimed_ids(), ElementsAre(next));
        });
}

CONFORMANCE_SUITE(interleavings);

TEST(orders_of_steps, all_of_them_are_different_and_keep_the_order_of_each_script)
{
    const auto all = orders_of({3, 3});
    EXPECT_EQ(all.size(), 20U);
    EXPECT_EQ(all.front(), (std::vector<std::size_t>{0, 0, 0, 1, 1, 1}));
    EXPECT_EQ(all.back(), (std::vector<std::size_t>{1, 1, 1, 0, 0, 0}));
    EXPECT_TRUE(std::ranges::is_sorted(all));
    EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
    EXPECT_EQ(orders_of({3, 1, 1}).size(), 20U);
}

} // namespace
} // namespace posthorn::conformance
