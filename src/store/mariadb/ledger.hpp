// The moves a message can make between waiting, the queue and the finished, each written once and
// for many messages at a time.
#pragma once

#include "core/settlement.hpp"
#include "store/mariadb/batch_record.hpp"
#include "store/mariadb/connection.hpp"
#include "store/mariadb/places.hpp"

#include <optional>
#include <string_view>
#include <vector>

namespace posthorn::mariadb {

/// A message that leaves its batch, and when it had started. What has started is an attempt.
struct leaving {
    batch_record::member which;
    std::optional<timestamp> started_at;
};

/// One that does not leave for good.
struct returning {
    leaving from;
    const core::decision* decision;
};

/// Who delivered, for the messages' records.
struct delivery_trace {
    posthorn::fence fence{};
    std::string_view worker;
};

class ledger {
public:
    ledger(connection& db, timestamp now) : db_(db), now_(now) {}

    /// Ends messages as done, cancelled or expired.
    void finish(const std::vector<leaving>& which, place as, const delivery_trace& trace);

    /// Removes messages that are done and not to be kept.
    void forget(const std::vector<leaving>& which);

    /// Puts delivered messages where their decisions say: back into the queue, aside, or among the
    /// dead.
    void requeue(const std::vector<returning>& which, const delivery_trace& trace);

    /// Removes rows of the queue that have no message; their keys go on.
    void forget_queued(const std::vector<std::int64_t>& seqs);

    /// Removes all that is left of messages that have no row in the queue any more.
    void delete_messages(const std::vector<std::int64_t>& seqs);

private:
    struct requeued_row;

    void finish_plain(const std::vector<leaving>& which, place as, const delivery_trace& trace);
    void finish_queued(const std::vector<leaving>& which, place as);
    void requeue_plain(const std::vector<const returning*>& which, const delivery_trace& trace);
    void requeue_queued(const std::vector<const returning*>& which);
    void report_ended_before(std::int64_t added, std::size_t expected) const;
    void leave_queue(const std::vector<std::int64_t>& seqs);

    connection& db_;
    timestamp now_;
};

} // namespace posthorn::mariadb
