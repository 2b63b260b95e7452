// What Kafka's errors mean for a message.
#pragma once

#include "transport/kafka/producer.hpp"
#include <posthorn/transport.hpp>

#include <string>

namespace posthorn::kafka {

/// For a message that is certainly not in the log.
[[nodiscard]] refusal refusal_for(rd_kafka_resp_err_t failure) noexcept;

/// Whether an answer to a request of several messages may be about another one of them.
[[nodiscard]] bool may_blame_another(rd_kafka_resp_err_t failure) noexcept;

} // namespace posthorn::kafka
