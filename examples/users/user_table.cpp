// Four statements, and how a row becomes a user.
#include "user_table.hpp"

#include <posthorn/error.hpp>

#include <algorithm>
#include <stdexcept>

namespace users {
namespace {

namespace ph = posthorn;

constexpr auto create_sql = "CREATE TABLE IF NOT EXISTS users ("
                            "id VARCHAR(36) PRIMARY KEY, email VARCHAR(200) NOT NULL UNIQUE, "
                            "name VARCHAR(200) NOT NULL, state VARCHAR(20) NOT NULL, "
                            "code_hash VARCHAR(64) NOT NULL, code_valid_until BIGINT NOT NULL, "
                            "version BIGINT NOT NULL)";
constexpr auto select_sql =
    "SELECT id, email, name, state, code_hash, code_valid_until, version FROM users WHERE id = ?";
constexpr auto select_by_email_sql =
    "SELECT id, email, name, state, code_hash, code_valid_until, version FROM users "
    "WHERE email = ?";
constexpr auto insert_sql =
    "INSERT INTO users (id, email, name, state, code_hash, code_valid_until, version) "
    "VALUES (?, ?, ?, ?, ?, ?, 1)";
constexpr auto update_sql =
    "UPDATE users SET name = ?, state = ?, code_hash = ?, code_valid_until = ?, "
    "version = version + 1 WHERE id = ? AND version = ?";

std::string microseconds(ph::timestamp when)
{
    return std::to_string(when.time_since_epoch().count());
}

user_state state_of(const std::string& name)
{
    const auto* found = std::ranges::find(user_state_names, name);
    if (found == user_state_names.end())
        throw std::runtime_error("a user has the state '" + name + "', which nobody knows");
    return static_cast<user_state>(found - user_state_names.begin());
}

std::optional<user> first_of(const sql::answer& got)
{
    if (got.rows.empty())
        return std::nullopt;
    const auto& row = got.rows.front();
    return user{.id = row[0],
                .email = row[1],
                .name = row[2],
                .state = state_of(row[3]),
                .code_hash = row[4],
                .code_valid_until = ph::timestamp(ph::duration(std::stoll(row[5]))),
                .version = std::stoll(row[6])};
}

} // namespace

user_table::user_table(ph::store& store, std::string_view url) : sql_(url)
{
    auto tx = store.begin();
    sql_.run(tx, create_sql + sql_.table_options());
    if (!sql_.tables_commit())
        tx.commit();
}

std::optional<user> user_table::find(ph::transaction& tx, const std::string& id) const
{
    return first_of(sql_.run(tx, select_sql, {id}));
}

std::optional<user> user_table::find_by_email(ph::transaction& tx, const std::string& email) const
{
    return first_of(sql_.run(tx, select_by_email_sql, {email}));
}

void user_table::add(ph::unit_of_work& work, user& who) const
{
    work.track(who.events);
    work.write([this, &who](ph::transaction& tx) {
        const auto until = microseconds(who.code_valid_until);
        return sql_
            .run(tx, insert_sql,
                 {who.id, who.email, who.name, who.state_name(), who.code_hash, until})
            .changed;
    });
}

void user_table::update(ph::unit_of_work& work, user& who) const
{
    work.track(who.events);
    work.write([this, &who](ph::transaction& tx) {
        const auto until = microseconds(who.code_valid_until);
        const auto changed = sql_.run(tx, update_sql,
                                      {who.name, who.state_name(), who.code_hash, until, who.id,
                                       std::to_string(who.version)})
                                 .changed;
        if (changed == 0)
            throw ph::error(ph::error_code::serialization,
                            "the user was changed by somebody else meanwhile", {.retryable = true});
        return changed;
    });
}

} // namespace users
