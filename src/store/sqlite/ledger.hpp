// The moves a message can make between the log, the queue and the finished, each written once.
#pragma once

#include "core/settlement.hpp"
#include "store/sqlite/batch_record.hpp"
#include "store/sqlite/connection.hpp"
#include "store/sqlite/row_state.hpp"

#include <optional>
#include <string_view>

namespace posthorn::sqlite {

/// Who delivers a message, for its record. A delivery that has started is an attempt.
struct delivery_trace {
    posthorn::fence fence{};
    std::string_view worker;
    std::optional<timestamp> started_at;
};

class ledger {
public:
    explicit ledger(connection& db) : db_(db) {}

    /// Ends a message as done, cancelled or expired.
    void finish(const batch_record::member& which, row_state as, const delivery_trace& trace,
                timestamp now);

    /// Removes a message that is done and not to be kept.
    void forget(const batch_record::member& which);

    /// Puts a delivered message where the decision says: back into the queue, aside, or among the
    /// dead.
    void requeue(const batch_record::member& which, const core::decision& what,
                 const delivery_trace& trace, timestamp now);

    /// Makes the next message of a key ready, if nothing holds the key any more.
    void let_key_go_on(std::string_view ordering_key);

private:
    void leave_queue(std::int64_t seq);

    connection& db_;
};

} // namespace posthorn::sqlite
