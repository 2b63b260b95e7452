// An exchange and a queue of one test's own on the shared broker, with a gate before it.
#pragma once

#include "gate/tcp_gate.hpp"
#include "transport/rabbitmq/plain_client.hpp"
#include <posthorn/rabbitmq.hpp>

#include <string>
#include <string_view>

namespace posthorn::test {

/// Two exchanges, one behind the other: the first sends what nothing else is said about on to the
/// second, which leads to the queue by topic.
class broker_scene {
public:
    broker_scene();
    broker_scene(const broker_scene&) = delete;
    broker_scene& operator=(const broker_scene&) = delete;
    ~broker_scene();

    /// Through the gate, to the first exchange.
    [[nodiscard]] rabbitmq_options options() const;
    [[nodiscard]] std::string url(const std::string& user = "guest",
                                  const std::string& password = "guest") const;

    /// Lets a topic, or with a closing `*` all that start so, arrive in the queue.
    void listen(std::string_view pattern);

    /// The broker says no to the message with this id, because a queue is full.
    void reject(const std::string& id);
    void reject_nothing_more(const std::string& id);

    std::string exchange = unique_name("first");
    std::string by_topic = unique_name("by-topic");
    std::string queue = unique_name("queue");
    std::string full = unique_name("full");
    plain_client client{rabbitmq_port()};
    tcp_gate gate{"127.0.0.1", rabbitmq_port()};
};

} // namespace posthorn::test
