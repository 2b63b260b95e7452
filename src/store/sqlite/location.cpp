// Reading `sqlite:PATH?prefix=…&busy_timeout=…&synchronous=…`.
#include "store/sqlite/location.hpp"

#include "core/validation.hpp"
#include "store/contract/url.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

namespace posthorn::sqlite {

location location::parse(std::string_view url, const store_options& options)
{
    const auto parts = contract::store_url::parse(url);
    if (parts.scheme != "sqlite")
        throw error(error_code::invalid_argument, fmt::format("'{}' is not an sqlite: URL", url));
    parts.allow_only({"prefix", "busy_timeout", "synchronous"});

    location result;
    if (parts.rest != ":memory:") {
        result.path = parts.rest.starts_with("//") ? parts.rest.substr(2) : parts.rest;
        if (result.path.find('\0') != std::string::npos)
            throw error(error_code::invalid_argument, "the path in the URL contains a NUL byte");
        if (result.path.empty())
            throw error(error_code::invalid_argument,
                        "the URL names no file; write sqlite:PATH or sqlite::memory:");
    }
    result.settings.environment = options.environment;
    result.settings.prefix = parts.parameter("prefix", "posthorn_");
    core::check_identifier("prefix", result.settings.prefix);
    result.settings.busy_timeout = contract::parse_duration(parts.parameter("busy_timeout", "5s"));
    const auto synchronous = parts.parameter("synchronous", "full");
    if (synchronous != "full" && synchronous != "normal")
        throw error(
            error_code::invalid_argument,
            fmt::format("synchronous={} is not known; use full (every commit survives a power "
                        "failure) or normal (the last ones may not)",
                        synchronous));
    result.settings.synchronous_full = synchronous == "full";
    return result;
}

} // namespace posthorn::sqlite
