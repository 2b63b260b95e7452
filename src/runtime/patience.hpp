// How long it pays to wait for company: messages that travel together share a trip to the store.
#pragma once

#include <posthorn/time.hpp>

#include <algorithm>
#include <chrono>

namespace posthorn::runtime {

/// A trip that took long is worth waiting a while for; what is quick goes at once.
/// Returns: at least `least`.
[[nodiscard]] inline duration worth_waiting(duration least, duration trip) noexcept
{
    constexpr duration most = std::chrono::milliseconds{5};
    return std::clamp(trip / 4, least, std::max(least, most));
}

/// On the real clock: threads and stores do not know a manual one.
[[nodiscard]] inline duration since(std::chrono::steady_clock::time_point then)
{
    return std::chrono::duration_cast<duration>(std::chrono::steady_clock::now() - then);
}

} // namespace posthorn::runtime
