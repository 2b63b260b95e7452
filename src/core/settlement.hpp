// The decision at the end of a delivery: what a handler's outcome means for the message.
#pragma once

#include <posthorn/delivery.hpp>
#include <posthorn/retry.hpp>

#include <string>

namespace posthorn::core {

/// An outcome after the retry policy has spoken: exactly what the store has to write.
struct decision {
    settled_as become = settled_as::done; ///< never `lost`
    duration delay{};                     ///< of `retrying`; of `released` if it is postponed
    std::string error = {};               ///< empty: this was no failure
    bool blocks_key = false;              ///< of `dead`
    park_reason reason = {};              ///< of `parked`
};

/// What is known of a claimed message when it is settled.
struct delivery_facts {
    std::string_view topic;
    int starts_before = 0; ///< committed starts before this delivery
    bool started = false;  ///< whether this delivery has started
};

/// Decides; pure. `chance` is a number in [0, 1).
[[nodiscard]] decision decide(const outcome& said, const delivery_facts& facts,
                              const retry_policy& policy, dead_key on_dead, double chance);

/// Decides for a worker that never answered: its lease ran out.
[[nodiscard]] decision decide_for_absent(const delivery_facts& facts, const retry_policy& policy,
                                         dead_key on_dead, double chance);

/// Whether that is the error of such a decision.
[[nodiscard]] bool is_error_of_absent(std::string_view error) noexcept;

} // namespace posthorn::core
