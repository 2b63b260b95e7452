// Two who want something of the same message from outside, or of the same key, in every order of
// their steps: one effect, whoever comes first.
#include "conformance/interleaved_test.hpp"
#include <posthorn/idempotency.hpp>
#include <posthorn/inbox.hpp>

#include <set>
#include <string>
#include <utility>

namespace posthorn::conformance {
namespace {

class inbox_interleavings : public interleaved_test {
protected:
    /// Another message from outside in each round.
    void next_round() { from_ = {.source = "shop", .id = std::to_string(++round_)}; }

    inbox_state state() { return find_inbound(db(), from_)->state; }

    /// How many messages this round has left.
    std::size_t new_messages()
    {
        const auto all = total();
        return all - std::exchange(messages_before_, all);
    }

    inbound from_;
    int round_ = 0;

private:
    std::size_t messages_before_ = 0;
};

// Proves: INB-02, I7
TEST_P(inbox_interleavings, two_enqueue_the_same_message)
{
    inbox_receipt one;
    inbox_receipt two;
    in_every_order(
        {in_a_transaction([&](transaction& tx) {
             one = enqueue_inbound(tx, from_, {"orders", "one"});
         }),
         in_a_transaction([&](transaction& tx) {
             two = enqueue_inbound(tx, from_, {"orders", "two"});
         })},
        [&] { next_round(); },
        [&] {
            EXPECT_EQ(one.message, two.message);
            EXPECT_EQ((one.answer == inbox_answer::added) + (two.answer == inbox_answer::added), 1);
            EXPECT_EQ(new_messages(), 1U);
            const auto claimed = claim();
            ASSERT_EQ(claimed.size(), 1U);
            EXPECT_EQ(claimed.deliveries[0].payload,
                      one.answer == inbox_answer::added ? "two" : "one");
            EXPECT_EQ(acknowledge(claimed.receipts()[0]), settled_as::done);
            EXPECT_EQ(state(), inbox_state::done);
        });
}

// Proves: INB-02, I1, I7
TEST_P(inbox_interleavings, one_who_enqueues_it_rolls_back)
{
    inbox_receipt two;
    in_every_order(
        {in_a_transaction(
             [&](transaction& tx) {
                 enqueue_inbound(tx, from_, {"orders", "one"});
             },
             false),
         in_a_transaction([&](transaction& tx) {
             two = enqueue_inbound(tx, from_, {"orders", "two"});
         })},
        [&] { next_round(); },
        [&] {
            EXPECT_EQ(two.answer, inbox_answer::added);
            EXPECT_EQ(new_messages(), 1U);
            EXPECT_EQ(work_off().size(), 1U);
            EXPECT_EQ(state(), inbox_state::done);
        });
}

// Proves: INB-02, INB-03, I7
TEST_P(inbox_interleavings, it_is_enqueued_again_while_it_is_acknowledged)
{
    receipt claimed;
    inbox_receipt again;
    std::set<inbox_answer> seen;
    in_every_order(
        {in_a_transaction([&](transaction& tx) {
             EXPECT_EQ(box().acknowledge(tx, alice, {&claimed, 1}).lost(), 0U);
         }),
         in_a_transaction([&](transaction& tx) {
             again = enqueue_inbound(tx, from_, {"orders", "again"});
         })},
        [&] {
            next_round();
            enqueue_inbound(db(), from_, {"orders", "first"});
            claimed = claim_one();
        },
        [&] {
            seen.insert(again.answer);
            EXPECT_EQ(state(), inbox_state::done);
            EXPECT_EQ(new_messages(), 1U);
            EXPECT_TRUE(claim().empty());
        });
    EXPECT_EQ(seen, (std::set{inbox_answer::held, inbox_answer::known}));
}

// Proves: INB-02, INB-03
TEST_P(inbox_interleavings, it_is_enqueued_again_while_it_is_claimed)
{
    batch claimed;
    inbox_receipt again;
    in_every_order(
        {alone([&](store& where) { claimed = outbox(where).claim(alice); }),
         in_a_transaction([&](transaction& tx) {
             again = enqueue_inbound(tx, from_, {"orders", "again"});
         })},
        [&] {
            next_round();
            enqueue_inbound(db(), from_, {"orders", "first"});
        },
        [&] {
            if (claimed.empty()) // it was locked
                claimed = claim();
            ASSERT_EQ(claimed.size(), 1U);
            EXPECT_EQ(claimed.deliveries[0].payload,
                      again.answer == inbox_answer::replaced ? "again" : "first");
            EXPECT_EQ(acknowledge(claimed.receipts()[0]), settled_as::done);
            EXPECT_EQ(state(), inbox_state::done);
            EXPECT_EQ(new_messages(), 1U);
        });
}

// Proves: INB-03
TEST_P(inbox_interleavings, it_is_revived_while_it_gets_new_content)
{
    bool revived = false;
    inbox_receipt again;
    in_every_order(
        {in_a_transaction([&](transaction& tx) { revived = revive(tx, from_); }),
         in_a_transaction([&](transaction& tx) {
             again = enqueue_inbound(tx, from_, {"orders", "better"});
         })},
        [&] {
            next_round();
            enqueue_inbound(db(), from_, {"orders", "bad"});
            EXPECT_EQ(fail(claim_one()), settled_as::dead);
        },
        [&] {
            EXPECT_TRUE(revived);
            EXPECT_EQ(again.answer, inbox_answer::replaced);
            EXPECT_EQ(state(), inbox_state::seen);
            const auto claimed = claim();
            ASSERT_EQ(claimed.size(), 1U);
            EXPECT_EQ(claimed.deliveries[0].payload, "better");
            EXPECT_EQ(acknowledge(claimed.receipts()[0]), settled_as::done);
            EXPECT_EQ(state(), inbox_state::done);
        });
}

// Proves: INB-04, I7
TEST_P(inbox_interleavings, two_handle_it_at_once)
{
    const auto handling = [&](bool commits) {
        return in_a_transaction(
            [&](transaction& tx) {
                once(tx, from_.source, from_.id, [&] { enqueue(tx, message{"effect", ""}); });
            },
            commits);
    };
    const auto one_effect = [&] {
        EXPECT_EQ(new_messages(), 1U);
        EXPECT_EQ(state(), inbox_state::done);
    };
    in_every_order(
        {handling(true), handling(true)}, [&] { next_round(); }, one_effect);
    in_every_order(
        {handling(false), handling(true)}, [&] { next_round(); }, one_effect);
}

// Proves: INB-04, I7
TEST_P(inbox_interleavings, it_is_handled_at_once_while_it_is_enqueued)
{
    bool ran = false;
    inbox_receipt queued;
    in_every_order(
        {in_a_transaction([&](transaction& tx) {
             ran = once(tx, from_.source, from_.id, [&] { enqueue(tx, message{"effect", ""}); });
         }),
         in_a_transaction([&](transaction& tx) {
             queued = enqueue_inbound(tx, from_, {"orders", ""});
         })},
        [&] { next_round(); },
        [&] {
            EXPECT_EQ(queued.answer, ran ? inbox_answer::known : inbox_answer::added);
            EXPECT_EQ(new_messages(), 1U) << "the effect, or the message that will have it";
            EXPECT_EQ(work_off().size(), 1U);
            EXPECT_EQ(state(), inbox_state::done);
        });
}

// Proves: IDM-05, I14
TEST_P(inbox_interleavings, two_run_the_same_command_in_transactions_of_their_own)
{
    std::string one;
    std::string two;
    const auto running = [&](std::string& result, const std::string& name) {
        return in_a_transaction([&, name](transaction& tx) {
            result = run_once(tx, {.command = "charge", .key = from_.id}, [&] {
                         enqueue(tx, message{"effect", ""});
                         return name;
                     }).value();
        });
    };
    in_every_order(
        {running(one, "one"), running(two, "two")}, [&] { next_round(); },
        [&] {
            EXPECT_EQ(one, two);
            EXPECT_EQ(new_messages(), 1U);
            EXPECT_EQ(find_key(db(), "charge", from_.id)->result, one);
        });
}

// Proves: IDM-04, I14
TEST_P(inbox_interleavings, a_late_holder_completes_while_somebody_takes_over)
{
    reservation late;
    reservation next;
    bool completed = false;
    std::set<command_answer> seen;
    const auto key = [&] { return command_key{.command = "charge", .key = from_.id}; };
    in_every_order(
        {in_a_transaction([&](transaction& tx) { completed = complete(tx, key(), late, "late"); }),
         alone([&](store& where) { next = reserve(where, key()); })},
        [&] {
            next_round();
            late = reserve(db(), key());
            clock().advance(61s);
        },
        [&] {
            seen.insert(next.answer);
            EXPECT_NE(completed, next.answer == command_answer::executed) << "one of them has it";
            EXPECT_EQ(next.result, completed ? "late" : "");
        });
    EXPECT_EQ(seen, (std::set{command_answer::executed, command_answer::replayed}));
}

CONFORMANCE_SUITE(inbox_interleavings);

TEST(ledger_of_skips, every_entry_of_the_inbox_names_a_test_that_exists)
{
    EXPECT_THAT(entries_without_a_test([](std::string_view suite) {
                    return suite == "inbox_interleavings" || suite == "borrowed_inbox";
                }),
                ::testing::IsEmpty());
}

} // namespace
} // namespace posthorn::conformance
