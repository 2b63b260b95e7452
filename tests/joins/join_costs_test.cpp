// What joins cost, in statements: nothing for those who use none, and the same for any number of
// members and joins.
//
// POSTHORN_JOIN_MEMBERS=n is for people with time: a join of so many members, and how long each
// tenth of them takes.
#include "conformance/meters.hpp"
#include "joins/joining_test.hpp"
#include "store/contract/backend.hpp"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace posthorn::conformance {
namespace {

class join_costs : public joining<conformance_test> {
protected:
    void SetUp() override
    {
        joining::SetUp();
        if (IsSkipped())
            return;
        watched_ = store_to_watch(GetParam(), under_test(), db(), world());
        meter_ = meter_of(GetParam(), *watched_, under_test(), {"joins", "join_member"});
    }

    void TearDown() override
    {
        watched_.reset(); // its connection speaks of its end
        meter_.reset();
        joining::TearDown();
    }

    /// Statements that are prepared now need not be prepared while somebody counts.
    void prepare()
    {
        add();
        (void)settling(claim());
        add("orders", {.priority = 1});
        (void)settling(claim());
    }

    bool is(std::string_view kind) const { return GetParam().name == kind; }

    cost settling(const batch& which)
    {
        outbox own(*watched_);
        (void)count_messages(*watched_); // connected, whatever came before
        meter_->reset();
        EXPECT_EQ(own.acknowledge(alice, which.receipts()).lost(), 0U);
        return meter_->read();
    }

    /// What a worker asks that has nothing to do: a claim, and a look ahead.
    cost asking()
    {
        outbox own(*watched_);
        (void)count_messages(*watched_);
        meter_->reset();
        EXPECT_TRUE(own.claim(alice).empty());
        EXPECT_FALSE(watched_->backend().outlook().due);
        return meter_->read();
    }

private:
    std::optional<store> watched_;
    std::unique_ptr<meter> meter_;
};

// Proves: JOIN-001, JOIN-014
TEST_P(join_costs, a_batch_in_no_join_costs_nothing_or_one_statement)
{
    const auto once = [&](const std::string& when) {
        SCOPED_TRACE(when);
        prepare();
        add_many(20);
        const auto plain = settling(claim());
        const std::vector<outgoing> urgent(20, {{"orders", ""}, {.priority = 1}});
        enqueue(db(), urgent);
        const auto others = settling(claim());
        if (is("postgres")) {
            EXPECT_EQ(plain.statements, 1) << "what it was before there were joins";
            EXPECT_EQ(plain.round_trips, 1);
            EXPECT_EQ(others.statements, 8) << "one more than before";
            EXPECT_EQ(others.round_trips, 2) << "as before: first it tries the plain way";
        } else if (is("mariadb")) {
            EXPECT_LE(plain.statements, 4) << "what it was before there were joins";
            EXPECT_LE(others.statements, 7) << "what it was before there were joins";
        } else {
            EXPECT_LE(plain.statements, 1);
            EXPECT_LE(others.statements, 1);
        }
    };
    once("in a store without joins");
    const auto join = open(100);
    add_many_to(join, 50);
    const auto members = claim();
    once("beside members of a join");
    EXPECT_EQ(box().acknowledge(alice, members.receipts()).settled(), 50U);
}

// Proves: JOIN-001, JOIN-021
TEST_P(join_costs, the_number_of_members_and_joins_does_not_matter)
{
    const auto drain = [&](int joins, int members, std::int64_t expected) {
        for (int i = 0; i < joins; ++i)
            add_many_to(open(expected), static_cast<std::size_t>(members));
        return settling(claim(1'000));
    };
    prepare();
    drain(1, 1, 100);
    drain(2, 1, 1);
    work_off();
    const auto before = continuations();
    const auto few = drain(2, 2, 100);
    const auto many = drain(30, 10, 100);
    EXPECT_EQ(few.statements, many.statements);
    EXPECT_EQ(few.round_trips, many.round_trips);
    EXPECT_GT(few.statements, 0);
    EXPECT_EQ(continuations(), before);

    const auto few_ended = drain(2, 2, 2);
    EXPECT_EQ(continuations(), before + 2);
    claim(); // the continuations
    const auto many_ended = drain(30, 10, 10);
    EXPECT_EQ(few_ended.statements, many_ended.statements);
    EXPECT_EQ(few_ended.round_trips, many_ended.round_trips);
    EXPECT_EQ(continuations(), before + 32);
}

// Proves: JOIN-016
TEST_P(join_costs, nobody_asks_for_a_join_whose_members_take_hours)
{
    prepare();
    add("orders", {.delay = 10h}); // messages that are not due cost what they cost
    asking();
    const auto without = asking();
    const auto join = open(2);
    enqueue_join_wait(db(), {.join = join, .on_complete = message{complete_topic, ""}});
    add_to(join, {.delay = 5h});
    asking();
    for (int hours = 1; hours <= 4; ++hours) {
        clock().advance(1h);
        EXPECT_LE(asking().statements, without.statements) << "after " << hours << " hours";
    }
    EXPECT_EQ(end_of(join), join_state::pending);
}

// Proves: JOIN-001, I10
TEST_P(join_costs, the_last_members_of_a_large_join_cost_what_the_first_ones_did)
{
    const char* told = std::getenv("POSTHORN_JOIN_MEMBERS");
    const auto members = static_cast<std::size_t>(told != nullptr ? std::atoll(told) : 2'000);
    const std::size_t at_once = members / 10;
    const auto join = open(static_cast<std::int64_t>(members) + 1);
    add_many_to(join, members);
    std::vector<int> statements;
    for (std::size_t i = 0; i < members; i += at_once) {
        const auto began = std::chrono::steady_clock::now();
        statements.push_back(settling(claim(at_once)).statements);
        if (told != nullptr)
            std::printf(
                "%zu of %zu, the last %zu in %.3f s\n", i + at_once, members, at_once,
                std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
    }
    EXPECT_THAT(statements, ::testing::Each(statements.front()));
    EXPECT_EQ(look_at(join).completed, static_cast<std::int64_t>(members));
    add_to(join);
    work_off();
    EXPECT_EQ(end_of(join), join_state::completed);
}

CONFORMANCE_SUITE(join_costs);

} // namespace
} // namespace posthorn::conformance
