// The clients of brokers without Posthorn: as fast as each of them goes when every message is
// confirmed.
#pragma once

#include <posthorn/message.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace bench {

/// What is sent, over and over; its id is the only thing that changes.
struct raw_message {
    posthorn::headers headers;
    std::string payload;
};

/// So many may be unconfirmed at a time.
inline constexpr std::size_t raw_window = 1'000;

class raw_broker {
public:
    virtual ~raw_broker() = default;

    /// Makes the queue or stream, or empties it.
    virtual void clear() = 0;

    /// Returns when all of them are confirmed.
    virtual void send(const raw_message& what, const std::vector<std::string>& ids) = 0;
};

/// To the queue or stream of this name. Throws: `std::runtime_error` with the client's own words.
[[nodiscard]] std::unique_ptr<raw_broker> open_raw_rabbitmq(const std::string& url,
                                                            const std::string& queue);
[[nodiscard]] std::unique_ptr<raw_broker> open_raw_nats(const std::string& url,
                                                        const std::string& stream);
[[nodiscard]] std::unique_ptr<raw_broker> open_raw_redis(const std::string& url,
                                                         const std::string& stream);

} // namespace bench
