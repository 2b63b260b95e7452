// How many handlers may run at once: by registration and by group. A worker has one of these,
// however many stores it serves.
#pragma once

#include "runtime/running_delivery.hpp"

#include <atomic>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace posthorn::runtime {

/// Threads: safe to use from any.
class places {
public:
    /// Whether the limits of its handler let it begin now; if so it counts until `leave`.
    [[nodiscard]] bool enter(const running_delivery& which);
    void leave(const running_delivery& which);

    /// How many more of a route, and of those registered with it, may begin; SIZE_MAX without a
    /// limit.
    [[nodiscard]] std::size_t room_for(const route& which) const;

    std::atomic<std::size_t> messages = 0;      ///< in hand: claimed, and not settled yet
    std::atomic<std::size_t> lost = 0;          ///< of them: others may have taken them over
    std::atomic<std::size_t> payload_bytes = 0; ///< theirs

private:
    mutable std::mutex mutex_;
    struct in_use {
        std::size_t messages = 0;
        std::size_t payload_bytes = 0;
    };
    [[nodiscard]] std::size_t room_within(const route& which) const;

    std::map<std::size_t, in_use> by_rule_; ///< by registration
    std::map<std::pair<std::size_t, std::string>, std::size_t> by_group_;
};

} // namespace posthorn::runtime
