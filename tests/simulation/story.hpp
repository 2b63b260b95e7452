// Plays one story on the model and on a store, and tells it when they disagree.
#pragma once

#include <posthorn/environment.hpp>
#include <posthorn/store.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>

namespace posthorn::simulation {

/// A kind of store that stories are played on.
struct stage {
    std::string name;
    std::size_t stories = 0;

    /// An empty store. What else it needs to live (a folder) goes with the last copy of the store.
    std::function<store(const environment&)> open;

    friend std::ostream& operator<<(std::ostream& out, const stage& where)
    {
        return out << where.name;
    }
};

/// Returns: nothing if model and store agreed at every step and in the end, else the story.
[[nodiscard]] std::optional<std::string> disagreement(const stage& where, std::uint64_t seed);

} // namespace posthorn::simulation
