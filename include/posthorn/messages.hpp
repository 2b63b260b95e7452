// Looking at messages: one, a page of them, or how many there are.
#pragma once

#include <posthorn/delivery.hpp>
#include <posthorn/id.hpp>
#include <posthorn/message.hpp>
#include <posthorn/message_state.hpp>
#include <posthorn/store.hpp>
#include <posthorn/time.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn {

/// Everything known about one message.
struct message_record {
    message_id id;
    std::int64_t position = 0;
    message_state state = message_state::ready;
    bool started = false;    ///< claimed, and its handler has begun
    bool blocks_key = false; ///< dead, and holding back its ordering key

    /// Of a ready one, by the database's clock.
    ready_state ready_as = ready_state::ready;

    /// Why a worker put it aside. With `at_limit` it is ready, else parked.
    std::optional<park_reason> parked_for;

    std::string topic;
    std::string payload;
    std::size_t payload_bytes = 0; ///< also when the payload itself was not asked for
    std::string ordering_key;
    std::string correlation_id;
    std::string causation_id;
    posthorn::headers headers;
    int priority = 0;

    timestamp created_at;
    timestamp due_at;
    std::optional<timestamp> expires_at;
    std::optional<timestamp> started_at;
    std::optional<timestamp> failed_at; ///< of the latest failure
    std::optional<timestamp> finished_at;
    std::optional<timestamp> lease_until;

    int attempts = 0; ///< committed starts since it was enqueued or last redriven
    int errors = 0;
    int redrives = 0;
    std::string last_error;
    std::string worker; ///< who holds it, or held it last
    posthorn::fence fence{};
};

/// Which messages to look at. Everything is optional and combines with "and".
struct message_filter {
    std::optional<message_state> state = {};
    std::optional<ready_state> ready_as = {}; ///< with the state `ready`: only those of this kind
    std::string topic = {}; ///< exact, or with a closing `*` everything that starts so
    std::string ordering_key = {};
    std::string correlation_id = {}; ///< has no index: every message between the positions is read
    std::string error_contains = {};
    std::optional<timestamp> created_before = {};
    std::int64_t after_position = 0;          ///< where the next page starts
    std::int64_t before_position = INT64_MAX; ///< and where it ends at the latest
    std::size_t limit = 50;
    bool with_payload = false;
};

/// How many messages a store holds, by state.
struct store_stats {
    std::int64_t ready = 0;    ///< due now; also what waits for the limit of a handler
    std::int64_t delayed = 0;  ///< ready, but due later
    std::int64_t retrying = 0; ///< those of the delayed that have failed before
    std::int64_t waiting = 0;
    std::int64_t parked = 0;
    std::int64_t claimed = 0;
    std::int64_t done = 0;
    std::int64_t dead = 0;
    std::int64_t cancelled = 0;
    std::int64_t expired = 0;
    std::int64_t blocked_keys = 0;

    /// Numbers given out since the store was made: one for each message, and those of transactions
    /// that were rolled back. It never falls, whatever is removed.
    std::int64_t enqueued = 0;
    std::optional<duration> oldest_ready; ///< how long the oldest due message has been waiting

    /// Whether the counts of ready, claimed and done are exact rather than estimates.
    bool exact = true;
};

[[nodiscard]] std::optional<message_record> find_message(transaction& tx, message_id id);
[[nodiscard]] std::optional<message_record> find_message(store& where, message_id id);

/// One page of messages, in the order of their enqueueing.
[[nodiscard]] std::vector<message_record> list_messages(store& where,
                                                        const message_filter& filter = {});

[[nodiscard]] store_stats count_messages(store& where);

} // namespace posthorn
