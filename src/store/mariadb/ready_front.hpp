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

private:
    static constexpr duration between_walks = std::chrono::milliseconds{100};
    static constexpr int walk_share = 10; ///< a long walk takes at most a tenth of the time

    mutable std::mutex mutex_;
    std::int64_t front_ = 0;
    monotonic_time next_walk_;
};

} // namespace posthorn::mariadb
