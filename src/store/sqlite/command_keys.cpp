// Keys of commands on SQLite.
#include "store/sqlite/command_keys.hpp"

#include "store/contract/row_readers.hpp"
#include "store/sqlite/statements.hpp"
#include <posthorn/error.hpp>

#include <string>

namespace posthorn::sqlite {
namespace {} // namespace

contract::reserved_key command_keys::reserve(const contract::key_request& what)
{
    const auto now = world_.clock->now();
    {
        using statement = sql::reserve_key;
        db_.use(statement::text)
            .bind_text(statement::command, what.command)
            .bind_text(statement::request_key, what.key)
            .bind_text(statement::fingerprint, what.fingerprint)
            .bind(statement::token, what.token)
            .bind(statement::now, now)
            .bind(statement::lock_until, now + what.lock)
            .bind(statement::expires_at, now + what.keep)
            .run();
    }
    using statement = sql::find_key;
    auto row = db_.use(statement::text);
    row.bind_text(statement::command, what.command).bind_text(statement::request_key, what.key);
    if (!row.step())
        throw error(error_code::internal, "a reserved key is not there");
    contract::reserved_key result{.row = contract::read_key(row),
                                  .ours = row.integer(5) == what.token};
    result.row.result = row.text(11);
    return result;
}

bool command_keys::complete(const contract::key_request& which, std::string_view result)
{
    const auto now = world_.clock->now();
    using statement = sql::complete_key;
    db_.use(statement::text)
        .bind_text(statement::command, which.command)
        .bind_text(statement::request_key, which.key)
        .bind(statement::token, which.token)
        .bind_blob(statement::result, result)
        .bind(statement::now, now)
        .bind(statement::expires_at, now + which.keep)
        .run();
    return db_.changes() > 0;
}

bool command_keys::fail(const contract::key_request& which, std::string_view error)
{
    using statement = sql::fail_key;
    db_.use(statement::text)
        .bind_text(statement::command, which.command)
        .bind_text(statement::request_key, which.key)
        .bind(statement::token, which.token)
        .bind_text(statement::error, error)
        .bind(statement::now, world_.clock->now())
        .run();
    return db_.changes() > 0;
}

std::optional<key_record> command_keys::find(std::string_view command, std::string_view key)
{
    using statement = sql::find_key;
    auto row = db_.use(statement::text);
    row.bind_text(statement::command, command).bind_text(statement::request_key, key);
    if (!row.step())
        return std::nullopt;
    auto result = contract::read_key(row);
    result.result = row.text(11);
    return result;
}

std::vector<key_record> command_keys::list(const key_filter& filter)
{
    using statement = sql::list_keys;
    auto row = db_.use(statement::text);
    row.bind_text(statement::after_command, filter.after_command)
        .bind_text(statement::after_key, filter.after_key)
        .bind_text_or_null(statement::command, filter.command)
        .bind(statement::limit, static_cast<std::int64_t>(filter.limit));
    if (filter.state)
        row.bind(statement::state, static_cast<std::int64_t>(*filter.state));
    std::vector<key_record> result;
    while (row.step())
        result.push_back(contract::read_key(row));
    return result;
}

bool command_keys::release(std::string_view command, std::string_view key)
{
    using statement = sql::release_key;
    db_.use(statement::text)
        .bind_text(statement::command, command)
        .bind_text(statement::request_key, key)
        .run();
    return db_.changes() > 0;
}

std::size_t command_keys::remove_expired(std::size_t limit)
{
    using statement = sql::remove_expired_keys;
    db_.use(statement::text)
        .bind(statement::now, world_.clock->now())
        .bind(statement::limit, static_cast<std::int64_t>(limit))
        .run();
    return static_cast<std::size_t>(db_.changes());
}

} // namespace posthorn::sqlite
