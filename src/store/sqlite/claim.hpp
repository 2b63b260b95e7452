// Choosing what to claim: by priority, then by how long
// it has been due, from the queue and the log together.
#pragma once

#include "store/sqlite/batch_record.hpp"
#include "store/sqlite/connection.hpp"
#include <posthorn/delivery.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace posthorn::sqlite {

/// Visits the priorities that ready messages have, from the highest down.
class priority_walk {
public:
    explicit priority_walk(connection& db) : db_(db) {}

    /// False: there are no more.
    bool next();

    [[nodiscard]] std::int64_t priority() const noexcept { return priority_; }
    [[nodiscard]] timestamp due_since() const noexcept
    {
        return due_since_;
    } ///< of its first message

private:
    connection& db_;
    std::int64_t priority_ = std::numeric_limits<std::int64_t>::max();
    timestamp due_since_;
};

/// What one claim picks. Gathers first and writes nothing; the caller records it.
class claim_choice {
public:
    claim_choice(connection& db, timestamp now, std::size_t limit);

    std::vector<delivery> deliveries;
    std::vector<batch_record::member> members; ///< in the same order
    std::int64_t claimed_to = 0;               ///< the log's position after this claim
    std::int64_t last_fence = 0;               ///< before this claim

private:
    void take_from_queue(std::int64_t priority, timestamp now);
    void take_unprioritised(bool queue_too, timestamp now);
    void read_queue(std::int64_t priority, timestamp now, std::vector<delivery>& into);
    void read_log(std::vector<delivery>& into);
    void add(delivery&& which, bool queued);
    [[nodiscard]] std::size_t room() const { return limit_ - deliveries.size(); }

    connection& db_;
    std::size_t limit_;
    std::int64_t log_end_ = 0;     ///< the newest number given out
    std::int64_t log_read_to_ = 0; ///< everything plain up to here has been read
};

} // namespace posthorn::sqlite
