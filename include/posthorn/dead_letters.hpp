// Dead letters and blocked keys: what failed for good, and how an operator sets it right.
#pragma once

#include <posthorn/messages.hpp>
#include <posthorn/store.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn {

struct redrive_options {
    bool dry_run = false; ///< only count

    /// Spreads the redriven messages over time, instead of releasing them all at once.
    std::optional<double> per_second = {};
};

/// Gives one dead message new attempts. False: it is not dead.
[[nodiscard]] bool redrive(store& where, message_id id);

/// Gives all dead messages that match new attempts (`filter.state`, page and limit are ignored).
/// Works in small transactions. Returns: how many were, or would be, redriven.
std::size_t redrive(store& where, const message_filter& filter, const redrive_options& how = {});

/// Removes one dead message for good. False: it is not dead.
[[nodiscard]] bool purge(store& where, message_id id);

/// Removes all dead messages that match, in small transactions.
/// Returns: how many were, or would be, removed.
std::size_t purge(store& where, const message_filter& filter, bool dry_run = false);

/// An ordering key whose oldest message is dead, so that the others wait.
struct blocked_key {
    std::string ordering_key;
    message_id dead_message;
    std::string topic;
    std::string last_error;
    timestamp since;
    std::int64_t waiting = 0; ///< messages held back
};

[[nodiscard]] std::vector<blocked_key> list_blocked_keys(store& where, std::size_t limit = 100);

/// Redrives the dead message that blocks the key. False: the key is not blocked.
[[nodiscard]] bool retry_blocked_key(store& where, std::string_view ordering_key);

/// Leaves the dead message dead and lets the key go on. False: the key is not blocked.
[[nodiscard]] bool skip_blocked_key(store& where, std::string_view ordering_key);

} // namespace posthorn
