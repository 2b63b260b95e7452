// Keys of commands on MariaDB: one statement reserves, and its first assignment decides.
#include "store/mariadb/command_keys.hpp"

#include "store/contract/row_readers.hpp"
#include "store/mariadb/statements.hpp"
#include <posthorn/error.hpp>

#include <string>
#include <utility>
#include <vector>

namespace posthorn::mariadb {
namespace {

std::optional<timestamp> time_at(connection& db)
{
    return db.environment().clock->database_time();
}

} // namespace

contract::reserved_key command_keys::reserve(const contract::key_request& what)
{
    using statement = sql::reserve_key;
    auto row = db_.use(statement::text);
    row.bind_bytes(statement::command, what.command)
        .bind_bytes(statement::request_key, what.key)
        .bind_bytes(statement::fingerprint, what.fingerprint)
        .bind(statement::token, what.token)
        .bind(statement::now, time_at(db_))
        .bind(statement::lock, std::int64_t{what.lock.count()})
        .bind(statement::keep, std::int64_t{what.keep.count()});
    if (!row.step())
        throw error(error_code::internal, "a reserved key is not there");
    contract::reserved_key result{.row = contract::read_key(row),
                                  .ours = row.integer(5) == what.token};
    result.row.result = row.text(11);
    return result;
}

bool command_keys::complete(const contract::key_request& which, std::string_view result)
{
    using statement = sql::complete_key;
    return db_.use(statement::text)
               .bind_bytes(statement::command, which.command)
               .bind_bytes(statement::request_key, which.key)
               .bind(statement::token, which.token)
               .bind_bytes(statement::result, result)
               .bind(statement::now, time_at(db_))
               .bind(statement::keep, std::int64_t{which.keep.count()})
               .run() > 0;
}

bool command_keys::fail(const contract::key_request& which, std::string_view error)
{
    using statement = sql::fail_key;
    return db_.use(statement::text)
               .bind_bytes(statement::command, which.command)
               .bind_bytes(statement::request_key, which.key)
               .bind(statement::token, which.token)
               .bind_bytes(statement::error, error)
               .bind(statement::now, time_at(db_))
               .run() > 0;
}

std::optional<key_record> command_keys::find(std::string_view command, std::string_view key)
{
    using statement = sql::find_key;
    auto row = db_.use(statement::text);
    row.bind_bytes(statement::command, command).bind_bytes(statement::request_key, key);
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
    row.bind_bytes(statement::after_command, filter.after_command)
        .bind_bytes(statement::after_key, filter.after_key)
        .bind_bytes_or_null(statement::command, filter.command)
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
    return db_.use(statement::text)
               .bind_bytes(statement::command, command)
               .bind_bytes(statement::request_key, key)
               .run() > 0;
}

std::size_t command_keys::remove_expired(std::size_t limit)
{
    std::vector<std::pair<std::string, std::string>> expired;
    {
        using statement = sql::expired_keys;
        auto row = db_.use(statement::text);
        row.bind(statement::now, time_at(db_))
            .bind(statement::limit, static_cast<std::int64_t>(limit));
        while (row.step())
            expired.emplace_back(row.text(0), row.text(1));
    }
    if (expired.empty())
        return 0;
    using statement = sql::release_key;
    auto rows = db_.use(statement::text);
    for (const auto& [command, key] : expired)
        rows.bind_bytes(statement::command, command)
            .bind_bytes(statement::request_key, key)
            .end_row();
    rows.run();
    return expired.size();
}

} // namespace posthorn::mariadb
