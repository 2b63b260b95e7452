// redis://user:password@host:port/database
#include "transport/redis/address.hpp"

#include "store/contract/url.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <charconv>

namespace posthorn::transports {
namespace {

[[noreturn]] void refuse_address(const std::string& why)
{
    throw error(error_code::invalid_argument,
                why + "; write for example redis://:secret@cache.example:6379/0");
}

int number_in(std::string_view text, std::string_view what, int at_most)
{
    int result = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), result);
    if (failed != std::errc{} || end != text.data() + text.size() || result < 0 || result > at_most)
        refuse_address(fmt::format("'{}' is no {} of a Redis server", text, what));
    return result;
}

} // namespace

redis_address redis_address::parse(std::string_view url)
{
    constexpr std::string_view scheme = "redis://";
    if (url.starts_with("rediss://"))
        refuse_address("rediss:// needs TLS, which the Redis client of this build cannot speak: "
                       "connect to a tunnel with redis://");
    if (!url.starts_with(scheme))
        refuse_address(
            fmt::format("'{}' is not the URL of a Redis server", contract::without_password(url)));
    auto rest = url.substr(scheme.size());
    redis_address result;
    if (const auto at = rest.rfind('@'); at != std::string_view::npos) {
        const auto who = rest.substr(0, at);
        const auto colon = who.find(':');
        result.user = contract::percent_decoded(who.substr(0, colon));
        if (colon != std::string_view::npos)
            result.password = contract::percent_decoded(who.substr(colon + 1));
        else
            refuse_address("a user without a password: the part before @ is user:password");
        rest.remove_prefix(at + 1);
    }
    if (const auto slash = rest.find('/'); slash != std::string_view::npos) {
        if (slash + 1 < rest.size())
            result.database = number_in(rest.substr(slash + 1), "database", 1'000'000);
        rest = rest.substr(0, slash);
    }
    const auto bracket = rest.rfind(']'); // of an address such as [::1]
    const auto colon = rest.rfind(':');
    if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
        result.port = number_in(rest.substr(colon + 1), "port", 65'535);
        rest = rest.substr(0, colon);
    }
    if (rest.starts_with('[') && rest.ends_with(']'))
        rest = rest.substr(1, rest.size() - 2);
    result.host = std::string(rest);
    if (result.host.empty())
        refuse_address("the URL of the Redis server names no host");
    return result;
}

std::string redis_address::shown() const
{
    return fmt::format("redis://{}:{}/{}", host, port, database);
}

} // namespace posthorn::transports
