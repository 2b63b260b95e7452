// Beginning and ending transactions of our own.
#include "store/mariadb/sessions.hpp"

#include "store/contract/lent.hpp"
#include <posthorn/error.hpp>
#include <posthorn/mariadb.hpp>

#include <utility>

namespace posthorn::mariadb {

MYSQL* session_base::native_handle()
{
    contract::require_transaction(db_.in_transaction(), "START TRANSACTION");
    return db_.handle();
}

owned_session::owned_session(pool& from, pool::turn turn, purpose why, shared_hints& hints,
                             const posthorn::environment& world, const posthorn::limits& bounds)
    : session_base(*turn, &hints.front, world, bounds),
      pool_(from),
      turn_(std::move(turn)),
      hints_(hints)
{
    try {
        if (why == purpose::read)
            db_.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "begin");
        db_.wait_for_locks(why == purpose::work ? connection::patience::none
                                                : connection::patience::lock_timeout);
        db_.execute(why == purpose::read ? "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
                                         : "START TRANSACTION READ WRITE",
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

owned_session& owned_session::open()
{
    if (!open_)
        throw error(error_code::no_transaction,
                    "this transaction has ended: its commit failed, or lost its connection");
    db_.require_transaction();
    return *this;
}

void owned_session::commit()
{
    (void)open(); // without a transaction COMMIT does nothing, and calls that a success
    try {
        db_.execute("COMMIT", "commit");
        open_ = false;
    } catch (const error& failure) {
        if (failure.poisons_connection())
            discard();
        throw;
    }
    if (has_inserted())
        hints_.bell->ring();
}

void owned_session::rollback()
{
    if (!open_)
        return;
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

st_mysql* native_handle(transaction& tx)
{
    auto* const ours = dynamic_cast<session_base*>(&tx.session());
    if (ours == nullptr)
        throw error(error_code::invalid_argument, "this is not a transaction on MariaDB");
    return ours->native_handle();
}

} // namespace posthorn::mariadb
