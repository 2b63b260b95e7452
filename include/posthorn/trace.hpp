// What became of a piece of work: all messages of one correlation, and which caused which.
#pragma once

#include <posthorn/messages.hpp>
#include <posthorn/store.hpp>
#include <posthorn/time.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn {

/// A message and its place among the others.
struct traced_message {
    message_record record;
    std::optional<std::size_t> caused_by = {}; ///< which of the others; none: its cause is unknown
    std::size_t depth = 0;                     ///< 0 for those without
};

/// How far to look for a correlation. Correlations have no index, which every enqueue would pay
/// for: each message since its beginning is read, about a million per second from memory.
struct trace_options {
    /// Where to begin. Unless given, a correlation that is the id of a message begins with it, one
    /// that is a UUIDv7 at the time it carries, and any other a day ago.
    std::optional<timestamp> since = {};

    std::size_t limit = 1'000; ///< of messages found

    /// Told now and then how many positions have been looked at, and of how many. False ends it.
    std::function<bool(std::int64_t done, std::int64_t of)> progress = {};
};

struct message_trace {
    std::string correlation_id;
    std::vector<traced_message> messages; ///< each right behind what caused it, or its siblings
    std::optional<timestamp> since;       ///< looked from then on; none: from the first message on
    bool complete = true;                 ///< false: there may be more
};

/// Finds the messages of a correlation, given by its id or by the id of any of its messages.
/// Never blocks writers, and never holds a view for long.
[[nodiscard]] message_trace trace_messages(store& where, std::string_view correlation_id,
                                           const trace_options& how = {});

/// Puts messages in the order of a tree. A cause that is not among them counts as unknown, and of
/// messages that cause each other in a circle the earliest does.
[[nodiscard]] std::vector<traced_message> arrange_by_cause(std::vector<message_record> messages);

} // namespace posthorn
