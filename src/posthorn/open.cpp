// From a URL to its store: the one place that knows all engines.
#include "store/contract/url.hpp"
#include <posthorn/error.hpp>
#include <posthorn/sqlite.hpp>
#include <posthorn/store.hpp>

#include <fmt/format.h>

namespace posthorn {
namespace {

[[noreturn]] void refuse_scheme(std::string_view url, const std::string& scheme)
{
    throw error(
        error_code::invalid_argument,
        fmt::format("'{}': no store has the scheme '{}'; known is sqlite:PATH", url, scheme));
}

void require_known(std::string_view url)
{
    if (const auto parts = contract::store_url::parse(url); parts.scheme != "sqlite")
        refuse_scheme(url, parts.scheme);
}

} // namespace

store open(std::string_view url, const store_options& options)
{
    require_known(url);
    return sqlite::open(url, options);
}

migration_report migrate(std::string_view url, const store_options& options)
{
    require_known(url);
    return sqlite::migrate(url, options);
}

std::string migration_sql(std::string_view url)
{
    require_known(url);
    return sqlite::migration_sql(url);
}

std::vector<finding> diagnose(std::string_view url, const store_options& options)
{
    require_known(url);
    return sqlite::diagnose(url, options);
}

} // namespace posthorn
