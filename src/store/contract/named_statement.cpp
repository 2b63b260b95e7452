// Putting the tables' prefix into a statement.
#include "store/contract/named_statement.hpp"

namespace posthorn::contract {

std::string with_prefix(std::string_view text, std::string_view prefix)
{
    constexpr std::string_view mark = "{p}";
    std::string result;
    result.reserve(text.size() + 64);
    for (auto at = text.find(mark); at != std::string_view::npos; at = text.find(mark)) {
        result += text.substr(0, at);
        result += prefix;
        text.remove_prefix(at + mark.size());
    }
    return result += text;
}

} // namespace posthorn::contract
