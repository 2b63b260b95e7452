// Keys of commands on PostgreSQL: one statement reserves, whoever else is at it.
#include "store/postgres/command_keys.hpp"

#include "store/postgres/statements.hpp"

#include <string>

namespace posthorn::postgres {
namespace {

key_record read_key(const rows& found, int row)
{
    key_record result;
    result.command = found.text(row, 0);
    result.key = found.text(row, 1);
    result.fingerprint = found.text(row, 2);
    result.state = static_cast<key_state>(found.integer(row, 3));
    result.epoch = found.integer(row, 4);
    result.created_at = found.time(row, 6);
    result.lock_until = found.time(row, 7);
    result.ended_at = found.time_or_none(row, 8);
    result.expires_at = found.time(row, 9);
    result.error = found.text(row, 10);
    return result;
}

arguments for_reserving(const contract::key_request& what, const environment& world)
{
    using statement = sql::reserve_key;
    arguments with;
    set_now(with, statement::now, world);
    with.set_text(statement::command, what.command)
        .set_text(statement::request_key, what.key)
        .set_text(statement::fingerprint, what.fingerprint)
        .set(statement::token, what.token)
        .set(statement::lock, what.lock)
        .set(statement::keep, what.keep);
    return with;
}

contract::reserved_key reserved(const rows& found, const contract::key_request& what)
{
    contract::reserved_key result{.row = read_key(found, 0),
                                  .ours = found.integer(0, 5) == what.token};
    result.row.result = found.text(0, 11);
    return result;
}

template <typename Statement>
arguments held(const contract::key_request& which, const environment& world)
{
    arguments with;
    set_now(with, Statement::now, world);
    with.set_text(Statement::command, which.command)
        .set_text(Statement::request_key, which.key)
        .set(Statement::token, which.token);
    return with;
}

} // namespace

contract::reserved_key command_keys::reserve(const contract::key_request& what)
{
    return reserved(talk_.run(sql::reserve_key::text, for_reserving(what, world_)), what);
}

contract::reserved_key reserve_at_once(connection& db, const contract::key_request& what,
                                       const environment& world)
{
    return reserved(db.run(sql::reserve_key::text, for_reserving(what, world), commit_sent::yes),
                    what);
}

bool command_keys::complete(const contract::key_request& which, std::string_view result)
{
    using statement = sql::complete_key;
    auto with = held<statement>(which, world_);
    with.set_text(statement::result, result).set(statement::keep, which.keep);
    return talk_.run(statement::text, with).changed() > 0;
}

bool command_keys::fail(const contract::key_request& which, std::string_view error)
{
    using statement = sql::fail_key;
    auto with = held<statement>(which, world_);
    with.set_text(statement::error, error);
    return talk_.run(statement::text, with).changed() > 0;
}

std::optional<key_record> command_keys::find(std::string_view command, std::string_view key)
{
    using statement = sql::find_key;
    arguments with;
    with.set_text(statement::command, command).set_text(statement::request_key, key);
    const auto found = talk_.run(statement::text, with);
    if (found.empty())
        return std::nullopt;
    auto result = read_key(found, 0);
    result.result = found.text(0, 11);
    return result;
}

std::vector<key_record> command_keys::list(const key_filter& filter)
{
    using statement = sql::list_keys;
    arguments with;
    with.set_text(statement::after_command, filter.after_command)
        .set_text(statement::after_key, filter.after_key)
        .set_text_or_null(statement::command, filter.command)
        .set(statement::limit, static_cast<std::int64_t>(filter.limit));
    if (filter.state)
        with.set(statement::state, static_cast<std::int64_t>(*filter.state));
    const auto found = talk_.run(statement::text, with);
    std::vector<key_record> result;
    for (int row = 0; row < found.size(); ++row)
        result.push_back(read_key(found, row));
    return result;
}

bool command_keys::release(std::string_view command, std::string_view key)
{
    using statement = sql::release_key;
    arguments with;
    with.set_text(statement::command, command).set_text(statement::request_key, key);
    return talk_.run(statement::text, with).changed() > 0;
}

std::size_t command_keys::remove_expired(std::size_t limit)
{
    using statement = sql::remove_expired_keys;
    arguments with;
    set_now(with, statement::now, world_);
    with.set(statement::limit, static_cast<std::int64_t>(limit));
    return talk_.run(statement::text, with).changed();
}

} // namespace posthorn::postgres
