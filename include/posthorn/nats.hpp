// NATS JetStream: a transport that publishes to streams, and a feed that reads with a consumer.
//
//     auto nats = ph::open_nats({.url = "nats://one.example,nats://two.example"});
//     auto orders = ph::open_nats_feed({.url = "nats://one.example", .stream = "ORDERS",
//                                       .consumer = "billing"});
//
// The message's id is its `Nats-Msg-Id`: within a stream's duplicate window one that comes again is
// accepted, and stored once.
#pragma once

#include <posthorn/environment.hpp>
#include <posthorn/feeds.hpp>
#include <posthorn/transport.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace posthorn {

/// How to reach the servers, and who we are there.
struct nats_access {
    std::string user = {};
    std::string password = {};
    std::string token = {};
    std::string credentials_file = {}; ///< with a JWT and the seed of a key, as `nsc` writes it

    bool tls = false;         ///< as the scheme tls:// says, too
    std::string ca_file = {}; ///< who signs the server's certificate; else the system's list
    std::string certificate_file = {}; ///< ours
    std::string key_file = {};
    bool verify_server = true;
};

/// A stream that a transport makes if it is not there.
struct nats_declaration {
    std::string stream;                ///< its name: one word without dots
    std::vector<std::string> subjects; ///< that it takes, such as `shop.orders.>`
    int replicas = 1;
};

struct nats_options {
    /// `nats://user:password@host:port`, or `tls://`; several are separated by commas. One name
    /// without a password is a token. Passwords are percent-encoded.
    std::string url;
    nats_access access = {}; ///< wins over what the URL says

    /// Before each subject, which is the message's destination, else its topic.
    std::string prefix = {};
    std::string domain = {}; ///< of JetStream, if it is not the servers' own

    /// Makes the stream before the first message is sent, and again when no stream takes one. A
    /// stream of this name that is there with other settings stays as it is, and the log says so.
    std::optional<nats_declaration> declare = {};

    /// Nothing: what the server takes (`max_payload`), less 8 KiB for headers.
    std::optional<std::size_t> payload_bytes_max = {};
    std::size_t window = 4'000; ///< so many messages may be without an answer

    duration ack_within = std::chrono::seconds{10}; ///< else it is unknown what became of it
    duration connect_within = std::chrono::seconds{2};
    duration publish_within = std::chrono::seconds{30}; ///< for calls without a time limit
    duration ping_every = std::chrono::seconds{20};     ///< two without an answer end a connection

    std::string client_name = "posthorn"; ///< in the server's list of connections
    std::string source = "posthorn";      ///< the `source` of CloudEvents
};

/// Connects on a thread of its own.
/// Throws: `error` with `invalid_argument` that names what is wrong and what would be right.
[[nodiscard]] std::shared_ptr<transport> open_nats(
    nats_options how, environment surroundings = environment::system());

/// What opening would refuse, without connecting to anybody. Throws: `error` with
/// `invalid_argument`.
void check_nats(const nats_options& options);

struct nats_feed_options {
    std::string url; ///< as for the transport
    nats_access access = {};
    std::string stream;
    std::string consumer; ///< its durable name

    /// Whether a missing consumer is made; else it is waited for.
    bool create_consumer = true;
    std::string filter = {}; ///< of a consumer that is made: subjects; empty: all of the stream
    duration ack_wait = std::chrono::seconds{30}; ///< of such one: then a message comes again
    std::string domain = {};

    /// After an interruption nothing is handed over before what was in other hands, which comes
    /// again when its time (`ack_wait`) is over. False: what is there is handed over at once; for
    /// several processes with one consumer, of which none can keep an order anyway.
    bool in_order = true;

    duration connect_within = std::chrono::seconds{2};
    duration ping_every = std::chrono::seconds{20};
    std::string client_name = "posthorn";
};

/// Connects on a thread of its own.
/// Throws: `error` with `invalid_argument` that names what is wrong and what would be right.
[[nodiscard]] std::unique_ptr<feed> open_nats_feed(
    nats_feed_options how, environment surroundings = environment::system());

/// What opening would refuse, without connecting to anybody. Throws: `error` with
/// `invalid_argument`.
void check_nats_feed(const nats_feed_options& options);

} // namespace posthorn
