// The relay's part of the bench: from an outbox to a broker, next to the broker's own client.
#pragma once

#include "bench/figures.hpp"

#include <cstddef>
#include <string>

namespace bench {

struct relay_plan {
    std::size_t rounds = 5;
    std::size_t messages = 100'000;
};

/// Whether this build has a way to rabbitmq, nats or redis.
[[nodiscard]] bool has_broker(const std::string& broker);

/// Sends the same messages, with the same headers, by the client's own fastest way, through the
/// transport alone, and through a relay with a full outbox, in turns. `broker` is rabbitmq, nats
/// or redis. Throws: `std::invalid_argument` if this build has no way there.
void run_relay(const std::string& broker, const std::string& url, const relay_plan& plan,
               figures& into);

} // namespace bench
