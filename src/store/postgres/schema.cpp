// Migrations: numbered, applied in order, each once, all in one transaction. PostgreSQL can roll
// tables back like anything else.
#include "store/postgres/schema.hpp"

#include "store/contract/schema_version.hpp"
#include "store/postgres/statements.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace posthorn::postgres {
namespace {

bool has_table(connection& db, const location& where, std::string_view name)
{
    return db
        .ask(fmt::format(
                 "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = '{}' AND tablename = '{}'",
                 where.schema, name),
             "look for tables")
        .has_value();
}

[[noreturn]] void refuse_foreign(const location& where, std::string_view why)
{
    throw error(error_code::schema_foreign,
                fmt::format("the schema {} of this database is not Posthorn's: {}; use another one "
                            "(?schema=…)",
                            where.schema, why));
}

} // namespace

int newest_version()
{
    return sql::migrations.back().version;
}

int found_version(connection& db, const location& where)
{
    const bool has_schema = has_table(db, where, "schema");
    const bool has_messages = has_table(db, where, "message");
    if (!has_schema && has_messages)
        refuse_foreign(where, "it has a table message, but no table schema");
    if (!has_schema)
        return 0;
    const auto columns =
        db.ask(fmt::format("SELECT pg_catalog.count(*) FROM pg_catalog.pg_attribute "
                           "WHERE attrelid = '{}.schema'::regclass::oid"
                           " AND attname IN ('version', 'name', 'applied_at')",
                           where.schema),
               "look for tables");
    if (columns != "3")
        refuse_foreign(where, "its table schema has other columns");
    const auto version = db.ask(
        fmt::format("SELECT pg_catalog.max(version) FROM {}.schema", where.schema), "read version");
    if (version && !has_messages)
        refuse_foreign(where, "it has a table schema, but no table message");
    return version ? std::stoi(*version) : 0;
}

void require_current(connection& db, const location& where)
{
    contract::require_version(found_version(db, where), newest_version(),
                              fmt::format("in schema {} of this database", where.schema));
}

migration_report bring_up_to_date(connection& db, const location& where, const environment& world)
{
    db.execute("BEGIN", "begin migration");
    migration_report report;
    try {
        // Two migrations at once: the second waits, and finds nothing to do.
        db.execute("SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0; "
                   "SET LOCAL search_path = pg_catalog, pg_temp",
                   "settings");
        db.execute(
            fmt::format("SELECT pg_advisory_xact_lock(hashtext('posthorn {}'))", where.schema),
            "lock migrations");
        report.version_before = found_version(db, where);
        if (report.version_before > newest_version())
            require_current(db, where);
        // Asking first: creating needs a right on the database even if there is nothing to create.
        const auto exists = db.ask(
            fmt::format("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = '{}'", where.schema),
            "schema");
        if (!exists)
            db.execute("CREATE SCHEMA " + where.schema, "create schema");
        for (const auto& each : sql::migrations) {
            if (each.version <= report.version_before)
                continue;
            db.execute(db.with_prefix(each.text), each.name);
            db.execute(
                fmt::format(
                    "INSERT INTO {}.schema (version, name, applied_at) VALUES ({}, "
                    "'{}', {}.clock({}))",
                    where.schema, each.version, each.name, where.schema,
                    world.clock->database_time()
                        ? std::to_string(world.clock->database_time()->time_since_epoch().count())
                        : "NULL::bigint"),
                "record migration");
            report.applied.emplace_back(each.name);
        }
        report.version_after = found_version(db, where);
        db.execute("COMMIT", "commit");
    } catch (...) {
        db.roll_back_quietly();
        throw;
    }
    return report;
}

} // namespace posthorn::postgres
