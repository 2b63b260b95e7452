// Messages that wait because as many of their group as may are running
// (`handler_options::per_key`). A store knows no groups, so all that were put aside are tried in
// turns: the oldest first, claim by claim. A turn ends behind the newest, and the next one begins a
// little later.
#pragma once

#include <posthorn/delivery.hpp>
#include <posthorn/time.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace posthorn::runtime {

/// Threads: for one at a time.
class group_turns {
public:
    /// A message could not begin because of its group.
    void put_aside(const std::string& topic, std::int64_t position, monotonic_time now);

    /// Whether messages of this topic are taken in turns.
    [[nodiscard]] bool has(const std::string& topic) const { return topics_.contains(topic); }

    /// Whether a claim may take messages of this topic back now.
    [[nodiscard]] bool may_claim(const std::string& topic, monotonic_time now) const;

    /// How long until another turn may begin; nothing without topics.
    [[nodiscard]] std::optional<duration> until_next(monotonic_time now) const;

    /// Behind which position the next claim takes messages back.
    [[nodiscard]] std::int64_t position(const std::string& topic) const;

    /// What that claim brought, before any of it begins. Returns: whether all of the topic have
    /// been tried, and none was put aside again.
    [[nodiscard]] bool claimed(const std::string& topic, const batch& brought, monotonic_time now);

    void forget(const std::string& topic) { topics_.erase(topic); }

private:
    struct turn {
        bool runs = false;
        bool any_aside = false;    ///< something was put aside since it began
        std::int64_t after = 0;    ///< up to here all have been tried
        std::int64_t newest = 0;   ///< of all that were put aside
        std::int64_t reach_to = 0; ///< what `newest` was when the turn began
        monotonic_time began{};
        monotonic_time next_at{};
    };

    std::map<std::string, turn> topics_;
};

} // namespace posthorn::runtime
