// Counting in the order of the log, whatever the order of the answers.
#include "transport/kafka/lane.hpp"

#include <algorithm>

namespace posthorn::kafka {

bool lane::finish(std::int64_t offset)
{
    const auto found = messages_.find(offset);
    if (found == messages_.end())
        return false;
    found->second.is_done = true;
    found->second.what.reset();
    bool has_grown = false;
    while (!messages_.empty() && messages_.begin()->second.is_done) {
        position_ = messages_.begin()->first + 1;
        messages_.erase(messages_.begin());
        has_grown = true;
    }
    return has_grown;
}

void lane::put_back(std::int64_t offset, monotonic_time when)
{
    const auto found = messages_.find(offset);
    if (found == messages_.end() || found->second.is_waiting)
        return;
    found->second.is_waiting = true;
    held_until_ = waiting_ == 0 ? when : std::max(held_until_, when);
    ++waiting_;
}

const rd_kafka_message_t* lane::take_next()
{
    for (auto& [offset, each] : messages_)
        if (each.is_waiting) {
            each.is_waiting = false;
            --waiting_;
            return each.what.get();
        }
    return nullptr;
}

} // namespace posthorn::kafka
