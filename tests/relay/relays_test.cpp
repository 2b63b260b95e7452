// From the outbox to a broker: what the other side's moods cost a message, which is nothing.
#include "runtime/worker_test.hpp"
#include "transport/broker_model.hpp"
#include <posthorn/correlation.hpp>
#include <posthorn/relay.hpp>

#include <map>

namespace posthorn::conformance {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using transports::fault;

class relays : public worker_test {
protected:
    void SetUp() override
    {
        worker_test::SetUp();
        broker_->listen("orders*");
    }

    worker relay(relay_options how = {}, std::size_t concurrency = 1'000)
    {
        worker result(db(), steady(concurrency));
        result.handle("*", relay_to(way_, std::move(how)));
        return result;
    }

    [[nodiscard]] std::vector<std::string> arrived(std::size_t at_least)
    {
        std::vector<std::string> result;
        for (const auto& each : broker_->arrived(at_least))
            result.push_back(each.payload);
        return result;
    }

    message_id add_numbered(int number, const std::string& key = {})
    {
        return enqueue(db(), {"orders", std::to_string(number)}, {.ordering_key = key}).id;
    }

    std::unique_ptr<transports::transport_under_test> broker_ = transports::make_broker_model();
    std::shared_ptr<transport> way_ = broker_->open();
};

// Proves: COR-05, COR-06
TEST_P(relays, call_hooks_inside_of_the_scope_of_their_message)
{
    const auto id = add("orders", {.correlation_id = "cart-1"});
    notes seen;
    const auto note = [&](const std::string& hook) {
        const auto scope = correlation_scope::current();
        seen.add(hook + " in " + (scope ? scope->id() : "nothing"));
        enqueue(db(), message{"told." + hook, ""}, {.delay = 1h});
    };
    auto options = steady(10);
    options.on.starting = [&](const delivery_view&) { note("starting"); };
    options.on.ended = [&](const delivery_view&, const outcome&, duration) { note("ended"); };
    options.on.settled = [&](const delivery_view&, settled_as) { note("settled"); };
    worker one(db(), options);
    one.handle("*", relay_to(way_));
    EXPECT_EQ(one.process_outbox().done, 1U);
    EXPECT_THAT(seen.all(),
                ElementsAre("starting in cart-1", "ended in cart-1", "settled in cart-1"));
    for (const auto* hook : {"told.starting", "told.ended", "told.settled"}) {
        const auto told = list_messages(db(), {.topic = hook});
        ASSERT_EQ(told.size(), 1U) << hook;
        EXPECT_EQ(told.front().correlation_id, "cart-1");
        EXPECT_EQ(told.front().causation_id, to_string(id));
    }
}

// Proves: TRN-01, TRN-03
TEST_P(relays, send_what_a_message_says_and_where_the_rule_says)
{
    const auto id =
        enqueue(
            db(), {"orders.placed", "seven"},
            {.ordering_key = "customer 7", .correlation_id = "cart-1", .headers = {{"lang", "de"}}})
            .id;
    const auto report =
        relay({.destination = "shop.{topic.2}", .key = "{header.lang}"}).process_outbox();
    EXPECT_EQ(report.done, 1U);
    const auto got = broker_->arrived(1);
    ASSERT_EQ(got.size(), 1U);
    EXPECT_EQ(got.front().id, id);
    EXPECT_EQ(got.front().topic, "orders.placed");
    EXPECT_EQ(got.front().payload, "seven");
    EXPECT_EQ(got.front().destination, "shop.placed");
    EXPECT_EQ(got.front().key, "de");
    EXPECT_THAT(got.front().headers, Contains(Pair("lang", "de")));
    EXPECT_THAT(got.front().headers, Contains(Pair("posthorn-corr-id", "cart-1")));
    EXPECT_THAT(got.front().headers, Contains(Pair("posthorn-msg-id", to_string(id))));
    EXPECT_EQ(state_of(id), message_state::done);
}

// Proves: TRN-04
TEST_P(relays, send_many_each_once)
{
    const auto ids = add_many(500);
    EXPECT_EQ(relay().process_outbox().done, 500U);
    EXPECT_EQ(broker_->arrived(500).size(), 500U);
    EXPECT_THAT(states_of(ids), Each(message_state::done));
}

// Proves: TRN-01, F7
TEST_P(relays, try_a_message_that_no_queue_would_get_again_and_its_neighbours_go)
{
    const auto lost = add("nowhere");
    const auto sent = add_many(3);
    auto one = relay();
    const auto report = one.process_outbox();
    EXPECT_EQ(report.done, 3U);
    EXPECT_EQ(report.retrying, 1U);
    EXPECT_EQ(state_of(lost), message_state::ready);
    EXPECT_EQ(look(lost).attempts, 1);
    EXPECT_THAT(look(lost).last_error, HasSubstr("unroutable: no queue is bound to nowhere"));
    EXPECT_THAT(states_of(sent), Each(message_state::done));
}

// Proves: TRN-01, F7
TEST_P(relays, let_a_message_that_no_queue_would_get_die_at_once_if_they_are_told_to)
{
    const auto lost = add("nowhere");
    EXPECT_EQ(relay({.unroutable = when_unroutable::fail}).process_outbox().dead, 1U);
    EXPECT_EQ(state_of(lost), message_state::dead);
    EXPECT_THAT(look(lost).last_error, HasSubstr("unroutable: no queue is bound to nowhere"));
}

// Proves: TRN-03
TEST_P(relays, let_a_message_die_that_lacks_what_the_rule_asks_for)
{
    const auto id = add();
    EXPECT_EQ(relay({.destination = "{header.region}"}).process_outbox().dead, 1U);
    EXPECT_THAT(look(id).last_error, HasSubstr("no header 'region'"));
}

// Proves: TRN-02, F5
TEST_P(relays, wait_for_a_broker_that_is_down_and_no_message_loses_an_attempt)
{
    broker_->begin(fault::outage);
    const auto ids = add_many(50);
    auto one = relay({}, 20);
    background running(one);
    // It takes what it has room for, and no more.
    ASSERT_TRUE(eventually([&] { return one.status().running == 20; }));
    EXPECT_THAT(states_of({ids.back()}), Each(message_state::ready));
    broker_->end(fault::outage);
    EXPECT_EQ(broker_->arrived(50).size(), 50U);
    for (const auto id : ids)
        ASSERT_TRUE(eventually_done(id));
    running.end();
    for (const auto id : ids) {
        EXPECT_EQ(look(id).attempts, 1);
        EXPECT_EQ(look(id).errors, 0);
    }
}

// Proves: TRN-02, I21, F5
TEST_P(relays, that_drain_while_the_broker_is_down_give_everything_back_at_once)
{
    broker_->begin(fault::outage);
    const auto ids = add_many(5);
    auto one = relay();
    background running(one);
    ASSERT_TRUE(eventually([&] { return one.status().running == 5; }));
    const auto told_at = std::chrono::steady_clock::now();
    EXPECT_EQ(running.end().released, 5U);
    // Its grace is 30 seconds, of which handlers that do something have three quarters.
    EXPECT_LT(std::chrono::steady_clock::now() - told_at, 15s);
    for (const auto id : ids) {
        EXPECT_EQ(state_of(id), message_state::ready);
        EXPECT_EQ(look(id).attempts, 0);
    }
}

// Proves: TRN-02, F6
TEST_P(relays, send_again_what_nobody_answered_and_count_nothing)
{
    broker_->begin(fault::silence);
    const auto id = add();
    auto one = relay({.pause = 0s});
    background running(one);
    EXPECT_EQ(broker_->arrived(1).size(), 1U);
    ASSERT_TRUE(eventually([&] { return one.status().so_far.released > 0; }));
    broker_->end(fault::silence);
    ASSERT_TRUE(eventually_done(id));
    running.end();
    EXPECT_EQ(look(id).attempts, 1);
    EXPECT_EQ(broker_->arrived(0).size(), 1U) << "the broker knows its id";
}

// Proves: TRN-02, TRN-03, F7
TEST_P(relays, keep_the_order_of_a_key_across_rejections)
{
    for (int i = 0; i < 10; ++i)
        add_numbered(i, i % 2 == 0 ? "a" : "b");
    auto one = relay({.pause = 0s});
    background running(one);
    std::size_t rejections = 0;
    ASSERT_TRUE(eventually([&] {
        if (one.status().so_far.released == rejections && rejections < 6) {
            ++rejections;
            broker_->begin(fault::rejection);
        }
        return broker_->arrived(0).size() == 10;
    }));
    EXPECT_GT(running.end().released, 0U);
    std::map<std::string, std::vector<int>> by_key;
    for (const auto& each : broker_->arrived(10))
        by_key[each.key].push_back(std::stoi(each.payload));
    EXPECT_THAT(by_key["a"], ElementsAre(0, 2, 4, 6, 8));
    EXPECT_THAT(by_key["b"], ElementsAre(1, 3, 5, 7, 9));
}

// Proves: TRN-02, F5
TEST_P(relays, to_a_broker_that_is_down_do_not_hold_up_those_to_another)
{
    const auto other = transports::make_broker_model();
    other->listen("mail");
    broker_->begin(fault::outage);
    const auto stuck = add_many(30, "orders");
    const auto mail = add_many(30, "mail");
    worker one(db(), steady(20));
    one.handle("orders", relay_to(way_), {.concurrency = 10});
    one.handle("mail", relay_to(other->open()), {.concurrency = 10});
    background running(one);
    EXPECT_EQ(other->arrived(30).size(), 30U);
    for (const auto id : mail)
        ASSERT_TRUE(eventually_done(id));
    broker_->end(fault::outage);
    EXPECT_EQ(broker_->arrived(30).size(), 30U);
    for (const auto id : stuck)
        ASSERT_TRUE(eventually_done(id));
    running.end();
    for (const auto id : stuck)
        EXPECT_EQ(look(id).attempts, 1);
}

// Proves: TRN-01
TEST_P(relays, to_a_closed_transport_keep_the_message)
{
    way_->close();
    const auto id = add();
    auto one = relay({.pause = 1s});
    background running(one);
    ASSERT_TRUE(eventually([&] { return one.status().so_far.released > 0; }));
    running.end();
    EXPECT_EQ(state_of(id), message_state::ready);
    EXPECT_EQ(look(id).attempts, 0);
}

// Proves: TRN-02
TEST_P(relays, tell_the_log_once_what_keeps_messages_from_leaving)
{
    broker_->begin(fault::silence);
    const auto id = add_numbered(7'654'321);
    auto one = relay({.pause = 0s});
    background running(one);
    ASSERT_TRUE(eventually([&] { return one.status().so_far.released > 3; }));
    broker_->end(fault::silence);
    ASSERT_TRUE(eventually_done(id));
    running.end();
    EXPECT_EQ(logged("nobody says what became of messages"), 1U);
    EXPECT_EQ(logged("7654321"), 0U) << "a payload is nobody's business";
}

CONFORMANCE_SUITE(relays);

} // namespace
} // namespace posthorn::conformance
