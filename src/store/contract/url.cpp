// Taking store URLs apart, with errors that quote the offending piece
// unless it may be a secret.
#include "store/contract/url.hpp"

#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace posthorn::contract {
namespace {

[[noreturn]] void refuse(const std::string& why)
{
    throw error(error_code::invalid_argument, why);
}

constexpr std::string_view wrong_percent = "a % must be followed by two hexadecimal digits";

std::optional<std::string> decoded(std::string_view text)
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
            return std::nullopt;
        result.push_back(static_cast<char>(value));
        i += 2;
    }
    return result;
}

// The parameters with `***` for the values of those that are secrets.
std::string without_secret_values(std::string_view parameters)
{
    std::string result;
    for (char separator = '?'; !parameters.empty(); separator = '&') {
        const auto pair = parameters.substr(0, parameters.find('&'));
        parameters.remove_prefix(std::min(parameters.size(), pair.size() + 1));
        const auto equals = pair.find('=');
        result += separator;
        if (equals != std::string_view::npos && is_secret_name(pair.substr(0, equals)))
            result += fmt::format("{}=***", pair.substr(0, equals));
        else
            result += pair;
    }
    return result;
}

bool ends_with_port(std::string_view authority)
{
    const auto port = authority.substr(authority.rfind(':') + 1);
    return std::ranges::all_of(port, [](char c) { return c >= '0' && c <= '9'; });
}

bool may_stand_in_scheme(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+';
}

} // namespace

bool is_secret_name(std::string_view text)
{
    std::string name(text);
    std::ranges::transform(name, name.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    return name.find("pass") != std::string_view::npos ||
           name.find("secret") != std::string_view::npos ||
           name.find("token") != std::string_view::npos;
}

std::string without_password(std::string_view url)
{
    const auto question = url.find('?');
    const auto authority = url.find("//");
    const auto at = url.rfind('@');
    const bool has_authority = authority != std::string_view::npos && authority < question;
    if (has_authority && at != std::string_view::npos && at > question)
        return fmt::format("{}//***", url.substr(0, authority));
    std::string result(url.substr(0, question));
    if (has_authority && at != std::string_view::npos && at > authority) {
        const auto colon = url.find(':', authority);
        if (colon < at)
            result = fmt::format("{}:***{}", result.substr(0, colon), result.substr(at));
    }
    if (question != std::string_view::npos)
        result += without_secret_values(url.substr(question + 1));
    return result;
}

std::string without_passwords(std::string_view text)
{
    constexpr std::string_view ends_url = " \t\r\n\"'`";
    std::string result;
    for (;;) {
        auto begin = text.find("://");
        if (begin == std::string_view::npos)
            return result.append(text);
        const auto end = std::min(text.find_first_of(ends_url, begin), text.size());
        while (begin > 0 && may_stand_in_scheme(text[begin - 1]))
            --begin;
        result += text.substr(0, begin);
        result += without_password(text.substr(begin, end - begin));
        text.remove_prefix(end);
    }
}

void refuse_split_password(std::string_view url, std::string_view ends)
{
    const auto authority = url.find("//");
    const auto at = url.rfind('@');
    if (authority == std::string_view::npos || at == std::string_view::npos)
        return;
    const auto end = url.find_first_of(ends, authority + 2);
    if (end > at)
        return;
    const auto before = url.substr(authority + 2, end - authority - 2);
    const auto place = before.substr(0, before.find('/'));
    if (before.find('@') == std::string_view::npos && place.find(':') != std::string_view::npos &&
        !ends_with_port(place))
        refuse("the URL has a / or ? before its @; in a password, write %2F for / and %3F for ?");
}

std::string percent_decoded(std::string_view text)
{
    auto result = decoded(text);
    if (!result)
        refuse(std::string(wrong_percent));
    return *std::move(result);
}

store_url store_url::parse(std::string_view text)
{
    const auto colon = text.find(':');
    if (colon == std::string_view::npos || colon == 0)
        refuse(
            text.find_first_of("@?") == std::string_view::npos
                ? fmt::format("'{}' is not a store URL; write for example sqlite:orders.db", text)
                : "this is not a store URL; write for example sqlite:orders.db");
    refuse_split_password(text);
    const auto decoded_part = [&](std::string_view part) {
        auto found = decoded(part);
        if (!found)
            refuse(fmt::format("'{}': {}", without_password(text), wrong_percent));
        return *std::move(found);
    };
    store_url result;
    result.scheme = std::string(text.substr(0, colon));
    auto rest = text.substr(colon + 1);
    const auto question = rest.find('?');
    result.encoded_rest = std::string(rest.substr(0, question));
    result.rest = decoded_part(result.encoded_rest);
    if (question == std::string_view::npos)
        return result;

    rest.remove_prefix(question + 1);
    while (!rest.empty()) {
        const auto pair = rest.substr(0, rest.find('&'));
        rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
        const auto equals = pair.find('=');
        if (equals == std::string_view::npos || equals == 0)
            refuse(pair.find('@') == std::string_view::npos && !is_secret_name(pair)
                       ? fmt::format("'{}': parameters are written name=value", pair)
                       : "parameters are written name=value");
        auto name = decoded_part(pair.substr(0, equals));
        if (!result.parameters.emplace(name, decoded_part(pair.substr(equals + 1))).second)
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
