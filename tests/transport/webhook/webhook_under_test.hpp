// What a sink got, as the message that was sent.
#pragma once

#include "transport/envelope.hpp"
#include "transport/webhook/http_headers.hpp"
#include "transport/webhook/http_sink.hpp"

#include <stdexcept>
#include <string>

namespace posthorn::test {

[[nodiscard]] inline transport_message message_in(const http_request& got)
{
    auto read = transports::opened(transports::from_http(got.headers), got.body, {},
                                   transports::http_attributes);
    const auto id = message_id::parse(read.id);
    if (!id || read.id != got.headers.at("webhook-id"))
        throw std::runtime_error("a request without the id of its message");
    return {.id = *id,
            .topic = std::move(read.topic),
            .key = std::move(read.key),
            .headers = std::move(read.headers),
            .payload = std::move(read.payload)};
}

} // namespace posthorn::test
