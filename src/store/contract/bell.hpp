// A bell wakes a worker that has nothing to do. It is a hint and nothing else: whoever sleeps also
// looks again from time to time, so a ring that is lost costs time and never a message.
#pragma once

#include <posthorn/delivery.hpp>
#include <posthorn/environment.hpp>
#include <posthorn/time.hpp>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace posthorn::contract {

/// What a sleeper would take without asking for it.
struct place_offer {
    std::string owner;
    std::string worker;
    duration lease{};
    std::vector<std::string> topics;   ///< exactly these
    std::vector<std::string> prefixes; ///< and all that start so
};

/// A batch that was claimed and started for the sleeper, by the commit that enqueued its message.
struct handed_batch {
    batch messages;
    monotonic_time since{}; ///< the lease counts from here
};

/// One sleeper's bell. Threads: `arm` and `wait` from one thread, `wake` from any.
class bell {
public:
    virtual ~bell() = default;

    /// From now on an enqueue rings. Call it before the look that decides to sleep: what is
    /// enqueued between that look and `wait` then ends the wait at once. Arming twice is harmless.
    virtual void arm() = 0;

    /// Nobody sleeps any more, so nobody needs to ring.
    virtual void disarm() noexcept = 0;

    /// Sleeps until something may have been enqueued, `wake` is called or the time is up; a bell
    /// that cannot hear other processes ends it sooner. Never throws: a bell that cannot ring is a
    /// clock. True: something was enqueued, or may have been. False: take what was handed over, and
    /// look before you sleep on.
    virtual bool wait(duration at_most) noexcept = 0;

    /// Ends this wait, or the next one, from another thread.
    virtual void wake() noexcept = 0;

    /// There is more than this sleeper, now awake, can take: others should look, too. Rings only if
    /// somebody else sleeps. From the thread that waits.
    virtual void ring_others() noexcept {}

    /// While it is armed, up to so many messages may be handed over instead of ringing. Stores that
    /// cannot do that ignore it. Offering again adds what is missing. From the thread that waits.
    virtual void offer(const place_offer& /*terms*/, std::size_t /*places*/) noexcept {}

    /// Nothing is handed over any more; what was until now, `handed_over` tells. Disarming does it,
    /// too. From the thread that waits.
    virtual void withdraw() noexcept {}

    /// What was handed over since the last call, whether or not it is still armed. `held` names the
    /// batches that the sleeper knows of: after a broken connection, what its owner holds besides
    /// them was handed over, too. From the thread that waits.
    virtual std::vector<handed_batch> handed_over(
        const std::function<std::vector<fence>()>& /*held*/) noexcept
    {
        return {};
    }
};

} // namespace posthorn::contract
