// A wait is delivered when its join has ended; how, is for the wait to judge.
#include "runtime/join_waits.hpp"

#include "core/planted.hpp"
#include "joins/join_wait.hpp"
#include <posthorn/enqueue.hpp>

namespace posthorn::runtime {
namespace {

// A join that completed in spite of failures may still be a failure to those who wait for it.
bool has_succeeded(const join_record& join, const join_wait& what)
{
    return join.state == join_state::completed &&
           !(what.fail_if_any_step_failed && !join.needed && join.failed > 0);
}

} // namespace

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
    const auto& next = has_succeeded(*join, *what) ? what->on_complete : what->on_fail;
    if (next)
        enqueue(tx, *next);
    return done();
}

} // namespace posthorn::runtime
