// Migrations: numbered, applied in order, each once, all in one transaction.
#include "store/sqlite/schema.hpp"

#include "store/contract/schema_version.hpp"
#include "store/sqlite/statements.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

namespace posthorn::sqlite {
namespace {

// Schema work runs on tables that may not exist yet, so its statements are prepared on the spot.
std::int64_t single_number(connection& db, const std::string& sql, std::string_view during)
{
    sqlite3_stmt* prepared = nullptr;
    const int code = sqlite3_prepare_v2(db.handle(), sql.c_str(), -1, &prepared, nullptr);
    const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> owned(prepared, &sqlite3_finalize);
    if (code != SQLITE_OK)
        throw_error(db.handle(), code, during);
    query row{db.handle(), prepared, during};
    return row.step() ? row.integer(0) : 0;
}

std::int64_t tables_named(connection& db, std::string_view name)
{
    return single_number(
        db,
        fmt::format("SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = '{}{}'",
                    db.prefix(), name),
        "look for tables");
}

} // namespace

int newest_version()
{
    return sql::migrations.back().version;
}

int found_version(connection& db)
{
    if (single_number(db, "SELECT count(*) FROM pragma_encoding WHERE encoding = 'UTF-8'",
                      "look for the encoding") == 0)
        throw error(error_code::unsupported,
                    "this database keeps its text as UTF-16, which Posthorn cannot share; use "
                    "another file, or copy it into one that was made with PRAGMA encoding='UTF-8'");
    const bool has_schema = tables_named(db, "schema") > 0;
    const bool has_messages = tables_named(db, "message") > 0;
    const auto foreign = [&](std::string_view why) {
        throw error(
            error_code::schema_foreign,
            fmt::format(
                "the tables named {0}… in this database are not Posthorn's: {1}; use another "
                "prefix (?prefix=…)",
                db.prefix(), why));
    };
    if (!has_schema && has_messages)
        foreign(fmt::format("{}message exists, {}schema does not", db.prefix(), db.prefix()));
    if (!has_schema)
        return 0;
    const auto columns = single_number(
        db,
        fmt::format("SELECT count(*) FROM pragma_table_info('{}schema') WHERE name IN "
                    "('version', 'name', 'applied_at')",
                    db.prefix()),
        "look for tables");
    if (columns != 3)
        foreign(fmt::format("{}schema has other columns", db.prefix()));
    const auto version = single_number(
        db, fmt::format("SELECT max(version) FROM {}schema", db.prefix()), "read version");
    if (version > 0 && !has_messages)
        foreign(fmt::format("{}schema exists, {}message does not", db.prefix(), db.prefix()));
    return static_cast<int>(version);
}

void require_current(connection& db)
{
    contract::require_version(found_version(db), newest_version(),
                              fmt::format("with prefix '{}' in this database", db.prefix()));
}

migration_report bring_up_to_date(connection& db, const environment& world)
{
    db.execute("BEGIN IMMEDIATE", "begin migration");
    migration_report report;
    try {
        report.version_before = found_version(db);
        if (report.version_before > newest_version())
            require_current(db);
        for (const auto& each : sql::migrations) {
            if (each.version <= report.version_before)
                continue;
            db.execute(db.with_prefix(each.text), each.name);
            db.execute(fmt::format(
                           "INSERT INTO {}schema (version, name, applied_at) VALUES ({}, '{}', {})",
                           db.prefix(), each.version, each.name,
                           world.clock->now().time_since_epoch().count()),
                       "record migration");
            report.applied.emplace_back(each.name);
        }
        report.version_after = found_version(db);
        db.execute("COMMIT", "commit");
    } catch (...) {
        sqlite3_exec(db.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
        throw;
    }
    return report;
}

} // namespace posthorn::sqlite
