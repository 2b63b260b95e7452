// Beginning and ending transactions of our own.
#include "store/sqlite/sessions.hpp"

#include "store/contract/lent.hpp"
#include "store/sqlite/statements.hpp"
#include <posthorn/error.hpp>
#include <posthorn/sqlite.hpp>

#include <utility>

namespace posthorn::sqlite {

sqlite3* session_base::native_handle()
{
    contract::require_transaction(db_.in_transaction(), "BEGIN IMMEDIATE");
    return db_.handle();
}

sqlite3* native_handle(transaction& tx)
{
    auto* const ours = dynamic_cast<session_base*>(&tx.session());
    if (ours == nullptr)
        throw error(error_code::invalid_argument,
                    "this transaction is not on SQLite: it has no connection of that kind");
    return ours->native_handle();
}

owned_session::owned_session(pool::turn turn, purpose why, const posthorn::environment& world,
                             const posthorn::limits& bounds, contract::doorbell* after_commit)
    : session_base(*turn, world, bounds), turn_(std::move(turn)), after_commit_(after_commit)
{
    db_.use(why == purpose::write ? sql::begin_writing::text : sql::begin_reading::text).run();
}

owned_session::~owned_session()
{
    if (!usable_)
        return;
    if (db_.in_transaction())
        sqlite3_exec(db_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
    // A statement of the application's that it has not read to its end would keep its view of the
    // database, and whoever gets the connection next would see nothing newer.
    for (auto* each = sqlite3_next_stmt(db_.handle(), nullptr); each != nullptr;
         each = sqlite3_next_stmt(db_.handle(), each))
        if (sqlite3_stmt_busy(each) != 0)
            sqlite3_reset(each);
}

void owned_session::commit()
{
    (void)open();
    try {
        db_.use(sql::commit::text).run();
    } catch (const error& failure) {
        // An owned store in memory would vanish with its connection;
        // it cannot meet I/O errors either.
        if (failure.poisons_connection()) {
            usable_ = false;
            turn_.discard();
        }
        throw;
    }
    if ((announces_ || has_continued()) && after_commit_ != nullptr)
        after_commit_->ring();
}

owned_session& owned_session::open()
{
    if (!usable_ || !db_.in_transaction())
        throw error(error_code::no_transaction,
                    "this transaction has ended: it was committed or rolled back, if not by you, "
                    "then by SQLite after an error");
    return *this;
}

void owned_session::rollback()
{
    // After some errors SQLite has rolled back by itself.
    if (usable_ && db_.in_transaction())
        db_.execute("ROLLBACK", "rollback");
}

} // namespace posthorn::sqlite
