// How far the plain messages are behind us, so that a claim does not walk past finished ones.
//
// Numbers are handed out in order but commit in any order, so "everything up to here is claimed" is
// only true once every transaction that may hold a lower number has ended. A transaction draws its
// own id before it draws a number; so if we draw an id of our own after number N was given out, and
// all transactions with lower ids have ended since, every number up to N is either visible or will
// never be. Up to the first visible plain message that still waits, nothing is left to claim.
//
// All of this is about one incarnation of the tables. When they are dropped and restored, or their
// rows are, the numbers start again; what was learned about the old rows must neither be used nor
// written down for the new ones.
#pragma once

#include <posthorn/environment.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace posthorn::postgres {

class connection;

/// What tells the tables, as they are now, from those that had their names before; 0: unknown.
using incarnation = std::int64_t;

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
        incarnation asked_about = 0;  ///< whose positions the look was given
        incarnation tables = 0;       ///< what it found
        std::int64_t mark = 0;        ///< what the database remembers
    };

    /// A position worth remembering in the database, and in which tables.
    struct memory {
        std::int64_t low = 0; ///< 0: none
        incarnation tables = 0;
    };

    [[nodiscard]] std::int64_t low() const
    {
        const std::lock_guard lock(mutex_);
        return low_;
    }

    [[nodiscard]] incarnation tables() const
    {
        const std::lock_guard lock(mutex_);
        return tables_;
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
    void reset(std::int64_t low, incarnation tables)
    {
        const std::lock_guard lock(mutex_);
        start_over(low, tables);
    }

    /// Compares the tables with those that a statement was `asked_about`. True: others have taken
    /// their place, and the search starts over.
    bool compare(incarnation asked_about, incarnation found, std::int64_t mark)
    {
        const std::lock_guard lock(mutex_);
        return compare_locked(asked_about, found, mark);
    }

    /// True: the tables are others than before, and nothing that was found counts as a search.
    bool learn(const report& seen)
    {
        const std::lock_guard lock(mutex_);
        if (compare_locked(seen.asked_about, seen.tables, seen.mark))
            return true;
        if (seen.asked_about != tables_ || seen.tables != tables_)
            return false;                            // another thread has noticed it before
        if (seen.last_number < seen.number_before) { // another server, or a restored one
            start_over(0, tables_);
            return false;
        }
        low_ = std::max(low_, seen.low);
        if (seen.sighting_counts)
            sighting_ = {};
        // The number is older than the transaction: that order is the point.
        if (sighting_.seen_before == 0 && seen.number_before > 0)
            sighting_ = {.seen_to = seen.number_before, .seen_before = seen.own_transaction};
        last_number_ = std::max(last_number_, seen.last_number);
        return false;
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

    /// A claim of plain messages has committed, which began in these tables. Where their numbers
    /// have no gaps, there is no need to look whether anything waits between them.
    void claimed(std::int64_t first, std::int64_t last, std::int64_t count, incarnation tables)
    {
        const std::lock_guard lock(mutex_);
        if (tables != tables_)
            return;
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

    [[nodiscard]] memory worth_remembering()
    {
        const std::lock_guard lock(mutex_);
        if (low_ - remembered_ < remember_every)
            return {};
        remembered_ = low_;
        return {.low = low_, .tables = tables_};
    }

private:
    static constexpr std::int64_t remember_every = 10'000;
    static constexpr std::size_t stretches_max = 256;
    static constexpr std::chrono::milliseconds walk_every{100};
    static constexpr std::chrono::milliseconds chores_every{100};
    static constexpr int walk_share = 10; ///< a long walk takes at most a tenth of the time

    void start_over(std::int64_t low, incarnation tables)
    {
        tables_ = tables;
        low_ = remembered_ = low;
        front_ = 0;
        sighting_ = {};
        last_number_ = 0;
        stretches_.clear();
    }

    bool compare_locked(incarnation asked_about, incarnation found, std::int64_t mark)
    {
        if (found == tables_ || asked_about != tables_)
            return false;
        start_over(mark, found);
        return true;
    }

    mutable std::mutex mutex_;
    incarnation tables_ = 0;
    std::int64_t low_ = 0;
    std::int64_t front_ = 0;
    std::int64_t remembered_ = 0;
    std::int64_t last_number_ = 0;
    std::map<std::int64_t, std::int64_t> stretches_; ///< claimed without gaps, from → to
    sighting sighting_;
    monotonic_time next_walk_;
    monotonic_time chores_again_;
};

/// Begins the search where the database remembers. Throws: `error`.
void read_mark(connection& db, frontier& front);

} // namespace posthorn::postgres
