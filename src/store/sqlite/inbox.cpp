// The inbox on SQLite: one writer at a time, so that looking and adding are one step.
#include "store/sqlite/inbox.hpp"

#include "store/contract/join_table.hpp"
#include "store/contract/json_lists.hpp"
#include "store/contract/row_readers.hpp"
#include "store/sqlite/statements.hpp"

#include <string>
#include <utility>

namespace posthorn::sqlite {
namespace {

template <typename Statement>
std::vector<inbox_record> page_of_inbound(connection& db, const inbox_filter& filter)
{
    auto row = db.use(Statement::text);
    if (filter.state)
        row.bind(Statement::state, static_cast<std::int64_t>(*filter.state));
    row.bind_text_or_null(Statement::source, filter.source)
        .bind(Statement::after, filter.after_position)
        .bind(Statement::limit, static_cast<std::int64_t>(filter.limit));
    return contract::read_all(row, contract::read_inbound<query>);
}

} // namespace

std::optional<inbox_record> inbox::find(const inbound& from)
{
    using statement = sql::find_inbound;
    auto row = db_.use(statement::text);
    row.bind_text(statement::source, from.source).bind_text(statement::id, from.id);
    return row.step() ? std::optional{contract::read_inbound(row)} : std::nullopt;
}

contract::seen_inbound inbox::see(const inbound& from, std::string_view content_hash)
{
    if (auto known = find(from))
        return {.row = *std::move(known), .fresh = false};
    using statement = sql::add_inbound;
    auto row = db_.use(statement::text);
    row.bind_text(statement::source, from.source)
        .bind_text(statement::id, from.id)
        .bind_text_or_null(statement::content_hash, content_hash)
        .bind(statement::now, world_.clock->now());
    row.step();
    contract::seen_inbound result{.row = contract::read_inbound(row), .fresh = true};
    row.run();
    return result;
}

bool inbox::finish(const inbound& from, std::string_view content_hash)
{
    using statement = sql::finish_inbound;
    db_.use(statement::text)
        .bind_text(statement::source, from.source)
        .bind_text(statement::id, from.id)
        .bind_text_or_null(statement::content_hash, content_hash)
        .bind(statement::now, world_.clock->now())
        .run();
    return db_.changes() > 0;
}

void inbox::mark(std::int64_t position, inbox_state as)
{
    using statement = sql::mark_inbound;
    db_.use(statement::text)
        .bind(statement::number, position)
        .bind(statement::state, static_cast<std::int64_t>(as))
        .bind(statement::now, world_.clock->now())
        .run();
}

void inbox::carry(std::int64_t position, const locator& by)
{
    db_.use(sql::forget_carrier::text).bind(sql::forget_carrier::number, position).run();
    {
        using statement = sql::carry_inbound;
        db_.use(statement::text)
            .bind(statement::number, position)
            .bind(statement::seq, by.position)
            .bind(statement::message, by.id)
            .run();
    }
    using statement = sql::add_member;
    db_.use(statement::text)
        .bind(statement::number, std::int64_t{0})
        .bind(statement::role, static_cast<std::int64_t>(contract::join_role::inbox))
        .bind(statement::seq, by.position)
        .bind(statement::state, std::int64_t{0})
        .bind(statement::id, by.id)
        .bind(statement::now, world_.clock->now())
        .run();
}

void inbox::replace(std::int64_t seq, std::string_view payload, std::string_view headers_json)
{
    using statement = sql::replace_payload;
    db_.use(statement::text)
        .bind(statement::seq, seq)
        .bind_blob(statement::payload, payload)
        .bind_text_or_null(statement::headers, headers_json)
        .run();
}

void inbox::follow(std::span<const std::int64_t> seqs, inbox_state as)
{
    const auto list = contract::json_of(seqs);
    using statement = sql::follow_inbound;
    db_.use(statement::text)
        .bind_text(statement::list, list)
        .bind(statement::state, static_cast<std::int64_t>(as))
        .bind(statement::now, world_.clock->now())
        .run();
    if (as == inbox_state::done)
        db_.use(sql::follow_no_more::text).bind_text(sql::follow_no_more::list, list).run();
}

std::vector<inbox_record> inbox::list(const inbox_filter& filter)
{
    if (filter.state && *filter.state != inbox_state::done)
        return page_of_inbound<sql::list_unfinished_inbound>(db_, filter);
    return page_of_inbound<sql::list_inbound>(db_, filter);
}

std::size_t inbox::remove_done(duration older_than, std::size_t limit)
{
    using statement = sql::remove_done_inbound;
    db_.use(statement::text)
        .bind(statement::until, world_.clock->now() - older_than)
        .bind(statement::limit, static_cast<std::int64_t>(limit))
        .run();
    return static_cast<std::size_t>(db_.changes());
}

} // namespace posthorn::sqlite
