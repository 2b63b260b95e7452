// The first look only notes when it was: most workers find everything in order, and start at once.
#include "runtime/clock_minder.hpp"

#include "outbox/in_transaction.hpp"
#include "store/contract/backend.hpp"
#include "store/contract/hurry.hpp"
#include "store/contract/job_book.hpp"
#include "store/contract/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

namespace posthorn::runtime {
namespace {

using namespace std::chrono_literals;

constexpr duration look_every = 1min;

// For a clock that ran ahead for so short a time that it was not noticed.
constexpr duration bring_back_every = 1h;

// Clocks are adjusted by less than this all the time.
constexpr duration tolerance = 2s;

constexpr std::size_t messages_at_once = 1'000;

} // namespace

void clock_minder::look() noexcept
{
    const std::unique_lock lock(mutex_, std::try_to_lock);
    try {
        if (lock && is_time())
            read_clock();
    } catch (const std::exception& failure) { // The next look is soon enough.
        try {
            if (const auto& log = store_.environment().log)
                log(log_level::warning,
                    fmt::format("cannot look at the database's clock: {}", failure.what()));
        } catch (...) { // There is no memory to say so.
        }
    }
}

void clock_minder::saw(timestamp when) noexcept
{
    const auto time = when.time_since_epoch().count();
    auto before = latest_.load(std::memory_order_relaxed);
    while (before < time && !latest_.compare_exchange_weak(before, time)) {}
}

bool clock_minder::is_time()
{
    const auto now = store_.environment().clock->monotonic();
    const bool result = looked_at_ && (now >= *looked_at_ + look_every || now < *looked_at_);
    if (result || !looked_at_)
        looked_at_ = now;
    return result;
}

void clock_minder::read_clock()
{
    timestamp now;
    {
        auto view = store_.read();
        now = view.session().jobs().jobs().now();
    }
    saw(now);
    const bool is_behind = now + tolerance < timestamp{duration{latest_}};
    const auto time = store_.environment().clock->monotonic();
    if (!is_behind && brought_back_at_ && time >= *brought_back_at_ &&
        time < *brought_back_at_ + bring_back_every)
        return;
    const contract::hurry no_waiting;
    std::size_t count = 0;
    for (auto moved = messages_at_once; moved == messages_at_once; count += moved)
        moved = in_work(store_, [](transaction& tx) {
            return tx.session().queue().bring_back(messages_at_once);
        });
    brought_back_at_ = time;
    if (count > 0)
        if (const auto& log = store_.environment().log)
            log(log_level::warning,
                fmt::format("the database's clock ran ahead and was set back: {} messages and "
                            "ticks of jobs count their time from now",
                            count));
}

} // namespace posthorn::runtime
