// The numbers of the `place` and `state` columns, and what they mean outside.
#pragma once

#include <posthorn/message_state.hpp>

#include <cstdint>

namespace posthorn::mariadb {

enum class place : std::int64_t {
    arrived = 0,       ///< has a key, and no worker has looked at it yet
    ready = 1,         ///< now, or when it is due; with a key it is the key's head
    waiting = 2,       ///< behind the head of its key
    claimed = 3,       ///< with a key it is the key's head
    dead_blocking = 4, ///< the head of its key
    dead = 5,
    done = 6, ///< these three have no row in the queue any more
    cancelled = 7,
    expired = 8,
    parked = 9, ///< until somebody takes its topic; with a key it is the key's head
};

/// Whether a message in this place, if it has a key, is the head of that key.
[[nodiscard]] constexpr bool holds_its_key(place where) noexcept
{
    return where == place::ready || where == place::parked || where == place::claimed ||
           where == place::dead_blocking;
}

[[nodiscard]] constexpr message_state state_of(place where) noexcept
{
    switch (where) {
    case place::arrived:
    case place::ready: return message_state::ready;
    case place::waiting: return message_state::waiting;
    case place::parked: return message_state::parked;
    case place::claimed: return message_state::claimed;
    case place::dead_blocking:
    case place::dead: return message_state::dead;
    case place::done: return message_state::done;
    case place::cancelled: return message_state::cancelled;
    case place::expired: return message_state::expired;
    }
    return message_state::ready;
}

[[nodiscard]] constexpr std::int64_t number(place where) noexcept
{
    return static_cast<std::int64_t>(where);
}

} // namespace posthorn::mariadb
