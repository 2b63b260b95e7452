// A wait is delivered when its join has ended. Its own flag decides which continuation it sends.
#include "runtime/join_waits.hpp"

#include "core/join.hpp"
#include "core/planted.hpp"
#include "joins/join_wait.hpp"
#include "store/contract/join_book.hpp"
#include "store/contract/session.hpp"
#include <posthorn/enqueue.hpp>

namespace posthorn::runtime {
outcome handle_join_wait(const delivery_view& which, transaction& tx)
{
    const auto what = read_join_wait(which.headers(), which.payload());
    if (!what)
        return fail("not a wait that Posthorn made");
    const auto join = find_join(tx, what->join);
    if (!join) // it was removed, and must have ended long before
        return fail("its join has been removed: nobody knows how it ended");
    if (join->state == join_state::pending) {
        if constexpr (core::waits_by_trying)
            return retry("not ready yet");
        enqueue_join_wait(tx, *what); // it was redriven meanwhile: wait again
        return done();
    }
    const bool success = core::succeeds_for_wait(*join, what->fail_if_any_step_failed);
    if (!success && join->state == join_state::completed)
        tx.session().joins().fail_completed(what->join);
    const auto& next = success ? what->on_complete : what->on_fail;
    if (next)
        enqueue(tx, *next);
    return done();
}

} // namespace posthorn::runtime
