// A host without bells: asks one store after the other, at a steady pace.
#pragma once

#include <posthorn/stop.hpp>
#include <posthorn/time.hpp>
#include <posthorn/worker.hpp>

#include <chrono>
#include <cstddef>
#include <optional>

namespace posthorn {

struct polling_options {
    duration every = std::chrono::milliseconds{500}; ///< from one iteration's begin to the next

    /// While nothing is due the interval doubles, up to this. Nothing: it stays as it is.
    std::optional<duration> idle_max = {};

    std::size_t batch = 100; ///< messages per turn
};

/// In each iteration every store of the worker has one turn. The next iteration begins `every`
/// after this one began, on a clock that never jumps; at once if this one took longer. It ends when
/// it is told to stop, also in the middle of a turn: nothing more is claimed, and what runs may end
/// as in `worker::run`. The log is told of its start, of each iteration that handled something
/// (debug) and of what failed (error).
/// Returns: how many messages were handled.
std::size_t poll(worker& which, const stop_request& stop, const polling_options& how = {});

} // namespace posthorn
