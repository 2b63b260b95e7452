// RabbitMQ, there and back: a transport with publisher confirms, and a feed from a queue.
//
//     auto rabbit = ph::open_rabbitmq({.url = "amqp://user:password@host/vhost"});
//     worker.handle("orders.*", ph::relay_to(rabbit, {.destination = "shop"}));
//
// docs/guides/rabbitmq.md tells more.
#pragma once

#include <posthorn/environment.hpp>
#include <posthorn/feeds.hpp>
#include <posthorn/transport.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

namespace posthorn {

/// How to speak to a broker; the same for the transport and the feed.
struct rabbitmq_connection {
    /// What is proven and checked when the URL says `amqps`.
    struct tls_options {
        std::string ca_file = {};     ///< whom to trust; empty: whom the system trusts
        std::string certificate = {}; ///< our own, in PEM; with `key`
        std::string key = {};
        bool verify = true; ///< that the broker is who the URL says
    };

    tls_options tls = {};
    std::string name = "posthorn";      ///< by which the broker's people see us
    std::chrono::seconds heartbeat{30}; ///< 0: none, and who is gone may not be noticed
    duration connect_within = std::chrono::seconds{10};      ///< per broker; its addresses share it
    duration reconnect_min = std::chrono::milliseconds{100}; ///< pauses grow from this
    duration reconnect_max = std::chrono::seconds{5};        ///< to this, and vary by chance
};

/// What a transport makes if it is not there: durable, and only if it is told to.
struct rabbitmq_declaration {
    std::string exchange_type = "topic"; ///< of the options' exchange; or direct, fanout, headers

    std::string queue = {};    ///< a queue beside it; needed if the options name no exchange
    std::string binding = "#"; ///< from the exchange to the queue
    bool quorum = true;        ///< whether the queue is replicated; else a classic one
};

struct rabbitmq_options {
    /// `amqp://USER:PASSWORD@HOST:PORT/VHOST`, or `amqps://`; what is special in a part is written
    /// with a percent sign. Of several, with commas between, the next is tried when one is away.
    std::string url;

    /// Where messages go that have no destination. The empty one leads to the queue that has the
    /// routing key for its name.
    std::string exchange = {};

    /// Empty: the topic. A message's destination comes first: `EXCHANGE/ROUTING-KEY`, or `EXCHANGE`
    /// alone, which leaves the routing key as it is here. `/QUEUE` leads straight to a queue.
    std::string routing_key = {};

    /// Declares the exchange, and the queue if it has a name, before the first message is sent, and
    /// again when one was returned because they are gone. What is there with other properties stays
    /// as it is, and the log says so.
    std::optional<rabbitmq_declaration> declare = {};

    /// Whether a message that no queue gets is refused; else it is accepted and gone.
    bool mandatory = true;

    /// Whether the broker writes them to its disk before it confirms, for queues that are durable.
    bool persistent = true;

    std::size_t window = 1'000; ///< so many that are waited for may be unconfirmed at a time
    std::size_t payload_bytes_max = std::size_t{16} << 20U; ///< at most what the broker takes

    /// How long `publish` waits if its caller does not say.
    duration answer_within = std::chrono::seconds{30};

    std::string source = "posthorn"; ///< who says it, for CloudEvents
    rabbitmq_connection connection = {};
};

/// A way to RabbitMQ. Messages of one key are on their way one at a time within a batch, because
/// the broker may refuse any of them; those without a key use the whole window. The topic is the
/// message's `type`, its id the `message_id`; all headers travel, and the attributes of CloudEvents
/// as headers that start with `cloudEvents:`.
/// Throws: `error` with `invalid_argument` for options that can never work.
[[nodiscard]] std::shared_ptr<transport> open_rabbitmq(rabbitmq_options options,
                                                       environment around = environment::system());

/// What opening would refuse, without connecting to anybody. Throws: `error` with
/// `invalid_argument`.
void check_rabbitmq(const rabbitmq_options& options);

struct rabbitmq_feed_options {
    std::string url; ///< as for the transport
    std::string queue;

    /// Whether to create the queue if it is not there; else it is waited for, with warnings.
    bool declare = false;
    bool quorum = true; ///< when it is created: replicated; else a classic one

    /// Where the queue's refused messages go. With `declare` the queue is created so; without, it
    /// says that the queue is so already. Empty: there is no such place, so what is refused comes
    /// again after `refused_pause`, for ever.
    std::string dead_letter_exchange = {};
    duration refused_pause = std::chrono::minutes{1};

    std::size_t prefetch = 500; ///< so many may be unanswered at a time

    /// What a message is refused for that has neither our header, nor an id of CloudEvents, nor a
    /// `message_id`: when it comes again nobody can tell. If this is set, each delivery of such a
    /// message gets an id of its own, so that one that comes again counts as another.
    bool accept_without_id = false;

    rabbitmq_connection connection = {};
};

/// A way in from a queue. Giving back and refusing are answers to the broker: see the guide for
/// what quorum queues count.
/// Throws: `error` with `invalid_argument` for options that can never work.
[[nodiscard]] std::unique_ptr<feed> open_rabbitmq_feed(rabbitmq_feed_options options,
                                                       environment around = environment::system());

/// What opening would refuse, without connecting to anybody. Throws: `error` with
/// `invalid_argument`.
void check_rabbitmq_feed(const rabbitmq_feed_options& options);

} // namespace posthorn
