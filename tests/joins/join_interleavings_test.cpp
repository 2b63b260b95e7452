// Two who want something of the same join, in every order of their steps: what was counted is
// counted once, and one continuation follows.
#include "conformance/interleaved_test.hpp"
#include "joins/joining_test.hpp"
#include "store/contract/message_queue.hpp"
#include "store/contract/session.hpp"

#include <set>

namespace posthorn::conformance {
namespace {

class join_interleavings : public joining<interleaved_test> {
protected:
    script acknowledging(const receipt& which)
    {
        return in_a_transaction([&](transaction& tx) {
            EXPECT_EQ(box().acknowledge(tx, alice, {&which, 1}).lost(), 0U);
        });
    }

    void expect_end(join_id join, join_state state, std::int64_t completed, std::int64_t failed)
    {
        const auto found = look_at(join);
        EXPECT_EQ(found.state, state);
        EXPECT_EQ(found.completed, completed);
        EXPECT_EQ(found.failed, failed);
    }

    /// Of this round alone.
    std::size_t new_continuations()
    {
        const auto all = continuations();
        return all - std::exchange(continuations_before_, all);
    }

private:
    std::size_t continuations_before_ = 0;
};

// Proves: JOIN-022, I10, I11
TEST_P(join_interleavings, a_member_is_attached_while_it_is_acknowledged)
{
    join_id join;
    receipt claimed;
    attach_answer answer{};
    std::set<attach_answer> seen;
    in_every_order(
        {acknowledging(claimed),
         in_a_transaction([&](transaction& tx) { answer = attach(tx, join, claimed.id); })},
        [&] {
            join = open(1);
            add();
            claimed = claim_one();
        },
        [&] {
            seen.insert(answer);
            expect_end(join, join_state::completed, 1, 0);
            EXPECT_EQ(new_continuations(), 1U);
        });
    EXPECT_EQ(seen.size(), 2U) << "before its end, and after it";
}

// Proves: JOIN-022, I10, I11
TEST_P(join_interleavings, a_member_is_attached_while_it_is_claimed)
{
    join_id join;
    message_id id;
    batch claimed;
    in_every_order(
        {alone([&](store& where) { claimed = outbox(where).claim(alice); }),
         in_a_transaction([&](transaction& tx) { attach(tx, join, id); })},
        [&] {
            join = open(1);
            id = add();
        },
        [&] {
            if (claimed.empty())
                claimed = claim();
            EXPECT_EQ(box().acknowledge(alice, claimed.receipts()).settled(), 1U);
            expect_end(join, join_state::completed, 1, 0);
            EXPECT_EQ(new_continuations(), 1U);
        });
}

// Proves: I10, I11
TEST_P(join_interleavings, the_last_two_members_are_acknowledged_at_once)
{
    join_id join;
    receipt one;
    receipt two;
    in_every_order(
        {acknowledging(one), acknowledging(two)},
        [&] {
            join = open(2);
            add_to(join);
            one = claim_one();
            add_to(join);
            two = claim_one();
        },
        [&] {
            expect_end(join, join_state::completed, 2, 0);
            EXPECT_EQ(new_continuations(), 1U);
        });
}

// Proves: I10, I11
TEST_P(join_interleavings, two_settle_members_of_the_same_joins_in_opposite_orders)
{
    std::vector<join_id> joins;
    batch one;
    batch two;
    const auto settling = [&](const batch& which) {
        return in_a_transaction([&](transaction& tx) {
            EXPECT_EQ(box().acknowledge(tx, alice, which.receipts()).lost(), 0U);
        });
    };
    in_every_order(
        {settling(one), settling(two)},
        [&] {
            joins = {open(2), open(2)};
            add_to(joins[0]);
            add_to(joins[1]);
            one = claim();
            add_to(joins[1]);
            add_to(joins[0]);
            two = claim();
        },
        [&] {
            expect_end(joins[0], join_state::completed, 2, 0);
            expect_end(joins[1], join_state::completed, 2, 0);
            EXPECT_EQ(new_continuations(), 2U);
        });
}

// Proves: JOIN-011, JOIN-024, I10, I11
TEST_P(join_interleavings, a_member_is_reported_while_it_is_acknowledged)
{
    join_id join;
    receipt claimed;
    report_answer answer{};
    std::set<join_state> seen;
    in_every_order(
        {acknowledging(claimed), in_a_transaction([&](transaction& tx) {
             answer = report_step_failed(tx, join, claimed.id);
         })},
        [&] {
            join = open(1);
            add_to(join);
            claimed = claim_one();
        },
        [&] {
            const bool reported = answer == report_answer::counted;
            seen.insert(end_of(join));
            expect_end(join, reported ? join_state::failed : join_state::completed,
                       reported ? 0 : 1, reported ? 1 : 0);
            EXPECT_EQ(new_continuations(), 1U);
        });
    EXPECT_EQ(seen.size(), 2U) << "each of them wins when it comes first";
}

// Proves: JOIN-023, I10, I11
TEST_P(join_interleavings, a_join_is_cancelled_while_its_last_member_is_acknowledged)
{
    join_id join;
    receipt claimed;
    bool cancelled = false;
    std::set<bool> seen;
    in_every_order(
        {acknowledging(claimed),
         in_a_transaction([&](transaction& tx) { cancelled = cancel_join(tx, join); })},
        [&] {
            join = open(1);
            add_to(join);
            claimed = claim_one();
        },
        [&] {
            seen.insert(cancelled);
            expect_end(join, cancelled ? join_state::cancelled : join_state::completed,
                       cancelled ? 0 : 1, 0);
            EXPECT_EQ(new_continuations(), cancelled ? 0U : 1U);
        });
    EXPECT_EQ(seen.size(), 2U) << "each of them wins when it comes first";
}

// Proves: JOIN-023, I10, I11
TEST_P(join_interleavings, a_deadline_comes_while_the_last_member_is_acknowledged)
{
    join_id join;
    receipt claimed;
    std::set<join_state> seen;
    in_every_order(
        {acknowledging(claimed),
         in_a_transaction([&](transaction& tx) { (void)tx.session().queue().expire_due(100); })},
        [&] {
            join = open({.expected = 1, .deadline = 1s});
            add_to(join);
            claimed = claim_one();
            clock().advance(1s);
        },
        [&] {
            (void)box().expire_due(); // whoever was passed over comes now
            const auto state = end_of(join);
            seen.insert(state);
            const bool in_time = state == join_state::completed;
            expect_end(join, in_time ? join_state::completed : join_state::failed, in_time ? 1 : 0,
                       0);
            EXPECT_EQ(new_continuations(), 1U);
        });
    EXPECT_EQ(seen.size(), 2U) << "each of them wins when it comes first";
}

// Proves: JOIN-021, I10
TEST_P(join_interleavings, a_join_is_sealed_while_its_last_member_is_acknowledged)
{
    join_id join;
    receipt claimed;
    in_every_order(
        {acknowledging(claimed),
         in_a_transaction([&](transaction& tx) { EXPECT_TRUE(seal_join(tx, join)); })},
        [&] {
            join = open(join_options{});
            add_to(join);
            claimed = claim_one();
        },
        [&] {
            expect_end(join, join_state::completed, 1, 0);
            EXPECT_EQ(new_continuations(), 1U);
        });
}

CONFORMANCE_SUITE(join_interleavings);

TEST(ledger_of_skips_of_joins, every_entry_names_a_test_that_exists)
{
    EXPECT_THAT(entries_without_a_test(
                    [](std::string_view suite) { return suite == "join_interleavings"; }),
                ::testing::IsEmpty());
}

} // namespace
} // namespace posthorn::conformance
