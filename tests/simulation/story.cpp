// A story has 40 to 80 steps. Answers are compared at each step, all messages at the end; only when
// those differ is the story played again with a look after every step, to find where it went wrong.
#include "simulation/story.hpp"

#include "simulation/generator.hpp"
#include "simulation/side.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace posthorn::simulation {
namespace {

enum class looks { at_the_end, after_each_step };

class story {
public:
    story(const stage& where, std::uint64_t seed)
        : chance_(seed),
          options_(deterministic_options(chance_.once_in(3) ? dead_key::skips : dead_key::blocks)),
          model_(options_),
          store_(open_store(where)),
          steps_(40 + seed % 41)
    {}

    /// Returns: what differed, nothing if nothing did.
    std::string play(looks when)
    {
        for (std::size_t i = 1; i <= steps_; ++i) {
            const auto step = chance_.next(model_);
            told_ += fmt::format("{:4}. {}\n", i, spoken(step));
            const auto expected = model_.carry_out(step);
            const auto actual = store_.carry_out(step);
            if (!expected.empty())
                told_ += fmt::format("        {}\n", expected);
            if (expected != actual)
                return fmt::format("at step {}\n  model: {}\n  store: {}\n", i, expected, actual);
            if (when == looks::after_each_step || i == steps_)
                if (const auto seen = compare(); !seen.empty())
                    return fmt::format("after step {}\n{}", i, seen);
        }
        return {};
    }

    const std::string& told() const { return told_; }

private:
    store_side open_store(const stage& where)
    {
        auto world = environment::system();
        auto clock = std::make_shared<testing::manual_clock>(beginning);
        world.clock = clock;
        return {where.open(world), clock, options_};
    }

    std::string compare()
    {
        const auto expected = model_.look();
        const auto actual = store_.look();
        if (expected == actual)
            return {};
        std::string text;
        for (std::size_t i = 0; i < std::max(expected.messages.size(), actual.messages.size());
             ++i) {
            const auto in_model = i < expected.messages.size() ? expected.messages[i] : "(nothing)";
            const auto in_store = i < actual.messages.size() ? actual.messages[i] : "(nothing)";
            if (in_model != in_store)
                text += fmt::format("  model: {}\n  store: {}\n", in_model, in_store);
        }
        if (expected.totals != actual.totals)
            text += fmt::format("  model: {}\n  store: {}\n", expected.totals, actual.totals);
        return text;
    }

    generator chance_;
    outbox_options options_;
    model_side model_;
    store_side store_;
    std::size_t steps_;
    std::string told_;
};

} // namespace

std::optional<std::string> disagreement(const stage& where, std::uint64_t seed)
{
    story first(where, seed);
    if (first.play(looks::at_the_end).empty())
        return std::nullopt;
    story again(where, seed);
    const auto difference = again.play(looks::after_each_step);
    return fmt::format("Model and store ({}) differ {}\nThe story of seed {}:\n{}", where.name,
                       difference, seed, again.told());
}

} // namespace posthorn::simulation
