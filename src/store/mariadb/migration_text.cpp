// The migrations as text, for people who run them with their own tools.
#include "store/mariadb/location.hpp"
#include "store/mariadb/schema.hpp"
#include "store/mariadb/statements.hpp"
#include <posthorn/mariadb.hpp>

#include <fmt/format.h>

namespace posthorn::mariadb {

std::string migration_sql(std::string_view url)
{
    const auto where = parse_location(url, {});
    std::string result;
    for (const auto& each : sql::migrations)
        result += fmt::format("{}\nINSERT INTO {}schema (version, name, applied_at)\n"
                              "VALUES ({}, '{}', TIMESTAMPDIFF(MICROSECOND, '1970-01-01', "
                              "UTC_TIMESTAMP(6)));\n\n",
                              contract::with_prefix(each.text, where.prefix), where.prefix,
                              each.version, each.name);
    return result;
}

} // namespace posthorn::mariadb
