// How long to rest between attempts to reach the other side: longer each time, and never all
// clients at once.
#pragma once

#include <posthorn/environment.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

namespace posthorn::transports {

class growing_pause {
public:
    growing_pause(std::shared_ptr<random_source> random, duration first, duration longest)
        : random_(std::move(random)), first_(first), longest_(longest), next_(first)
    {}

    /// Between half of it and all of it, as chance decides.
    [[nodiscard]] duration next()
    {
        const auto whole = next_;
        next_ = std::min(next_ * 2, longest_);
        const double share = 0.5 + random_->fraction() / 2;
        return duration{static_cast<duration::rep>(static_cast<double>(whole.count()) * share)};
    }

    void start_over() { next_ = first_; }

private:
    std::shared_ptr<random_source> random_; // shared with whoever gave it
    duration first_;
    duration longest_;
    duration next_;
};

} // namespace posthorn::transports
