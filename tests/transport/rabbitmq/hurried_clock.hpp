// The system's clock, which a test can send ahead: pauses of seconds need not be waited for.
#pragma once

#include <posthorn/environment.hpp>

#include <atomic>
#include <cstdint>
#include <memory>

namespace posthorn::test {

/// Threads: safe to use from any.
class hurried_clock : public clock {
public:
    [[nodiscard]] timestamp now() const override { return real_->now() + ahead(); }
    [[nodiscard]] monotonic_time monotonic() const override { return real_->monotonic() + ahead(); }
    void pause(duration length) const override { real_->pause(length); }

    void advance(duration length) { ahead_ += length.count(); }

    /// The system's environment with this clock.
    [[nodiscard]] static environment around(const std::shared_ptr<hurried_clock>& time)
    {
        auto result = environment::system();
        result.clock = time;
        return result;
    }

private:
    [[nodiscard]] duration ahead() const { return duration{ahead_.load()}; }

    std::shared_ptr<clock> real_ = environment::system().clock; // the process's
    std::atomic<duration::rep> ahead_ = 0;
};

} // namespace posthorn::test
