// Taking store URLs apart, with errors that quote the offending piece.
#include "store/contract/url.hpp"

#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace posthorn::contract {
namespace {

[[noreturn]] void refuse(const std::string& why)
{
    throw error(error_code::invalid_argument, why);
}

} // namespace

std::string without_password(std::string_view url)
{
    const auto authority = url.find("//");
    const auto at = url.rfind('@');
    if (authority == std::string_view::npos || at == std::string_view::npos || at < authority)
        return std::string(url);
    const auto colon = url.find(':', authority);
    if (colon == std::string_view::npos || colon > at)
        return std::string(url);
    return fmt::format("{}:***{}", url.substr(0, colon), url.substr(at));
}

std::string percent_decoded(std::string_view text)
{
    std::string result;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            result.push_back(text[i]);
            continue;
        }
        unsigned value = 0;
        const auto* first = text.data() + i + 1;
        const bool complete = i + 2 < text.size();
        if (!complete || std::from_chars(first, first + 2, value, 16).ptr != first + 2)
            refuse(fmt::format("'{}': a % must be followed by two hexadecimal digits",
                               without_password(text)));
        result.push_back(static_cast<char>(value));
        i += 2;
    }
    return result;
}

store_url store_url::parse(std::string_view text)
{
    const auto colon = text.find(':');
    if (colon == std::string_view::npos || colon == 0)
        refuse(fmt::format("'{}' is not a store URL; write for example sqlite:orders.db",
                           without_password(text)));
    store_url result;
    result.scheme = std::string(text.substr(0, colon));
    auto rest = text.substr(colon + 1);
    const auto question = rest.find('?');
    result.encoded_rest = std::string(rest.substr(0, question));
    result.rest = percent_decoded(result.encoded_rest);
    if (question == std::string_view::npos)
        return result;

    rest.remove_prefix(question + 1);
    while (!rest.empty()) {
        const auto pair = rest.substr(0, rest.find('&'));
        rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
        const auto equals = pair.find('=');
        if (equals == std::string_view::npos || equals == 0)
            refuse(fmt::format("'{}': parameters are written name=value", pair));
        auto name = percent_decoded(pair.substr(0, equals));
        if (!result.parameters.emplace(name, percent_decoded(pair.substr(equals + 1))).second)
            refuse(fmt::format("parameter '{}' is given twice", name));
    }
    return result;
}

void store_url::allow_only(std::initializer_list<std::string_view> names) const
{
    for (const auto& [name, value] : parameters)
        if (std::ranges::find(names, name) == names.end())
            refuse(fmt::format("unknown parameter '{}' for {}; known are: {}", name, scheme,
                               fmt::join(names, ", ")));
}

std::string store_url::parameter(std::string_view name, std::string_view fallback) const
{
    const auto found = parameters.find(name);
    return found == parameters.end() ? std::string(fallback) : found->second;
}

duration parse_duration(std::string_view text)
{
    constexpr std::array units{
        std::pair{std::string_view{"us"}, std::int64_t{1}},
        std::pair{std::string_view{"ms"}, std::int64_t{1'000}},
        std::pair{std::string_view{"s"}, std::int64_t{1'000'000}},
        std::pair{std::string_view{"m"}, std::int64_t{60'000'000}},
        std::pair{std::string_view{"h"}, std::int64_t{3'600'000'000}},
        std::pair{std::string_view{"d"}, std::int64_t{86'400'000'000}},
    };
    std::int64_t number = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
    const std::string_view unit{parsed.ptr,
                                static_cast<std::size_t>(text.data() + text.size() - parsed.ptr)};
    const auto* found = std::ranges::find(units, unit, &decltype(units)::value_type::first);
    const bool fits = found != units.end() && number >= 0 &&
                      number <= std::numeric_limits<std::int64_t>::max() / found->second / 8;
    if (parsed.ec != std::errc{} || !fits)
        refuse(fmt::format(
            "'{}' is not a length of time; write for example 250ms, 5s, 10m, 2h or 7d", text));
    return duration{number * found->second};
}

} // namespace posthorn::contract
