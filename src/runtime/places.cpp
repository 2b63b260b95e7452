// Counting who runs. Routes without limits are not counted: most have none.
#include "runtime/places.hpp"

#include <algorithm>
#include <cstdint>

namespace posthorn::runtime {

bool places::enter(const running_delivery& which)
{
    const auto& to = *which.to;
    if (!to.has_limit() && !to.options.key)
        return true;
    const std::lock_guard lock(mutex_);
    if (room_within(to) == 0)
        return false;
    if (to.options.key) {
        auto& running = by_group_[{to.registration, which.group}];
        if (running >= to.options.per_key)
            return false;
        ++running;
    }
    if (to.has_limit()) {
        auto& used = by_rule_[to.registration];
        ++used.messages;
        used.payload_bytes += which.message.payload.size();
    }
    return true;
}

void places::leave(const running_delivery& which)
{
    const auto& to = *which.to;
    if (!to.has_limit() && !to.options.key)
        return;
    const std::lock_guard lock(mutex_);
    if (to.has_limit()) {
        auto& used = by_rule_[to.registration];
        --used.messages;
        used.payload_bytes -= which.message.payload.size();
    }
    if (to.options.key) {
        const auto at = by_group_.find({to.registration, which.group});
        if (--at->second == 0)
            by_group_.erase(at);
    }
}

std::size_t places::room_for(const route& which) const
{
    if (!which.has_limit())
        return SIZE_MAX;
    const std::lock_guard lock(mutex_);
    return room_within(which);
}

// As long as a byte is free there is room for a message, however large: whoever waits for enough
// would be overtaken by smaller ones for ever. The others are taken to be as large as those inside.
std::size_t places::room_within(const route& which) const
{
    const auto& options = which.options;
    const auto at = by_rule_.find(which.registration);
    const auto used = at == by_rule_.end() ? in_use{} : at->second;
    auto room = std::size_t{SIZE_MAX};
    if (options.concurrency > 0)
        room = options.concurrency - std::min(used.messages, options.concurrency);
    if (options.payload_bytes_max == 0 || used.payload_bytes == 0)
        return room;
    const auto left =
        options.payload_bytes_max - std::min(used.payload_bytes, options.payload_bytes_max);
    const auto usual = std::max<std::size_t>(used.payload_bytes / used.messages, 1);
    return std::min(room, (left + usual - 1) / usual);
}

} // namespace posthorn::runtime
