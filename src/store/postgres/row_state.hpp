// The numbers of the `state` column, and what they mean outside.
#pragma once

#include <posthorn/message_state.hpp>

#include <cstdint>

namespace posthorn::postgres {

enum class row_state : std::int64_t {
    ready = 0,
    claimed = 2,
    started = 3,
    dead_blocking = 4,
    dead = 5,
    done = 6,
    cancelled = 7,
    expired = 8,
};

/// `waits`: behind the head of its key.
[[nodiscard]] constexpr message_state state_of(row_state row, bool waits) noexcept
{
    switch (row) {
    case row_state::ready: return waits ? message_state::waiting : message_state::ready;
    case row_state::claimed:
    case row_state::started: return message_state::claimed;
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

} // namespace posthorn::postgres
