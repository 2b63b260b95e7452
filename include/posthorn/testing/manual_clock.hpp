// A clock that stands still until a test moves it.
#pragma once

#include <posthorn/environment.hpp>

#include <atomic>
#include <cstdint>

namespace posthorn::testing {

/// Starts at a fixed instant. Threads: safe to use from any.
class manual_clock : public clock {
public:
    explicit manual_clock(timestamp start = timestamp{std::chrono::seconds{1'800'000'000}})
        : micros_(start.time_since_epoch().count())
    {}

    [[nodiscard]] timestamp now() const override { return timestamp{duration{micros_.load()}}; }
    [[nodiscard]] std::optional<timestamp> database_time() const override { return now(); }
    [[nodiscard]] monotonic_time monotonic() const override
    {
        return monotonic_time{duration{micros_.load()}};
    }

    /// Does not wait: time moves by itself.
    void pause(duration length) const override { micros_.fetch_add(length.count()); }

    void advance(duration length) { micros_.fetch_add(length.count()); }
    void set(timestamp when) { micros_.store(when.time_since_epoch().count()); }

private:
    mutable std::atomic<std::int64_t> micros_;
};

} // namespace posthorn::testing
