// What an application hands over: a topic, a payload, and how it should be delivered.
#pragma once

#include <posthorn/id.hpp>
#include <posthorn/time.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace posthorn {

/// Names and values that travel with a message. Names starting with `posthorn-` are Posthorn's own.
using headers = std::map<std::string, std::string, std::less<>>;

/// The bounds of what a store takes. Everything outside is refused before a row is written.
struct limits {
    std::size_t payload_bytes_max = std::size_t{1} << 20U;
    std::size_t headers_bytes_max = std::size_t{64} << 10U;
    std::size_t batch_max = 10'000; ///< of one claim; one bulk enqueue may be larger

    static constexpr std::size_t topic_bytes_max = 500;
    static constexpr std::size_t key_bytes_max = 255; ///< ordering, dedup and correlation keys
    static constexpr std::size_t error_bytes_max = 2'000;
    static constexpr duration span_max = std::chrono::hours{24 * 36'525}; ///< of leases and waits
    static constexpr int priority_max = 100;                              ///< and as far below zero
};

/// A topic and its payload. The payload is opaque: any bytes, none allowed.
struct message {
    std::string topic;
    std::string payload;
};

/// How a message is delivered. Everything is optional.
struct enqueue_options {
    /// The message's id; made by Posthorn unless given.
    std::optional<message_id> id = {};

    /// Messages of one key run one after the other, in the order of their enqueueing.
    std::string ordering_key = {};

    /// Higher runs first among what is due; −100 … 100.
    int priority = 0;

    /// Wait this long before the first start. At most one of `delay` and `due_at` is given.
    std::optional<duration> delay = {};
    std::optional<timestamp> due_at = {}; ///< a time in the past means now

    /// Never start later than this. At most one of the two is given.
    std::optional<duration> expires_after = {};
    std::optional<timestamp> expires_at = {};

    /// A second enqueue of this topic and key inside the window gives back the first message's id.
    std::string dedup_key = {};
    duration dedup_window = std::chrono::hours{24};

    std::string correlation_id = {};
    std::string causation_id = {};
    posthorn::headers headers = {};

    /// The join that waits for this message, too; see joins.hpp.
    std::optional<join_id> join = {};
};

/// One message of a bulk enqueue.
struct outgoing {
    posthorn::message message;
    enqueue_options options = {};
};

/// Where an enqueued message lies.
struct locator {
    message_id id;
    std::int64_t position = 0; ///< the store's own number for it

    friend bool operator==(const locator&, const locator&) = default;
};

/// The answer to an enqueue.
struct enqueued : locator {
    bool duplicate = false; ///< nothing was added: this is the earlier message of the dedup key
};

/// The answer to a cancel.
enum class cancel_answer {
    cancelled, ///< it will never start
    too_late,  ///< it is running or has ended
    pending,   ///< asked for; whoever holds the message decides (no engine answers so yet)
    not_found, ///< no such message
};

[[nodiscard]] std::string_view to_string(cancel_answer answer) noexcept;

} // namespace posthorn
