// What a handler says or throws, what runs around it, and messages that have a type.
#include "runtime/worker_test.hpp"
#include <posthorn/json.hpp>

#include <atomic>
#include <thread>

namespace posthorn::conformance {
namespace {

struct order_placed {
    int order_id = 0;
};

void to_json(nlohmann::json& into, const order_placed& from)
{
    into = {{"order_id", from.order_id}};
}

void from_json(const nlohmann::json& from, order_placed& into)
{
    from.at("order_id").get_to(into.order_id);
}

/// A message with a format of its own.
struct ping {
    int number = 0;
};

struct strokes {
    static std::string encode(const ping& value)
    {
        return std::string(static_cast<std::size_t>(value.number), '|');
    }
    template <typename Type>
    static Type decode(std::string_view payload)
    {
        return {static_cast<int>(payload.size())};
    }
};

} // namespace
} // namespace posthorn::conformance

template <>
struct posthorn::message_type<posthorn::conformance::order_placed> {
    static constexpr std::string_view topic = "orders.placed";
};

template <>
struct posthorn::message_type<posthorn::conformance::ping> {
    static constexpr std::string_view topic = "ping";
    using codec = posthorn::conformance::strokes;
};

namespace posthorn::conformance {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class outcomes : public worker_test {
protected:
    /// What is known of a message after a handler has had it once.
    template <typename Function>
    message_record after(Function handler)
    {
        const auto id = add();
        pass(handler);
        return look(id);
    }
};

// Proves: OUT-10
TEST_P(outcomes, done_or_nothing_at_all_ends_a_message)
{
    EXPECT_EQ(after([](const delivery_view&) { return done(); }).state, message_state::done);
    EXPECT_EQ(after([](const delivery_view&) {}).state, message_state::done);
}

// Proves: OUT-11
TEST_P(outcomes, a_retry_waits_as_the_policy_says_or_as_long_as_the_handler_says)
{
    const auto by_policy = after([](const delivery_view&) { return retry("not now"); });
    EXPECT_EQ(by_policy.state, message_state::ready);
    EXPECT_EQ(by_policy.due_at, now() + 5s);
    EXPECT_EQ(by_policy.attempts, 1);
    EXPECT_EQ(by_policy.last_error, "not now");
    const auto by_handler = after([](const delivery_view&) { return retry_in(77s, "later"); });
    EXPECT_EQ(by_handler.due_at, now() + 77s);
    EXPECT_EQ(by_handler.attempts, 1);
}

// Proves: OUT-11
TEST_P(outcomes, a_failure_ends_as_a_dead_letter_at_once)
{
    const auto seen = after([](const delivery_view&) { return posthorn::fail("no such order"); });
    EXPECT_EQ(seen.state, message_state::dead);
    EXPECT_EQ(seen.last_error, "no such order");
}

// Proves: OUT-11
TEST_P(outcomes, a_postponed_message_comes_back_and_has_lost_nothing)
{
    const auto seen = after([](const delivery_view&) { return postpone(9s); });
    EXPECT_EQ(seen.state, message_state::ready);
    EXPECT_EQ(seen.due_at, now() + 9s);
    EXPECT_EQ(seen.attempts, 0);
    EXPECT_EQ(seen.errors, 0);
    clock().advance(9s);
    EXPECT_EQ(pass([](const delivery_view& which) { EXPECT_EQ(which.attempt(), 1); }).done, 1U);
}

// Proves: OUT-11
TEST_P(outcomes, an_exception_is_tried_again_and_a_permanent_failure_is_not)
{
    const auto usual =
        after([](const delivery_view&) -> outcome { throw std::runtime_error("no network"); });
    EXPECT_EQ(usual.state, message_state::ready);
    EXPECT_EQ(usual.last_error, "no network");
    const auto permanent =
        after([](const delivery_view&) -> outcome { throw permanent_failure("no address"); });
    EXPECT_EQ(permanent.state, message_state::dead);
    EXPECT_EQ(permanent.last_error, "no address");
    const auto odd = after([](const delivery_view&) -> outcome { throw 42; });
    EXPECT_EQ(odd.state, message_state::ready);
    EXPECT_THAT(odd.last_error, HasSubstr("not a std::exception"));
}

// Proves: OUT-11
TEST_P(outcomes, the_application_may_say_what_exceptions_mean)
{
    auto options = steady();
    options.classify = [](const std::exception_ptr& thrown) {
        try {
            std::rethrow_exception(thrown);
        } catch (const std::invalid_argument& failure) {
            return posthorn::fail(std::string("classified: ") + failure.what());
        }
        return retry();
    };
    const auto known = add("known");
    const auto unknown = add("unknown");
    const auto report = pass(
        [](const delivery_view& which) -> outcome {
            if (which.topic() == "known")
                throw std::invalid_argument("bad");
            throw std::runtime_error("worse");
        },
        options);
    EXPECT_EQ(report.dead, 1U);
    EXPECT_EQ(report.retrying, 1U);
    EXPECT_EQ(look(known).last_error, "classified: bad");
    EXPECT_EQ(look(unknown).last_error, "worse");
}

CONFORMANCE_SUITE(outcomes);

class surroundings : public worker_test {
protected:
    middleware noting(const std::string& name)
    {
        return [this, name](const delivery_view&, const std::function<outcome()>& next) {
            met_.add(name + " in");
            auto said = next();
            met_.add(name + " out");
            return said;
        };
    }

    notes met_;
};

TEST_P(surroundings, the_first_middleware_is_the_outermost)
{
    auto options = steady(1);
    options.around = {noting("a"), noting("b")};
    worker one(db(), options);
    one.handle("plain", [&](const delivery_view&) { met_.add("plain"); });
    one.handle("inside", [&](transactional_delivery<>&) { met_.add("inside"); });
    add("plain");
    one.process_outbox();
    add("inside");
    one.process_outbox();
    EXPECT_THAT(met_.all(), ElementsAre("a in", "b in", "plain", "b out", "a out", "a in", "b in",
                                        "inside", "b out", "a out"));
}

TEST_P(surroundings, middleware_may_change_what_a_handler_says_or_do_without_it)
{
    auto options = steady();
    options.around = {[](const delivery_view& which, const std::function<outcome()>& next) {
        if (which.topic() == "spam")
            return posthorn::fail("spam");
        const auto said = next();
        return said.verdict == outcome::kind::done ? retry_in(1s, "done is not enough") : said;
    }};
    const auto spam = add("spam");
    const auto ham = add("ham");
    pass([&](const delivery_view& which) { met_.add(which.topic()); }, options);
    EXPECT_THAT(met_.all(), ElementsAre("ham"));
    EXPECT_EQ(state_of(spam), message_state::dead);
    EXPECT_EQ(look(ham).last_error, "done is not enough");
}

TEST_P(surroundings, a_middleware_that_throws_counts_as_the_handler)
{
    auto options = steady();
    options.around = {[](const delivery_view&, const std::function<outcome()>&) -> outcome {
        throw permanent_failure("not allowed");
    }};
    const auto id = add();
    pass([](const delivery_view&) {}, options);
    EXPECT_EQ(look(id).last_error, "not allowed");
    EXPECT_EQ(state_of(id), message_state::dead);
}

TEST_P(surroundings, every_delivery_is_told_of_from_its_start_to_its_settlement)
{
    auto options = steady(1);
    options.on = {
        .starting = [&](const delivery_view& which) { met_.add("starts " + which.topic()); },
        .ended = [&](const delivery_view& which, const outcome& said,
                     duration) { met_.add("ended " + which.topic() + " " + said.error); },
        .settled =
            [&](const delivery_view& which, settled_as answer) {
                met_.add(which.topic() + " is " + std::string(to_string(answer)));
            }};
    worker one(db(), options);
    one.handle("plain", [&](const delivery_view&) { return retry("oh"); });
    one.handle("inside", [&](transactional_delivery<>&) { met_.add("runs"); });
    add("plain");
    one.process_outbox();
    add("inside");
    one.process_outbox();
    EXPECT_THAT(met_.all(),
                ElementsAre("starts plain", "ended plain oh", "plain is retrying", "starts inside",
                            "runs", "ended inside ", "inside is done"));
}

// Proves: OUT-19
TEST_P(surroundings, settlement_hooks_share_the_transaction_that_settles)
{
    auto options = steady();
    options.outbox.hooks = {[](transaction& tx, std::span<const settled_message> what) {
        for (const auto& each : what)
            enqueue(tx, {"audit", to_string(each.id)}, {.delay = 1h});
    }};
    worker one(db(), options);
    one.handle("plain", [](const delivery_view&) {});
    one.handle("inside", [](transactional_delivery<>&) {});
    const auto plain = add("plain");
    const auto inside = add("inside");
    EXPECT_EQ(one.process_outbox().done, 2U);
    std::vector<std::string> audited;
    for (const auto& each : list_messages(db(), {.topic = "audit", .with_payload = true}))
        audited.push_back(each.payload);
    EXPECT_THAT(audited, ::testing::UnorderedElementsAre(to_string(plain), to_string(inside)));
}

// Proves: OUT-19
TEST_P(surroundings, a_settlement_hook_that_throws_undoes_what_a_transactional_handler_did)
{
    auto options = steady();
    options.outbox.hooks = {[](transaction&, std::span<const settled_message> what) {
        if (what.front().answer == settled_as::done)
            throw std::runtime_error("the audit is closed");
    }};
    worker one(db(), options);
    one.handle("inside", [](transactional_delivery<>& which) {
        enqueue(which.tx(), {"next", ""});
    });
    const auto id = add("inside");
    EXPECT_EQ(one.process_outbox().retrying, 1U);
    EXPECT_EQ(look(id).last_error, "the audit is closed");
    EXPECT_EQ(total(), 1U);
}

// Proves: I2, I20
TEST_P(surroundings, a_settlement_that_is_refused_for_good_ends_as_dead)
{
    auto options = steady();
    options.outbox.hooks = {[](transaction&, std::span<const settled_message> what) {
        if (what.front().answer == settled_as::done)
            throw std::runtime_error("no row for that order");
    }};
    const auto id = add();
    pass([](delivery_view) {}, std::move(options)); // and comes to its end
    EXPECT_EQ(state_of(id), message_state::dead);
    EXPECT_THAT(look(id).last_error, ::testing::HasSubstr("cannot be settled: no row for"));
    EXPECT_EQ(logged("is dead: cannot be settled: no row for"), 1U);
    EXPECT_EQ(logged("is dead"), 1U) << "its death is told once";
}

// Proves: I20
TEST_P(surroundings, a_settlement_that_is_refused_in_every_way_is_left_to_its_lease)
{
    auto options = steady();
    options.outbox.hooks = {
        [](transaction&, std::span<const settled_message>) { throw std::runtime_error("always"); }};
    const auto id = add();
    pass([](delivery_view) {}, std::move(options));
    EXPECT_EQ(state_of(id), message_state::claimed);
    EXPECT_EQ(logged("is left to its lease"), 1U);
    clock().advance(60s);
    pass([](delivery_view) {});
    clock().advance(5s);
    pass([](delivery_view) {});
    EXPECT_EQ(state_of(id), message_state::done);
}

TEST_P(surroundings, a_settlement_hook_that_throws_holds_up_nobody_elses_message)
{
    const auto good = add("plain");
    const auto bad = add("plain");
    std::atomic<bool> closed = true;
    auto options = steady();
    options.outbox.hooks = {[&](transaction&, std::span<const settled_message> what) {
        for (const auto& each : what)
            if (each.id == bad && closed)
                throw 42;
    }};
    worker one(db(), options);
    one.handle("plain", [](const delivery_view&) {});
    std::jthread passing([&] { EXPECT_EQ(one.process_outbox().done, 2U); });
    EXPECT_TRUE(eventually([&] { return state_of(good) == message_state::done; }));
    EXPECT_EQ(state_of(bad), message_state::claimed);
    closed = false;
}

CONFORMANCE_SUITE(surroundings);

class typed_messages : public worker_test {};

// Proves: OUT-18
TEST_P(typed_messages, travel_as_json_to_a_handler_of_their_type)
{
    const auto id = enqueue(db(), order_placed{.order_id = 17}).id;
    EXPECT_EQ(look(id).topic, "orders.placed");
    notes met;
    worker one(db(), steady());
    one.handle<order_placed>(
        [&](const order_placed& order) { met.add(std::to_string(order.order_id)); });
    EXPECT_EQ(one.process_outbox().done, 1U);
    EXPECT_THAT(met.all(), ElementsAre("17"));
}

// Proves: OUT-18
TEST_P(typed_messages, may_come_with_their_delivery_or_in_its_transaction)
{
    enqueue(db(), order_placed{.order_id = 17});
    worker first(db(), steady());
    first.handle<order_placed>([](const order_placed& order, const delivery_view& which) {
        return retry_in(0s, std::to_string(order.order_id + which.attempt()));
    });
    EXPECT_EQ(first.process_outbox(1).retrying, 1U);
    worker second(db(), steady());
    second.handle<order_placed>([](transactional_delivery<order_placed>& which) {
        enqueue(which.tx(), ping{.number = which.value().order_id}, {.delay = 1h});
    });
    EXPECT_EQ(second.process_outbox().done, 1U);
    const auto pings = list_messages(db(), {.topic = "ping", .with_payload = true});
    ASSERT_EQ(pings.size(), 1U);
    EXPECT_EQ(pings.front().payload, std::string(17, '|'));
}

// Proves: OUT-18
TEST_P(typed_messages, may_have_a_format_of_their_own)
{
    enqueue(db(), ping{.number = 3});
    worker one(db(), steady());
    one.handle<ping>([](const ping& value) { EXPECT_EQ(value.number, 3); });
    EXPECT_EQ(one.process_outbox().done, 1U);
}

// Proves: OUT-18
TEST_P(typed_messages, that_cannot_be_read_are_dead_at_once_and_not_quoted)
{
    std::vector<message_id> ids;
    for (const auto* payload : {"secret no json", R"({"order_id": "secret"})", "{}", "", "[1"})
        ids.push_back(enqueue(db(), {"orders.placed", payload}).id);
    worker one(db(), steady());
    one.handle<order_placed>([](const order_placed&) { ADD_FAILURE() << "it was readable"; });
    EXPECT_EQ(one.process_outbox().dead, 5U);
    EXPECT_THAT(states_of(ids), Each(message_state::dead));
    for (const auto id : ids) {
        EXPECT_EQ(look(id).attempts, 1);
        EXPECT_THAT(look(id).last_error, HasSubstr("not what this type expects"));
        EXPECT_THAT(look(id).last_error, Not(HasSubstr("secret")));
    }
}

CONFORMANCE_SUITE(typed_messages);

} // namespace
} // namespace posthorn::conformance
