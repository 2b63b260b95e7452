// How an endpoint is doing, and what that means for what is to be sent there: a circuit breaker.
// After some failures in a row it is left alone for a while, longer each time, and then tried with
// a single message.
#pragma once

#include <posthorn/environment.hpp>
#include <posthorn/time.hpp>

#include <cstddef>
#include <optional>

namespace posthorn::transports {

struct breaker_options {
    std::size_t failures = 5; ///< so many in a row
    duration pause_min = {};
    duration pause_max = {};
};

/// What an exchange says about the endpoint, whatever it says about the message.
enum class exchange {
    good,   ///< it answered as somebody does who is well
    failed, ///< it was not there, did not answer, or said that it is broken
    cut,    ///< we ended it, so nobody knows
};

class endpoint_health {
public:
    struct permission {
        enum class kind {
            go,
            wait,   ///< for the end of the trial that is under way
            left,   ///< not now: it failed too often
            resting ///< not now: it asked for it
        };
        kind what = kind::go;
        duration for_how_long = {};
        bool is_trial = false;
    };

    /// Whether a message may be sent now. Whoever goes says later how it `ended`.
    [[nodiscard]] permission ask(monotonic_time now) const;
    void began(const permission& with);

    /// Returns: for how long it is left alone from now on, if that has just been decided.
    std::optional<duration> ended(bool was_trial, exchange how, std::optional<duration> retry_after,
                                  monotonic_time now, const breaker_options& options,
                                  random_source& random);

    [[nodiscard]] bool is_well() const noexcept
    {
        return failures_ == 0 && !left_until_ && !resting_until_;
    }
    [[nodiscard]] bool is_left() const noexcept { return left_until_.has_value(); }

    /// Whether nothing is lost when it is forgotten.
    [[nodiscard]] bool may_be_forgotten(monotonic_time now) const noexcept;

private:
    std::size_t failures_ = 0;                    ///< in a row
    unsigned pauses_ = 0;                         ///< in a row
    std::optional<monotonic_time> left_until_;    ///< by our decision
    std::optional<monotonic_time> resting_until_; ///< by theirs
    bool on_trial_ = false;
};

} // namespace posthorn::transports
