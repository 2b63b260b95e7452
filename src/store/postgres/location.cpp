// Taking a PostgreSQL URL apart. libpq reads its own part itself, so that it means what it means
// everywhere; a password never passes through here decoded.
#include "store/postgres/location.hpp"

#include "core/validation.hpp"
#include "store/contract/url.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>
#include <libpq-fe.h>

#include <charconv>
#include <memory>
#include <string>

namespace posthorn::postgres {
namespace {

[[noreturn]] void refuse(const std::string& why)
{
    throw error(error_code::invalid_argument, why);
}

bool is_libpq_parameter(std::string_view name)
{
    const std::unique_ptr<PQconninfoOption, void (*)(PQconninfoOption*)> known(PQconndefaults(),
                                                                               &PQconninfoFree);
    for (const auto* each = known.get(); each != nullptr && each->keyword != nullptr; ++each)
        if (name == each->keyword)
            return true;
    return false;
}

std::size_t parse_pool(std::string_view text)
{
    std::size_t size = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), size);
    if (read.ec != std::errc{} || read.ptr != text.data() + text.size() || size == 0 ||
        size > 1'000)
        refuse(fmt::format("pool: '{}' must be a number from 1 to 1000", text));
    return size;
}

location::pooling parse_pooler(std::string_view text)
{
    if (text == "transaction")
        return location::pooling::transaction;
    if (text != "none")
        refuse(fmt::format("pooler: '{}' must be none or transaction", text));
    return location::pooling::none;
}

// True if the parameter is one of ours.
bool take(location& into, std::string_view name, const std::string& value)
{
    if (name == "schema")
        into.schema = value;
    else if (name == "pool")
        into.pool = parse_pool(value);
    else if (name == "lock_timeout")
        into.lock_timeout = contract::parse_duration(value);
    else if (name == "statement_timeout")
        into.statement_timeout = contract::parse_duration(value);
    else if (name == "pooler")
        into.pooler = parse_pooler(value);
    else
        return false;
    return true;
}

struct free_options {
    void operator()(PQconninfoOption* all) const { PQconninfoFree(all); }
};
using connection_options = std::unique_ptr<PQconninfoOption, free_options>;

bool has(const connection_options& all, std::string_view keyword)
{
    for (const auto* each = all.get(); each != nullptr && each->keyword != nullptr; ++each)
        if (each->keyword == keyword && each->val != nullptr)
            return true;
    return false;
}

// Somebody says it, or may say it: a service that the URL names is looked up when connecting.
bool has_connect_timeout(const connection_options& of_url)
{
    return has(of_url, "connect_timeout") || has(of_url, "service") ||
           has(connection_options(PQconndefaults()), "connect_timeout");
}

} // namespace

location location::parse(std::string_view url)
{
    contract::refuse_split_password(url, "/?");
    location result;
    const auto question = url.find('?');
    result.conninfo = std::string(url.substr(0, question));
    if (!result.conninfo.starts_with("postgresql://") &&
        !result.conninfo.starts_with("postgres://"))
        refuse("a PostgreSQL store is written postgresql://user@host:port/database");
    auto rest = question == std::string_view::npos ? "" : url.substr(question + 1);
    char separator = '?';
    while (!rest.empty()) {
        const auto pair = rest.substr(0, rest.find('&'));
        rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
        if (is_libpq_parameter(pair.substr(0, pair.find('=')))) {
            result.conninfo += separator;
            result.conninfo += pair; // not even looked at: it may be the password
            separator = '&';
            continue;
        }
        const auto parsed = contract::store_url::parse("x:?" + std::string(pair)).parameters;
        for (const auto& [name, value] : parsed)
            if (!take(result, name, value))
                refuse(fmt::format("unknown parameter '{}' for postgresql; known are schema, pool, "
                                   "lock_timeout, statement_timeout, pooler and those of libpq "
                                   "(sslmode, connect_timeout, …)",
                                   name));
    }
    core::check_identifier("schema", result.schema);
    char* why = nullptr;
    const connection_options options(PQconninfoParse(result.conninfo.c_str(), &why));
    if (options == nullptr) {
        PQfreemem(why); // it quotes the URL, and with it a password
        refuse("the PostgreSQL URL cannot be read; write "
               "postgresql://user:password@host:port/database and percent-encode what is special");
    }
    if (!has_connect_timeout(options))
        result.conninfo += fmt::format("{}connect_timeout=5", separator);
    return result;
}

} // namespace posthorn::postgres
