// The numbers of the `state` columns, and what they mean outside.
#pragma once

#include <posthorn/message_state.hpp>

#include <cstdint>

namespace posthorn::sqlite {

enum class row_state : std::int64_t {
    ready = 0,
    waiting = 1,
    claimed = 2,
    dead_blocking = 3, ///< up to here a row holds its ordering key
    dead = 4,          ///< up to here a message has a row in the queue
    done = 5,
    cancelled = 6,
    expired = 7,
};

[[nodiscard]] constexpr message_state state_of(row_state row) noexcept
{
    switch (row) {
    case row_state::ready: return message_state::ready;
    case row_state::waiting: return message_state::waiting;
    case row_state::claimed: return message_state::claimed;
    case row_state::dead_blocking:
    case row_state::dead: return message_state::dead;
    case row_state::done: return message_state::done;
    case row_state::cancelled: return message_state::cancelled;
    case row_state::expired: return message_state::expired;
    }
    return message_state::ready;
}

[[nodiscard]] constexpr std::int64_t number(row_state row) noexcept
{
    return static_cast<std::int64_t>(row);
}

} // namespace posthorn::sqlite
