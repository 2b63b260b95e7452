// The states of a message.
#pragma once

#include <optional>
#include <string_view>

namespace posthorn {

/// Where a message stands.
enum class message_state {
    ready,     ///< waits for a worker, now or when it is due; see `ready_state`
    waiting,   ///< waits for an earlier message of its ordering key
    parked,    ///< put aside: no worker takes its topic
    claimed,   ///< a worker holds it
    done,      ///< handled
    dead,      ///< failed for good; see dead_letters.hpp
    cancelled, ///< taken back before it started
    expired,   ///< nobody started it in time
};

/// Why a ready message has not been claimed yet. Programs show these words in place of `ready`.
enum class ready_state {
    ready,    ///< it is due, and waits for a worker
    delayed,  ///< it is due later
    retrying, ///< it has failed, and is due again later
};

[[nodiscard]] std::string_view to_string(ready_state state) noexcept;
[[nodiscard]] std::string_view to_string(message_state state) noexcept;
[[nodiscard]] std::optional<message_state> parse_message_state(std::string_view text) noexcept;

/// Done, dead, cancelled and expired are final.
[[nodiscard]] constexpr bool is_terminal(message_state state) noexcept
{
    return state >= message_state::done;
}

} // namespace posthorn
