// The code of docs/guides/kafka.md.
#include <posthorn/feeds.hpp>
#include <posthorn/kafka.hpp>
#include <posthorn/posthorn.hpp>
#include <posthorn/relay.hpp>
#include <posthorn/testing/testing.hpp>
#include <posthorn/worker.hpp>

#include <iostream>
#include <stdexcept>

namespace ph = posthorn;
namespace pt = posthorn::testing;
using namespace std::chrono_literals;

namespace {

void expect(bool given)
{
    if (!given)
        throw std::runtime_error("not as expected");
}

void relay_orders(ph::worker& worker)
{
    auto kafka = ph::open_kafka({.url = "kafka://broker1:9092,broker2:9092", .source = "shop"});
    worker.handle("orders.*", ph::relay_to(kafka));
}

std::shared_ptr<ph::transport> with_a_password(const std::string& password)
{
    return ph::open_kafka({.url = "kafka://broker1:9093",
                           .access = {.user = "shop",
                                      .password = password,
                                      .mechanism = "SCRAM-SHA-512",
                                      .tls = true},
                           .settings = {{"compression.codec", "lz4"}}});
}

void feed_orders(ph::store store, std::stop_token stop)
{
    auto orders =
        ph::open_kafka_feed({.url = "kafka://broker1:9092", .topics = {"orders"}, .group = "shop"});
    ph::feed_inbox(store, *orders, {.source = "warehouse"}, stop);
}

} // namespace

int main()
try {
    // There are no brokers here: what can be seen is that nobody minds, and nothing is lost.
    pt::store_for_tests store;
    ph::worker worker(store, {.concurrency = 1});
    relay_orders(worker);
    const auto kafka = with_a_password("not for anybody's eyes");
    std::cout << kafka->name() << "\n";
    expect(kafka->name().find("eyes") == std::string::npos);
    const ph::transport_message what{.id = ph::message_id(ph::uuid{}), .topic = "orders"};
    std::stop_source told;
    told.request_stop();
    expect(!kafka->publish({&what, 1}, {.stop = told.get_token()}).at(0).accepted());
    feed_orders(store, told.get_token());
} catch (const std::exception& failure) {
    std::cerr << failure.what() << "\n";
    return 1;
}
