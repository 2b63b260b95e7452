// What is written down for topics: a closing `*` means all that start so.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace posthorn::core {

/// The entry that says most about the topic: its own, else that of the longest beginning. Null:
/// there is none.
template <typename Value>
[[nodiscard]] const Value* find_by_topic(const std::map<std::string, Value, std::less<>>& in,
                                         std::string_view topic)
{
    if (const auto own = in.find(topic); own != in.end())
        return &own->second;
    const Value* found = nullptr;
    std::size_t longest = 0;
    for (const auto& [pattern, value] : in) {
        const bool matches =
            pattern.ends_with('*') &&
            topic.starts_with(std::string_view(pattern).substr(0, pattern.size() - 1));
        if (matches && pattern.size() > longest) {
            found = &value;
            longest = pattern.size();
        }
    }
    return found;
}

} // namespace posthorn::core
