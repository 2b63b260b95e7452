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
