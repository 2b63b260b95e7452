// The inbox on PostgreSQL: a row that two want to add is waited for at its unique key.
#include "store/postgres/inbox.hpp"

#include "store/postgres/statements.hpp"

#include <string>

namespace posthorn::postgres {
namespace {

inbox_record read_inbound(const rows& found, int row)
{
    inbox_record result;
    result.position = found.integer(row, 0);
    result.from = {.source = std::string(found.text(row, 1)),
                   .id = std::string(found.text(row, 2))};
    result.state = static_cast<inbox_state>(found.integer(row, 3));
    if (!found.is_null(row, 4))
        result.message = found.id(row, 4);
    result.content_hash = found.text(row, 5);
    result.seen_at = found.time(row, 6);
    result.settled_at = found.time_or_none(row, 7);
    return result;
}

template <typename Statement>
std::vector<inbox_record> page_of_inbound(conversation& talk, const inbox_filter& filter)
{
    arguments with;
    if (filter.state)
        with.set(Statement::state, static_cast<std::int64_t>(*filter.state));
    with.set_text_or_null(Statement::source, filter.source)
        .set(Statement::after, filter.after_position)
        .set(Statement::limit, static_cast<std::int64_t>(filter.limit));
    const auto found = talk.run(Statement::text, with);
    std::vector<inbox_record> result;
    for (int row = 0; row < found.size(); ++row)
        result.push_back(read_inbound(found, row));
    return result;
}

template <typename Statement>
arguments about(const inbound& from, std::string_view content_hash, const environment& world)
{
    arguments with;
    set_now(with, Statement::now, world);
    with.set_text(Statement::source, from.source)
        .set_text(Statement::id, from.id)
        .set_text(Statement::content_hash, content_hash);
    return with;
}

} // namespace

std::optional<inbox_record> inbox::find(const inbound& from)
{
    using statement = sql::find_inbound;
    arguments with;
    with.set_text(statement::source, from.source).set_text(statement::id, from.id);
    const auto found = talk_.run(statement::text, with);
    return found.empty() ? std::nullopt : std::optional{read_inbound(found, 0)};
}

contract::seen_inbound inbox::see(const inbound& from, std::string_view content_hash)
{
    using statement = sql::see_inbound;
    const auto found = talk_.run(statement::text, about<statement>(from, content_hash, world_));
    return {.row = read_inbound(found, 0), .fresh = found.yes(0, 8)};
}

bool inbox::finish(const inbound& from, std::string_view content_hash)
{
    using statement = sql::finish_inbound;
    return talk_.run(statement::text, about<statement>(from, content_hash, world_)).changed() > 0;
}

void inbox::mark(std::int64_t position, inbox_state as)
{
    using statement = sql::mark_inbound;
    arguments with;
    set_now(with, statement::now, world_);
    with.set(statement::number, position).set(statement::state, static_cast<std::int64_t>(as));
    talk_.run(statement::text, with);
}

void inbox::carry(std::int64_t position, const locator& by)
{
    arguments earlier;
    earlier.set(sql::forget_carrier::number, position);
    arguments row;
    row.set(sql::carry_inbound::number, position)
        .set(sql::carry_inbound::seq, by.position)
        .set(sql::carry_inbound::message, by.id);
    arguments followed;
    set_now(followed, sql::follow_carrier::now, world_);
    followed.set(sql::follow_carrier::seq, by.position).set(sql::follow_carrier::message, by.id);
    talk_.run_all({{sql::forget_carrier::text, earlier},
                   {sql::carry_inbound::text, row},
                   {sql::follow_carrier::text, followed}});
}

void inbox::replace(std::int64_t seq, std::string_view payload, std::string_view headers_json)
{
    using statement = sql::replace_payload;
    arguments with;
    with.set(statement::seq, seq)
        .set_text(statement::payload, payload)
        .set_text(statement::headers, headers_json);
    talk_.run(statement::text, with);
}

void inbox::follow(std::span<const std::int64_t> seqs, inbox_state as)
{
    using statement = sql::follow_inbound;
    arguments with;
    set_now(with, statement::now, world_);
    with.set(statement::seqs, seqs).set(statement::state, static_cast<std::int64_t>(as));
    if (as != inbox_state::done) {
        talk_.run(statement::text, with);
        return;
    }
    arguments no_more;
    no_more.set(sql::follow_no_more::seqs, seqs);
    talk_.run_all({{statement::text, with}, {sql::follow_no_more::text, no_more}});
}

std::vector<inbox_record> inbox::list(const inbox_filter& filter)
{
    if (filter.state && *filter.state != inbox_state::done)
        return page_of_inbound<sql::list_unfinished_inbound>(talk_, filter);
    return page_of_inbound<sql::list_inbound>(talk_, filter);
}

std::size_t inbox::remove_done(duration older_than, std::size_t limit)
{
    using statement = sql::remove_done_inbound;
    arguments with;
    set_now(with, statement::now, world_);
    with.set(statement::age, older_than).set(statement::limit, static_cast<std::int64_t>(limit));
    return talk_.run(statement::text, with).changed();
}

} // namespace posthorn::postgres
