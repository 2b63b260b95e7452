// Decisions alone: time and chance are given.
#include "transport/webhook/endpoint_health.hpp"

#include <algorithm>

namespace posthorn::transports {

endpoint_health::permission endpoint_health::ask(monotonic_time now) const
{
    using kind = permission::kind;
    if (resting_until_ && now < *resting_until_)
        return {.what = kind::resting, .for_how_long = *resting_until_ - now};
    if (!left_until_)
        return {};
    if (now < *left_until_)
        return {.what = kind::left, .for_how_long = *left_until_ - now};
    if (on_trial_)
        return {.what = kind::wait};
    return {.is_trial = true};
}

void endpoint_health::began(const permission& with)
{
    on_trial_ |= with.is_trial;
}

std::optional<duration> endpoint_health::ended(bool was_trial, exchange how,
                                               std::optional<duration> retry_after,
                                               monotonic_time now, const breaker_options& options,
                                               random_source& random)
{
    if (was_trial)
        on_trial_ = false;
    if (how == exchange::cut)
        return std::nullopt;
    if (retry_after)
        resting_until_ = now + *retry_after;
    else if (resting_until_ && now >= *resting_until_)
        resting_until_.reset();
    if (how == exchange::good) {
        failures_ = 0;
        pauses_ = 0;
        left_until_.reset();
        return std::nullopt;
    }
    ++failures_;
    // What was under way when it was decided says nothing new.
    if (left_until_ ? !was_trial : failures_ < options.failures)
        return std::nullopt;
    auto pause = options.pause_min;
    for (unsigned i = 0; i < pauses_ && pause < options.pause_max; ++i)
        pause *= 2;
    pause = std::min(pause, options.pause_max);
    ++pauses_;
    // Between half and all of it, so that those who failed together do not come back together.
    pause = duration{static_cast<duration::rep>(static_cast<double>(pause.count()) *
                                                (0.5 + random.fraction() / 2))};
    if (retry_after)
        pause = std::max(pause, *retry_after);
    left_until_ = now + pause;
    return pause;
}

bool endpoint_health::may_be_forgotten(monotonic_time now) const noexcept
{
    return !on_trial_ &&
           (is_well() || (now >= left_until_.value_or(now) && now >= resting_until_.value_or(now)));
}

} // namespace posthorn::transports
