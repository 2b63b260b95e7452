// What comes first after an interruption: decisions only, no server and no clock.
//
// NATS hands out what a reader had in hand who is gone, or a connection carried that broke, only
// when its time is over; what is newer it hands out at once. So that nothing is overtaken, a feed
// first gathers what there is, keeps it, and waits for the rest as long as that may be under way.
// And as long as a request of somebody else stands, the server may answer that one with what comes
// next, also when nobody is there any more: then it comes to us last.
#pragma once

#include <posthorn/environment.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>

namespace posthorn::transports {

/// How many messages we do not have, out of `pending` that a consumer has handed out up to the
/// place `delivered` in its stream, and that nobody has acknowledged. Ours are at these places;
/// those further on are not among the pending: they came after the count, or the server has
/// forgotten them.
[[nodiscard]] inline std::size_t in_other_hands(std::size_t pending, std::uint64_t delivered,
                                                const std::set<std::uint64_t>& ours)
{
    const auto known =
        static_cast<std::size_t>(std::distance(ours.begin(), ours.upper_bound(delivered)));
    return pending - std::min(pending, known);
}

class catching_up {
public:
    using time = std::chrono::steady_clock::time_point;

    enum class step {
        gather, ///< ask for what is elsewhere, without waiting for it
        rest,   ///< it is in other hands, or may get there, and the time for that is not over
        read    ///< what was gathered, and then what is new
    };

    /// A connection is new, or seems to be broken. Something may be lost that was on its way if we
    /// had asked for it; if not, the time since the last one counts as well.
    void begin(time now, bool had_asked)
    {
        if (had_asked || since_ == time{})
            since_ = asked_since_ = now;
        gathered_late_ = false;
    }

    /// Something can be had before its time.
    void given_back() { gathered_early_ = false; }

    /// Requests of others stand. They may be of somebody who is gone, and take something with them
    /// until they end, which each does by itself after a while; those of somebody who lives follow
    /// each other for ever, and are not waited for any longer.
    [[nodiscard]] bool must_wait_for_requests(time now)
    {
        if (now >= asked_since_ + request_time_max + grace)
            return false;
        since_ = now;
        gathered_late_ = false;
        return true;
    }

    /// With so many messages that neither we have in hand nor anybody has acknowledged, which come
    /// again after `their_time`.
    [[nodiscard]] step next(time now, std::size_t elsewhere, std::chrono::nanoseconds their_time)
    {
        is_late_ = now >= since_ + their_time + grace;
        if (elsewhere == 0 || gathered_late_)
            return step::read; // what has not come by now has gone
        return gathered_early_ && !is_late_ ? step::rest : step::gather;
    }

    /// That there was no more of it to gather.
    void gathered() { (is_late_ ? gathered_late_ : gathered_early_) = true; }

    /// So long a feed's request for messages stands.
    static constexpr std::chrono::seconds request_time_max{20};

private:
    // For a server to notice that the time of messages is over.
    static constexpr std::chrono::milliseconds grace{500};

    time since_{};       ///< since then nothing can have been lost
    time asked_since_{}; ///< from then on requests are waited for
    bool is_late_ = false;
    bool gathered_early_ = false;
    bool gathered_late_ = false;
};

} // namespace posthorn::transports
