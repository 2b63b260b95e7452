// NATS JetStream: a stream with a replica on each node.
#include "torture/clusters/cluster.hpp"
#include "transport/nats/jetstream.hpp"
#include <posthorn/nats.hpp>

#include <chrono>
#include <exception>
#include <thread>

namespace posthorn::test {
namespace {

// A cluster that has just lost or got a node takes a while to say anything.
template <typename Work>
auto when_it_works(Work work)
{
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds{120};
    while (true) {
        try {
            return work();
        } catch (const std::exception&) {
            if (std::chrono::steady_clock::now() > patience)
                throw;
            std::this_thread::yield();
        }
    }
}

} // namespace

cluster_kind nats_cluster()
{
    // A stream goes with whoever made it.
    auto maker = std::make_shared<std::unique_ptr<transports::jetstream>>(); // of both functions
    return {.name = "nats",
            .prepare =
                [maker](cluster& on, const std::string& place) {
                    when_it_works([&] {
                        *maker = std::make_unique<transports::jetstream>(on.port(1));
                        (*maker)->set_stream(place, {place}, {.replicas = 3});
                        return true;
                    });
                },
            .open = [](const std::string& urls,
                       const std::string&) { return open_nats({.url = urls}); },
            .look =
                [](cluster& on, const std::string& place) {
                    return when_it_works([&] {
                        arrivals result;
                        for (const auto& each : transports::jetstream(on.port(1)).contents(place))
                            result.add(to_string(each.id), each.key, each.payload);
                        return result;
                    });
                }};
}

} // namespace posthorn::test
