// Joins on SQLite: one writer at a time, so that nothing has to be locked.
#include "store/sqlite/joins.hpp"

#include "store/contract/json_lists.hpp"
#include "store/contract/row_readers.hpp"
#include "store/sqlite/numbered_id.hpp"
#include "store/sqlite/row_state.hpp"
#include "store/sqlite/statements.hpp"

#include <algorithm>
#include <string>

namespace posthorn::sqlite {
namespace {

using contract::json_of;

message_id as_blob(join_id id)
{
    return message_id{id.value()};
}

template <typename Statement>
void bind_page(query& row, const join_filter& filter)
{
    if (filter.state)
        row.bind(Statement::state, static_cast<std::int64_t>(*filter.state));
    row.bind_text_or_null(Statement::grouping_key, filter.grouping_key)
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
        row.bind_text(topic, what->topic).bind_blob(payload, what->payload);
}

} // namespace

std::int64_t joins::insert(const contract::new_join& what)
{
    using statement = sql::open_join;
    const auto now = world_.clock->now();
    const auto& how = what.how;
    const auto id = as_blob(what.id);
    auto row = db_.use(statement::text);
    row.bind(statement::id, id)
        .bind(statement::any_failure_fails, std::int64_t{how.fail_if_any_step_failed})
        .bind(statement::now, now)
        .bind_text_or_null(statement::grouping_key, how.grouping_key)
        .bind_text_or_null(statement::correlation_id, what.correlation_id)
        .bind_text_or_null(statement::trace, what.trace)
        .bind_blob(statement::metadata, how.metadata);
    if (how.expected)
        row.bind(statement::expected, *how.expected);
    if (how.needed)
        row.bind(statement::needed, *how.needed);
    if (how.deadline)
        row.bind(statement::deadline_at, now + *how.deadline);
    bind_continuation(row, statement::on_complete_topic, statement::on_complete_payload,
                      how.on_complete);
    bind_continuation(row, statement::on_fail_topic, statement::on_fail_payload, how.on_fail);
    row.step();
    const auto number = row.integer(0);
    row.run();
    return number;
}

std::vector<join_record> joins::lock(std::span<const std::int64_t> numbers)
{
    const auto list = json_of(numbers);
    auto row = db_.use(sql::joins_of_numbers::text);
    row.bind_text(sql::joins_of_numbers::list, list);
    return contract::read_all(row, contract::read_join<query>);
}

std::optional<join_record> joins::lock(join_id id)
{
    const auto key = as_blob(id);
    auto row = db_.use(sql::join_of_id::text);
    row.bind(sql::join_of_id::id, key);
    return row.step() ? std::optional{contract::read_join(row)} : std::nullopt;
}

void joins::save(std::span<const join_record> which)
{
    const auto list = json_of(which);
    using statement = sql::save_joins;
    db_.use(statement::text)
        .bind_text(statement::list, list)
        .bind(statement::now, world_.clock->now())
        .run();
}

std::vector<contract::join_row> joins::rows_of(std::span<const std::int64_t> seqs)
{
    if (seqs.empty())
        return {};
    const auto [first, last] = std::ranges::minmax(seqs);
    const auto list = json_of(seqs);
    using statement = sql::rows_of;
    auto row = db_.use(statement::text);
    row.bind(statement::first, first).bind(statement::last, last).bind_text(statement::list, list);
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
    const auto now = world_.clock->now();
    using statement = sql::add_member;
    for (const auto& each : members)
        db_.use(statement::text)
            .bind(statement::number, join)
            .bind(statement::role, static_cast<std::int64_t>(each.role))
            .bind(statement::seq, each.seq)
            .bind(statement::state, static_cast<std::int64_t>(each.state))
            .bind(statement::id, each.id)
            .bind(statement::now, now)
            .run();
}

void joins::mark(std::span<const contract::join_row> which, member_state as)
{
    const auto list = json_of(which);
    using statement = sql::mark_members;
    db_.use(statement::text)
        .bind_text(statement::list, list)
        .bind(statement::state, static_cast<std::int64_t>(as))
        .bind(statement::now, world_.clock->now())
        .run();
}

std::optional<contract::held_message> joins::hold(message_id id)
{
    const auto seq = find_seq(db_, id);
    if (!seq)
        return std::nullopt;
    using statement = sql::state_of_message;
    auto row = db_.use(statement::text);
    row.bind(statement::seq, *seq);
    row.step();
    const int column = row.is_null(0) ? 1 : 0;
    // Without a row in either it lies ahead in the log, or is a member of somebody's batch.
    const auto state = row.is_null(column)
                           ? (row.integer(2) != 0 ? row_state::claimed : row_state::ready)
                           : static_cast<row_state>(row.integer(column));
    return contract::held_message{.seq = *seq, .state = state_of(state)};
}

void joins::follow(std::span<const std::int64_t> /*seqs*/)
{
    // Every end is looked up: nothing has to be prepared.
}

void joins::keep_back(std::int64_t seq)
{
    db_.use(sql::keep_back::text).bind(sql::keep_back::seq, seq).run();
}

void joins::let_go(std::span<const std::int64_t> joins)
{
    const auto list = json_of(joins);
    db_.use(sql::release_waiters::text).bind_text(sql::release_waiters::list, list).run();
    std::vector<std::int64_t> deadlines;
    {
        auto row = db_.use(sql::open_deadlines::text);
        row.bind_text(sql::open_deadlines::list, list);
        while (row.step())
            deadlines.push_back(row.integer(0));
    }
    for (const auto seq : deadlines) {
        db_.use(sql::delete_kept_back::text).bind(sql::delete_kept_back::seq, seq).run();
        if (db_.changes() > 0)
            db_.use(sql::delete_message::text).bind(sql::delete_message::seq, seq).run();
    }
    using statement = sql::leave_members;
    db_.use(statement::text)
        .bind_text(statement::list, list)
        .bind(statement::now, world_.clock->now())
        .run();
}

std::size_t joins::remove_ended(duration older_than, std::size_t limit)
{
    const auto until = world_.clock->now() - older_than;
    std::size_t removed = 0;
    while (removed < limit) {
        std::int64_t number = 0;
        {
            auto row = db_.use(sql::removable_join::text);
            row.bind(sql::removable_join::until, until);
            if (!row.step())
                break;
            number = row.integer(0);
        }
        using statement = sql::delete_members;
        const auto room = static_cast<std::int64_t>(limit - removed);
        db_.use(statement::text).bind(statement::number, number).bind(statement::limit, room).run();
        const auto gone = db_.changes();
        removed += static_cast<std::size_t>(gone);
        if (gone == room)
            break;
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
    row.bind_text(sql::continuations::list, list);
    std::vector<contract::continuation> result;
    while (row.step())
        result.push_back({.join = row.integer(0),
                          .on_complete = contract::message_or_none(row, 1),
                          .on_fail = contract::message_or_none(row, 3),
                          .correlation_id = std::string(row.text(5)),
                          .trace = std::string(row.text(6))});
    return result;
}

} // namespace posthorn::sqlite
