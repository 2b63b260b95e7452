// The kinds of session: our own transaction, a reading one, and the caller's.
#pragma once

#include "store/contract/connection_pool.hpp"
#include "store/contract/inbox_book.hpp"
#include "store/contract/job_book.hpp"
#include "store/contract/join_book.hpp"
#include "store/contract/polling_bell.hpp"
#include "store/contract/session.hpp"
#include "store/mariadb/command_keys.hpp"
#include "store/mariadb/connection.hpp"
#include "store/mariadb/inbox.hpp"
#include "store/mariadb/jobs.hpp"
#include "store/mariadb/joins.hpp"
#include "store/mariadb/keeper.hpp"
#include "store/mariadb/leases.hpp"
#include "store/mariadb/queue.hpp"
#include "store/mariadb/reader.hpp"
#include "store/mariadb/writer.hpp"

#include <memory>

namespace posthorn::mariadb {

/// What the sessions of one open store tell each other; nothing depends on it but speed.
struct shared_hints {
    ready_front front;
    /// Shared with the bells of workers, which may outlive the store's handle.
    std::shared_ptr<contract::doorbell> bell = std::make_shared<contract::doorbell>();
};

using pool = contract::connection_pool<connection>;

/// What all of them share: the parts of the contract over one connection.
class session_base : public contract::session {
public:
    session_base(connection& db, ready_front* front, const posthorn::environment& world,
                 const posthorn::limits& bounds, view how = view::newest)
        : db_(db),
          world_(world),
          bounds_(bounds),
          joins_(db, how),
          inbox_(db, how),
          jobs_(db),
          runs_(db),
          timetable_(jobs_, runs_, joins_, writer_, reader_, world),
          book_(joins_, joins_, joins_, inbox_, timetable_, writer_, world),
          writer_(db, book_),
          queue_(db, front, &book_),
          reader_(db),
          keeper_(db, book_),
          inbound_(inbox_, joins_, writer_, keeper_, world),
          keys_(db),
          leases_(db)
    {}

    mariadb::writer& writer() override { return writer_; }
    mariadb::queue& queue() override { return queue_; }
    contract::message_reader& reader() override { return reader_; }
    contract::message_keeper& keeper() override { return keeper_; }
    contract::join_book& joins() override { return book_; }
    contract::inbox_book& inbox() override { return inbound_; }
    contract::job_book& jobs() override { return timetable_; }
    contract::key_table& command_keys() override { return keys_; }
    contract::lease_table& leases() override { return leases_; }
    contract::settlement_follower& follower() override { return book_; }
    const posthorn::environment& environment() const override { return world_; }
    const posthorn::limits& limits() const override { return bounds_; }

    /// The connection, whose transaction is open.
    [[nodiscard]] virtual MYSQL* native_handle();

protected:
    [[nodiscard]] bool has_inserted() const
    {
        return writer_.has_inserted() || book_.has_enqueued();
    }

    connection& db_;

private:
    const posthorn::environment& world_;
    const posthorn::limits& bounds_;
    mariadb::joins joins_;
    mariadb::inbox inbox_;
    mariadb::jobs jobs_;
    mariadb::runs runs_;
    contract::job_book timetable_;
    contract::join_book book_;
    mariadb::writer writer_;
    mariadb::queue queue_;
    mariadb::reader reader_;
    mariadb::keeper keeper_;
    contract::inbox_book inbound_;
    mariadb::command_keys keys_;
    mariadb::leases leases_;
};

/// A transaction of our own. A connection that is lost, or whose transaction cannot be ended, does
/// not go back to the pool, and neither do the idle ones: they are probably lost too.
class owned_session final : public session_base {
public:
    enum class purpose { write, read, work };

    owned_session(pool& from, pool::turn turn, purpose why, shared_hints& hints,
                  const posthorn::environment& world, const posthorn::limits& bounds);
    owned_session(const owned_session&) = delete;
    owned_session& operator=(const owned_session&) = delete;
    ~owned_session() override;

    mariadb::writer& writer() override { return open().session_base::writer(); }
    mariadb::queue& queue() override { return open().session_base::queue(); }
    contract::message_reader& reader() override { return open().session_base::reader(); }
    contract::message_keeper& keeper() override { return open().session_base::keeper(); }
    contract::join_book& joins() override { return open().session_base::joins(); }
    contract::inbox_book& inbox() override { return open().session_base::inbox(); }
    contract::job_book& jobs() override { return open().session_base::jobs(); }
    contract::key_table& command_keys() override { return open().session_base::command_keys(); }
    contract::lease_table& leases() override { return open().session_base::leases(); }
    contract::settlement_follower& follower() override { return open().session_base::follower(); }
    MYSQL* native_handle() override { return open().session_base::native_handle(); }

    void commit() override;

    /// Also after a commit that failed, whatever became of the connection.
    void rollback() override;

private:
    // After some errors the server has rolled back by itself; what came then would commit by
    // itself. And after others there is no connection any more.
    owned_session& open();

    void discard();

    pool& pool_;
    pool::turn turn_;
    shared_hints& hints_;
    bool open_ = true; ///< the transaction has not ended
};

} // namespace posthorn::mariadb
