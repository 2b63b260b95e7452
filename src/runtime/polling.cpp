// Turns on a clock.
#include <posthorn/environment.hpp>
#include <posthorn/error.hpp>
#include <posthorn/polling.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>

namespace posthorn {
namespace {

using namespace std::chrono_literals;

// Under a manual clock nobody knows when time moves: look often.
constexpr duration look_at_clock_every = 2ms;

// What it waits with: a stop ends the wait.
class pace {
public:
    pace(const clock& by, const stop_request& stop) : by_(by), stop_(stop) {}

    void wait_until(monotonic_time end)
    {
        std::unique_lock lock(mutex_);
        while (!stop_.requested()) {
            const auto left = end - by_.monotonic();
            if (left <= duration::zero())
                return;
            wake_.wait_for(lock, by_.database_time() ? std::min<duration>(left, look_at_clock_every)
                                                     : left);
        }
    }

private:
    void call()
    {
        const std::lock_guard lock(mutex_);
        wake_.notify_all();
    }

    const clock& by_;
    const stop_request& stop_;
    std::mutex mutex_;
    std::condition_variable wake_;
    using callback = std::function<void()>;
    std::stop_callback<callback> on_drain_{stop_.drain, [this] { call(); }}; // last: they call us
    std::stop_callback<callback> on_now_{stop_.now, [this] { call(); }};
};

// Each store has one turn.
std::size_t iterate(worker& which, const stop_request& stop, std::size_t batch)
{
    const auto& log = which.environment().log;
    std::size_t handled = 0;
    try {
        const auto stores = which.stores_known();
        for (std::size_t turn = 0; turn < stores && !stop.requested(); ++turn)
            handled += which.run_once(batch, stop);
    } catch (const std::exception& failure) {
        log(log_level::error, fmt::format("an iteration of polling failed: {}", failure.what()));
    }
    if (handled > 0 && log.takes(log_level::debug))
        log(log_level::debug, fmt::format("polling: {} messages were handled", handled));
    return handled;
}

} // namespace

std::size_t poll(worker& which, const stop_request& stop, const polling_options& how)
{
    if (how.every <= duration::zero() || how.batch == 0)
        throw error(error_code::invalid_argument,
                    "polling needs an interval longer than zero and a batch of at least 1");
    const auto& world = which.environment();
    world.log(
        log_level::info,
        fmt::format("polling begins, every {} ms",
                    std::chrono::duration_cast<std::chrono::milliseconds>(how.every).count()));
    pace steps(*world.clock, stop);
    std::size_t handled = 0;
    auto interval = how.every;
    while (!stop.requested()) {
        const auto began = world.clock->monotonic();
        const auto now = iterate(which, stop, how.batch);
        handled += now;
        const bool backs_off = now == 0 && how.idle_max;
        interval =
            backs_off ? std::min(interval * 2, std::max(*how.idle_max, how.every)) : how.every;
        steps.wait_until(began + interval);
    }
    world.log(log_level::info, fmt::format("polling has ended: {} messages were handled", handled));
    return handled;
}

} // namespace posthorn
