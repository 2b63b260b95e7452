// Chooses what happens next: random, but never far from something that means something.
#pragma once

#include "simulation/operation.hpp"
#include "simulation/side.hpp"

#include <cstdint>
#include <random>

namespace posthorn::simulation {

class generator {
public:
    explicit generator(std::uint64_t seed);

    /// The next step of a story that has come as far as the model says.
    [[nodiscard]] operation next(const model_side& so_far);

    /// True once in `times`.
    [[nodiscard]] bool once_in(unsigned times) { return below(times) == 0; }

private:
    [[nodiscard]] newcomer any_message(timestamp now);
    [[nodiscard]] enqueue_step any_enqueue(timestamp now);
    [[nodiscard]] claim_step any_claim();
    [[nodiscard]] settle_step any_settlement(const model_side& so_far);
    [[nodiscard]] start_step any_start(const model_side& so_far);
    [[nodiscard]] std::vector<model_side::handed_out> some_receipts(const model_side& so_far);
    [[nodiscard]] outcome any_outcome();
    [[nodiscard]] duration any_advance();
    [[nodiscard]] message_id any_id();
    [[nodiscard]] message_id mostly_a_dead_one(const model_side& so_far);
    [[nodiscard]] std::string owner_or_stranger(const std::string& owner);

    /// A number from 0 to `bound` − 1; the same for a seed on every platform.
    [[nodiscard]] unsigned below(unsigned bound)
    {
        return static_cast<unsigned>(engine_() % bound);
    }
    [[nodiscard]] bool chance(unsigned percent) { return below(100) < percent; }
    [[nodiscard]] duration seconds(unsigned from, unsigned to)
    {
        return std::chrono::seconds{from + below(to - from + 1)};
    }
    template <typename Choices>
    [[nodiscard]] auto one_of(const Choices& choices)
    {
        return choices[below(static_cast<unsigned>(std::size(choices)))];
    }

    std::mt19937_64 engine_;
    unsigned messages_ = 0;

    // The mood of a story, in percent: stories about one thing find what mixtures rarely meet.
    unsigned plain_ = 0;
    unsigned keyed_ = 0;
    unsigned failing_ = 0;
    unsigned sparing_ = 0; ///< of what does not end well: postponed or put aside
};

} // namespace posthorn::simulation
