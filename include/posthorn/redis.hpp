// Redis Streams: a transport that appends to them, and a feed that reads them in a consumer group.
//
//     auto redis = ph::open_redis({.url = "redis://:secret@cache.example:6379"});
//     auto orders = ph::open_redis_feed({.url = "redis://cache.example", .stream = "orders",
//                                        .group = "billing"});
//
// An entry's fields are the message's headers, and last its `payload`. Redis does not know messages
// that come again: whoever reads them tells them by `posthorn-msg-id`.
#pragma once

#include <posthorn/environment.hpp>
#include <posthorn/feeds.hpp>
#include <posthorn/transport.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace posthorn {

struct redis_options {
    /// `redis://user:password@host:port/database`; all but the host may be missing. Passwords are
    /// percent-encoded. There is no TLS: use a tunnel.
    std::string url;

    /// Before each stream's name, which is the message's destination, else its topic.
    std::string prefix = {};

    /// Whether a stream that does not exist is made; else its messages are unroutable.
    bool create_streams = true;

    /// About so many entries stay in a stream, and the oldest go; nothing: all stay.
    std::optional<std::uint64_t> entries_max = {};

    /// So many replicas must have a batch before it counts as accepted; with fewer of them after
    /// `replicas_within` it is unknown.
    unsigned replicas = 0;
    duration replicas_within = std::chrono::seconds{1};

    std::size_t payload_bytes_max = std::size_t{16} << 20U;
    std::size_t window = 1'000; ///< so many messages may be without an answer

    duration connect_within = std::chrono::seconds{2};
    duration reply_within = std::chrono::seconds{10};   ///< else the connection is given up
    duration publish_within = std::chrono::seconds{30}; ///< for calls without a time limit

    std::string client_name = "posthorn"; ///< in Redis' list of clients
};

/// Connects when it is first used.
/// Throws: `error` with `invalid_argument` that names what is wrong and what would be right.
[[nodiscard]] std::shared_ptr<transport> open_redis(
    redis_options how, environment surroundings = environment::system());

/// What opening would refuse, without connecting to anybody. Throws: `error` with
/// `invalid_argument`.
void check_redis(const redis_options& options);

struct redis_feed_options {
    std::string url; ///< as for the transport
    std::string stream;
    std::string group;

    /// Who we are in the group: always the same for one process, and different for each. What it
    /// had in hand when it ended comes first when it starts again. Empty: the machine's name.
    std::string consumer = {};

    /// Whether a missing stream and group are made; else they are waited for.
    bool create_group = true;
    std::string start = "0"; ///< of a group that is made: 0 for all entries, $ for new ones

    /// What another consumer has had in hand for so long is taken over.
    duration claim_after = std::chrono::minutes{1};

    std::string refused_stream = {}; ///< for what is refused; empty: the stream's name + `.refused`
    std::string payload_field = "payload";

    duration connect_within = std::chrono::seconds{2};
    duration reply_within = std::chrono::seconds{10};
    std::string client_name = "posthorn";
};

/// Connects when it is first used.
/// Throws: `error` with `invalid_argument` that names what is wrong and what would be right.
[[nodiscard]] std::unique_ptr<feed> open_redis_feed(
    redis_feed_options how, environment surroundings = environment::system());

/// What opening would refuse, without connecting to anybody. Throws: `error` with
/// `invalid_argument`.
void check_redis_feed(const redis_feed_options& options);

} // namespace posthorn
