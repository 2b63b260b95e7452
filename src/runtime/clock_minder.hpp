// A database's clock that ran ahead and was set back must not keep messages waiting for long.
#pragma once

#include <posthorn/store.hpp>
#include <posthorn/time.hpp>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>

namespace posthorn::runtime {

/// Threads: safe to use from any.
class clock_minder {
public:
    explicit clock_minder(store where) : store_(std::move(where)) {}

    /// Reads the database's clock once a minute. While that is behind the latest time that was
    /// seen, at the first reading and once an hour, what was written ahead of it is brought back.
    void look() noexcept;

    /// A time of the database's clock that came with something else.
    void saw(timestamp when) noexcept;

private:
    [[nodiscard]] bool is_time();
    void read_clock();

    store store_;
    std::mutex mutex_;
    std::optional<monotonic_time> looked_at_;
    std::optional<monotonic_time> brought_back_at_;
    std::atomic<std::int64_t> latest_ = 0; ///< time that was seen
};

} // namespace posthorn::runtime
