// Handlers inside the transaction that acknowledges their message: all of it, or nothing.
#include "runtime/worker_test.hpp"
#include <posthorn/error.hpp>

namespace posthorn::conformance {
namespace {

using ::testing::HasSubstr;

class transactional_handlers : public worker_test {
protected:
    void SetUp() override
    {
        worker_test::SetUp();
        if (IsSkipped())
            return;
        const auto create = "CREATE TABLE " + table() + " (fact TEXT)";
        if (GetParam().can.native_connections)
            return under_test().connect(world())->execute(create);
        auto tx = db().begin();
        (void)under_test().run_in(tx, create);
        tx.commit();
    }

    std::string table() { return under_test().table_of_application(); }

    /// A business write and a further message, in the handler's transaction.
    void act(transactional_delivery<>& which)
    {
        (void)under_test().run_in(which.tx(), "INSERT INTO " + table() + " VALUES ('shipped')");
        enqueue(which.tx(), {"next", ""}, {.delay = 1h});
    }

    int facts()
    {
        auto tx = db().begin();
        return std::stoi(under_test().run_in(tx, "SELECT count(*) FROM " + table()).value());
    }

    std::size_t further() { return list_messages(db(), {.topic = "next"}).size(); }

    void expect_no_effect()
    {
        EXPECT_EQ(facts(), 0);
        EXPECT_EQ(further(), 0U);
    }
    void expect_one_effect()
    {
        EXPECT_EQ(facts(), 1);
        EXPECT_EQ(further(), 1U);
    }
};

// Proves: OUT-19, I1
TEST_P(transactional_handlers, effects_messages_and_acknowledgement_commit_together)
{
    const auto id = add();
    const auto report = pass([&](transactional_delivery<>& which) {
        act(which);
        const auto seen = find_message(which.tx(), which.id());
        EXPECT_EQ(seen.value().state, message_state::claimed);
    });
    EXPECT_EQ(report.done, 1U);
    EXPECT_EQ(state_of(id), message_state::done);
    expect_one_effect();
}

// Proves: OUT-19
TEST_P(transactional_handlers, whatever_is_not_done_rolls_everything_back)
{
    const std::vector<std::pair<std::function<outcome()>, message_state>> ends{
        {[] { return retry("again"); }, message_state::ready},
        {[] { return retry_in(9s); }, message_state::ready},
        {[] { return postpone(9s); }, message_state::ready},
        {[] { return posthorn::fail("never"); }, message_state::dead},
        {[]() -> outcome { throw std::runtime_error("oh"); }, message_state::ready},
        {[]() -> outcome { throw permanent_failure("oh"); }, message_state::dead},
        {[]() -> outcome { throw 42; }, message_state::ready}};
    for (const auto& [end, state] : ends) {
        const auto id = add();
        pass([&, end = end](transactional_delivery<>& which) {
            act(which);
            return end();
        });
        EXPECT_EQ(state_of(id), state);
    }
    expect_no_effect();
}

// Proves: OUT-19
TEST_P(transactional_handlers, a_later_attempt_takes_effect_once)
{
    const auto id = add();
    const auto handler = [&](transactional_delivery<>& which) {
        act(which);
        return which.attempt() == 1 ? retry_in(0s, "not yet") : done();
    };
    EXPECT_EQ(pass(handler).done, 1U);
    EXPECT_EQ(look(id).attempts, 2);
    expect_one_effect();
}

// Proves: OUT-19, I12
TEST_P(transactional_handlers, who_has_lost_the_lease_leaves_no_effect)
{
    const auto id = add();
    receipt of_bob;
    auto options = steady();
    options.on.starting = [&](const delivery_view&) { of_bob = take_over_by_bob(); };
    worker one(db(), options);
    one.handle("orders", [&](transactional_delivery<>& which) { act(which); });
    const auto report = one.process_outbox(1);
    EXPECT_EQ(report.lost, 1U);
    EXPECT_EQ(report.done, 0U);
    expect_no_effect();
    EXPECT_EQ(look(id).worker, "bob");
    EXPECT_EQ(acknowledge(bob, of_bob), settled_as::done);
}

// Proves: OUT-19
TEST_P(transactional_handlers, a_deadlock_is_run_again_and_costs_no_attempt)
{
    const auto id = add();
    int runs = 0;
    const auto report = pass([&](transactional_delivery<>& which) {
        act(which);
        if (++runs < 4)
            throw error(error_code::serialization, "deadlock", {.retryable = true});
    });
    EXPECT_EQ(report.done, 1U);
    EXPECT_EQ(runs, 4);
    EXPECT_EQ(look(id).attempts, 1);
    EXPECT_EQ(look(id).errors, 0);
    expect_one_effect();
}

// Proves: OUT-19, I15
TEST_P(transactional_handlers, an_unknown_outcome_is_never_run_again_blindly)
{
    const auto id = add();
    int runs = 0;
    const auto report = pass([&](transactional_delivery<>&) {
        ++runs;
        throw error(error_code::connection_lost, "cut", {.retryable = true, .in_doubt = true});
    });
    EXPECT_EQ(runs, 1);
    EXPECT_EQ(report.retrying, 1U);
    EXPECT_THAT(look(id).last_error, HasSubstr("unknown"));
}

// Proves: OUT-19
TEST_P(transactional_handlers, many_at_once_each_take_effect_once)
{
    const auto ids = add_many(50);
    const auto report = pass([&](transactional_delivery<>& which) { act(which); }, steady(8));
    EXPECT_EQ(report.done, 50U);
    EXPECT_THAT(states_of(ids), ::testing::Each(message_state::done));
    EXPECT_EQ(facts(), 50);
}

CONFORMANCE_SUITE(transactional_handlers);

} // namespace
} // namespace posthorn::conformance
