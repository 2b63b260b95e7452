// When a listener that lost its server may try again: later each time, and at random, because
// everybody lost the server at once and should not come back at once.
#pragma once

#include <posthorn/environment.hpp>

#include <algorithm>
#include <chrono>

namespace posthorn::postgres {

class reconnection {
public:
    using clock = std::chrono::steady_clock;

    [[nodiscard]] clock::time_point next() const noexcept { return next_; }
    [[nodiscard]] bool is_time() const { return clock::now() >= next_; }

    void failed(const environment& world)
    {
        using namespace std::chrono_literals;
        pause_ = std::clamp<clock::duration>(pause_ * 2, 100ms, 2s);
        next_ = clock::now() + std::chrono::duration_cast<clock::duration>(
                                   pause_ * (0.5 + world.random->fraction() / 2));
    }

    void succeeded() noexcept { pause_ = {}; }

private:
    clock::duration pause_{};
    clock::time_point next_{};
};

} // namespace posthorn::postgres
