// What the broker's words mean, and ours for where a message goes.
#pragma once

#include "transport/rabbitmq/content.hpp"
#include <posthorn/transport.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace posthorn::rabbitmq {

[[nodiscard]] std::size_t hash_of(const route& where);
[[nodiscard]] std::string words_of(const route& where);

/// Whether the broker speaks of this exchange.
[[nodiscard]] bool names_exchange(std::string_view text, std::string_view exchange);

/// Whether a channel was closed because there is no such exchange.
[[nodiscard]] bool is_missing(const amqp_channel_close_t& said);

/// What a closed channel means for the one message that was on its way.
[[nodiscard]] publish_answer answer_of(const amqp_channel_close_t& said);

} // namespace posthorn::rabbitmq
