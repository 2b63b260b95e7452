// A test's own look at a NATS server: it makes streams, and sees what is in them.
#pragma once

#include <posthorn/transport.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

typedef struct __natsMsg natsMsg; // NOLINT: as libnats declares it

namespace posthorn::transports {

/// A name that nobody else uses on a server that is shared.
[[nodiscard]] std::string unique_name();

/// The server that all tests share.
[[nodiscard]] std::uint16_t shared_nats_port();

class jetstream {
public:
    explicit jetstream(std::uint16_t port, const std::string& user = {});
    jetstream(const jetstream&) = delete;
    jetstream& operator=(const jetstream&) = delete;
    ~jetstream();

    struct limits {
        std::int64_t messages_max = -1;
        std::int64_t bytes_max = -1;
        std::int32_t message_bytes_max = -1;
        int replicas = 1;
        bool is_work_queue = false; ///< it keeps a message only until somebody is done with it
    };

    /// Makes it, or changes it. A full one takes nothing new. It is removed with this object.
    void set_stream(const std::string& name, const std::vector<std::string>& subjects,
                    limits bounds = {-1, -1, -1, 1, false});
    void remove_stream(const std::string& name);

    /// From now on what it has made stays when this object ends.
    void leave_streams();
    [[nodiscard]] std::int64_t bytes_in(const std::string& stream);
    [[nodiscard]] std::size_t messages_in(const std::string& stream);

    /// All of its messages, in their order.
    [[nodiscard]] std::vector<transport_message> contents(const std::string& stream);

    /// The headers of each of them, exactly as they are stored.
    [[nodiscard]] std::vector<headers> headers_in(const std::string& stream);

    /// Somebody who is no stream answers whatever is sent to this subject, as long as this object
    /// lives.
    void answer_as_a_stranger(const std::string& subject, const std::string& words);

    /// As somebody publishes who does not know us.
    void publish(const std::string& subject, const std::string& payload,
                 const std::vector<std::pair<std::string, std::string>>& headers = {});

    /// How many messages a consumer has handed over that are not acknowledged.
    [[nodiscard]] std::uint64_t unacknowledged(const std::string& stream,
                                               const std::string& consumer);
    /// How many requests for its messages stand; none if there is no such consumer.
    [[nodiscard]] std::uint64_t requests_at(const std::string& stream, const std::string& consumer);
    /// All up to there are acknowledged or given up.
    [[nodiscard]] std::uint64_t acknowledged_up_to(const std::string& stream,
                                                   const std::string& consumer);
    /// As somebody makes one who is in charge of the server: a request takes so many at most.
    void set_consumer(const std::string& stream, const std::string& consumer, duration ack_wait,
                      std::int64_t batch_max);
    void remove_consumer(const std::string& stream, const std::string& consumer);

private:
    struct state;

    void each_in(const std::string& stream, const std::function<void(natsMsg&)>& visit);

    std::unique_ptr<state> state_;
};

} // namespace posthorn::transports
