// Lines end where the HTTP library thinks they do: at a line feed. The blank one alone needs both
// characters.
#include "http/request_head.hpp"

#include <algorithm>
#include <charconv>

namespace posthorn::http {
namespace {

// Of a line such as `Name: value`, if that is its name; names have no case.
std::optional<std::string_view> value_of(std::string_view line, std::string_view lower_name)
{
    const auto colon = line.find(':');
    const auto same = [](char given, char lower) {
        return (given >= 'A' && given <= 'Z' ? static_cast<char>(given - 'A' + 'a') : given) ==
               lower;
    };
    if (colon == std::string_view::npos ||
        !std::ranges::equal(line.substr(0, colon), lower_name, same))
        return std::nullopt;
    line.remove_prefix(colon + 1);
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    return line;
}

template <typename Function>
void for_each_line(std::string_view head, Function&& look)
{
    while (!head.empty()) {
        const auto end = head.find('\n');
        const auto line = head.substr(0, end == std::string_view::npos ? end : end + 1);
        look(line);
        head.remove_prefix(line.size());
    }
}

} // namespace

head_search::answer head_search::look_at(std::string_view received)
{
    while (true) {
        const auto end = received.find('\n', line_begin_);
        if (end == std::string_view::npos)
            return received.size() > head_bytes_max ? answer::too_large : answer::unfinished;
        const bool blank = received.substr(line_begin_, end - line_begin_) == "\r";
        line_begin_ = end + 1;
        if (line_begin_ > head_bytes_max || ++lines_ > head_lines_max + 1)
            return answer::too_large;
        if (blank && lines_ > 1)
            return answer::complete;
    }
}

std::string without_ranges(std::string_view head)
{
    std::string result;
    for_each_line(head, [&](std::string_view line) {
        if (!value_of(line, "range"))
            result += line;
    });
    return result;
}

std::optional<std::uint64_t> announced_body(std::string_view head)
{
    std::uint64_t length = 0;
    bool known = true;
    for_each_line(head, [&](std::string_view line) {
        if (value_of(line, "transfer-encoding"))
            known = false;
        if (const auto value = value_of(line, "content-length"))
            known =
                known && std::from_chars(value->data(), value->data() + value->size(), length).ec ==
                             std::errc{};
    });
    return known ? std::optional(length) : std::nullopt;
}

} // namespace posthorn::http
