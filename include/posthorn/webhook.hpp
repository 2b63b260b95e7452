// Webhooks: messages that go to other people's HTTP servers, signed in the way of Standard
// Webhooks.
//
//     auto hooks = ph::open_webhook({.url = "https://example.com/hooks", .secrets = {secret}});
//     worker.handle("orders.*", ph::relay_to(hooks));
//
// A message's destination is a URL and wins over `url`. What the URL's owner answers decides: 2xx
// is accepted, what says "not now" comes again, 410 is the end, and every other no is a failure
// that the retry policy bounds. Redirects are not followed. Addresses that are not public are
// refused, see docs/decisions/0020.
#pragma once

#include <posthorn/environment.hpp>
#include <posthorn/message.hpp>
#include <posthorn/time.hpp>
#include <posthorn/transport.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace posthorn {

struct webhook_options {
    /// Where messages go that name no destination of their own; empty: each must. What is behind
    /// the host may be a secret, and is never shown.
    std::string url = {};

    /// Each signs every message: two while one takes the place of the other; none: unsigned. As
    /// `whsec_` and base64, or the bytes themselves.
    std::vector<std::string> secrets = {};

    std::string source = "posthorn";               ///< of CloudEvents
    std::string content_type = "application/json"; ///< of messages that do not say their own
    std::string user_agent = "posthorn";

    /// Further headers, such as `Authorization`, for the host of `url` alone; never shown.
    posthorn::headers headers = {};

    /// Networks that may be reached though they are not public, such as `10.1.0.0/16`.
    std::vector<std::string> allow_private = {};

    std::string ca_file = {};          ///< instead of the system's authorities
    std::string certificate_file = {}; ///< ours, for servers that ask for one
    std::string key_file = {};

    duration connect_within = std::chrono::seconds{5};
    duration answer_within = std::chrono::seconds{15}; ///< from the beginning of each request

    std::size_t parallel_per_endpoint = 8; ///< requests at once to one scheme, host and port
    std::size_t parallel = 128;            ///< and to all together

    /// After so many failures in a row an endpoint is left alone, for longer each time.
    std::size_t failures_max = 5;
    duration pause_min = std::chrono::seconds{1};
    duration pause_max = std::chrono::minutes{5};
    duration retry_after_max = std::chrono::hours{1}; ///< more is not believed

    std::size_t payload_bytes_max = std::size_t{1} << 20U;

    /// Told when an endpoint (`scheme://host:port`) begins to be left alone for its failures, and
    /// when that is over: it has answered, nothing was sent there for an hour, or the transport
    /// ends. Called on the thread that sends: it has to be quick, and must not throw.
    std::function<void(const std::string& endpoint, bool is_left)> on_endpoint = {};
};

/// Connects to nobody before there is something to send.
/// Throws: `error` with `invalid_argument` for options that make no sense.
[[nodiscard]] std::shared_ptr<transport> open_webhook(webhook_options options,
                                                      environment world = environment::system());

/// What opening would refuse, without connecting to anybody. Throws: `error` with
/// `invalid_argument`.
void check_webhook(const webhook_options& options);

} // namespace posthorn
