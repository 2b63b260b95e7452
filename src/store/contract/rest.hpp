// Resting while the store is asked for nothing, in a way that a stop ends.
#pragma once

#include <posthorn/environment.hpp>
#include <posthorn/error.hpp>
#include <posthorn/stop.hpp>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>

namespace posthorn::contract {

/// Throws: `error` with `stopped` if it has been told to. `what` was not begun, or nothing of it
/// was kept.
inline void throw_if_stopped(const stop_request& stop, const char* what)
{
    if (stop.requested())
        throw error(error_code::stopped, std::string("told to stop: ") + what, {.retryable = true});
}

/// Lets the thread rest for about `length`, or until it is told to stop. Under a clock that a test
/// moves nothing is waited for on the real one.
inline void rest(const environment& world, duration length, const stop_request& stop)
{
    const bool stoppable = stop.drain.stop_possible() || stop.now.stop_possible();
    if (!stoppable || world.clock->database_time()) {
        world.clock->pause(length);
        return;
    }
    std::mutex mutex;
    std::condition_variable wake;
    const auto call = [&] {
        const std::lock_guard lock(mutex);
        wake.notify_all();
    };
    const std::stop_callback on_drain(stop.drain, call);
    const std::stop_callback on_now(stop.now, call);
    std::unique_lock lock(mutex);
    wake.wait_for(lock, length, [&] { return stop.requested(); });
}

} // namespace posthorn::contract
