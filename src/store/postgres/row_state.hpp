// The numbers of the columns `state` and `place`, and what they mean outside.
#pragma once

#include <posthorn/delivery.hpp>
#include <posthorn/message_state.hpp>

#include <array>
#include <cstdint>
#include <optional>

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

/// Arrived with a key, behind the head of its key.
inline constexpr std::array<std::int64_t, 2> places_of_waiting{3, 4};
inline constexpr std::array<std::int64_t, 1> places_of_dead{6};

/// The places from here on are those of messages that were put aside.
inline constexpr std::int64_t first_place_aside = 7;

[[nodiscard]] constexpr std::int64_t place_aside(park_reason why) noexcept
{
    switch (why) {
    case park_reason::no_handler: return first_place_aside;
    case park_reason::paused: return first_place_aside + 1;
    case park_reason::at_limit: return first_place_aside + 2;
    }
    return first_place_aside;
}

/// Due, due later, arrived with a key: such a message is ready, or waits if it is not its key's
/// head. And what waits for the limit of a handler.
inline constexpr std::array<std::int64_t, 4> places_of_ready{1, 2, 3,
                                                             place_aside(park_reason::at_limit)};
inline constexpr std::array<std::int64_t, 2> places_of_parked{place_aside(park_reason::no_handler),
                                                              place_aside(park_reason::paused)};

/// Why a message in this place was put aside; nothing if it was not.
[[nodiscard]] constexpr std::optional<park_reason> reason_of(std::int64_t place) noexcept
{
    for (const auto each : {park_reason::no_handler, park_reason::paused, park_reason::at_limit})
        if (place_aside(each) == place)
            return each;
    return std::nullopt;
}

} // namespace posthorn::postgres
