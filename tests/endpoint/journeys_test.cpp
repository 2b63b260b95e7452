// All the way: from an outbox through a webhook into an inbox, with one effect however often the
// message travels.
#include "endpoint/endpoint_fixture.hpp"
#include "gate/tcp_gate.hpp"
#include <posthorn/publisher.hpp>
#include <posthorn/relay.hpp>
#include <posthorn/webhook.hpp>
#include <posthorn/worker.hpp>

#include <thread>

namespace posthorn {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::Pair;
using ::testing::SizeIs;

class webhook_journeys : public endpoint_test {
protected:
    std::shared_ptr<transport> hooks_to(std::uint16_t where)
    {
        return open_webhook({.url = "http://127.0.0.1:" + std::to_string(where) + "/hooks/shop",
                             .secrets = {"a secret that is new", secret},
                             .allow_private = {"127.0.0.1"}},
                            store.environment());
    }
};

// Proves: INB-05, TRN-01, TRN-02, F6
TEST_F(webhook_journeys, a_message_that_is_sent_twice_has_one_effect)
{
    test::tcp_gate gate("127.0.0.1", port);
    std::vector<transport_message> handled;
    worker worker(store, {.concurrency = 1});
    worker.handle("orders.*", relay_to(hooks_to(gate.port())));
    worker.handle(inbox_topic("orders.placed"), [&](transactional_delivery<>& d) {
        handled.push_back(
            {.id = {}, .topic = d.topic(), .headers = d.headers(), .payload = d.payload()});
        enqueue(d.tx(), {"effects", d.payload()});
    });
    worker.handle("effects", [](const delivery_view&) {});
    const std::string payload("any\0bytes\xff", 10);
    const auto sent = enqueue(store, {"orders.placed", payload},
                              {.ordering_key = "customer é",
                               .correlation_id = "order-7",
                               .headers = {{"lang", "dé"}, {"percent", "100%25"}}});

    gate.lose_reply("POST /hooks/shop", "HTTP/1.1 202");
    testing::drain_for(worker, store, 1min);

    EXPECT_EQ(gate.seen().replies_lost, 1U);
    EXPECT_EQ(endpoint.report().stored, 1U);
    EXPECT_EQ(endpoint.report().repeated, 1U);
    EXPECT_EQ(endpoint.report().refused, 0U);
    EXPECT_THAT(list_messages(store, {.topic = "effects"}), SizeIs(1));
    ASSERT_THAT(handled, SizeIs(1));
    EXPECT_EQ(handled.at(0).payload, payload);
    EXPECT_THAT(handled.at(0).headers, Contains(Pair("lang", "dé")));
    EXPECT_THAT(handled.at(0).headers, Contains(Pair("percent", "100%25")));
    const auto known = find_inbound(store, {"shop", to_string(sent.id)});
    ASSERT_TRUE(known);
    EXPECT_EQ(known->state, inbox_state::done);
    const auto kept = find_message(store, *known->message);
    EXPECT_EQ(kept->correlation_id, "order-7");
    EXPECT_EQ(kept->causation_id, to_string(sent.id));
    EXPECT_EQ(kept->ordering_key, "customer é");
    EXPECT_EQ(find_message(store, sent.id)->state, message_state::done);
}

// Proves: TRN-02, F5
TEST_F(webhook_journeys, an_endpoint_that_is_away_costs_no_attempt)
{
    test::tcp_gate gate("127.0.0.1", port);
    const auto hooks = hooks_to(gate.port());
    worker worker(store, {.concurrency = 1});
    worker.handle("orders.*", relay_to(hooks));
    worker.handle("inbox:*", [](const delivery_view&) {});
    const auto sent = enqueue(store, {"orders.placed", "{}"});
    gate.refuse(true);
    EXPECT_EQ(direct_publisher(hooks).publish({"orders.placed", "{}"}).why, refusal::unavailable);
    std::jthread later([&] { gate.refuse(false); });
    testing::drain_for(worker, store, 10min);
    const auto done = find_message(store, sent.id);
    EXPECT_EQ(done->state, message_state::done);
    EXPECT_EQ(done->attempts, 1);
    EXPECT_EQ(find_inbound(store, {"shop", to_string(sent.id)})->state, inbox_state::done);
}

} // namespace
} // namespace posthorn
