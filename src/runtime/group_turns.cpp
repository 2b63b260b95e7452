// Turns through the messages of a topic.
#include "runtime/group_turns.hpp"

#include <algorithm>

namespace posthorn::runtime {
namespace {

using namespace std::chrono_literals;

constexpr duration turn_every = 100ms;

// Behind the newest one that was put aside here may be some of another worker. A turn looks for
// them for so long; it must end, because new messages may come for ever.
constexpr duration turn_max = 1s;

} // namespace

void group_turns::put_aside(const std::string& topic, std::int64_t position, monotonic_time now)
{
    const auto [at, added] = topics_.try_emplace(topic);
    auto& which = at->second;
    if (added)
        which.next_at = now + turn_every;
    which.any_aside = true;
    which.newest = std::max(which.newest, position);
}

bool group_turns::may_claim(const std::string& topic, monotonic_time now) const
{
    const auto& which = topics_.at(topic);
    return which.runs || now >= which.next_at;
}

std::optional<duration> group_turns::until_next(monotonic_time now) const
{
    std::optional<duration> result;
    for (const auto& [topic, each] : topics_) {
        const auto left =
            each.runs ? duration::zero() : std::max<duration>(each.next_at - now, 0us);
        result = std::min(result.value_or(left), left);
    }
    return result;
}

std::int64_t group_turns::position(const std::string& topic) const
{
    return topics_.at(topic).after;
}

bool group_turns::claimed(const std::string& topic, const batch& brought, monotonic_time now)
{
    auto& which = topics_.at(topic);
    if (!which.runs) {
        which.runs = true;
        which.any_aside = false;
        which.began = now;
        which.reach_to = which.newest;
    }
    const auto before = which.after;
    for (const auto& each : brought.deliveries)
        if (each.topic == topic)
            which.after = std::max(which.after, each.receipt.position);
    const bool far_enough = which.after >= which.reach_to && now >= which.began + turn_max;
    if (which.after > before && !far_enough)
        return false;
    which.runs = false;
    which.after = 0;
    which.next_at = which.began + turn_every;
    return brought.empty() && !which.any_aside;
}

} // namespace posthorn::runtime
