// Kafka: a transport that writes to topics, and a feed that reads from them.
//
//     auto kafka = ph::open_kafka({.url = "kafka://broker1:9092,broker2:9092"});
//     worker.handle("orders.*", ph::relay_to(kafka));
#pragma once

#include <posthorn/environment.hpp>
#include <posthorn/feeds.hpp>
#include <posthorn/time.hpp>
#include <posthorn/transport.hpp>

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace posthorn {

/// Settings of librdkafka by their names, such as `compression.codec`. A name that it does not know
/// is an error, and so is one that Posthorn has to decide.
using kafka_settings = std::map<std::string, std::string, std::less<>>;

/// Who we are to the brokers, and how we know them.
struct kafka_access {
    std::string user = {}; ///< SASL; empty: no SASL
    std::string password = {};
    std::string mechanism = "PLAIN"; ///< or SCRAM-SHA-256, SCRAM-SHA-512

    bool tls = false;
    std::string ca_file = {};          ///< PEM; empty: what the machine trusts
    std::string certificate_file = {}; ///< PEM; ours, if the brokers ask for one
    std::string private_key_file = {};
    std::string private_key_password = {};
    bool verify = true; ///< whether a broker's certificate must be valid for its name
};

struct kafka_options {
    std::string url; ///< `kafka://host:9092,host2:9092`: some of the cluster's brokers
    kafka_access access = {};

    /// The topic for messages without a destination; empty: each message's own.
    std::string topic = {};

    std::string source = "posthorn"; ///< the `source` of CloudEvents

    /// With its headers, a message of this size is within what brokers take by default.
    std::size_t payload_bytes_max = 960'000;

    /// How long a message may wait for others to share its request, while a call hands its messages
    /// over.
    duration linger = std::chrono::milliseconds{5};

    duration publish_within = std::chrono::seconds{30}; ///< for calls without a time limit

    kafka_settings settings = {};
};

/// A transport whose messages are accepted when all replicas in sync have them, by an idempotent
/// producer. A message's key is its Kafka key, which chooses the partition as other clients do; of
/// one key, a message is not sent before the one before it is accepted. Its topic is the message's
/// destination, else the option's, else the message's topic. Headers are ours and those of
/// CloudEvents in binary form.
/// Throws: `error` with `invalid_argument`; never for brokers that are away.
[[nodiscard]] std::shared_ptr<transport> open_kafka(
    kafka_options options, environment surroundings = environment::system());

/// What opening would refuse, without connecting to anybody. Throws: `error` with
/// `invalid_argument`.
void check_kafka(const kafka_options& options);

struct kafka_feed_options {
    std::string url; ///< as for the transport
    kafka_access access = {};
    std::vector<std::string> topics;
    std::string group; ///< those of one group share the partitions

    /// Where a group begins that has committed nothing.
    enum class start_at { earliest, latest };
    start_at start = start_at::earliest;

    /// What can never be stored is written to the topic of its own with this at its end.
    std::string refused_suffix = ".refused";

    kafka_settings settings = {};
};

/// A feed that is a member of a consumer group. Offsets are committed as far as everything before
/// them is acknowledged. What is given back holds its partition up, so that order is kept; what is
/// refused goes to another topic with the reason as the header `posthorn-refused`. A message that
/// does not say its id is known as `TOPIC/PARTITION/OFFSET`.
/// Throws: `error` with `invalid_argument`; never for brokers that are away.
[[nodiscard]] std::unique_ptr<feed> open_kafka_feed(
    kafka_feed_options options, environment surroundings = environment::system());

/// What opening would refuse, without connecting to anybody. Throws: `error` with
/// `invalid_argument`.
void check_kafka_feed(const kafka_feed_options& options);

} // namespace posthorn
