// Counting in the order of the log, whatever the order of the answers.
#include "transport/kafka/lane.hpp"

#include <algorithm>
#include <utility>

namespace posthorn::kafka {

// One that has come before, and is to come again, comes with this.
const rd_kafka_message_t& lane::hand_out(message_handle what)
{
    auto& its = messages_[what->offset];
    if (its.is_waiting)
        --waiting_;
    its = {.what = std::move(what)};
    return *its.what;
}

bool lane::finish(std::int64_t offset)
{
    const auto found = messages_.find(offset);
    if (found == messages_.end())
        return false;
    if (std::exchange(found->second.is_waiting, false)) // it has come twice, and one was put back
        --waiting_;
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
    if (found == messages_.end() || found->second.is_waiting || found->second.is_done)
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
