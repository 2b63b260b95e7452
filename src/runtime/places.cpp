// Counting who runs. Routes without limits are not counted: most have none.
#include "runtime/places.hpp"

#include <algorithm>
#include <cstdint>

namespace posthorn::runtime {

bool places::enter(const running_delivery& which)
{
    const auto& options = which.to->options;
    if (options.concurrency == 0 && !options.key)
        return true;
    const std::lock_guard lock(mutex_);
    if (options.concurrency > 0 && by_route_[which.to] >= options.concurrency)
        return false;
    if (options.key) {
        auto& running = by_group_[{which.to, which.group}];
        if (running >= options.per_key)
            return false;
        ++running;
    }
    if (options.concurrency > 0)
        ++by_route_[which.to];
    return true;
}

void places::leave(const running_delivery& which)
{
    const auto& options = which.to->options;
    if (options.concurrency == 0 && !options.key)
        return;
    const std::lock_guard lock(mutex_);
    if (options.concurrency > 0)
        --by_route_[which.to];
    if (options.key) {
        const auto at = by_group_.find({which.to, which.group});
        if (--at->second == 0)
            by_group_.erase(at);
    }
}

std::size_t places::room_for(const route& which) const
{
    if (which.options.concurrency == 0)
        return SIZE_MAX;
    const std::lock_guard lock(mutex_);
    const auto at = by_route_.find(&which);
    const auto running = at == by_route_.end() ? 0 : at->second;
    return which.options.concurrency - std::min(running, which.options.concurrency);
}

} // namespace posthorn::runtime
