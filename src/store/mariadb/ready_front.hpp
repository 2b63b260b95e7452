// Where the plain messages that still wait begin, so that a claim does not walk past the remains of
// those that were claimed before: InnoDB clears deleted rows away some time later.
#pragma once

#include <posthorn/time.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <mutex>

namespace posthorn::mariadb {

/// Shared by the sessions of a store. It is a hint and may be wrong: numbers are handed out in
/// order but commit in any order, and a claim may be rolled back. Threads: safe.
class ready_front {
public:
    /// The number after which the next claim begins to search: mostly where the last one ended. Now
    /// and then it walks from the beginning, for those that committed late, and always before a
    /// claim may say that there is nothing.
    [[nodiscard]] std::int64_t search_after(monotonic_time now) const
    {
        const std::lock_guard lock(mutex_);
        return now < next_walk_ ? front_ : 0;
    }

    /// While an old transaction keeps deleted rows from being cleared away, the stretch to walk
    /// grows: the longer it takes, the rarer it is done.
    void walked(monotonic_time began, monotonic_time ended)
    {
        const std::lock_guard lock(mutex_);
        next_walk_ = ended + std::max(between_walks, (ended - began) * walk_share);
    }

    void took(std::int64_t last)
    {
        const std::lock_guard lock(mutex_);
        front_ = std::max(front_, last);
    }

    /// Another transaction held something that a chore before a claim needed: for a while, which
    /// grows, it need not be tried again.
    void left_chores()
    {
        const std::lock_guard lock(mutex_);
        chores_pause_ = std::clamp(chores_pause_ * 2, chores_pause_min, chores_pause_max);
        chores_again_ = real_clock::now() + chores_pause_;
    }

    void did_chores()
    {
        const std::lock_guard lock(mutex_);
        chores_pause_ = duration::zero();
    }

    /// How long chores need not be tried again; zero: they are tried.
    [[nodiscard]] duration leaves_chores_for() const
    {
        const std::lock_guard lock(mutex_);
        return std::max(std::chrono::ceil<duration>(chores_again_ - real_clock::now()),
                        duration::zero());
    }

private:
    using real_clock = std::chrono::steady_clock; // transactions of others last in real time

    static constexpr duration chores_pause_min = std::chrono::milliseconds{5};
    static constexpr duration chores_pause_max = std::chrono::milliseconds{100};
    static constexpr duration between_walks = std::chrono::milliseconds{100};
    static constexpr int walk_share = 10; ///< a long walk takes at most a tenth of the time

    mutable std::mutex mutex_;
    std::int64_t front_ = 0;
    monotonic_time next_walk_;
    real_clock::time_point chores_again_;
    duration chores_pause_{};
};

} // namespace posthorn::mariadb
