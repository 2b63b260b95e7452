// Taking URLs apart. What is wrong is said without quoting it: any piece may hold the password.
#include "transport/rabbitmq/address.hpp"

#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <charconv>
#include <limits>

namespace posthorn::rabbitmq {
namespace {

constexpr std::string_view right_url = "write amqp://USER:PASSWORD@HOST:PORT/VHOST, or amqps://";

[[noreturn]] void refuse_url(std::string_view why)
{
    throw error(error_code::invalid_argument,
                fmt::format("the RabbitMQ URL {}; {}", why, right_url));
}

std::string decoded(std::string_view text)
{
    std::string result;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            result.push_back(text[i]);
            continue;
        }
        unsigned value = 0;
        const auto digits = text.substr(i + 1, 2);
        const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
        if (digits.size() != 2 || read.ptr != digits.data() + 2)
            refuse_url("has a % that is not followed by two hexadecimal digits");
        result.push_back(static_cast<char>(value));
        i += 2;
    }
    return result;
}

void read_user(address& into, std::string_view text)
{
    const auto colon = text.find(':');
    into.user = decoded(text.substr(0, colon));
    into.password = colon == std::string_view::npos ? "" : decoded(text.substr(colon + 1));
    if (into.user.find('\0') != std::string::npos || into.password.find('\0') != std::string::npos)
        refuse_url("has a zero byte in its user or password");
}

void read_host(address& into, std::string_view text)
{
    auto colon = text.rfind(':');
    if (text.starts_with('[')) {
        const auto end = text.find(']');
        if (end == std::string_view::npos)
            refuse_url("has a [ without its ]");
        into.host = std::string(text.substr(1, end - 1));
        colon = end + 1 < text.size() ? end + 1 : std::string_view::npos;
        if (colon != std::string_view::npos && text[colon] != ':')
            refuse_url("has something other than a port after its ]");
    } else {
        into.host = decoded(text.substr(0, colon));
    }
    if (into.host.empty())
        refuse_url("names no host");
    into.port = into.tls ? 5671 : 5672;
    if (colon == std::string_view::npos)
        return;
    const auto port = text.substr(colon + 1);
    unsigned number = 0;
    const auto read = std::from_chars(port.data(), port.data() + port.size(), number);
    if (read.ec != std::errc{} || read.ptr != port.data() + port.size() || number == 0 ||
        number > std::numeric_limits<std::uint16_t>::max())
        refuse_url("has a port that is not a number from 1 to 65535");
    into.port = static_cast<std::uint16_t>(number);
}

address address_of(std::string_view url)
{
    address result;
    if (url.starts_with("amqps://"))
        result.tls = true;
    else if (!url.starts_with("amqp://"))
        refuse_url("begins with neither amqp:// nor amqps://");
    url.remove_prefix(url.find("//") + 2);
    if (url.find_first_of("?#") != std::string_view::npos)
        refuse_url("has a ? or #: what it would say has options of its own");
    const auto slash = url.find('/', url.rfind('@') == std::string_view::npos ? 0 : url.rfind('@'));
    auto authority = url.substr(0, slash);
    if (slash != std::string_view::npos && slash + 1 < url.size()) {
        const auto vhost = url.substr(slash + 1);
        if (vhost.find('/') != std::string_view::npos)
            refuse_url("has a second / in its path: write a vhost's own / as %2F");
        result.vhost = decoded(vhost);
    }
    if (const auto at = authority.rfind('@'); at != std::string_view::npos) {
        read_user(result, authority.substr(0, at));
        authority.remove_prefix(at + 1);
    }
    read_host(result, authority);
    return result;
}

} // namespace

std::string address::place() const
{
    return vhost == "/" ? fmt::format("{}:{}", host, port)
                        : fmt::format("{}:{}/{}", host, port, vhost);
}

std::vector<address> addresses_of(std::string_view urls)
{
    std::vector<address> result;
    while (true) {
        const auto comma = urls.find(',');
        result.push_back(address_of(urls.substr(0, comma)));
        if (comma == std::string_view::npos)
            return result;
        urls.remove_prefix(comma + 1);
    }
}

std::string places_of(const std::vector<address>& all)
{
    std::string result;
    for (const auto& each : all)
        result.append(result.empty() ? "" : ", ").append(each.place());
    return result;
}

} // namespace posthorn::rabbitmq
