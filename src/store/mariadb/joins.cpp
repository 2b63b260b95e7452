// Joins on MariaDB: a list of any length is one JSON parameter.
#include "store/mariadb/joins.hpp"

#include "store/contract/json_lists.hpp"
#include "store/contract/row_readers.hpp"
#include "store/mariadb/batch_record.hpp"
#include "store/mariadb/find_seq.hpp"
#include "store/mariadb/ledger.hpp"
#include "store/mariadb/places.hpp"
#include "store/mariadb/statements.hpp"
#include <posthorn/error.hpp>

#include <algorithm>
#include <string>

namespace posthorn::mariadb {
namespace {

using contract::json_of;

message_id as_blob(join_id id)
{
    return message_id{id.value()};
}

// A test's clock rules, else the server decides in the statement itself.
std::optional<timestamp> time_for(connection& db)
{
    return db.environment().clock->database_time();
}

template <typename Statement>
void bind_page(query& row, const join_filter& filter)
{
    if (filter.state)
        row.bind(Statement::state, static_cast<std::int64_t>(*filter.state));
    row.bind_bytes_or_null(Statement::grouping_key, filter.grouping_key)
        .bind(Statement::after, filter.after_position)
        .bind(Statement::limit, static_cast<std::int64_t>(filter.limit));
}

template <typename Statement>
std::vector<join_record> page(connection& db, const join_filter& filter)
{
    auto row = db.use(Statement::text);
    bind_page<Statement>(row, filter);
    return contract::read_all(row, contract::read_join<query>);
}

void bind_continuation(query& row, int topic, int payload, const std::optional<message>& what)
{
    if (what)
        row.bind_bytes(topic, what->topic).bind_bytes(payload, what->payload);
}

void remove_kept_back(connection& db, const std::vector<std::int64_t>& seqs)
{
    std::vector<std::int64_t> held;
    {
        const auto list = json_of(seqs);
        auto row = db.use(sql::hold_deadlines::text);
        row.bind_ascii(sql::hold_deadlines::list, list);
        while (row.step())
            held.push_back(row.integer(0));
    }
    if (held.empty())
        return;
    const auto list = json_of(held);
    db.use(sql::delete_queued::text).bind_ascii(sql::delete_queued::list, list).run();
    ledger(db, {}).delete_messages(held);
}

} // namespace

std::int64_t joins::insert(const contract::new_join& what)
{
    using statement = sql::open_join;
    const auto& how = what.how;
    const auto id = as_blob(what.id);
    auto row = db_.use(statement::text);
    row.bind(statement::id, id)
        .bind(statement::any_failure_fails, std::int64_t{how.fail_if_any_step_failed})
        .bind(statement::now, time_for(db_))
        .bind_bytes_or_null(statement::grouping_key, how.grouping_key)
        .bind_bytes_or_null(statement::correlation_id, what.correlation_id)
        .bind_bytes_or_null(statement::trace, what.trace)
        .bind_bytes(statement::metadata, how.metadata);
    if (how.expected)
        row.bind(statement::expected, *how.expected);
    if (how.needed)
        row.bind(statement::needed, *how.needed);
    if (how.deadline)
        row.bind(statement::deadline, std::int64_t{how.deadline->count()});
    bind_continuation(row, statement::on_complete_topic, statement::on_complete_payload,
                      how.on_complete);
    bind_continuation(row, statement::on_fail_topic, statement::on_fail_payload, how.on_fail);
    row.step();
    return row.integer(0);
}

std::vector<join_record> joins::lock(std::span<const std::int64_t> numbers)
{
    const auto list = json_of(numbers);
    return db_.insist([&] {
        auto row = db_.use(sql::lock_joins::text);
        row.bind_ascii(sql::lock_joins::list, list);
        return contract::read_all(row, contract::read_join<query>);
    });
}

std::optional<join_record> joins::lock(join_id id)
{
    const auto key = as_blob(id);
    auto row = db_.use(sql::lock_join::text);
    row.bind(sql::lock_join::id, key);
    return row.step() ? std::optional{contract::read_join(row)} : std::nullopt;
}

void joins::save(std::span<const join_record> which)
{
    const auto list = json_of(which);
    using statement = sql::save_joins;
    db_.use(statement::text)
        .bind_ascii(statement::list, list)
        .bind(statement::now, time_for(db_))
        .run();
}

std::vector<contract::join_row> joins::rows_of(std::span<const std::int64_t> seqs)
{
    if (seqs.empty())
        return {};
    const auto list = json_of(seqs);
    auto row = db_.use(view_ == view::newest ? sql::rows_of::text : sql::newest_rows_of::text);
    static_assert(int{sql::rows_of::list} == int{sql::newest_rows_of::list});
    row.bind_ascii(sql::rows_of::list, list);
    std::vector<contract::join_row> result;
    while (row.step())
        result.push_back({.join = row.integer(0),
                          .seq = row.integer(1),
                          .role = static_cast<contract::join_role>(row.integer(2)),
                          .state = static_cast<member_state>(row.integer(3)),
                          .id = row.id(4)});
    return result;
}

void joins::add(std::int64_t join, std::span<const contract::new_member> members)
{
    using statement = sql::add_member;
    auto row = db_.use(statement::text);
    for (const auto& each : members)
        row.bind(statement::number, join)
            .bind(statement::role, static_cast<std::int64_t>(each.role))
            .bind(statement::seq, each.seq)
            .bind(statement::state, static_cast<std::int64_t>(each.state))
            .bind(statement::id, each.id)
            .bind(statement::now, time_for(db_))
            .end_row();
    row.run();
}

void joins::mark(std::span<const contract::join_row> which, member_state as)
{
    const auto list = json_of(which);
    using statement = sql::mark_members;
    db_.use(statement::text)
        .bind_ascii(statement::list, list)
        .bind(statement::state, static_cast<std::int64_t>(as))
        .bind(statement::now, time_for(db_))
        .run();
}

// As a cancel does: look where the message lies, lock it there, and look again if it has moved.
std::optional<contract::held_message> joins::hold(message_id id)
{
    const auto seq = find_seq(db_, id);
    if (!seq)
        return std::nullopt;
    constexpr int looks_max = 5;
    for (int look = 0; look < looks_max; ++look)
        if (const auto held = try_to_hold(*seq))
            return held;
    throw error(error_code::serialization,
                "the message changed hands while it was being attached; run the transaction again",
                {.retryable = true});
}

std::optional<contract::held_message> joins::try_to_hold(std::int64_t seq)
{
    const auto held = [&](message_state state) {
        return contract::held_message{.seq = seq, .state = state};
    };
    bool waits = false;
    std::optional<place> queued;
    fence claimed_with{};
    {
        auto row = db_.use(sql::whereabouts::text);
        row.bind(sql::whereabouts::seq, seq);
        if (!row.step())
            return std::nullopt;
        if (!row.is_null(3))
            return held(state_of(static_cast<place>(row.integer(3))));
        waits = row.integer(0) != 0;
        if (!row.is_null(1))
            queued = static_cast<place>(row.integer(1));
        claimed_with = fence{row.integer(2)};
    }
    if (waits) {
        auto row = db_.use(sql::hold_ready::text);
        row.bind(sql::hold_ready::seq, seq);
        return row.step() ? std::optional{held(message_state::ready)} : std::nullopt;
    }
    if (queued && *queued != place::claimed) {
        auto row = db_.use(sql::lock_queued::text);
        row.bind(sql::lock_queued::seq, seq);
        if (!row.step() || static_cast<place>(row.integer(0)) == place::claimed)
            return std::nullopt;
        return held(state_of(static_cast<place>(row.integer(0))));
    }
    std::vector<fence> batches;
    if (queued) {
        batches.push_back(claimed_with);
    } else {
        auto row = db_.use(sql::batches_around::text);
        row.bind(sql::batches_around::seq, seq);
        while (row.step())
            batches.push_back(fence{row.integer(0)});
    }
    for (const auto number : batches)
        if (hold_claimed(seq, number))
            return held(message_state::claimed);
    return std::nullopt;
}

bool joins::hold_claimed(std::int64_t seq, fence number)
{
    if (const auto seen = batch_record::read(db_, number); !seen || !seen->ordinal_of(seq))
        return false;
    const auto batch = batch_record::lock(db_, number);
    if (!batch || !batch->ordinal_of(seq))
        return false;
    db_.use(sql::follow_batch::text).bind(sql::follow_batch::fence, number).run();
    return true;
}

void joins::follow(std::span<const std::int64_t> /*seqs*/)
{
    // Whoever claims them sees that they are members.
}

void joins::keep_back(std::int64_t seq)
{
    db_.use(sql::keep_back::text).bind(sql::keep_back::seq, seq).run();
}

void joins::let_go(std::span<const std::int64_t> joins)
{
    const auto list = json_of(joins);
    db_.use(sql::release_waiters::text).bind_ascii(sql::release_waiters::list, list).run();
    std::vector<std::int64_t> deadlines;
    {
        auto row = db_.use(sql::open_deadlines::text);
        row.bind_ascii(sql::open_deadlines::list, list);
        while (row.step())
            deadlines.push_back(row.integer(0));
    }
    if (!deadlines.empty())
        remove_kept_back(db_, deadlines);
    using statement = sql::leave_members;
    db_.use(statement::text)
        .bind_ascii(statement::list, list)
        .bind(statement::now, time_for(db_))
        .run();
}

std::size_t joins::remove_ended(duration older_than, std::size_t limit)
{
    std::vector<std::int64_t> old;
    {
        using statement = sql::removable_joins;
        auto row = db_.use(statement::text);
        row.bind(statement::now, time_for(db_))
            .bind(statement::age, std::int64_t{older_than.count()})
            .bind(statement::limit, static_cast<std::int64_t>(limit));
        while (row.step())
            old.push_back(row.integer(0));
    }
    std::size_t removed = 0;
    for (const auto number : old) {
        if (removed >= limit)
            break;
        using statement = sql::delete_members;
        const auto room = static_cast<std::int64_t>(limit - removed);
        const auto gone = db_.use(statement::text)
                              .bind(statement::number, number)
                              .bind(statement::limit, room)
                              .run();
        removed += static_cast<std::size_t>(gone);
        if (gone == room)
            break;
        db_.use(sql::delete_remote_members::text)
            .bind(sql::delete_remote_members::number, number)
            .run();
        db_.use(sql::delete_join::text).bind(sql::delete_join::number, number).run();
        ++removed;
    }
    return removed;
}

std::optional<join_record> joins::find(join_id id)
{
    const auto key = as_blob(id);
    auto row = db_.use(sql::find_join::text);
    row.bind(sql::find_join::id, key);
    if (!row.step())
        return std::nullopt;
    auto result = contract::read_join(row);
    result.metadata = row.text(17);
    result.on_complete = contract::message_or_none(row, 18);
    result.on_fail = contract::message_or_none(row, 20);
    return result;
}

std::vector<join_record> joins::list(const join_filter& filter)
{
    if (filter.member) {
        const auto seq = find_seq(db_, *filter.member);
        if (!seq)
            return {};
        using statement = sql::list_joins_of_member;
        auto row = db_.use(statement::text);
        row.bind(statement::seq, *seq);
        bind_page<statement>(row, filter);
        return contract::read_all(row, contract::read_join<query>);
    }
    if (!filter.grouping_key.empty())
        return page<sql::list_joins_of_group>(db_, filter);
    if (filter.state)
        return page<sql::list_joins_of_state>(db_, filter);
    return page<sql::list_joins>(db_, filter);
}

std::vector<join_member> joins::members(std::int64_t join, std::int64_t after_seq,
                                        std::size_t limit)
{
    using statement = sql::members_of_join;
    auto row = db_.use(statement::text);
    row.bind(statement::number, join)
        .bind(statement::after, after_seq)
        .bind(statement::limit, static_cast<std::int64_t>(limit));
    std::vector<join_member> result;
    while (row.step())
        result.push_back({.id = row.id(0),
                          .position = row.integer(1),
                          .state = static_cast<member_state>(row.integer(2)),
                          .attached_at = row.time(3),
                          .settled_at = row.time_or_none(4)});
    return result;
}

std::vector<contract::continuation> joins::continuations(std::span<const std::int64_t> joins)
{
    const auto list = json_of(joins);
    auto row = db_.use(sql::continuations::text);
    row.bind_ascii(sql::continuations::list, list);
    std::vector<contract::continuation> result;
    while (row.step())
        result.push_back({.join = row.integer(0),
                          .on_complete = contract::message_or_none(row, 1),
                          .on_fail = contract::message_or_none(row, 3),
                          .correlation_id = std::string(row.text(5)),
                          .trace = std::string(row.text(6))});
    return result;
}

} // namespace posthorn::mariadb
