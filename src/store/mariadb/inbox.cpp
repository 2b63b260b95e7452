// The inbox on MariaDB. How many rows an upsert has changed depends on the client's settings, which
// may be a user's: a nonce tells instead.
#include "store/mariadb/inbox.hpp"

#include "store/contract/join_table.hpp"
#include "store/contract/json_lists.hpp"
#include "store/contract/row_readers.hpp"
#include "store/mariadb/find_seq.hpp"
#include "store/mariadb/statements.hpp"
#include <posthorn/error.hpp>

#include <string>

namespace posthorn::mariadb {
namespace {

std::optional<timestamp> time_of(connection& db)
{
    return db.environment().clock->database_time();
}

std::int64_t fresh_nonce(connection& db)
{
    return static_cast<std::int64_t>(db.environment().random->bits() >> 1U);
}

template <typename Statement>
std::vector<inbox_record> page_of_inbound(connection& db, const inbox_filter& filter)
{
    auto row = db.use(Statement::text);
    if (filter.state)
        row.bind(Statement::state, static_cast<std::int64_t>(*filter.state));
    row.bind_bytes_or_null(Statement::source, filter.source)
        .bind(Statement::after, filter.after_position)
        .bind(Statement::limit, static_cast<std::int64_t>(filter.limit));
    return contract::read_all(row, contract::read_inbound<query>);
}

} // namespace

std::optional<inbox_record> inbox::find(const inbound& from)
{
    using statement = sql::find_inbound;
    auto row = db_.use(statement::text);
    row.bind_bytes(statement::source, from.source).bind_bytes(statement::id, from.id);
    return row.step() ? std::optional{contract::read_inbound(row)} : std::nullopt;
}

contract::seen_inbound inbox::see(const inbound& from, std::string_view content_hash)
{
    const auto nonce = fresh_nonce(db_);
    {
        using statement = sql::see_inbound;
        db_.use(statement::text)
            .bind_bytes(statement::source, from.source)
            .bind_bytes(statement::id, from.id)
            .bind_bytes_or_null(statement::content_hash, content_hash)
            .bind(statement::nonce, nonce)
            .bind(statement::now, time_of(db_))
            .run();
    }
    using statement = sql::lock_inbound;
    auto row = db_.use(statement::text);
    row.bind_bytes(statement::source, from.source).bind_bytes(statement::id, from.id);
    if (!row.step())
        throw error(error_code::internal, "a row of the inbox is not there");
    contract::seen_inbound result{.row = contract::read_inbound(row),
                                  .fresh = row.integer(8) == nonce};
    if (view_ == view::may_be_old && result.row.message && result.row.state != inbox_state::done)
        require_view_of(from, *result.row.message);
    return result;
}

// The row is what is now, but its message is looked for in the transaction's view. One that came
// after that began would seem to be gone, and a second one would be added.
void inbox::require_view_of(const inbound& from, message_id carrier)
{
    if (find_seq(db_, carrier))
        return;
    using statement = sql::newest_carrier;
    auto row = db_.use(statement::text);
    row.bind_bytes(statement::source, from.source).bind_bytes(statement::id, from.id);
    if (row.step())
        throw error(error_code::serialization,
                    "this message from outside came while the transaction was open, which sees "
                    "the database as it was before; run the transaction again",
                    {.retryable = true});
}

bool inbox::finish(const inbound& from, std::string_view content_hash)
{
    const auto nonce = fresh_nonce(db_);
    using statement = sql::finish_inbound;
    auto row = db_.use(statement::text);
    row.bind_bytes(statement::source, from.source)
        .bind_bytes(statement::id, from.id)
        .bind_bytes_or_null(statement::content_hash, content_hash)
        .bind(statement::nonce, nonce)
        .bind(statement::now, time_of(db_));
    return row.step() && row.integer(0) == nonce;
}

void inbox::mark(std::int64_t position, inbox_state as)
{
    using statement = sql::mark_inbound;
    db_.use(statement::text)
        .bind(statement::number, position)
        .bind(statement::state, static_cast<std::int64_t>(as))
        .bind(statement::now, time_of(db_))
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
        .bind(statement::now, time_of(db_))
        .run();
}

void inbox::replace(std::int64_t seq, std::string_view payload, std::string_view headers_json)
{
    using statement = sql::replace_payload;
    db_.use(statement::text)
        .bind(statement::seq, seq)
        .bind_bytes(statement::payload, payload)
        .bind_bytes_or_null(statement::headers, headers_json)
        .run();
}

void inbox::follow(std::span<const std::int64_t> seqs, inbox_state as)
{
    const auto list = contract::json_of(seqs);
    using statement = sql::follow_inbound;
    db_.use(statement::text)
        .bind_ascii(statement::list, list)
        .bind(statement::state, static_cast<std::int64_t>(as))
        .bind(statement::now, time_of(db_))
        .run();
    if (as == inbox_state::done)
        db_.use(sql::follow_no_more::text).bind_ascii(sql::follow_no_more::list, list).run();
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
    return static_cast<std::size_t>(db_.use(statement::text)
                                        .bind(statement::now, time_of(db_))
                                        .bind(statement::age, std::int64_t{older_than.count()})
                                        .bind(statement::limit, static_cast<std::int64_t>(limit))
                                        .run());
}

} // namespace posthorn::mariadb
