// Joins: one continuation for many messages. A join counts how its members end, each of them once,
// and the transaction that counts the last one enqueues the continuation.
//
//     const auto next = ph::message{"etl.transform", ""};
//     const auto join = ph::open_join(tx, {.expected = 3, .on_complete = next});
//     for (const auto table : {"customers", "orders", "products"})
//         ph::enqueue(tx, extract{table}, {.join = join});
//
// Nobody has to register or call anything else: whoever settles a member counts it, in the same
// transaction. See docs/guides/joins.md.
#pragma once

#include <posthorn/delivery.hpp>
#include <posthorn/id.hpp>
#include <posthorn/message.hpp>
#include <posthorn/stop.hpp>
#include <posthorn/store.hpp>
#include <posthorn/stores.hpp>
#include <posthorn/time.hpp>
#include <posthorn/transaction.hpp>

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace posthorn {

class delivery_view;

enum class join_state {
    pending,   ///< waits for its members
    completed, ///< enough of them are done
    failed,    ///< too many of them failed, or its deadline came first
    cancelled, ///< called off: nothing was enqueued
};

[[nodiscard]] std::string_view to_string(join_state state) noexcept;
[[nodiscard]] std::optional<join_state> parse_join_state(std::string_view text) noexcept;

/// What brought a join to its end.
enum class join_end { members, deadline, cancel };

[[nodiscard]] std::string_view to_string(join_end why) noexcept;

/// How a member of a join stands. Dead, cancelled and expired messages have failed.
enum class member_state {
    pending,
    completed,
    failed,
    left, ///< the join ended without it
};

[[nodiscard]] std::string_view to_string(member_state state) noexcept;

struct join_options {
    /// How many members there will be. Without it the join is open until `seal_join`.
    std::optional<std::int64_t> expected = {};

    /// So many completed members are enough; and as soon as they cannot be reached any more, the
    /// join fails. Without it the join waits for all.
    std::optional<std::int64_t> needed = {};

    /// Of a join that waits for all: whether one failed member makes it fail.
    bool fail_if_any_step_failed = true;

    /// What is enqueued at the end; nothing is valid, and so is an empty payload.
    std::optional<message> on_complete = {};
    std::optional<message> on_fail = {};

    /// After this time a join that still waits fails.
    std::optional<duration> deadline = {};

    std::string grouping_key = {}; ///< up to 255 bytes: what it belongs to, for `list_joins`
    std::string metadata = {};     ///< up to 64 KiB, opaque
    std::optional<join_id> id = {};
};

/// Everything known about one join.
struct join_record {
    join_id id;
    std::int64_t position = 0; ///< the store's own number for it
    join_state state = join_state::pending;
    join_end ended_by = join_end::members; ///< of one that has ended
    std::optional<std::int64_t> expected;  ///< nothing: it is open
    std::optional<std::int64_t> needed;
    bool fail_if_any_step_failed = true;
    std::int64_t attached = 0;
    std::int64_t completed = 0;
    std::int64_t failed = 0;
    int reopened = 0; ///< how often `redrive_join` has

    std::string grouping_key;
    std::string metadata;
    std::string correlation_id; ///< which its continuation inherits: the scope's, else its own id
    std::optional<message> on_complete;
    std::optional<message> on_fail;

    timestamp created_at;
    timestamp updated_at;
    std::optional<timestamp> deadline_at;
    std::optional<timestamp> ended_at;
};

struct join_member {
    message_id id;
    std::int64_t position = 0; ///< of the message
    member_state state = member_state::pending;
    timestamp attached_at;
    std::optional<timestamp> settled_at;
};

/// Opens a join. It exists if and only if `tx` commits.
/// Throws: `error` with `invalid_argument` before anything is written, and with `stopped` if it was
/// told to stop before that: then there is no such join.
join_id open_join(transaction& tx, const join_options& how);
join_id open_join(store& where, const join_options& how, const stop_request& stop = {});

enum class attach_answer {
    attached, ///< it will be counted when it ends
    counted,  ///< it had ended already, and is counted now
    known,    ///< it was a member before: nothing changed
};

[[nodiscard]] std::string_view to_string(attach_answer answer) noexcept;

/// Makes a message a member of a join. A message may be a member of several.
/// `enqueue_options::join` does the same for a new message.
/// Throws: `error` with `not_found` for an unknown message or join, and with `constraint` if the
/// join has as many members as it expects, or has ended.
attach_answer attach(transaction& tx, join_id to, message_id which);
attach_answer attach(store& where, join_id to, message_id which, const stop_request& stop = {});

/// The same for many: their locks are taken in one order, before that of the join.
std::vector<attach_answer> attach(transaction& tx, join_id to, std::span<const message_id> which);
std::vector<attach_answer> attach(store& where, join_id to, std::span<const message_id> which,
                                  const stop_request& stop = {});

/// A join in another store. The name is that by which workers know the store; see `join_reports`.
struct remote_join {
    std::string store; ///< 1 to 255 bytes
    join_id join;

    friend auto operator<=>(const remote_join&, const remote_join&) = default;
};

/// Makes a message of this store a member of a join in another one. What becomes of the message is
/// reported there by messages of the topic `join_report_topic`: one now, by which the join learns
/// of its member, and one when it ends or comes back, in the transaction that does it.
/// Returns: `counted` if it had ended, which is then reported at once.
/// Throws: `error` with `not_found` for an unknown message. Whether there is such a join, and room
/// in it, is found out by the report: it becomes a dead letter if not.
attach_answer attach(transaction& tx, const remote_join& to, message_id which);
attach_answer attach(store& where, const remote_join& to, message_id which);

/// No further members will come: the join expects those it has, or `expected` in all. Also lowers
/// the number of a join that waits for members nobody will attach. False: the join has ended.
/// Throws: `error` with `constraint` if it has more members than that.
bool seal_join(transaction& tx, join_id which, std::optional<std::int64_t> expected = {});
bool seal_join(store& where, join_id which, std::optional<std::int64_t> expected = {});

enum class report_answer {
    counted,
    known, ///< it had been counted before, by whomever: nothing changed
    ended, ///< the join has ended without it
};

[[nodiscard]] std::string_view to_string(report_answer answer) noexcept;

/// Counts a member before its message ends; its end is not counted again then. Hardly ever needed:
/// members are counted by themselves.
/// Throws: `error` with `not_found` if there is no such join, or this is no member of it.
report_answer report_step_completed(transaction& tx, join_id of, message_id member);
report_answer report_step_completed(store& where, join_id of, message_id member);
report_answer report_step_failed(transaction& tx, join_id of, message_id member);
report_answer report_step_failed(store& where, join_id of, message_id member);

struct cancel_join_options {
    /// Also cancels the members that have not started; those in other stores go on.
    bool members = false;
};

/// Ends a join without a continuation. False: it had ended already.
/// With a store, members are cancelled afterwards, in small transactions.
bool cancel_join(transaction& tx, join_id which, const cancel_join_options& how = {});
bool cancel_join(store& where, join_id which, const cancel_join_options& how = {});

/// Gives a failed join another chance, without a deadline. Dead members are redriven. Failed
/// members count as their messages stand now, also those that were redriven singly before; members
/// in other stores as they were reported last, so redrive those there first. The
/// join's continuation is then enqueued once more; at once if nothing is left to wait for.
/// Returns: how many members have another chance or have completed meanwhile; 0, and nothing has
/// changed, if the join has not failed or no member can change its end.
std::size_t redrive_join(transaction& tx, join_id which);
std::size_t redrive_join(store& where, join_id which);

/// The topic of messages that wait for a join. Every worker handles it.
inline constexpr std::string_view join_wait_topic = "join.wait";

/// The header by which a continuation names its join.
inline constexpr std::string_view join_header = "posthorn-join";

struct join_wait {
    join_id join;

    /// Of this wait, whatever the join's own flag says. True: one failed member sends `on_fail` and
    /// marks the join failed. False: `on_complete` is sent in spite of failed members. A join that
    /// missed its deadline, was cancelled or did not reach `needed` has failed for every wait.
    bool fail_if_any_step_failed = true;
    std::optional<message> on_complete = {};
    std::optional<message> on_fail = {};
};

/// Enqueues a message that waits until a join has ended, without being tried meanwhile, and then
/// enqueues the continuation. For those who cannot name it when they open the join.
/// Throws: `error` with `stopped` if it was told to stop before anything was written.
enqueued enqueue_join_wait(transaction& tx, const join_wait& what);
enqueued enqueue_join_wait(store& where, const join_wait& what, const stop_request& stop = {});

[[nodiscard]] std::optional<join_record> find_join(transaction& tx, join_id which);
[[nodiscard]] std::optional<join_record> find_join(store& where, join_id which);

/// Which joins to look at. Everything is optional and combines with "and".
struct join_filter {
    std::optional<join_state> state = {};
    std::string grouping_key = {};
    std::optional<message_id> member = {};
    std::int64_t after_position = 0; ///< where the next page starts
    std::size_t limit = 50;
};

/// One page of joins, in the order of their opening, without metadata and continuations.
[[nodiscard]] std::vector<join_record> list_joins(store& where, const join_filter& filter = {});

/// One page of a join's members, in the order of their messages.
[[nodiscard]] std::vector<join_member> list_join_members(store& where, join_id of,
                                                         std::int64_t after_position = 0,
                                                         std::size_t limit = 1'000);

/// A member of a join whose message is in another store.
struct remote_member {
    message_id id;
    std::string store; ///< as the worker there calls it; empty: it has no name
    member_state state = member_state::pending;
    member_state reported = member_state::pending; ///< as its store said last
};

/// One page of a join's members in other stores, in the order of their ids.
[[nodiscard]] std::vector<remote_member> list_remote_members(store& where, join_id of,
                                                             message_id after = {},
                                                             std::size_t limit = 1'000);

/// The topic of messages that report to joins in other stores. Workers with many stores handle it
/// if the store of the join is one of theirs; see `join_reports` for all others.
inline constexpr std::string_view join_report_topic = "join.report";

struct join_report_options {
    /// By what name the store of the members is known; else the worker's own name for it.
    std::string own_name = {};

    /// How long a report waits before it is tried again. While the join's store is away, or not
    /// known, this costs no attempt.
    duration pause = std::chrono::seconds{1};
};

/// A handler that takes reports to their joins:
///
///     worker.handle(ph::join_report_topic, ph::join_reports(stores));
///
/// A report counts once, however often it arrives. One that can never count is a dead letter: its
/// join does not exist, or has as many members as it expects.
/// Threads: safe to use from any.
class join_reports {
public:
    explicit join_reports(store_provider among, join_report_options how = {});
    outcome operator()(const delivery_view& which) const;

private:
    struct state;
    std::shared_ptr<state> state_; ///< shared: copies of a handler know the same stores
};

/// Joins in many stores: which store a join is in is decided by a key, as for messages.
/// Threads: safe to use from any.
class join_router {
public:
    explicit join_router(store_provider among) : among_(among), router_(std::move(among)) {}

    join_id open(std::string_view key, const join_options& how, const stop_request& stop = {});
    attach_answer attach(std::string_view key, join_id to, message_id which);
    bool cancel(std::string_view key, join_id which, const cancel_join_options& how = {});
    [[nodiscard]] std::optional<join_record> find(std::string_view key, join_id which);

    /// Looks in all stores, one after the other. Returns: its store's name, and the join.
    struct located {
        std::string store;
        join_record join;
    };
    [[nodiscard]] std::optional<located> find(join_id which);

    [[nodiscard]] posthorn::router& stores() { return router_; }

private:
    store_provider among_;
    router router_;
};

} // namespace posthorn
