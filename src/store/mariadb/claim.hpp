// Choosing what to claim: by priority, then by how long
// it has been due, from the queue and the plain messages together.
#pragma once

#include "store/mariadb/batch_record.hpp"
#include "store/mariadb/connection.hpp"
#include "store/mariadb/ready_front.hpp"
#include <posthorn/delivery.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace posthorn::mariadb {

/// Visits the priorities that ready messages have, from the most urgent on.
class priority_walk {
public:
    explicit priority_walk(connection& db) : db_(db) {}

    /// False: there are no more.
    bool next();

    [[nodiscard]] std::int64_t urgency() const noexcept { return urgency_; }
    [[nodiscard]] timestamp due_since() const noexcept
    {
        return due_since_;
    } ///< of its first message

private:
    connection& db_;
    std::int64_t urgency_ = std::numeric_limits<std::int16_t>::min();
    timestamp due_since_;
};

/// What one claim picks. It locks what it picks, and what others have locked it passes over; the
/// caller records it.
class claim_choice {
public:
    claim_choice(connection& db, timestamp now, std::size_t limit, bool look_into_queue,
                 ready_front* front);

    std::vector<delivery> deliveries;
    std::vector<batch_record::member> members; ///< in the same order

    /// Numbers that wait although their message is not there, and those that wait twice, as plain
    /// ones and in the queue: another program has changed the tables. Locked, and to be removed.
    std::vector<std::int64_t> without_message;
    std::vector<std::int64_t> doubles;

private:
    void take_from_queue(std::int64_t urgency);
    void take_unprioritised(bool queue_too);
    void drop_doubles(std::vector<delivery>& plain, const std::vector<delivery>& queued);
    std::vector<delivery> read_queue(std::int64_t urgency);
    std::vector<delivery> read_ready();
    std::vector<std::int64_t> lock_ready();
    void add_messages(std::vector<delivery>& to);
    void add(delivery&& which, bool queued);
    [[nodiscard]] std::size_t room() const { return limit_ - deliveries.size(); }

    connection* db_; // it can be chosen anew
    timestamp now_;
    std::size_t limit_;
    ready_front* front_;
};

} // namespace posthorn::mariadb
