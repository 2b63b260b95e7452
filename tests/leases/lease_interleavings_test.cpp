// A holder in the middle of a fenced write, and somebody who gets its lease, in every order of
// their steps: the write is refused, or over before the next holder has begun.
#include "conformance/interleaved_test.hpp"
#include "leases/leasing_test.hpp"

#include <optional>
#include <set>

namespace posthorn::conformance {
namespace {

class lease_interleavings : public leasing<interleaved_test> {
protected:
    static std::size_t written(store& where)
    {
        return list_messages(where, {.topic = "orders", .limit = 100'000}).size();
    }

    std::string next_name() { return "lease " + std::to_string(++number_); }

private:
    int number_ = 0;
};

// Proves: LSE-04, I12
TEST_P(lease_interleavings, a_lease_is_taken_away_and_granted_while_its_holder_writes)
{
    std::optional<lease> held;
    std::optional<lease> next;
    bool allowed = false;
    std::size_t before = 0;
    std::size_t seen = 0;
    std::set<bool> answers;
    in_every_order(
        {in_a_transaction([&](transaction& tx) {
             allowed = hold_lease(tx, *held);
             if (allowed)
                 enqueue(tx, {"orders", ""});
         }),
         alone([&](store& where) {
             (void)take_lease_away(where, held->name());
             next = acquire_lease(where, held->name(), 20s);
             seen = written(where);
         })},
        [&] {
            next.reset();
            held = take(next_name(), idle_for(1h));
            before = written(db());
        },
        [&] {
            answers.insert(allowed);
            ASSERT_TRUE(next);
            EXPECT_GT(next->fence(), held->fence());
            EXPECT_EQ(seen, before + (allowed ? 1 : 0))
                << "what its predecessor wrote is there when the next holder begins";
            EXPECT_EQ(written(db()), seen) << "and nothing comes later";
        });
    EXPECT_EQ(answers.size(), 2U) << "before it passes on, and afterwards";
}

// Proves: LSE-01, I12
TEST_P(lease_interleavings, two_take_a_lease_that_is_over)
{
    std::optional<lease> old;
    std::optional<lease> one;
    std::optional<lease> two;
    std::set<bool> winners;
    in_every_order(
        {alone([&](store& where) { one = try_lease(where, old->name(), idle_for(1h)); }),
         alone([&](store& where) { two = try_lease(where, old->name(), idle_for(1h)); })},
        [&] {
            one.reset();
            two.reset();
            old = take(next_name(), idle_for(10s));
            clock().advance(10s);
        },
        [&] {
            EXPECT_NE(one.has_value(), two.has_value());
            winners.insert(one.has_value());
            EXPECT_GT((one ? one : two)->fence(), old->fence());
        });
}

// Proves: LSE-01, I12
TEST_P(lease_interleavings, a_lease_is_renewed_while_somebody_else_takes_it)
{
    std::optional<lease> held;
    std::optional<lease> next;
    bool renewed = false;
    in_every_order(
        {alone([&](store& /*where*/) { renewed = held->renew(); }), alone([&](store& where) {
             (void)take_lease_away(where, held->name());
             next = try_lease(where, held->name(), idle_for(1h));
         })},
        [&] {
            next.reset();
            held = take(next_name(), idle_for(1h));
        },
        [&] {
            // Whatever the order was: it is not the old holder's any more.
            EXPECT_EQ(held->is_held(), renewed);
            ASSERT_TRUE(next);
            EXPECT_FALSE(held->renew());
            EXPECT_EQ(find(held->name()).fence, next->fence());
        });
}

CONFORMANCE_SUITE(lease_interleavings);

} // namespace
} // namespace posthorn::conformance
