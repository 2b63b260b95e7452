// The numbers of the `state` columns, and what they mean outside.
#pragma once

#include <posthorn/delivery.hpp>
#include <posthorn/message_state.hpp>

#include <cstdint>
#include <optional>

namespace posthorn::sqlite {

enum class row_state : std::int64_t {
    ready_at_limit = -3, ///< from here to -1 a row is put aside, and names its topic
    parked_paused = -2,
    parked_without_handler = -1,
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
    case row_state::ready_at_limit: return message_state::ready;
    case row_state::parked_paused:
    case row_state::parked_without_handler: return message_state::parked;
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

[[nodiscard]] constexpr row_state parked_for(park_reason reason) noexcept
{
    switch (reason) {
    case park_reason::no_handler: return row_state::parked_without_handler;
    case park_reason::paused: return row_state::parked_paused;
    case park_reason::at_limit: return row_state::ready_at_limit;
    }
    return row_state::parked_without_handler;
}

[[nodiscard]] constexpr std::optional<park_reason> reason_of(row_state row) noexcept
{
    for (const auto each : {park_reason::no_handler, park_reason::paused, park_reason::at_limit})
        if (parked_for(each) == row)
            return each;
    return std::nullopt;
}

[[nodiscard]] constexpr std::int64_t number(row_state row) noexcept
{
    return static_cast<std::int64_t>(row);
}

} // namespace posthorn::sqlite
