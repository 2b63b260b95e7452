// All or nothing inside a transaction that may go on after an error.
#pragma once

#include "store/mariadb/connection.hpp"
#include <posthorn/error.hpp>

namespace posthorn::mariadb {

class savepoint {
public:
    explicit savepoint(connection& db) : db_(db)
    {
        db_.execute("SAVEPOINT posthorn_many", "set savepoint");
        // Its answer says for certain whether there is a transaction. Where an error was forgotten
        // since, nobody could have known before.
        db_.require_transaction();
    }
    savepoint(const savepoint&) = delete;
    savepoint& operator=(const savepoint&) = delete;

    void keep()
    {
        db_.execute("RELEASE SAVEPOINT posthorn_many", "release savepoint");
        kept_ = true;
    }

    ~savepoint()
    {
        // A deadlock may have ended the whole transaction; then there is nothing to return to.
        if (kept_ || !db_.in_transaction())
            return;
        try {
            db_.execute("ROLLBACK TO SAVEPOINT posthorn_many", "return to savepoint");
        } catch (const error&) {
            // The error that led here is on its way already, and a transaction that cannot be
            // rolled back partly has lost its connection.
        }
    }

private:
    connection& db_;
    bool kept_ = false;
};

} // namespace posthorn::mariadb
