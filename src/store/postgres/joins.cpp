// Joins on PostgreSQL: whole columns travel as arrays, so that any number of members is one
// statement.
#include "store/postgres/joins.hpp"

#include "store/contract/numbered_id.hpp"
#include "store/postgres/key_heads.hpp"
#include "store/postgres/row_state.hpp"
#include "store/postgres/statements.hpp"

#include <string>
#include <utility>

namespace posthorn::postgres {
namespace {

using numbers = std::span<const std::int64_t>;
using optional_numbers = std::span<const std::optional<std::int64_t>>;

std::optional<std::int64_t> number_or_none(const rows& found, int row, int column)
{
    return found.is_null(row, column) ? std::nullopt : std::optional{found.integer(row, column)};
}

std::optional<message> message_or_none(const rows& found, int row, int topic_column)
{
    if (found.is_null(row, topic_column))
        return std::nullopt;
    return message{.topic = std::string(found.text(row, topic_column)),
                   .payload = std::string(found.text(row, topic_column + 1))};
}

join_record read_join(const rows& found, int row)
{
    join_record result;
    result.position = found.integer(row, 0);
    result.id = join_id{found.id(row, 1).value()};
    result.state = static_cast<join_state>(found.integer(row, 2));
    result.ended_by = static_cast<join_end>(found.integer(row, 3));
    result.expected = number_or_none(found, row, 4);
    result.needed = number_or_none(found, row, 5);
    result.fail_if_any_step_failed = found.yes(row, 6);
    result.attached = found.integer(row, 7);
    result.completed = found.integer(row, 8);
    result.failed = found.integer(row, 9);
    result.reopened = static_cast<int>(found.integer(row, 10));
    result.created_at = found.time(row, 11);
    result.updated_at = found.time(row, 12);
    result.deadline_at = found.time_or_none(row, 13);
    result.ended_at = found.time_or_none(row, 14);
    result.grouping_key = found.text(row, 15);
    result.correlation_id = found.text(row, 16);
    return result;
}

std::vector<join_record> read_joins(const rows& found)
{
    std::vector<join_record> result;
    for (int row = 0; row < found.size(); ++row)
        result.push_back(read_join(found, row));
    return result;
}

template <typename Statement>
arguments page_of(const join_filter& filter)
{
    arguments with;
    if (filter.state)
        with.set(Statement::state, static_cast<std::int64_t>(*filter.state));
    with.set_text_or_null(Statement::grouping_key, filter.grouping_key)
        .set(Statement::after, filter.after_position)
        .set(Statement::limit, static_cast<std::int64_t>(filter.limit));
    return with;
}

// One column of some records.
template <typename Record, typename Get>
auto column(std::span<const Record> records, Get get)
{
    std::vector<decltype(get(records.front()))> result;
    result.reserve(records.size());
    for (const auto& each : records)
        result.push_back(get(each));
    return result;
}

void set_continuation(arguments& with, int topic, int payload, const std::optional<message>& what)
{
    if (what)
        with.set_text(topic, what->topic).set_text(payload, what->payload);
}

} // namespace

std::int64_t joins::insert(const contract::new_join& what)
{
    using statement = sql::open_join;
    const auto& how = what.how;
    arguments with;
    set_now(with, statement::now, world_);
    with.set(statement::id, message_id{what.id.value()})
        .set_flag(statement::any_failure_fails, how.fail_if_any_step_failed)
        .set_text(statement::grouping_key, how.grouping_key)
        .set_text(statement::correlation_id, what.correlation_id)
        .set_text(statement::trace, what.trace)
        .set_text(statement::metadata, how.metadata);
    if (how.expected)
        with.set(statement::expected, *how.expected);
    if (how.needed)
        with.set(statement::needed, *how.needed);
    if (how.deadline)
        with.set(statement::deadline, *how.deadline);
    set_continuation(with, statement::on_complete_topic, statement::on_complete_payload,
                     how.on_complete);
    set_continuation(with, statement::on_fail_topic, statement::on_fail_payload, how.on_fail);
    return talk_.run(statement::text, with).integer(0, 0);
}

std::vector<join_record> joins::lock(std::span<const std::int64_t> which)
{
    arguments with;
    with.set(sql::lock_joins::numbers, which);
    return read_joins(talk_.run(sql::lock_joins::text, with));
}

std::optional<join_record> joins::lock(join_id id)
{
    arguments with;
    with.set(sql::lock_join::id, message_id{id.value()});
    const auto found = talk_.run(sql::lock_join::text, with);
    return found.empty() ? std::nullopt : std::optional{read_join(found, 0)};
}

void joins::save(std::span<const join_record> which)
{
    using statement = sql::save_joins;
    using record = join_record;
    arguments with;
    set_now(with, statement::now, world_);
    const auto set = [&](int parameter, auto get) {
        with.set(parameter, numbers(column(which, get)));
    };
    set(statement::numbers, [](const record& j) { return j.position; });
    set(statement::states, [](const record& j) { return static_cast<std::int64_t>(j.state); });
    set(statement::ended_bys,
        [](const record& j) { return static_cast<std::int64_t>(j.ended_by); });
    with.set(statement::expecteds,
             optional_numbers(column(which, [](const record& j) { return j.expected; })));
    set(statement::attacheds, [](const record& j) { return j.attached; });
    set(statement::completeds, [](const record& j) { return j.completed; });
    set(statement::faileds, [](const record& j) { return j.failed; });
    set(statement::reopeneds, [](const record& j) { return std::int64_t{j.reopened}; });
    set(statement::deadlines, [](const record& j) {
        return j.deadline_at ? std::int64_t{j.deadline_at->time_since_epoch().count()} : 0;
    });
    talk_.run(statement::text, with);
}

std::vector<contract::join_row> joins::rows_of(std::span<const std::int64_t> seqs)
{
    arguments with;
    with.set(sql::rows_of::seqs, seqs);
    const auto found = talk_.run(sql::rows_of::text, with);
    std::vector<contract::join_row> result;
    for (int row = 0; row < found.size(); ++row)
        result.push_back({.join = found.integer(row, 0),
                          .seq = found.integer(row, 1),
                          .role = static_cast<contract::join_role>(found.integer(row, 2)),
                          .state = static_cast<member_state>(found.integer(row, 3)),
                          .id = found.id(row, 4)});
    return result;
}

void joins::add(std::int64_t join, std::span<const contract::new_member> members)
{
    using statement = sql::add_members;
    using member = contract::new_member;
    arguments with;
    set_now(with, statement::now, world_);
    with.set(statement::number, join)
        .set(statement::seqs, numbers(column(members, [](const member& m) { return m.seq; })))
        .set(statement::roles,
             numbers(column(members,
                            [](const member& m) { return static_cast<std::int64_t>(m.role); })))
        .set(statement::states,
             numbers(column(members,
                            [](const member& m) { return static_cast<std::int64_t>(m.state); })))
        .set_ids(statement::ids,
                 column(members, [](const member& m) { return std::optional{m.id}; }));
    talk_.run(statement::text, with);
}

void joins::mark(std::span<const contract::join_row> which, member_state as)
{
    using statement = sql::mark_members;
    using row = contract::join_row;
    arguments with;
    set_now(with, statement::now, world_);
    with.set(statement::state, static_cast<std::int64_t>(as))
        .set(statement::numbers, numbers(column(which, [](const row& r) { return r.join; })))
        .set(statement::seqs, numbers(column(which, [](const row& r) { return r.seq; })));
    talk_.run(statement::text, with);
}

// A message that changes hands between our look and our grip is looked at again.
std::optional<contract::held_message> joins::hold(message_id id)
{
    arguments which;
    which.set(sql::find_message::hint, contract::number_in(id)).set(sql::find_message::id, id);
    for (;;) {
        const auto found = talk_.run(sql::find_message::text, which);
        if (found.empty())
            return std::nullopt;
        const auto seq = found.integer(0, 0);
        const auto state = static_cast<row_state>(found.integer(0, 1));
        const auto number = fence{found.integer(0, 2)};
        if (try_to_hold(seq, state, number))
            return contract::held_message{.seq = seq, .state = state_of(state, false)};
    }
}

bool joins::try_to_hold(std::int64_t seq, row_state state, fence number)
{
    switch (state) {
    case row_state::ready: {
        arguments with;
        with.set(sql::follow::seqs, numbers(&seq, 1));
        return talk_.run(sql::follow::text, with).changed() == 1;
    }
    case row_state::claimed:
    case row_state::started: {
        lock_batch(talk_, number);
        arguments with;
        with.set(sql::follow_claimed::seq, seq).set(sql::follow_claimed::fence, number);
        if (talk_.run(sql::follow_claimed::text, with).changed() == 0)
            return false;
        arguments listed;
        listed.set(sql::list_among_others::seq, seq).set(sql::list_among_others::fence, number);
        talk_.run(sql::list_among_others::text, listed);
        return true;
    }
    case row_state::dead_blocking:
    case row_state::dead: {
        arguments with;
        with.set(sql::hold_dead::seq, seq);
        return !talk_.run(sql::hold_dead::text, with).empty();
    }
    default: return true; // what has ended stays so
    }
}

void joins::follow(std::span<const std::int64_t> seqs)
{
    arguments with;
    with.set(sql::follow::seqs, seqs);
    talk_.run(sql::follow::text, with);
}

void joins::keep_back(std::int64_t seq)
{
    arguments with;
    with.set(sql::keep_back::seq, seq);
    talk_.run(sql::keep_back::text, with);
}

void joins::let_go(std::span<const std::int64_t> which)
{
    arguments released;
    arguments removed;
    arguments left;
    released.set(sql::release_waiters::numbers, which);
    removed.set(sql::remove_deadlines::numbers, which);
    set_now(left, sql::leave_members::now, world_);
    left.set(sql::leave_members::numbers, which);
    talk_.run_all({{sql::release_waiters::text, released},
                   {sql::remove_deadlines::text, removed},
                   {sql::leave_members::text, left}});
}

std::size_t joins::remove_ended(duration older_than, std::size_t limit)
{
    arguments of_members;
    arguments of_joins;
    set_now(of_members, sql::remove_members::now, world_);
    set_now(of_joins, sql::remove_joins::now, world_);
    of_members.set(sql::remove_members::age, older_than)
        .set(sql::remove_members::limit, static_cast<std::int64_t>(limit));
    of_joins.set(sql::remove_joins::age, older_than)
        .set(sql::remove_joins::limit, static_cast<std::int64_t>(limit));
    const auto results = talk_.run_all(
        {{sql::remove_members::text, of_members}, {sql::remove_joins::text, of_joins}});
    return results[0].changed() + results[1].changed();
}

std::optional<join_record> joins::find(join_id id)
{
    arguments with;
    with.set(sql::find_join::id, message_id{id.value()});
    const auto found = talk_.run(sql::find_join::text, with);
    if (found.empty())
        return std::nullopt;
    auto result = read_join(found, 0);
    result.metadata = found.text(0, 17);
    result.on_complete = message_or_none(found, 0, 18);
    result.on_fail = message_or_none(found, 0, 20);
    return result;
}

std::vector<join_record> joins::list(const join_filter& filter)
{
    if (filter.member) {
        arguments which;
        which.set(sql::find_message::hint, contract::number_in(*filter.member))
            .set(sql::find_message::id, *filter.member);
        const auto found = talk_.run(sql::find_message::text, which);
        if (found.empty())
            return {};
        using statement = sql::list_joins_of_member;
        auto with = page_of<statement>(filter);
        with.set(statement::seq, found.integer(0, 0));
        return read_joins(talk_.run(statement::text, with));
    }
    if (!filter.grouping_key.empty()) {
        using statement = sql::list_joins_of_group;
        return read_joins(talk_.run(statement::text, page_of<statement>(filter)));
    }
    if (filter.state) {
        using statement = sql::list_joins_of_state;
        return read_joins(talk_.run(statement::text, page_of<statement>(filter)));
    }
    return read_joins(talk_.run(sql::list_joins::text, page_of<sql::list_joins>(filter)));
}

std::vector<join_member> joins::members(std::int64_t join, std::int64_t after_seq,
                                        std::size_t limit)
{
    using statement = sql::members_of_join;
    arguments with;
    with.set(statement::number, join)
        .set(statement::after, after_seq)
        .set(statement::limit, static_cast<std::int64_t>(limit));
    const auto found = talk_.run(statement::text, with);
    std::vector<join_member> result;
    for (int row = 0; row < found.size(); ++row)
        result.push_back({.id = found.id(row, 0),
                          .position = found.integer(row, 1),
                          .state = static_cast<member_state>(found.integer(row, 2)),
                          .attached_at = found.time(row, 3),
                          .settled_at = found.time_or_none(row, 4)});
    return result;
}

std::vector<contract::continuation> joins::continuations(std::span<const std::int64_t> which)
{
    arguments with;
    with.set(sql::continuations::numbers, which);
    const auto found = talk_.run(sql::continuations::text, with);
    std::vector<contract::continuation> result;
    for (int row = 0; row < found.size(); ++row)
        result.push_back({.join = found.integer(row, 0),
                          .on_complete = message_or_none(found, row, 1),
                          .on_fail = message_or_none(found, row, 3),
                          .correlation_id = std::string(found.text(row, 5)),
                          .trace = std::string(found.text(row, 6))});
    return result;
}

} // namespace posthorn::postgres
