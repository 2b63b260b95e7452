// All or nothing inside a transaction that may go on after an error.
#pragma once

#include "store/mariadb/connection.hpp"
#include <posthorn/error.hpp>

#include <string>
#include <string_view>

namespace posthorn::mariadb {

class savepoint {
public:
    /// One inside another has another name: an equal name would replace the outer one.
    explicit savepoint(connection& db, std::string_view name = "posthorn_many")
        : db_(db), name_(name)
    {
        db_.execute("SAVEPOINT " + name_, "set savepoint");
        // Its answer says for certain whether there is a transaction. Where an error was forgotten
        // since, nobody could have known before.
        db_.require_transaction();
    }
    savepoint(const savepoint&) = delete;
    savepoint& operator=(const savepoint&) = delete;

    void keep()
    {
        db_.execute("RELEASE SAVEPOINT " + name_, "release savepoint");
        kept_ = true;
    }

    ~savepoint()
    {
        // A deadlock may have ended the whole transaction; then there is nothing to return to.
        if (kept_ || !db_.in_transaction())
            return;
        try {
            db_.execute("ROLLBACK TO SAVEPOINT " + name_, "return to savepoint");
        } catch (const error&) {
            // The error that led here is on its way already, and a transaction that cannot be
            // rolled back partly has lost its connection.
        }
    }

private:
    connection& db_;
    std::string name_;
    bool kept_ = false;
};

} // namespace posthorn::mariadb
