// Waiting in slices that grow as long as nothing happens.
#include "store/contract/polling_bell.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace posthorn::contract {

void doorbell::ring() noexcept
{
    {
        const std::lock_guard lock(mutex_);
        ++rings_;
    }
    rung_.notify_all();
}

std::uint64_t doorbell::rings() const noexcept
{
    const std::lock_guard lock(mutex_);
    return rings_;
}

bool doorbell::wait_past(std::uint64_t seen, duration at_most) noexcept
{
    std::unique_lock lock(mutex_);
    return rung_.wait_for(lock, at_most, [&] { return rings_ != seen; });
}

polling_bell::polling_bell(std::shared_ptr<doorbell> here, pace how, std::function<bool()> changed)
    : here_(std::move(here)), how_(how), changed_(std::move(changed)), next_(how.first)
{}

void polling_bell::arm()
{
    seen_ = here_->rings();
    (void)changed_elsewhere(); // what has changed until now, the next look will see
}

void polling_bell::disarm() noexcept
{
    next_ = how_.first;
}

// The waits are on the real clock: they are about threads, not about messages.
bool polling_bell::wait(duration at_most) noexcept
{
    const auto end = std::chrono::steady_clock::now() + at_most;
    for (;;) {
        if (was_woken())
            return true;
        const auto left =
            std::chrono::duration_cast<duration>(end - std::chrono::steady_clock::now());
        if (left <= duration::zero())
            return false;
        if (here_->wait_past(seen_, std::min(left, next_))) {
            seen_ = here_->rings();
            (void)was_woken(); // this is the wait that it ends
            return true;
        }
        next_ = std::min(next_ * 2, how_.cap);
        if (!changed_)
            return was_woken(); // nobody knows: the caller's look will tell
        if (changed_elsewhere())
            return true;
    }
}

void polling_bell::wake() noexcept
{
    woken_ = true;
    here_->ring();
}

// Those of other processes find out by looking.
void polling_bell::ring_others() noexcept
{
    here_->ring();
    seen_ = here_->rings();
}

bool polling_bell::changed_elsewhere() noexcept
{
    try {
        return !changed_ || changed_();
    } catch (...) {
        return true; // the look that follows says what is wrong
    }
}

} // namespace posthorn::contract
