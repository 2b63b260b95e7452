// HMAC-SHA256 and base64: what signatures are made of.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::transports {

using mac = std::array<std::uint8_t, 32>;

[[nodiscard]] mac hmac_sha256(std::string_view key, std::span<const std::string_view> parts);

[[nodiscard]] std::string to_base64(std::span<const std::uint8_t> bytes);

/// Nothing: it is no base64. Padding may be missing.
[[nodiscard]] std::optional<std::string> from_base64(std::string_view text);

/// The bytes of a secret. Throws: `error` with `invalid_argument`, which never names it.
[[nodiscard]] std::string secret_bytes(std::string_view secret);
[[nodiscard]] std::vector<std::string> secret_bytes(std::span<const std::string> secrets);

/// The same as `sign_webhook`, with secrets that were read already.
[[nodiscard]] std::string signature_of(std::string_view id, std::string_view unix_seconds,
                                       std::string_view body, std::span<const std::string> keys);

} // namespace posthorn::transports
