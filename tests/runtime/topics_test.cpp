// Which handler a message gets, and what becomes of one that nobody handles or may handle now.
#include "runtime/handler_table.hpp"
#include "runtime/worker_test.hpp"
#include <posthorn/pauses.hpp>

namespace posthorn::conformance {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

class unhandled_topics : public worker_test {};

// Proves: OUT-15
TEST_P(unhandled_topics, are_parked_without_an_attempt_and_with_one_warning_each)
{
    auto ids = add_many(5, "orders");
    ids.push_back(add("mail"));
    worker nobody(db(), steady(2));
    const auto report = nobody.process_outbox();
    EXPECT_EQ(report.parked, 6U);
    EXPECT_EQ(report.handled(), 0U);
    for (const auto id : ids) {
        const auto seen = look(id);
        EXPECT_EQ(seen.state, message_state::parked);
        EXPECT_EQ(seen.parked_for, park_reason::no_handler);
        EXPECT_EQ(seen.attempts, 0);
        EXPECT_EQ(seen.errors, 0);
    }
    EXPECT_EQ(logged("topic 'orders' has no handler"), 1U);
    EXPECT_EQ(logged("topic 'mail' has no handler"), 1U);
}

// Proves: OUT-15
TEST_P(unhandled_topics, are_delivered_once_a_worker_with_a_handler_comes)
{
    const auto orders = add_many(5, "orders");
    const auto mail = add("mail");
    worker(db(), steady()).process_outbox();

    worker somebody(db(), steady());
    somebody.handle("orders", [](const delivery_view& which) { EXPECT_EQ(which.attempt(), 1); });
    EXPECT_EQ(somebody.process_outbox().done, 5U);
    EXPECT_THAT(states_of(orders), Each(message_state::done));
    EXPECT_EQ(state_of(mail), message_state::parked);
    for (const auto id : orders)
        EXPECT_EQ(look(id).attempts, 1);
}

// Proves: OUT-15
TEST_P(unhandled_topics, wait_for_a_running_worker_that_handles_them)
{
    worker somebody(db(), steady());
    somebody.handle("orders", [](const delivery_view&) {});
    background running(somebody);
    const auto id = add("orders");
    const auto receipt = box().claim(alice);
    for (const auto& each : receipt.receipts()) {
        const settlement one{each, park(park_reason::no_handler)};
        box().settle(alice, {&one, 1});
    }
    EXPECT_TRUE(eventually_done(id));
}

CONFORMANCE_SUITE(unhandled_topics);

class routes : public worker_test {};

// Proves: OUT-17
TEST_P(routes, an_exact_topic_comes_before_the_longest_wildcard_and_that_before_predicates)
{
    notes met;
    const auto by = [&](const std::string& name) {
        return [&met, name](const delivery_view& which) { met.add(which.topic() + " by " + name); };
    };
    worker one(db(), steady(1));
    one.handle_if([](std::string_view topic) { return topic.starts_with("mail"); }, by("first"));
    one.handle_if([](std::string_view) { return true; }, by("second"));
    one.handle("orders.*", by("orders.*"));
    one.handle("orders.p*", by("orders.p*"));
    one.handle("orders.placed", by("orders.placed"));
    for (const auto* topic : {"orders.placed", "orders.paid", "orders.sent", "orders.", "orders",
                              "orders.placed.", "mail", "else"})
        add(topic);
    EXPECT_EQ(one.process_outbox().done, 8U);
    EXPECT_THAT(met.all(), UnorderedElementsAre(
                               "orders.placed by orders.placed", "orders.paid by orders.p*",
                               "orders.sent by orders.*", "orders. by orders.*", "orders by second",
                               "orders.placed. by orders.p*", "mail by first", "else by second"));
}

// Proves: OUT-17
TEST_P(routes, what_would_be_ambiguous_or_mean_nothing_is_refused)
{
    worker one(db());
    const auto nothing = [](const delivery_view&) {};
    const auto refused = [&](std::string_view pattern, const handler_options& how = {}) {
        return thrown_by([&] { one.handle(pattern, nothing, how); }).code();
    };
    one.handle("orders", nothing).handle("orders*", nothing).handle("*", nothing);
    for (const auto& pattern : {"orders", "orders*", "*", "", "a*b", "*a", "a**"})
        EXPECT_EQ(refused(pattern), error_code::invalid_argument) << pattern;
    one.handle(std::string(500, 'x'), nothing);
    EXPECT_EQ(refused(std::string(501, 'x')), error_code::invalid_argument);
    EXPECT_EQ(refused("a", {.per_key = 1}), error_code::invalid_argument);
    EXPECT_EQ(refused("a", {.timeout = 0s}), error_code::invalid_argument);
    EXPECT_EQ(thrown_by([&] { one.handle_if(nullptr, nothing); }).code(),
              error_code::invalid_argument);
}

// Proves: OUT-17
TEST_P(routes, a_predicate_that_throws_fails_its_message_and_nobody_else)
{
    const auto good = add("orders");
    const auto bad = add("mail");
    const auto last = add("orders");
    worker one(db(), steady());
    one.handle("orders", [](const delivery_view&) {});
    one.handle_if([](std::string_view) -> bool { throw std::runtime_error("no idea"); },
                  [](const delivery_view&) {});
    EXPECT_EQ(one.process_outbox().done, 2U);
    EXPECT_THAT(states_of({good, last}), Each(message_state::done));
    EXPECT_EQ(look(bad).last_error, "no idea");
}

CONFORMANCE_SUITE(routes);

class one_pass : public worker_test {};

// Proves: OUT-16
TEST_P(one_pass, handles_up_to_its_limit)
{
    add_many(5);
    worker one(db(), steady());
    one.handle("orders", [](const delivery_view&) {});
    EXPECT_EQ(one.process_outbox(3).done, 3U);
    EXPECT_EQ(count_messages(db()).done, 3);
    EXPECT_EQ(one.process_outbox(3).done, 2U);
    EXPECT_EQ(one.process_outbox(3).done, 0U);
}

// Proves: OUT-16, I21
TEST_P(one_pass, works_off_the_whole_chain_of_an_ordering_key)
{
    for (const std::size_t concurrency : {1, 4}) {
        for (int i = 0; i < 8; ++i)
            add_keyed("a");
        notes met;
        const auto report =
            pass([&](const delivery_view& which) { met.add(to_string(which.id())); },
                 steady(concurrency));
        EXPECT_EQ(report.done, 8U);
        auto sorted = met.all();
        std::ranges::sort(sorted);
        EXPECT_EQ(met.all(), sorted);
    }
}

// Proves: OUT-16
TEST_P(one_pass, tries_again_what_wants_to_be_tried_at_once)
{
    const auto id = add();
    const auto report = pass([](const delivery_view& which) {
        return which.attempt() < 3 ? retry_in(0s, "not yet") : done();
    });
    EXPECT_EQ(report.retrying, 2U);
    EXPECT_EQ(report.done, 1U);
    EXPECT_EQ(look(id).attempts, 3);
}

// Proves: OUT-16, I20
TEST_P(one_pass, takes_back_what_a_dead_worker_has_left)
{
    const auto id = add();
    ASSERT_EQ(claim(1, 0).size(), 1U);
    const auto handler = [](const delivery_view&) {};
    EXPECT_EQ(pass(handler).done, 0U);
    clock().advance(31s);
    EXPECT_EQ(pass(handler).done, 1U);
    EXPECT_EQ(state_of(id), message_state::done);
}

// Proves: OUT-16
TEST_P(one_pass, waits_for_handlers_that_take_longer_than_the_grace_of_a_stop)
{
    add();
    auto options = steady();
    options.grace = 0s;
    worker one(db(), options);
    one.handle("orders", [&](const delivery_view& which) {
        for (int i = 0; i < 20; ++i)
            (void)look(which.id());
        EXPECT_FALSE(which.stop_token().stop_requested());
    });
    const auto report = one.process_outbox(1);
    EXPECT_EQ(report.done, 1U);
    EXPECT_EQ(report.left_running, 0U);
}

CONFORMANCE_SUITE(one_pass);

class pausing : public worker_test {
protected:
    void SetUp() override
    {
        worker_test::SetUp();
        if (!IsSkipped())
            one_.emplace(db(), steady()).handle("*", [](const delivery_view&) {});
    }

    /// Workers look for pauses once a second.
    void let_it_be_noticed() { clock().advance(2s); }

    std::optional<worker> one_;
};

// Proves: OUT-15
TEST_P(pausing, keeps_a_topic_and_nothing_else_from_starting_until_it_is_over)
{
    for (const auto* paused : {"orders.placed", "orders.*"}) {
        background running(*one_);
        ASSERT_TRUE(pause(db(), paused));
        message_id held;
        EXPECT_TRUE(eventually([&] { // a claim may be under way that knows of no pause yet
            let_it_be_noticed();
            held = add("orders.placed");
            EXPECT_TRUE(eventually([&] {
                return state_of(held) == message_state::parked ||
                       state_of(held) == message_state::done;
            }));
            return state_of(held) == message_state::parked;
        }));
        const auto free = add("mail");
        EXPECT_TRUE(eventually_done(free));
        EXPECT_EQ(look(held).parked_for, park_reason::paused);
        EXPECT_EQ(look(held).attempts, 0);
        ASSERT_TRUE(resume(db(), paused));
        EXPECT_TRUE(eventually_done(held));
    }
}

TEST_P(pausing, everything_leaves_all_messages_where_they_are)
{
    ASSERT_TRUE(pause(db()));
    background running(*one_);
    const auto ids = add_many(3);
    for (int i = 0; i < 20; ++i)
        EXPECT_THAT(states_of(ids), Each(message_state::ready));
    ASSERT_TRUE(resume(db()));
    for (const auto id : ids)
        EXPECT_TRUE(eventually_done(id));
}

TEST_P(pausing, lets_what_runs_already_run_on)
{
    gate door;
    worker other(db(), steady());
    other.handle("orders", [&](const delivery_view&) { door.pass(); });
    const auto id = add();
    background running(other);
    ASSERT_TRUE(eventually([&] { return door.arrived() == 1; }));
    ASSERT_TRUE(pause(db(), "orders"));
    let_it_be_noticed();
    door.open();
    EXPECT_TRUE(eventually_done(id));
}

// On the real clock: nobody rings when a pause is over.
TEST_P(pausing, is_over_for_a_sleeping_worker_soon_after_it_is_over)
{
    auto real = under_test().open({});
    ASSERT_TRUE(pause(real, "orders"));
    auto options = steady();
    options.look_at_least_every = 120s;
    worker sleepy(real, options);
    sleepy.handle("orders", [](const delivery_view&) {});
    const auto id = enqueue(real, {"orders", ""}).id;
    background running(sleepy);
    ASSERT_TRUE(eventually([&] { return find_message(real, id)->state == message_state::parked; }));
    ASSERT_TRUE(resume(real, "orders"));
    EXPECT_TRUE(eventually([&] { return find_message(real, id)->state == message_state::done; }));
}

CONFORMANCE_SUITE(pausing);

} // namespace
} // namespace posthorn::conformance
