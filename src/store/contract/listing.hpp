// What listing messages has in common on all engines.
#pragma once

#include <posthorn/messages.hpp>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <vector>

namespace posthorn::contract {

/// A filter's topic as a statement wants it: one of the two is empty, or both.
struct topic_filter {
    std::string_view exact;
    std::string_view start;

    explicit topic_filter(std::string_view pattern)
    {
        if (pattern.ends_with('*'))
            start = pattern.substr(0, pattern.size() - 1);
        else
            exact = pattern;
    }
};

/// A filter's kind of ready messages as a statement wants it: 0 is all of them.
[[nodiscard]] inline std::int64_t ready_number(const message_filter& filter)
{
    return filter.ready_as ? static_cast<std::int64_t>(*filter.ready_as) + 1 : 0;
}

/// Whether a filter lets messages through that are due, and have always been.
[[nodiscard]] inline bool takes_due(const message_filter& filter)
{
    return filter.ready_as.value_or(ready_state::ready) == ready_state::ready;
}

/// What kind of a ready message this is.
[[nodiscard]] inline ready_state ready_as(bool later, int errors)
{
    if (!later)
        return ready_state::ready;
    return errors > 0 ? ready_state::retrying : ready_state::delayed;
}

/// What was put aside for a handler's limit is ready: a worker does take its topic.
[[nodiscard]] constexpr message_state state_aside(park_reason why) noexcept
{
    return why == park_reason::at_limit ? message_state::ready : message_state::parked;
}

/// Counting more rows than this one by one would take longer than anyone wants to wait.
inline constexpr std::int64_t countable_max = 100'000;

/// The first `limit` of two sorted lists.
[[nodiscard]] inline std::vector<std::int64_t> merged(const std::vector<std::int64_t>& a,
                                                      const std::vector<std::int64_t>& b,
                                                      std::size_t limit)
{
    std::vector<std::int64_t> result;
    std::ranges::merge(a, b, std::back_inserter(result));
    result.resize(std::min(result.size(), limit));
    return result;
}

} // namespace posthorn::contract
