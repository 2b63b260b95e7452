// The tables of joins, as an engine keeps them. What is done with them is written once, in
// join_book.
#pragma once

#include <posthorn/joins.hpp>
#include <posthorn/message_state.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace posthorn::contract {

/// What a message is to a join.
enum class join_role : std::int64_t {
    member = 0,
    deadline = 1, ///< it never runs; when it expires, the join has failed
    waiter = 2,   ///< it runs when the join has ended
    inbox = 3,    ///< of no join: the inbox remembers how it ended; the join's number is 0
    run = 4,      ///< of no join: the run of a job
    tick = 5,     ///< of no join: it waits for a job's next instant
    remote = 6,   ///< of no join here: its end is reported to joins elsewhere
};

/// A join's row for one message.
struct join_row {
    std::int64_t join = 0; ///< its number
    std::int64_t seq = 0;
    join_role role = join_role::member;
    member_state state = member_state::pending;
    message_id id = {};
};

struct new_member {
    std::int64_t seq = 0;
    message_id id;
    join_role role = join_role::member;
    member_state state = member_state::pending;
};

struct new_join {
    join_id id;
    const join_options& how;
    std::string_view correlation_id;
    std::string_view trace; ///< `traceparent`, and behind a blank `tracestate`; empty: none
};

/// A message that cannot end, or come back, before this transaction does.
struct held_message {
    std::int64_t seq = 0;
    message_state state = message_state::ready;
};

class join_table {
public:
    virtual ~join_table() = default;

    /// Returns: its number.
    virtual std::int64_t insert(const new_join& what) = 0;

    /// Locks joins, in the order of their numbers, which are sorted; whatever changes a join or its
    /// rows holds this lock. Metadata and continuations are left out.
    virtual std::vector<join_record> lock(std::span<const std::int64_t> numbers) = 0;

    /// The same for one by its id; nothing if there is none.
    virtual std::optional<join_record> lock(join_id id) = 0;

    /// Writes what can change of joins.
    virtual void save(std::span<const join_record> which) = 0;

    /// All rows of these messages.
    virtual std::vector<join_row> rows_of(std::span<const std::int64_t> seqs) = 0;

    virtual void add(std::int64_t join, std::span<const new_member> members) = 0;
    virtual void mark(std::span<const join_row> which, member_state as) = 0;

    /// Nothing: there is no such message.
    virtual std::optional<held_message> hold(message_id id) = 0;

    /// For messages that this transaction has added: their ends will be followed.
    virtual void follow(std::span<const std::int64_t> seqs) = 0;

    /// A message that this transaction has added, with a due time or an expiry and no key, waits
    /// until it is let go.
    virtual void keep_back(std::int64_t seq) = 0;

    /// What waits for these joins becomes ready, their deadlines go, and all open rows are left. A
    /// deadline that somebody else has locked stays: it is coming, too late.
    virtual void let_go(std::span<const std::int64_t> joins) = 0;

    /// Removes up to `limit` rows of joins that ended so long ago, and joins without rows.
    /// Returns: how many rows and joins.
    virtual std::size_t remove_ended(duration older_than, std::size_t limit) = 0;
};

struct continuation {
    std::int64_t join = 0;
    std::optional<message> on_complete;
    std::optional<message> on_fail;
    std::string correlation_id;
    std::string trace; ///< as of `new_join`
};

/// Looking at joins; nothing here writes or locks.
class join_reader {
public:
    virtual ~join_reader() = default;

    virtual std::optional<join_record> find(join_id id) = 0;
    virtual std::vector<join_record> list(const join_filter& filter) = 0;
    virtual std::vector<join_member> members(std::int64_t join, std::int64_t after_seq,
                                             std::size_t limit) = 0;
    virtual std::vector<continuation> continuations(std::span<const std::int64_t> joins) = 0;
};

} // namespace posthorn::contract
