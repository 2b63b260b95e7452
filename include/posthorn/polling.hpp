// A host without bells: asks one store after the other, at a steady pace.
#pragma once

#include <posthorn/stop.hpp>
#include <posthorn/time.hpp>
#include <posthorn/worker.hpp>

#include <chrono>
#include <cstddef>

namespace posthorn {

struct polling_options {
    duration every = std::chrono::milliseconds{500}; ///< each store gets a turn so often
    duration idle_max = std::chrono::seconds{5};     ///< and so often when nothing comes for long
    std::size_t batch = 100;                         ///< messages per turn
};

/// Gives each store of the worker a turn, and again after `every` on a clock that never jumps, or
/// later and later while nothing is due; until it is told to stop, also in the middle of a turn:
/// nothing more is claimed then, and what runs may end as in `worker::run`.
/// Returns: how many messages were handled.
std::size_t poll(worker& which, const stop_request& stop, const polling_options& how = {});

} // namespace posthorn
