// Beginning and ending transactions of our own.
#include "store/mariadb/sessions.hpp"

#include <posthorn/error.hpp>

#include <utility>

namespace posthorn::mariadb {

owned_session::owned_session(pool& from, pool::turn turn, purpose why, ready_front& front,
                             const posthorn::environment& world, const posthorn::limits& bounds)
    : session_base(*turn, &front, world, bounds), pool_(from), turn_(std::move(turn))
{
    try {
        if (why == purpose::read)
            db_.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "begin");
        db_.execute(why == purpose::write ? "START TRANSACTION READ WRITE"
                                          : "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
                    "begin");
    } catch (...) {
        discard();
        throw;
    }
}

owned_session::~owned_session()
{
    if (!open_)
        return;
    try {
        db_.execute("ROLLBACK", "rollback");
    } catch (const error&) {
        discard(); // the server rolls back when the connection goes
    }
}

void owned_session::commit()
{
    try {
        db_.execute("COMMIT", "commit");
        open_ = false;
    } catch (const error& failure) {
        if (failure.poisons_connection())
            discard();
        throw;
    }
}

void owned_session::rollback()
{
    try {
        db_.execute("ROLLBACK", "rollback");
        open_ = false;
    } catch (const error&) {
        discard(); // as above
    }
}

void owned_session::discard()
{
    open_ = false;
    turn_.discard();
    pool_.drop_idle();
}

} // namespace posthorn::mariadb
