// The kinds of session: our own transaction, a reading one, and the caller's.
#pragma once

#include "store/contract/connection_pool.hpp"
#include "store/contract/inbox_book.hpp"
#include "store/contract/job_book.hpp"
#include "store/contract/join_book.hpp"
#include "store/contract/polling_bell.hpp"
#include "store/contract/session.hpp"
#include "store/sqlite/command_keys.hpp"
#include "store/sqlite/connection.hpp"
#include "store/sqlite/inbox.hpp"
#include "store/sqlite/jobs.hpp"
#include "store/sqlite/joins.hpp"
#include "store/sqlite/keeper.hpp"
#include "store/sqlite/leases.hpp"
#include "store/sqlite/queue.hpp"
#include "store/sqlite/reader.hpp"
#include "store/sqlite/writer.hpp"

#include <memory>

namespace posthorn::sqlite {

using pool = contract::connection_pool<connection>;

/// What all of them share: the parts of the contract over one connection.
class session_base : public contract::session {
public:
    session_base(connection& db, const posthorn::environment& world, const posthorn::limits& bounds)
        : db_(db),
          world_(world),
          bounds_(bounds),
          joins_(db, world),
          inbox_(db, world),
          jobs_(db, world),
          runs_(db, world),
          timetable_(jobs_, runs_, joins_, writer_, reader_, world),
          book_(joins_, joins_, joins_, inbox_, timetable_, writer_, world),
          writer_(db, world, book_),
          queue_(db, world, book_),
          reader_(db, world),
          keeper_(db, world, book_),
          inbound_(inbox_, joins_, writer_, keeper_, world),
          keys_(db, world),
          leases_(db, world)
    {}

    contract::message_writer& writer() override { return writer_; }
    sqlite::queue& queue() override { return queue_; }
    contract::message_reader& reader() override { return reader_; }
    contract::message_keeper& keeper() override { return keeper_; }
    contract::join_book& joins() override { return book_; }
    contract::inbox_book& inbox() override { return inbound_; }
    contract::job_book& jobs() override { return timetable_; }
    contract::key_table& command_keys() override { return keys_; }
    sqlite::leases& leases() override { return leases_; }
    contract::settlement_follower& follower() override { return book_; }
    const posthorn::environment& environment() const override { return world_; }
    const posthorn::limits& limits() const override { return bounds_; }

    /// The connection itself. Throws: `error` with `no_transaction` when none is open on it.
    [[nodiscard]] virtual sqlite3* native_handle();

protected:
    connection& db_;

    [[nodiscard]] bool has_continued() const
    {
        return book_.has_enqueued() || timetable_.has_enqueued();
    }

private:
    const posthorn::environment& world_;
    const posthorn::limits& bounds_;
    sqlite::joins joins_;
    sqlite::inbox inbox_;
    sqlite::jobs jobs_;
    sqlite::runs runs_;
    contract::job_book timetable_;
    contract::join_book book_;
    sqlite::writer writer_;
    sqlite::queue queue_;
    sqlite::reader reader_;
    sqlite::keeper keeper_;
    contract::inbox_book inbound_;
    sqlite::command_keys keys_;
    sqlite::leases leases_;
};

/// A transaction of our own; `BEGIN IMMEDIATE` when it
/// writes, because a later upgrade could fail at once.
class owned_session final : public session_base {
public:
    enum class purpose { write, read };

    owned_session(pool::turn turn, purpose why, const posthorn::environment& world,
                  const posthorn::limits& bounds, contract::doorbell* after_commit = nullptr);
    ~owned_session() override;

    contract::message_writer& writer() override { return announced().session_base::writer(); }
    sqlite::queue& queue() override { return open().session_base::queue(); }
    contract::message_reader& reader() override { return open().session_base::reader(); }
    contract::message_keeper& keeper() override { return announced().session_base::keeper(); }
    contract::join_book& joins() override { return announced().session_base::joins(); }
    contract::inbox_book& inbox() override { return announced().session_base::inbox(); }
    contract::key_table& command_keys() override { return open().session_base::command_keys(); }
    contract::job_book& jobs() override { return announced().session_base::jobs(); }
    sqlite::leases& leases() override { return open().session_base::leases(); }
    contract::settlement_follower& follower() override { return open().session_base::follower(); }
    sqlite3* native_handle() override { return open().session_base::native_handle(); }

    void commit() override;
    void rollback() override;

private:
    // What comes through here may give workers something to do; claims and settlements do not.
    owned_session& announced()
    {
        announces_ = true;
        return open();
    }

    // After some errors SQLite has rolled back by itself; what came then would commit by itself.
    // And after others there is no connection any more.
    owned_session& open();

    pool::turn turn_;
    contract::doorbell* after_commit_;
    bool announces_ = false;
    bool usable_ = true;
};

} // namespace posthorn::sqlite
