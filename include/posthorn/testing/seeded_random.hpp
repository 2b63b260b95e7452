// Chance that repeats itself: the same seed brings the same bytes.
#pragma once

#include <posthorn/environment.hpp>

#include <atomic>
#include <cstdint>
#include <span>

namespace posthorn::testing {

/// For tests alone: whoever knows the seed knows what comes. Threads: safe to use from any.
class seeded_random : public random_source {
public:
    explicit seeded_random(std::uint64_t seed = 1) : state_(seed) {}

    void fill(std::span<std::uint8_t> bytes) override
    {
        std::uint64_t number = 0;
        for (std::size_t i = 0; i < bytes.size(); ++i) {
            if (i % 8 == 0)
                number = next();
            bytes[i] = static_cast<std::uint8_t>(number >> (i % 8 * 8));
        }
    }

private:
    // Splitmix64: every seed is a good one, and a step is one addition that threads can share.
    std::uint64_t next()
    {
        constexpr std::uint64_t step = 0x9e3779b97f4a7c15;
        std::uint64_t mixed = state_.fetch_add(step) + step;
        mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9;
        mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111eb;
        return mixed ^ (mixed >> 31U);
    }

    std::atomic<std::uint64_t> state_;
};

} // namespace posthorn::testing
