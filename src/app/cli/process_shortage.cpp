// It comes and goes many times a second while some children end, so it is over only when none was
// refused for some time.
#include "app/cli/process_shortage.hpp"

#include <algorithm>
#include <utility>

namespace posthorn::cli {
namespace {

using namespace std::chrono_literals;

constexpr duration pause_min = 1s;
constexpr duration pause_max = 10s;
constexpr duration quiet = 10s;

} // namespace

process_shortage::answer process_shortage::met(monotonic_time now)
{
    const std::lock_guard lock(mutex_);
    const bool begins = !since_;
    if (begins)
        since_ = now;
    last_ = now;
    ++count_;
    return {.pause = std::clamp<duration>(now - *since_, pause_min, pause_max), .begins = begins};
}

void process_shortage::wait(duration at_most, const std::stop_token& stop)
{
    std::unique_lock lock(mutex_);
    const auto before = ends_;
    // Those who were refused together would take the last files from each other again.
    at_most += 5ms * tickets_;
    tickets_ = (tickets_ + 1) % 16;
    (void)ended_.wait_for(lock, stop, at_most, [&] { return ends_ != before; });
}

std::optional<std::size_t> process_shortage::over(monotonic_time now)
{
    const std::lock_guard lock(mutex_);
    ++ends_;
    ended_.notify_one();
    if (!since_ || now - last_ < quiet)
        return std::nullopt;
    since_.reset();
    return std::exchange(count_, 0);
}

} // namespace posthorn::cli
