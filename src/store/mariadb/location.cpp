// Reading `mariadb://user:password@host:port/database?…`. It is split first and decoded afterwards,
// because a password may hold any character.
#include "store/mariadb/location.hpp"

#include "core/validation.hpp"
#include "store/contract/url.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <utility>

namespace posthorn::mariadb {
namespace {

[[noreturn]] void refuse(const std::string& why)
{
    throw error(error_code::invalid_argument, why);
}

unsigned number_in(std::string_view what, std::string_view text, unsigned max)
{
    unsigned value = 0;
    const auto* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, value);
    if (parsed.ec != std::errc{} || parsed.ptr != end || value == 0 || value > max)
        refuse(fmt::format("{}={} is not a number from 1 to {}", what, text, max));
    return value;
}

settings::encryption encryption(std::string_view text)
{
    if (text == "off")
        return settings::encryption::off;
    if (text == "prefer")
        return settings::encryption::prefer;
    if (text == "require")
        return settings::encryption::require;
    if (text == "verify")
        return settings::encryption::verify;
    refuse(fmt::format("tls={} is not known; use off, prefer, require or verify", text));
}

// host, host:port, [address]:port
void read_host(std::string_view text, settings& into)
{
    const auto closing = text.rfind(']');
    const auto colon = text.find(':', closing == std::string_view::npos ? 0 : closing);
    auto host = text.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']'))
        host = host.substr(1, host.size() - 2);
    if (!host.empty())
        into.host = contract::percent_decoded(host);
    if (colon != std::string_view::npos)
        into.port = number_in("port", text.substr(colon + 1), 65'535);
}

void read_authority(std::string_view text, settings& into)
{
    const auto at = text.rfind('@');
    if (at != std::string_view::npos) {
        const auto user = text.substr(0, at);
        const auto colon = user.find(':');
        into.user = contract::percent_decoded(user.substr(0, colon));
        if (colon != std::string_view::npos)
            into.password = contract::percent_decoded(user.substr(colon + 1));
        text.remove_prefix(at + 1);
    }
    read_host(text, into);
}

std::string first_line_of(const std::string& path)
{
    std::ifstream file(path);
    std::string line;
    if (!std::getline(file, line) && line.empty())
        refuse(fmt::format("password_file={} cannot be read or is empty", path));
    return line;
}

void read_password(const contract::store_url& url, settings& into)
{
    const auto path = url.parameter("password_file", "");
    if (!into.password.empty() && !path.empty())
        refuse("a password and password_file are both given; give one of them");
    if (!path.empty())
        into.password = first_line_of(path);
    else if (const char* given = std::getenv("MYSQL_PWD");
             given != nullptr && into.password.empty())
        into.password = given;
}

} // namespace

settings parse_location(std::string_view url, const store_options& options)
{
    const auto parts = contract::store_url::parse(url);
    if (parts.scheme != "mariadb")
        refuse(fmt::format("'{}' is not a mariadb: URL", contract::without_password(url)));
    parts.allow_only({"prefix", "pool", "connect_timeout", "lock_timeout", "statement_timeout",
                      "socket", "tls", "tls_ca", "tls_cert", "tls_key", "password_file"});
    std::string_view rest = parts.encoded_rest;
    if (!rest.starts_with("//"))
        refuse("write mariadb://user@host:port/database");
    rest.remove_prefix(2);
    // The last slash: a database's name has none, a carelessly written password may.
    const auto slash = rest.rfind('/');
    if (slash == std::string_view::npos || slash + 1 == rest.size())
        refuse("the URL names no database; write mariadb://user@host:port/database");

    settings result;
    read_authority(rest.substr(0, slash), result);
    result.database = contract::percent_decoded(rest.substr(slash + 1));
    read_password(parts, result);
    result.environment = options.environment;
    result.prefix = parts.parameter("prefix", "posthorn_");
    core::check_identifier("prefix", result.prefix);
    result.socket = parts.parameter("socket", "");
    result.tls = encryption(parts.parameter("tls", "prefer"));
    result.tls_ca = parts.parameter("tls_ca", "");
    result.tls_cert = parts.parameter("tls_cert", "");
    result.tls_key = parts.parameter("tls_key", "");
    if (result.tls == settings::encryption::off)
        for (const auto* name : {"tls_ca", "tls_cert", "tls_key"})
            if (!parts.parameter(name, "").empty())
                refuse(fmt::format("{} is given although tls=off; leave one of them out", name));
    result.pool = number_in("pool", parts.parameter("pool", "8"), 1'000);
    result.connect_timeout = contract::parse_duration(parts.parameter("connect_timeout", "5s"));
    result.lock_timeout = contract::parse_duration(parts.parameter("lock_timeout", "5s"));
    result.statement_timeout =
        contract::parse_duration(parts.parameter("statement_timeout", "30s"));
    for (const auto* text :
         {&result.host, &result.user, &result.password, &result.database, &result.socket})
        if (text->find('\0') != std::string::npos)
            refuse("the URL contains a NUL byte");
    return result;
}

} // namespace posthorn::mariadb
