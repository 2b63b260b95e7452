// The migrations as text, for people who run them with their own tools.
#include "store/sqlite/location.hpp"
#include "store/sqlite/schema.hpp"
#include "store/sqlite/statements.hpp"
#include <posthorn/sqlite.hpp>

#include <fmt/format.h>

namespace posthorn::sqlite {

std::string migration_sql(std::string_view url)
{
    const auto where = location::parse(url, {});
    const connection text_only("", connection::access::memory, where.settings);
    std::string result = "PRAGMA journal_mode=WAL;\nBEGIN IMMEDIATE;\n\n";
    for (const auto& each : sql::migrations)
        result += fmt::format(
            "{}\nINSERT INTO {}schema (version, name, applied_at)\n"
            "VALUES ({}, '{}', CAST(strftime('%s', 'now') AS INTEGER) * 1000000);\n\n",
            text_only.with_prefix(each.text), where.settings.prefix, each.version, each.name);
    return result + "COMMIT;\n";
}

} // namespace posthorn::sqlite
