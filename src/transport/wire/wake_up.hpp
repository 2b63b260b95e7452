// Wakes a thread that waits for sockets.
#pragma once

#include <posthorn/error.hpp>
#include <posthorn/transport.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace posthorn::transports {

using steady_time = std::chrono::steady_clock::time_point;

/// Threads: `ring` from any.
class wake_up {
public:
    wake_up() : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))
    {
        if (descriptor_ < 0)
            throw error(error_code::unavailable, "there is no file descriptor left");
    }
    wake_up(const wake_up&) = delete;
    wake_up& operator=(const wake_up&) = delete;
    ~wake_up() { ::close(descriptor_); }

    void ring() const noexcept
    {
        const std::uint64_t one = 1;
        [[maybe_unused]] const auto written = ::write(descriptor_, &one, sizeof one);
    }

    /// Waits until the socket can do one of `events`, the time is over, or it rings. A negative
    /// socket is none. Returns: what the socket can do.
    [[nodiscard]] short wait(int socket, short events, steady_time until) const
    {
        using namespace std::chrono;
        const auto left = ceil<milliseconds>(until - steady_clock::now()).count();
        pollfd watched[2] = {{descriptor_, POLLIN, 0}, {socket, events, 0}};
        const auto longest = std::int64_t{60'000}; // whoever waits looks again
        ::poll(watched, 2, static_cast<int>(std::clamp(left, std::int64_t{0}, longest)));
        if (watched[0].revents != 0) {
            std::uint64_t rings = 0;
            [[maybe_unused]] const auto got = ::read(descriptor_, &rings, sizeof rings);
        }
        return watched[1].revents;
    }

private:
    int descriptor_;
};

/// Until when a call may wait, and whether it is over.
struct allowance {
    steady_time until;
    std::stop_token stop;

    allowance(const time_limit& from, duration without_limit)
        : until(from.until ? steady_time(*from.until)
                           : std::chrono::steady_clock::now() + without_limit),
          stop(from.stop)
    {}

    [[nodiscard]] bool is_over() const
    {
        return stop.stop_requested() || std::chrono::steady_clock::now() >= until;
    }
};

} // namespace posthorn::transports
