// The kinds of session: our own transaction, a reading one, and the caller's.
#pragma once

#include "store/contract/connection_pool.hpp"
#include "store/contract/inbox_book.hpp"
#include "store/contract/job_book.hpp"
#include "store/contract/join_book.hpp"
#include "store/contract/polling_bell.hpp"
#include "store/contract/session.hpp"
#include "store/postgres/command_keys.hpp"
#include "store/postgres/conversation.hpp"
#include "store/postgres/inbox.hpp"
#include "store/postgres/jobs.hpp"
#include "store/postgres/joins.hpp"
#include "store/postgres/keeper.hpp"
#include "store/postgres/leases.hpp"
#include "store/postgres/queue.hpp"
#include "store/postgres/reader.hpp"
#include "store/postgres/writer.hpp"

#include <memory>

namespace posthorn::postgres {

using pool = contract::connection_pool<connection>;

/// What all of them share: the parts of the contract over one conversation.
class session_base : public contract::session {
public:
    session_base(connection& db, conversation::purpose why, const posthorn::environment& world,
                 const posthorn::limits& bounds, frontier& front, ringing bell = ringing::yes)
        : talk_(db, why),
          world_(world),
          bounds_(bounds),
          joins_(talk_, world),
          inbox_(talk_, world),
          jobs_(talk_, world),
          runs_(talk_, world),
          timetable_(jobs_, runs_, joins_, writer_, reader_, world),
          book_(joins_, joins_, joins_, inbox_, timetable_, writer_, world),
          writer_(talk_, world, bell, book_),
          queue_(talk_, world, front, book_),
          reader_(talk_, world, front),
          keeper_(talk_, world, book_),
          inbound_(inbox_, joins_, writer_, keeper_, world),
          keys_(talk_, world),
          leases_(talk_, world)
    {}

    postgres::writer& writer() override { return writer_; }
    postgres::queue& queue() override { return queue_; }
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

    /// The connection, with the transaction begun on it.
    [[nodiscard]] virtual PGconn* native()
    {
        talk_.begin_for_caller();
        return talk_.db().handle();
    }

protected:
    conversation talk_;

private:
    const posthorn::environment& world_;
    const posthorn::limits& bounds_;
    postgres::joins joins_;
    postgres::inbox inbox_;
    postgres::jobs jobs_;
    postgres::runs runs_;
    contract::job_book timetable_;
    contract::join_book book_;
    postgres::writer writer_;
    postgres::queue queue_;
    postgres::reader reader_;
    postgres::keeper keeper_;
    contract::inbox_book inbound_;
    postgres::command_keys keys_;
    postgres::leases leases_;
};

/// A transaction of our own.
class owned_session final : public session_base {
public:
    /// `turn` is of the pool; `bell` is rung when messages were added, if there is one.
    owned_session(pool& from, pool::turn turn, conversation::purpose why,
                  const posthorn::environment& world, const posthorn::limits& bounds,
                  frontier& front, contract::doorbell* bell);
    ~owned_session() override;

    void commit() override;
    void rollback() override { talk_.rollback(); }

private:
    pool& pool_;
    pool::turn turn_;
    contract::doorbell* bell_;
};

/// A connection from the pool that the server has not left.
[[nodiscard]] pool::turn take_alive(pool& from);

/// Gives a connection back in a state that the next user expects, or not at all.
void leave_clean(pool& to, pool::turn& which) noexcept;

} // namespace posthorn::postgres
