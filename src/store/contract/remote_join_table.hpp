// Joins whose members are in other stores, as an engine keeps them: on the side of a member, to
// whom its end is reported; on the side of the join, what has been reported.
#pragma once

#include <posthorn/joins.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace posthorn::contract {

/// A message of this store and a join elsewhere that counts it.
struct report_address {
    std::int64_t seq = 0;
    remote_join to;
};

/// A join of this store and a message elsewhere.
struct remote_row {
    std::int64_t join = 0; ///< its number
    message_id id;
    std::string store = {};
    member_state state = member_state::pending;    ///< as the join counts it
    member_state reported = member_state::pending; ///< as its store said last
    std::int64_t version = 0;                      ///< of that report: later ones have larger ones
};

class remote_join_table {
public:
    virtual ~remote_join_table() = default;

    /// False: it was known.
    virtual bool remember(const report_address& what) = 0;
    virtual std::vector<report_address> addresses_of(std::span<const std::int64_t> seqs) = 0;

    /// Messages that cannot come back: their addresses go, and the rows that follow them.
    virtual void forget(std::span<const std::int64_t> seqs) = 0;

    /// These need the lock of the join.
    virtual std::optional<remote_row> find_remote(std::int64_t join, message_id id) = 0;
    virtual void put_remote(const remote_row& what) = 0;

    /// In the order of their ids.
    virtual std::vector<remote_row> rows_of_join(std::int64_t join, message_id after,
                                                 std::size_t limit) = 0;
};

} // namespace posthorn::contract
