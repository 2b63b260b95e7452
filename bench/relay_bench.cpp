// The same messages three ways, in turns: the speed of disks and machines drifts.
#include "bench/relay_bench.hpp"

#include "bench/raw_brokers.hpp"
#include "bench/workload.hpp"
#include "transport/envelope.hpp"
#include <posthorn/nats.hpp>
#include <posthorn/rabbitmq.hpp>
#include <posthorn/redis.hpp>
#include <posthorn/relay.hpp>
#include <posthorn/worker.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <vector>

namespace bench {
namespace {

namespace ph = posthorn;

constexpr std::size_t relay_batch = 1'000;
const std::string place = "posthorn_bench";

struct broker_side {
    std::unique_ptr<raw_broker> raw;
    std::shared_ptr<ph::transport> way;
    std::string destination;
    ph::transports::attribute_style style;
};

using broker_opener = std::function<broker_side(const std::string& url)>;

// By their names, those that this build has: CMake says which.
const std::map<std::string, broker_opener>& openers()
{
    static const std::map<std::string, broker_opener> all{
#ifdef BENCH_HAS_RABBITMQ
        {"rabbitmq",
         [](const std::string& url) -> broker_side {
             return {open_raw_rabbitmq(url, place), ph::open_rabbitmq({.url = url}), "/" + place,
                     ph::transports::amqp_attributes};
         }},
#endif
#ifdef BENCH_HAS_NATS
        {"nats",
         [](const std::string& url) -> broker_side {
             return {open_raw_nats(url, place), ph::open_nats({.url = url}), place,
                     ph::transports::nats_attributes};
         }},
#endif
#ifdef BENCH_HAS_REDIS
        {"redis",
         [](const std::string& url) -> broker_side {
             return {open_raw_redis(url, place), ph::open_redis({.url = url}), place,
                     ph::transports::no_attributes};
         }},
#endif
    };
    return all;
}

broker_side open_broker(const std::string& name, const std::string& url)
{
    const auto found = openers().find(name);
    if (found == openers().end())
        throw std::invalid_argument("this build has no way to " + name);
    return found->second(url);
}

// A full outbox, in a file of its own.
class outbox_file {
public:
    explicit outbox_file(std::size_t messages)
    {
        remove();
        ph::migrate(url());
        posthorn_side(url()).enqueue(messages, 1'000);
    }
    outbox_file(const outbox_file&) = delete;
    outbox_file& operator=(const outbox_file&) = delete;
    ~outbox_file() { remove(); }

    [[nodiscard]] static std::string url() { return "sqlite:relay.db"; }

private:
    static void remove()
    {
        for (const auto* each : {"relay.db", "relay.db-wal", "relay.db-shm"})
            std::filesystem::remove(each);
    }
};

std::vector<ph::transport_message> messages_for(const broker_side& broker, std::size_t count)
{
    const auto world = ph::environment::system();
    std::vector<ph::transport_message> result;
    result.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
        ph::delivery one;
        one.receipt.id = ph::message_id(ph::uuid::version_7(world.clock->now(), *world.random));
        one.topic = topic;
        one.payload = payload;
        result.push_back(ph::to_transport(one));
        result.back().destination = broker.destination;
    }
    return result;
}

void through_client(const broker_side& broker, const std::vector<ph::transport_message>& all)
{
    const raw_message what{.headers =
                               ph::transports::envelope_of(all.front(), broker.style, "posthorn"),
                           .payload = payload};
    std::vector<std::string> ids;
    for (const auto& each : all)
        ids.push_back(to_string(each.id));
    broker.raw->send(what, ids);
}

void through_transport(const broker_side& broker, std::span<const ph::transport_message> all)
{
    for (std::size_t from = 0; from < all.size(); from += relay_batch)
        for (const auto& each :
             broker.way->publish(all.subspan(from, std::min(relay_batch, all.size() - from))))
            if (!each.accepted())
                throw std::runtime_error("the broker did not accept a message: " + each.detail);
}

void through_relay(const broker_side& broker, std::size_t messages)
{
    ph::worker relay(ph::open(outbox_file::url()), {.name = "bench", .concurrency = 4'000});
    relay.handle("*", ph::relay_to(broker.way, {.destination = broker.destination.c_str()}));
    if (relay.run({}, {.until_empty = true}).done != messages)
        throw std::runtime_error("the relay left messages behind");
}

} // namespace

bool has_broker(const std::string& broker)
{
    return openers().contains(broker);
}

void run_relay(const std::string& broker_name, const std::string& url, const relay_plan& plan,
               figures& into)
{
    const auto broker = open_broker(broker_name, url);
    const auto metric = "relay " + broker_name;
    for (std::size_t round = 1; round <= plan.rounds; ++round) {
        fmt::print(stderr, "relay {}: round {} of {}\n", broker_name, round, plan.rounds);
        const auto measure = [&](const std::string& peer, const std::function<void()>& work) {
            broker.raw->clear();
            into.add(peer, metric, rate(plan.messages, work));
        };
        const auto all = messages_for(broker, plan.messages);
        measure("client", [&] { through_client(broker, all); });
        const auto more = messages_for(broker, plan.messages); // ids that nobody has seen
        measure("transport alone", [&] { through_transport(broker, more); });
        const outbox_file full(plan.messages);
        measure("posthorn", [&] { through_relay(broker, plan.messages); });
    }
    broker.raw->clear();
    into.expect(metric, "posthorn", 0.8, metric, "client");
}

} // namespace bench
