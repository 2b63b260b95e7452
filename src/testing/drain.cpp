// From one moment at which something is due to the next.
#include "store/contract/backend.hpp"
#include "store/contract/outlook.hpp"
#include <posthorn/error.hpp>
#include <posthorn/testing/drain.hpp>

#include <algorithm>
#include <optional>

namespace posthorn::testing {
namespace {

using namespace std::chrono_literals;

bool did_something(const run_report& report)
{
    return report.handled() + report.released > 0;
}

// Drains until the clock shows `end` or nothing more will become due. True: nothing more will.
bool drain_until(worker& who, const store_for_tests& where, timestamp end, run_report& sum)
{
    // What is due and yet not taken is not for this worker (paused, or in other hands): look again
    // later, and ever later.
    duration not_ours = 1s;
    for (;;) {
        const auto report = drain(who);
        sum += report;
        if (did_something(report))
            not_ours = 1s;
        const auto seen = where.backend().outlook();
        const auto now = where.clock().now();
        if (!seen.due && !seen.next)
            return true;
        if (now >= end)
            return false;
        auto step = seen.next.value_or(duration::zero());
        if (seen.due || step <= duration::zero()) {
            step = step <= duration::zero() ? not_ours : std::min(step, not_ours);
            not_ours *= 2;
        }
        where.clock().advance(std::clamp<duration>(step, 1us, end - now));
    }
}

} // namespace

run_report drain(worker& who)
{
    return who.run({}, {.until_empty = true});
}

run_report drain_for(worker& who, const store_for_tests& where, duration length)
{
    run_report sum;
    const auto end = where.clock().now() + length;
    if (drain_until(who, where, end, sum))
        where.clock().set(std::max(end, where.clock().now()));
    return sum;
}

run_report drain_to_the_end(worker& who, const store_for_tests& where, duration at_most)
{
    run_report sum;
    if (!drain_until(who, where, where.clock().now() + at_most, sum))
        throw error(error_code::invalid_argument,
                    "something is still due after all this time: a message that is tried again for "
                    "ever, a pause, or a worker that holds its messages");
    return sum;
}

} // namespace posthorn::testing
