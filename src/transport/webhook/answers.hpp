// What an answer of HTTP means, and what of it may be told to people.
#pragma once

#include "transport/webhook/endpoint_health.hpp"
#include <posthorn/transport.hpp>

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace posthorn::transports {

struct http_answer {
    int status = 0;
    std::optional<duration> retry_after = {};
    std::string_view words = {}; ///< of the body, if they may be told
};

/// Requires: a final status, from 200 on.
[[nodiscard]] publish_answer answer_of(const http_answer& said, std::string_view shown,
                                       std::string_view topic);

[[nodiscard]] exchange exchange_of(int status) noexcept;

/// The beginning of a body, as one line of text; nothing if it repeats something of `hidden`: the
/// payload that it was sent, or what else is nobody's business.
[[nodiscard]] std::string words_of(std::string_view body, std::span<const std::string_view> hidden);

} // namespace posthorn::transports
