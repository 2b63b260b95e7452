// What an outcome means: done, another try, or the end.
#include "core/settlement.hpp"

#include "core/validation.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace posthorn::core {
namespace {

constexpr std::string_view absent =
    "the lease ran out: its worker crashed, hung or lost the database";

decision dead(std::string_view reason, dead_key on_dead)
{
    return {.become = settled_as::dead,
            .error = reason.empty() ? "failed without a reason"
                                    : readable(reason, limits::error_bytes_max),
            .blocks_key = on_dead == dead_key::blocks};
}

// A started message that comes back has used one more start, and dies if that was its last.
decision try_again(const outcome& said, const delivery_facts& facts, const retry_policy& policy,
                   dead_key on_dead, double chance)
{
    const int starts = facts.starts_before + 1;
    const auto wait = wait_after(policy, starts, chance);
    if (!wait) {
        const auto last = fmt::format("gave up after {} attempts", starts);
        return dead(said.error.empty() ? last : said.error, on_dead);
    }
    return {.become = settled_as::retrying,
            .delay = std::clamp(said.delay.value_or(*wait), duration::zero(), limits::span_max),
            .error = readable(said.error, limits::error_bytes_max)};
}

} // namespace

decision decide(const outcome& said, const delivery_facts& facts, const retry_policy& policy,
                dead_key on_dead, double chance)
{
    switch (said.verdict) {
    case outcome::kind::done: return {};
    case outcome::kind::fail: return dead(said.error, on_dead);
    case outcome::kind::postpone:
        return {.become = settled_as::released,
                .delay = std::clamp(said.delay.value_or(duration::zero()), duration::zero(),
                                    limits::span_max)};
    case outcome::kind::park: return {.become = settled_as::parked, .reason = said.reason};
    case outcome::kind::retry: break;
    }
    if (!facts.started)
        return {.become = settled_as::released};
    return try_again(said, facts, policy, on_dead, chance);
}

decision decide_for_absent(const delivery_facts& facts, const retry_policy& policy,
                           dead_key on_dead, double chance)
{
    return decide(retry(std::string(absent)), facts, policy, on_dead, chance);
}

bool is_error_of_absent(std::string_view error) noexcept
{
    return error == absent;
}

} // namespace posthorn::core
