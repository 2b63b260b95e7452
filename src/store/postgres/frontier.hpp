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
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

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

    /// Whether a transaction of our own would help: something lies between, and nobody waits for
    /// older transactions to end yet.
    [[nodiscard]] bool wants_sighting() const
    {
        const std::lock_guard lock(mutex_);
        return sighting_.seen_before == 0 && low_ < last_number_;
    }

    /// Starts over from what the database remembers, as after a change of server.
    void reset(std::int64_t low)
    {
        const std::lock_guard lock(mutex_);
        low_ = remembered_ = low;
        front_ = 0;
        sighting_ = {};
        last_number_ = 0;
        stretches_.clear();
    }

    void learn(const report& seen)
    {
        const std::lock_guard lock(mutex_);
        if (seen.last_number < seen.number_before) { // another server, or a restored one
            low_ = remembered_ = front_ = last_number_ = 0;
            sighting_ = {};
            stretches_.clear();
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

    /// Where a claim begins to search that goes on where the last one ended. Nothing, when it is
    /// time to walk from `low` for those that committed late; that is also done before a claim may
    /// say that there is nothing.
    [[nodiscard]] std::optional<std::int64_t> front(monotonic_time now) const
    {
        const std::lock_guard lock(mutex_);
        if (low_ < front_ && now >= next_walk_)
            return std::nullopt;
        return std::max(front_, low_);
    }

    /// A claim of plain messages has committed. Where their numbers have no gaps, nobody needs to
    /// look whether anything waits between them.
    void claimed(std::int64_t first, std::int64_t last, std::int64_t count)
    {
        const std::lock_guard lock(mutex_);
        front_ = std::max(front_, last);
        if (last - first + 1 != count)
            return;
        if (stretches_.size() < stretches_max)
            stretches_.emplace(first, last);
        for (auto next = stretches_.begin(); next != stretches_.end() && next->first <= low_ + 1;) {
            low_ = std::max(low_, next->second);
            next = stretches_.erase(next);
        }
    }

    /// Behind a transaction that has been open for long, the stretch to walk grows: the longer it
    /// takes, the rarer it is done.
    void walked(monotonic_time began, monotonic_time ended)
    {
        const std::lock_guard lock(mutex_);
        next_walk_ = ended + std::max<duration>(walk_every, (ended - began) * walk_share);
    }

    /// Another transaction held something that a chore needed; others need not try at once.
    void left_chores(monotonic_time now)
    {
        const std::lock_guard lock(mutex_);
        chores_again_ = now + chores_every;
    }

    /// Whether chores were left undone so shortly before that it is too early to try again.
    [[nodiscard]] bool leaves_chores(monotonic_time now) const
    {
        const std::lock_guard lock(mutex_);
        return now < chores_again_;
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
    static constexpr std::int64_t remember_every = 10'000;
    static constexpr std::size_t stretches_max = 256;
    static constexpr std::chrono::milliseconds walk_every{100};
    static constexpr std::chrono::milliseconds chores_every{100};
    static constexpr int walk_share = 10; ///< a long walk takes at most a tenth of the time

    mutable std::mutex mutex_;
    std::int64_t low_ = 0;
    std::int64_t front_ = 0;
    std::int64_t remembered_ = 0;
    std::int64_t last_number_ = 0;
    std::map<std::int64_t, std::int64_t> stretches_; ///< claimed without gaps, from → to
    sighting sighting_;
    monotonic_time next_walk_;
    monotonic_time chores_again_;
};

} // namespace posthorn::postgres
