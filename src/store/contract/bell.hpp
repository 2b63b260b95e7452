// A bell wakes a worker that has nothing to do. It is a hint and nothing else: whoever sleeps also
// looks again from time to time, so a ring that is lost costs time and never a message.
#pragma once

#include <posthorn/time.hpp>

namespace posthorn::contract {

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
    /// clock. True: something was enqueued, or may have been. False: look before you sleep on.
    virtual bool wait(duration at_most) noexcept = 0;

    /// Ends this wait, or the next one, from another thread.
    virtual void wake() noexcept = 0;

    /// There is more than this sleeper, now awake, can take: others should look, too. Rings only if
    /// somebody else sleeps. From the thread that waits.
    virtual void ring_others() noexcept {}
};

} // namespace posthorn::contract
