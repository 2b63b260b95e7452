// Taking connections that live, and giving them back clean.
#include "store/postgres/sessions.hpp"

#include <utility>

namespace posthorn::postgres {

pool::turn take_alive(pool& from)
{
    for (;;) {
        auto turn = from.take();
        if (turn->is_alive())
            return turn;
        turn.discard();
    }
}

void leave_clean(pool& to, pool::turn& which) noexcept
{
    auto* db = which->handle();
    which->roll_back_quietly();
    const bool clean = PQpipelineStatus(db) == PQ_PIPELINE_OFF && PQstatus(db) == CONNECTION_OK &&
                       PQtransactionStatus(db) == PQTRANS_IDLE;
    if (clean)
        return;
    const bool lost = PQstatus(db) != CONNECTION_OK;
    which.discard();
    if (lost) // then the others are probably lost as well
        to.drop_idle();
}

owned_session::owned_session(pool& from, pool::turn turn, conversation::purpose why,
                             const posthorn::environment& world, const posthorn::limits& bounds,
                             frontier& front, contract::doorbell* bell)
    : session_base(*turn, why, world, bounds, front),
      pool_(from),
      turn_(std::move(turn)),
      bell_(bell)
{}

owned_session::~owned_session()
{
    leave_clean(pool_, turn_);
}

void owned_session::commit()
{
    talk_.commit();
    if (bell_ != nullptr && writer().has_added())
        bell_->ring();
}

} // namespace posthorn::postgres
