// Time as Posthorn speaks it: whole microseconds, UTC.
#pragma once

#include <chrono>

namespace posthorn {

/// A span of time; every lease, delay and window is one of these.
using duration = std::chrono::microseconds;

/// A point on the wall clock, UTC.
using timestamp = std::chrono::sys_time<duration>;

/// A point on a clock that never jumps; waits and time-outs are measured on it.
using monotonic_time = std::chrono::time_point<std::chrono::steady_clock, duration>;

} // namespace posthorn
