// A machine that has no room for another process: who wants one waits until another ends, and the
// log is told once, not for each message.
#pragma once

#include <posthorn/time.hpp>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <stop_token>

namespace posthorn::cli {

/// Threads: safe to use from any.
class process_shortage {
public:
    struct answer {
        duration pause;     ///< until the message is tried again
        bool begins = true; ///< this is the first one
    };
    /// A command could not be started.
    [[nodiscard]] answer met(monotonic_time now);

    /// Waits until a command has ended, for about so long at most, or until it is asked to stop.
    void wait(duration at_most, const std::stop_token& stop);

    /// A command has ended, which was started. Returns: how many could not be, if none has been met
    /// for a while.
    [[nodiscard]] std::optional<std::size_t> over(monotonic_time now);

private:
    std::mutex mutex_;
    std::condition_variable_any ended_;
    std::uint64_t ends_ = 0;
    int tickets_ = 0;
    std::optional<monotonic_time> since_;
    monotonic_time last_{};
    std::size_t count_ = 0;
};

} // namespace posthorn::cli
