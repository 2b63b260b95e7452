// Turns on a clock.
#include <posthorn/environment.hpp>
#include <posthorn/error.hpp>
#include <posthorn/polling.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>

namespace posthorn {
namespace {

using namespace std::chrono_literals;

// Under a manual clock nobody knows when time moves: look often.
constexpr duration look_at_clock_every = 2ms;

} // namespace

std::size_t poll(worker& which, const stop_request& stop, const polling_options& how)
{
    if (how.every <= duration::zero() || how.batch == 0)
        throw error(error_code::invalid_argument, "polling needs an interval and a batch");
    const auto& world = which.environment();
    std::mutex mutex;
    std::condition_variable wake;
    const auto call = [&] {
        const std::lock_guard lock(mutex);
        wake.notify_all();
    };
    const std::stop_callback on_drain(stop.drain, call);
    const std::stop_callback on_now(stop.now, call);
    const auto stopping = [&] { return stop.requested(); };
    std::size_t handled = 0;
    auto pause = how.every;
    while (!stopping()) {
        const auto began = world.clock->monotonic();
        std::size_t now = 0;
        try {
            const auto stores = which.stores_known();
            for (std::size_t turn = 0; turn < stores && !stopping(); ++turn)
                now += which.run_once(how.batch, stop);
        } catch (const std::exception& failure) {
            if (world.log)
                world.log(log_level::warning, fmt::format("a turn failed: {}", failure.what()));
        }
        handled += now;
        pause = now > 0 ? how.every : std::min(pause * 2, std::max(how.idle_max, how.every));
        std::unique_lock lock(mutex);
        while (!stopping()) {
            const auto left = began + pause - world.clock->monotonic();
            if (left <= duration::zero())
                break;
            wake.wait_for(lock, world.clock->database_time()
                                    ? std::min<duration>(left, look_at_clock_every)
                                    : left);
        }
    }
    return handled;
}

} // namespace posthorn
