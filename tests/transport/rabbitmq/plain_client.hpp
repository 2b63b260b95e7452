// A plain client of RabbitMQ, written with its library alone: it makes what a test needs, and looks
// at what arrived, without a line of what is under test.
#pragma once

#include <posthorn/message.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace posthorn::test {

/// The port of the broker that is there for all tests. Throws if nobody has started it.
[[nodiscard]] std::uint16_t rabbitmq_port();

/// A name that nobody else has.
[[nodiscard]] std::string unique_name(std::string_view kind);

/// Throws: `std::runtime_error` whenever the broker says no.
class plain_client {
public:
    explicit plain_client(std::uint16_t port, const std::string& user = "guest",
                          const std::string& password = "guest");
    plain_client(const plain_client&) = delete;
    plain_client& operator=(const plain_client&) = delete;
    ~plain_client();

    using arguments = std::map<std::string, std::variant<std::string, int>>;

    void declare_exchange(const std::string& name, const std::string& type,
                          const arguments& with = {});
    /// One that clients must not publish to.
    void declare_internal_exchange(const std::string& name);
    void delete_exchange(const std::string& name);

    /// Durable.
    void declare_queue(const std::string& name, const arguments& with = {});
    void delete_queue(const std::string& name);
    void bind(const std::string& queue, const std::string& exchange, const std::string& key,
              const arguments& with = {});
    void unbind(const std::string& queue, const std::string& exchange, const std::string& key,
                const arguments& with = {});

    struct got {
        std::string exchange;
        std::string routing_key;
        std::string message_id;
        std::string type;
        std::string content_type;
        std::string correlation_id;
        int delivery_mode = 0;
        std::uint64_t timestamp = 0;
        bool redelivered = false;
        posthorn::headers headers = {};
        std::string body;
    };

    /// Takes the next message out of a queue, if there is one.
    [[nodiscard]] std::optional<got> get(const std::string& queue);

    /// How many are in the queue and not handed over.
    [[nodiscard]] std::size_t depth(const std::string& queue);

    struct sent {
        std::string message_id = {};
        std::string type = {};
        posthorn::headers headers = {};
        std::string body = {};
    };

    /// To a queue, confirmed.
    void publish(const std::string& queue, const sent& what);

private:
    struct state;
    std::unique_ptr<state> state_;
};

} // namespace posthorn::test
