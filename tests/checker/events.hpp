// What can stand in a history: what producers, handlers and fault injectors did and were answered,
// told by themselves and never by the store.
#pragma once

#include <posthorn/delivery.hpp>
#include <posthorn/id.hpp>
#include <posthorn/inbox.hpp>
#include <posthorn/message.hpp>
#include <posthorn/time.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace posthorn::checker {

/// A message was handed to a transaction, which has not ended yet.
struct enqueue_event {
    message_id id;
    std::string topic;
    std::string key = {};
    std::optional<timestamp> due_at = {};     ///< it is due at this time or later
    std::optional<timestamp> expires_at = {}; ///< it expires at this time or earlier
    std::string transaction;                  ///< a token, unique in the whole history
};

/// A message from outside was handed to a transaction, which has not ended yet. If it was known
/// already, this changes nothing.
struct feed_event {
    inbound from;
    std::string topic; ///< its sender's
    std::string key = {};
    std::string transaction; ///< a token, unique in the whole history
};

/// Its sender has committed to a message, which must now arrive: after what the same writer sent
/// before with the same key.
struct send_event {
    inbound from;
    std::string key = {};
};

enum class transaction_end { committed, rolled_back, unknown };

struct transaction_event {
    std::string transaction;
    transaction_end end = transaction_end::committed;
};

/// The handler of a message starts, because the store said so.
struct start_event {
    message_id id;
    posthorn::fence fence{};
    int attempt = 1;
};

/// A handler told the store how it went.
struct settle_event {
    message_id id;
    posthorn::fence fence{};
    posthorn::outcome::kind outcome = posthorn::outcome::kind::done;
    std::optional<settled_as> answer = {}; ///< none: the answer never came
};

struct cancel_event {
    message_id id;
    std::optional<cancel_answer> answer = {}; ///< none: the answer never came
};

struct redrive_event {
    message_id id;
};

struct purge_event {
    message_id id;
};

enum class fault_kind {
    killed,        ///< of a worker or producer
    paused,        ///< of a worker, for so long that its leases may have run out
    lease_expired, ///< of one start, by the clock of the worker that held it
    timed_out,     ///< of one start
    server,        ///< the database was killed, cut off or failed over
    clock,         ///< somebody's clock jumped
};

struct fault_event {
    fault_kind kind = fault_kind::server;
    std::string worker = {};           ///< of killed and paused
    std::optional<message_id> id = {}; ///< of lease_expired and timed_out
    posthorn::fence fence{};           ///< of lease_expired and timed_out
    duration shift = duration::zero(); ///< of clock
};

/// From now on there are no more faults.
struct stop_event {};

using happening =
    std::variant<enqueue_event, feed_event, send_event, transaction_event, start_event,
                 settle_event, cancel_event, redrive_event, purge_event, fault_event, stop_event>;

/// When something happened, and who says so. The store did it between `asked_at` and `at`.
struct moment {
    timestamp asked_at;
    timestamp at;
    std::string by;
    std::size_t sequence = 0; ///< its place in the history; orders only what one writer wrote
};

template <typename What>
struct noted : moment {
    What what;
};

using event = noted<happening>;

struct history {
    std::vector<event> events;
    std::size_t torn_lines = 0; ///< last lines that their writers did not live to finish
};

} // namespace posthorn::checker
