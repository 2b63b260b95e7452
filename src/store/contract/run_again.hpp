// Transactions that the database gave up, done again.
#pragma once

#include "store/contract/rest.hpp"
#include <posthorn/environment.hpp>
#include <posthorn/error.hpp>
#include <posthorn/stop.hpp>

namespace posthorn::contract {

/// Runs `work`, a whole transaction, again while the database chose it as the victim of a deadlock
/// or of a serialization conflict: nothing of it was kept then. The pauses grow and are random, so
/// that two victims part. An outcome in doubt is never run again.
/// Throws: `error` with `stopped` if it was told to stop before a run; nothing was kept then.
template <typename Work>
auto run_again(const environment& world, Work&& work, const stop_request& stop = {})
{
    constexpr int runs_max = 8;
    for (int run = 1;; ++run) {
        throw_if_stopped(stop, "the transaction was not begun, and nothing of it is there");
        try {
            return work();
        } catch (const error& failure) {
            if (failure.code() != error_code::serialization || failure.in_doubt() ||
                run == runs_max)
                throw;
        }
        const auto ceiling = std::chrono::milliseconds{1} * (1 << run);
        const auto pause = std::chrono::duration_cast<duration>(
            std::chrono::duration<double, std::milli>(ceiling) * world.random->fraction());
        rest(world, pause, stop);
    }
}

} // namespace posthorn::contract
