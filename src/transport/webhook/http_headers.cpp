// Percent-encoding where it is needed, with a list of where it was.
#include "transport/webhook/http_headers.hpp"

#include "core/trace_context.hpp"
#include "core/validation.hpp"
#include "transport/envelope.hpp"
#include <posthorn/webhook_signature.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>

namespace posthorn::transports {
namespace {

constexpr std::string_view hex_digits = "0123456789ABCDEF";

// What HTTP itself says with headers: a message must not be able to.
constexpr std::array<std::string_view, 17> of_http{
    "connection",
    "content-encoding",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    webhook_id_header,
    webhook_timestamp_header,
    webhook_signature_header,
};

// What says nothing about the message, only about who brought it and how.
constexpr std::array<std::string_view, 15> of_the_journey{
    "accept",        "accept-charset", "accept-encoding", "accept-language",
    "authorization", "cache-control",  "cookie",          "date",
    "forwarded",     "local_addr",     "local_port",      "pragma",
    "remote_addr",   "remote_port",    "user-agent",
};

bool is_one_of(std::span<const std::string_view> names, std::string_view lower)
{
    return std::ranges::find(names, lower) != names.end();
}

bool is_attribute(std::string_view lower)
{
    return lower.starts_with(http_attributes.prefix);
}

std::string encoded(std::string_view value)
{
    std::string result;
    for (const char each : value) {
        const auto byte = static_cast<unsigned char>(each);
        if (byte > 0x20 && byte < 0x7f && each != '"' && each != '%') {
            result += each;
            continue;
        }
        result += '%';
        result += hex_digits[byte >> 4U];
        result += hex_digits[byte & 15U];
    }
    return result;
}

std::optional<unsigned> hex_value(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    const char lower = static_cast<char>(digit | 0x20);
    if (lower >= 'a' && lower <= 'f')
        return lower - 'a' + 10;
    return std::nullopt;
}

// What is no code stays: others do not always know that they should have encoded it.
std::string decoded(std::string_view value)
{
    std::string result;
    for (std::size_t i = 0; i < value.size(); ++i) {
        const auto high =
            value[i] == '%' && i + 2 < value.size() ? hex_value(value[i + 1]) : std::nullopt;
        const auto low = high ? hex_value(value[i + 2]) : std::nullopt;
        if (!low) {
            result += value[i];
            continue;
        }
        result += static_cast<char>(*high << 4U | *low);
        i += 2;
    }
    return result;
}

bool is_storable(std::string_view value)
{
    return core::is_text(value) && std::ranges::none_of(value, [](char each) {
               const auto byte = static_cast<unsigned char>(each);
               return byte < 0x20 || byte == 0x7f;
           });
}

std::set<std::string> names_in(std::string_view list)
{
    std::set<std::string> result;
    while (!list.empty()) {
        const auto each = list.substr(0, list.find(','));
        list.remove_prefix(std::min(each.size() + 1, list.size()));
        const auto from = each.find_first_not_of(' ');
        if (from != std::string_view::npos)
            result.insert(lower_case(each.substr(from, each.find_last_not_of(' ') + 1 - from)));
    }
    return result;
}

} // namespace

std::string lower_case(std::string_view text)
{
    std::string result(text);
    std::ranges::transform(result, result.begin(), [](char each) {
        return each >= 'A' && each <= 'Z' ? static_cast<char>(each - 'A' + 'a') : each;
    });
    return result;
}

bool is_http_name(std::string_view name) noexcept
{
    return !name.empty() && std::ranges::all_of(name, [](char each) {
        return (each >= 'a' && each <= 'z') || (each >= 'A' && each <= 'Z') ||
               (each >= '0' && each <= '9') ||
               std::string_view("!#$%&'*+-.^_`|~").find(each) != std::string_view::npos;
    });
}

bool is_http_value(std::string_view value) noexcept
{
    return !value.empty() && !value.starts_with(' ') && !value.ends_with(' ') &&
           std::ranges::all_of(value, [](char each) { return each >= ' ' && each <= '~'; });
}

http_headers to_http(const headers& envelope)
{
    http_headers result;
    std::string encoded_names;
    std::set<std::string> known;
    for (const auto& [name, value] : envelope) {
        const auto lower = lower_case(name);
        if (!is_http_name(name))
            return {.lines = {},
                    .problem = fmt::format("'{}' cannot be the name of a header of HTTP, which has "
                                           "letters, digits and dashes",
                                           core::is_text(name) ? name : "(unprintable)")};
        if (is_one_of(of_http, lower) || lower == encoded_header)
            return {.lines = {},
                    .problem = fmt::format("the header '{}' is not for messages to set: HTTP "
                                           "itself uses it",
                                           name)};
        if (!known.insert(lower).second)
            return {.lines = {},
                    .problem = fmt::format("two headers are called '{}': HTTP does not tell upper "
                                           "from lower case",
                                           lower)};
        if (is_attribute(lower)) {
            result.lines.emplace_back(name, encoded(value));
        } else if (is_http_value(value) && value.find('%') == std::string::npos) {
            result.lines.emplace_back(name, value);
        } else {
            result.lines.emplace_back(name, encoded(value));
            encoded_names += (encoded_names.empty() ? "" : ",") + lower;
        }
    }
    if (!encoded_names.empty())
        result.lines.emplace_back(encoded_header, encoded_names);
    return result;
}

headers from_http(const headers& received, received_values are)
{
    const bool as_sent = are == received_values::as_sent;
    const auto encoded_names = names_in(core::find_header(received, encoded_header));
    headers result;
    for (const auto& [name, value] : received) {
        auto lower = lower_case(name);
        if (lower == encoded_header || is_one_of(of_http, lower) ||
            is_one_of(of_the_journey, lower) || lower.starts_with("x-forwarded-"))
            continue;
        auto text = as_sent && (is_attribute(lower) || encoded_names.contains(lower))
                        ? decoded(value)
                        : value;
        if (is_storable(text))
            result.insert_or_assign(name, std::move(text));
    }
    return result;
}

} // namespace posthorn::transports
