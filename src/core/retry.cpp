// Retry policies: pure arithmetic over the number of starts and one number from chance.
#include "core/topic_map.hpp"
#include <posthorn/retry.hpp>

#include <algorithm>
#include <limits>

namespace posthorn {
namespace {

// Doubles `first` after each start, saturating instead of overflowing.
duration doubled(duration first, int starts, duration cap)
{
    auto wait = first;
    for (int i = 1; i < starts && wait < cap; ++i)
        wait = wait > cap / 2 ? cap : wait * 2;
    return std::min(wait, cap);
}

// Takes up to `share` of the wait away, as chance has it.
duration with_jitter(duration wait, double share, double chance)
{
    const auto taken = static_cast<double>(wait.count()) * share * chance;
    return wait - duration{static_cast<duration::rep>(taken)};
}

struct waiting {
    int starts;
    double chance;

    std::optional<duration> operator()(const exponential_retry& policy) const
    {
        if (starts >= policy.attempts_max)
            return std::nullopt;
        return with_jitter(doubled(policy.first, starts, policy.cap), policy.jitter, chance);
    }

    std::optional<duration> operator()(const persistent_retry& policy) const
    {
        const auto wait = starts >= policy.failures_max
                              ? policy.then_every
                              : doubled(policy.first, starts, policy.then_every);
        return with_jitter(wait, policy.jitter, chance);
    }

    std::optional<duration> operator()(const custom_retry& policy) const
    {
        return policy.wait_after ? policy.wait_after(starts) : std::nullopt;
    }
};

} // namespace

const retry_policy& retry_rules::of(std::string_view topic) const
{
    const auto* found = core::find_by_topic(by_topic, topic);
    return found == nullptr ? fallback : *found;
}

std::optional<duration> wait_after(const retry_policy& policy, int starts, double chance)
{
    return std::visit(waiting{.starts = starts, .chance = chance}, policy);
}

bool may_start_again(const retry_policy& policy, int starts)
{
    return wait_after(policy, starts, 0.0).has_value();
}

} // namespace posthorn
