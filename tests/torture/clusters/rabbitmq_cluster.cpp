// RabbitMQ: a quorum queue with a replica on each node.
#include "torture/clusters/cluster.hpp"
#include "transport/rabbitmq/plain_client.hpp"
#include <posthorn/rabbitmq.hpp>

#include <chrono>
#include <stdexcept>
#include <thread>

namespace posthorn::test {
namespace {

using namespace std::chrono_literals;

// A cluster that has just lost or got a node takes a while to say anything.
template <typename Work>
void until_it_works(Work work)
{
    const auto patience = std::chrono::steady_clock::now() + 120s;
    while (true) {
        try {
            return work();
        } catch (const std::runtime_error&) {
            if (std::chrono::steady_clock::now() > patience)
                throw;
            std::this_thread::yield();
        }
    }
}

} // namespace

cluster_kind rabbitmq_cluster()
{
    return {.name = "rabbitmq",
            .prepare =
                [](cluster& on, const std::string& place) {
                    until_it_works([&] {
                        plain_client(on.port(1))
                            .declare_queue(place, {{"x-queue-type", "quorum"},
                                                   {"x-quorum-initial-group-size", 3}});
                    });
                },
            .open =
                [](const std::string& urls, const std::string& place) {
                    return open_rabbitmq({.url = urls,
                                          .routing_key = place,
                                          .connection = {.reconnect_max = 500ms}});
                },
            .look =
                [](cluster& on, const std::string& place) {
                    arrivals result;
                    until_it_works([&] {
                        plain_client client(on.port(1));
                        while (auto got = client.get(place))
                            result.add(got->message_id, got->headers["posthorn-key"], got->body);
                    });
                    return result;
                }};
}

} // namespace posthorn::test
