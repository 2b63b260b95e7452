// How far the plain messages are behind us, so that a claim does not walk past finished ones.
//
// Numbers are handed out in order but commit in any order, so "everything up to here is claimed" is
// only true once every transaction that may hold a lower number has ended. A transaction draws its
// own id before it draws a number; so if we draw an id of our own after number N was given out, and
// all transactions with lower ids have ended since, every number up to N is either visible or will
// never be. Up to the first visible plain message that still waits, nothing is left to claim.
#pragma once

#include <posthorn/environment.hpp>

#include <algorithm>
#include <cstdint>
#include <mutex>

namespace posthorn::postgres {

/// Shared by the sessions of a store. Threads: safe.
class frontier {
public:
    /// A number given out, and the transaction before which all others must end until it counts.
    struct sighting {
        std::int64_t seen_to = 0;
        std::int64_t seen_before = 0; ///< 0: there is none
    };

    /// What one look at the store tells.
    struct report {
        std::int64_t number_before = 0;   ///< given out before the looking transaction began
        std::int64_t own_transaction = 0; ///< the id of the looking one; 0: it wrote nothing
        std::int64_t last_number = 0;
        std::int64_t low = 0;
        bool sighting_counts = false; ///< all transactions before the sighting have ended
    };

    [[nodiscard]] std::int64_t low() const
    {
        const std::lock_guard lock(mutex_);
        return low_;
    }

    /// The newest number that anybody has seen.
    [[nodiscard]] std::int64_t last_number() const
    {
        const std::lock_guard lock(mutex_);
        return last_number_;
    }

    [[nodiscard]] sighting last_sighting() const
    {
        const std::lock_guard lock(mutex_);
        return sighting_;
    }

    /// Starts over from what the database remembers, as after a change of server.
    void reset(std::int64_t low)
    {
        const std::lock_guard lock(mutex_);
        low_ = remembered_ = low;
        front_ = 0;
        sighting_ = {};
        last_number_ = 0;
    }

    void learn(const report& seen)
    {
        const std::lock_guard lock(mutex_);
        if (seen.last_number < seen.number_before) { // another server, or a restored one
            low_ = remembered_ = front_ = last_number_ = 0;
            sighting_ = {};
            return;
        }
        low_ = std::max(low_, seen.low);
        if (seen.sighting_counts)
            sighting_ = {};
        // The number is older than the transaction: that order is the point.
        if (sighting_.seen_before == 0 && seen.number_before > 0)
            sighting_ = {.seen_to = seen.number_before, .seen_before = seen.own_transaction};
        last_number_ = std::max(last_number_, seen.last_number);
    }

    /// Where the next claim begins to search. Behind a transaction that has been open for long, the
    /// stretch of finished messages grows; then most claims begin at the front, and only now and
    /// then one walks all of it, for those that committed late.
    [[nodiscard]] std::int64_t search_from(monotonic_time now) const
    {
        const std::lock_guard lock(mutex_);
        return front_ - low_ > stretch_max && now < next_walk_ ? front_ : low_;
    }

    void claimed_to(std::int64_t seq, std::int64_t searched_from, monotonic_time began,
                    monotonic_time ended)
    {
        const std::lock_guard lock(mutex_);
        front_ = std::max(front_, seq);
        if (searched_from < front_ - stretch_max)
            next_walk_ = ended + (ended - began) * walk_share;
    }

    /// A position worth remembering in the database, or 0.
    [[nodiscard]] std::int64_t worth_remembering()
    {
        const std::lock_guard lock(mutex_);
        if (low_ - remembered_ < remember_every)
            return 0;
        return remembered_ = low_;
    }

private:
    static constexpr std::int64_t stretch_max = 20'000;
    static constexpr std::int64_t remember_every = 10'000;
    static constexpr int walk_share = 10; ///< a long walk takes at most a tenth of the time

    mutable std::mutex mutex_;
    std::int64_t low_ = 0;
    std::int64_t front_ = 0;
    std::int64_t remembered_ = 0;
    std::int64_t last_number_ = 0;
    sighting sighting_;
    monotonic_time next_walk_;
};

} // namespace posthorn::postgres
