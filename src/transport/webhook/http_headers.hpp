// Headers of a message as headers of HTTP, and back without a loss: HTTP carries printable ASCII.
#pragma once

#include <posthorn/message.hpp>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace posthorn::transports {

/// Names those headers, beside the attributes of CloudEvents, whose values were percent-encoded.
inline constexpr std::string_view encoded_header = "posthorn-encoded";

struct http_headers {
    std::vector<std::pair<std::string, std::string>> lines;
    std::string problem = {}; ///< why HTTP cannot carry them; empty: it can
};

/// Attributes of CloudEvents are encoded as its HTTP binding says. Other values go as they are if
/// they can, and else encoded, and are then named in `posthorn-encoded`.
[[nodiscard]] http_headers to_http(const headers& envelope);

/// Whether what received them has taken percent-encoding back in all headers, as some libraries do.
/// That is why a value with a percent sign is always encoded: it survives both.
enum class received_values { as_sent, decoded };

/// The way back. What is no text is left out, as is what only HTTP needed.
[[nodiscard]] headers from_http(const headers& received,
                                received_values are = received_values::as_sent);

/// Whether it may be the name of a header.
[[nodiscard]] bool is_http_name(std::string_view name) noexcept;

/// Whether it can be the value of a header as it is.
[[nodiscard]] bool is_http_value(std::string_view value) noexcept;

[[nodiscard]] std::string lower_case(std::string_view text);

} // namespace posthorn::transports
