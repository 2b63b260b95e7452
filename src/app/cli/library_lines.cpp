// One line per thread is enough: hooks follow at once.
#include "app/cli/library_lines.hpp"

#include <string>

namespace posthorn::cli {
namespace {

std::string& last_line()
{
    thread_local std::string line;
    return line;
}

} // namespace

std::optional<message_id> message_named_in(std::string_view line)
{
    constexpr std::size_t length = 36;
    for (auto at = line.find('-'); at != std::string_view::npos; at = line.find('-', at + 1))
        if (at >= 8 && at - 8 + length <= line.size())
            if (const auto id = message_id::parse(line.substr(at - 8, length)))
                return id;
    return std::nullopt;
}

void note_library_line(std::string_view line)
{
    last_line() = line;
}

bool library_told_of(const message_id& id)
{
    if (last_line().find(to_string(id)) == std::string::npos)
        return false;
    last_line().clear();
    return true;
}

} // namespace posthorn::cli
