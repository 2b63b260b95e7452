// Signatures of webhooks in the way of Standard Webhooks, for applications with an HTTP server of
// their own. Whoever knows a secret can say that a body with this id is theirs, sent at this time.
//
//     webhook-id: 01890a5d-ac96-774b-bcce-b302099a8057
//     webhook-timestamp: 1800000000
//     webhook-signature: v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=
//
// A secret is `whsec_` with base64 behind it, or the bytes themselves; at least 16 bytes. While one
// takes the place of another there are two, and a signature by either is good.
#pragma once

#include <posthorn/time.hpp>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace posthorn {

inline constexpr std::string_view webhook_id_header = "webhook-id";
inline constexpr std::string_view webhook_timestamp_header = "webhook-timestamp";
inline constexpr std::string_view webhook_signature_header = "webhook-signature";

/// The three headers as they came, and the body in the very bytes that came.
struct signed_webhook {
    std::string_view id;
    std::string_view timestamp;
    std::string_view signature;
    std::string_view body;
};

enum class webhook_verdict {
    genuine,
    incomplete, ///< a header is missing
    malformed,  ///< a header is not what it should be
    too_old,    ///< sent longer ago than is tolerated, as somebody would who repeats it
    too_new,    ///< from the future
    forged,     ///< by none of the secrets
};

[[nodiscard]] std::string_view to_string(webhook_verdict verdict) noexcept;

/// Whether somebody who knows one of the secrets sent this, and lately. Remember the id, or hand it
/// to the inbox: within the tolerance, the same may come again.
/// Throws: `error` with `invalid_argument` for a secret that is none.
[[nodiscard]] webhook_verdict verify_webhook(const signed_webhook& what,
                                             std::span<const std::string> secrets, timestamp now,
                                             duration tolerance = std::chrono::minutes{5});

/// The value of `webhook-signature`: one signature for each secret.
/// Requires: no full stop in the id. Throws: `error` with `invalid_argument` for a bad secret.
[[nodiscard]] std::string sign_webhook(std::string_view id, std::int64_t unix_seconds,
                                       std::string_view body, std::span<const std::string> secrets);

} // namespace posthorn
