// The repository of users: it reads at once, and says what is to be written. It never commits.
#pragma once

#include "sql.hpp"
#include "user.hpp"
#include <posthorn/store.hpp>
#include <posthorn/unit_of_work.hpp>

#include <optional>
#include <string>

namespace users {

/// Threads: safe to use from any.
class user_table {
public:
    /// Makes the table if it is not there.
    user_table(posthorn::store& store, std::string_view url);

    [[nodiscard]] std::optional<user> find(posthorn::transaction& tx, const std::string& id) const;
    [[nodiscard]] std::optional<user> find_by_email(posthorn::transaction& tx,
                                                    const std::string& email) const;

    /// Lifetime: the user must outlive the saving. Saving throws `duplicate_row` if the address is
    /// taken.
    void add(posthorn::unit_of_work& work, user& who) const;

    /// As above. Saving has the transaction run again if somebody else has changed the user.
    void update(posthorn::unit_of_work& work, user& who) const;

private:
    sql sql_;
};

} // namespace users
