// A way in for webhooks: an HTTP server that verifies, stores and only then says so.
//
//     ph::inbox_endpoint hooks(store, {.paths = {{.path = "/hooks/shop",
//                                                 .source = "shop",
//                                                 .secrets = {secret}}},
//                                      .port = 8'080});
//     hooks.start();
//
// Senders sign in the way of Standard Webhooks and name each message in `webhook-id`; what comes
// again has one effect. It speaks plain HTTP on the loopback interface: a proxy in front of it does
// TLS. 202: stored; 200: known already; 4xx: in vain; 503: later again.
#pragma once

#include <posthorn/environment.hpp>
#include <posthorn/feeds.hpp>
#include <posthorn/store.hpp>
#include <posthorn/time.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace posthorn {

/// Where one sender posts.
struct inbox_path {
    std::string path;   ///< such as `/hooks/shop`
    std::string source; ///< the inbox's name for whoever posts there; with the id it is unique

    /// A signature by any of them is good; as `whsec_` and base64, or the bytes themselves.
    std::vector<std::string> secrets = {};
    bool unsigned_allowed = false; ///< instead of secrets: whoever reaches the port is believed

    /// For messages that do not say their topic, and for all of them if `topic_wins`. A signature
    /// is by body and id, not by headers: let it win where somebody may change those on the way.
    std::string topic = {};
    bool topic_wins = false;
};

struct inbox_endpoint_options {
    std::vector<inbox_path> paths;
    std::string address = "127.0.0.1";
    std::uint16_t port = 0; ///< 0: any that is free

    std::size_t body_bytes_max = std::size_t{1} << 20U;
    std::size_t connections_max = 16;                   ///< served at once; others wait
    duration request_within = std::chrono::seconds{10}; ///< all of it, however slowly it comes
    duration tolerance = std::chrono::minutes{5};       ///< between the sender's clock and ours
    duration retry_after =
        std::chrono::seconds{5}; ///< what senders are told while no store is there

    /// Told after each message, with the source of its path, on the thread that has stored it. Must
    /// not throw.
    std::function<void(const feed_report&, const std::string& source)> progress = {};
};

class inbox_endpoint {
public:
    /// Says which store a message from `source` belongs to. It may throw `error`: with
    /// `invalid_argument` or `not_found` the message is refused, with others it comes again.
    using router = std::function<store(const fed_message& what, const std::string& source)>;

    /// Throws: `error` with `invalid_argument` for options that make no sense.
    inbox_endpoint(store where, inbox_endpoint_options options);
    inbox_endpoint(router where, inbox_endpoint_options options,
                   environment world = environment::system());
    inbox_endpoint(const inbox_endpoint&) = delete;
    inbox_endpoint& operator=(const inbox_endpoint&) = delete;
    ~inbox_endpoint(); ///< stops

    /// Returns: the port. Throws: `error` with `unavailable` if it is not free.
    std::uint16_t start();

    /// Whether requests are taken now. Not so before `start`, and while the system lets nobody in,
    /// which is logged and tried again.
    [[nodiscard]] bool is_listening() const noexcept;

    /// Takes no more requests, gives the port back, and returns at once. Repeating it is harmless.
    void stop_accepting();

    /// The same, and waits for requests that have begun: a second for those that are still being
    /// sent, then they are cut off and come again; what is being stored is waited for. Repeating it
    /// is harmless.
    void stop();

    /// What has become of all messages so far.
    [[nodiscard]] feed_report report() const;

private:
    struct state;
    std::unique_ptr<state> state_;
};

} // namespace posthorn
