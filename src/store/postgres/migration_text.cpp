// The migrations as text, for people who run them with their own tools.
#include "store/contract/named_statement.hpp"
#include "store/postgres/location.hpp"
#include "store/postgres/statements.hpp"
#include <posthorn/postgres.hpp>

#include <fmt/format.h>

namespace posthorn::postgres {

std::string migration_sql(std::string_view url)
{
    const auto where = location::parse(url);
    std::string result = fmt::format("BEGIN;\n\n"
                                     "-- No operator or function of another role is to be mistaken "
                                     "for the server's own.\n"
                                     "SET LOCAL search_path = pg_catalog, pg_temp;\n\n"
                                     "CREATE SCHEMA IF NOT EXISTS {};\n\n",
                                     where.schema);
    for (const auto& each : sql::migrations)
        result += fmt::format("{}\nINSERT INTO {}schema (version, name, applied_at)\n"
                              "VALUES ({}, '{}', {}clock(NULL::bigint));\n\n",
                              contract::with_prefix(each.text, where.prefix()), where.prefix(),
                              each.version, each.name, where.prefix());
    return result + "COMMIT;\n";
}

} // namespace posthorn::postgres
