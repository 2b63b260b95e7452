// Migrations: numbered, applied in order. MariaDB commits every CREATE by itself, so each step can
// be repeated, its version is recorded last, and a lock keeps two migrations apart.
#include "store/mariadb/schema.hpp"

#include "store/contract/schema_version.hpp"
#include "store/mariadb/statements.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace posthorn::mariadb {
namespace {

struct table {
    std::string_view name;
    int since; ///< the version that brought it
};

constexpr std::array tables{
    table{"schema", 1},      table{"message", 1},    table{"own_id", 1},      table{"ready", 1},
    table{"queue", 1},       table{"key_head", 1},   table{"finished", 1},    table{"batch", 1},
    table{"dedup", 1},       table{"parked", 2},     table{"paused", 2},      table{"joins", 3},
    table{"join_member", 3}, table{"inbox", 4},      table{"command_key", 4}, table{"lease", 5},
    table{"lease_fence", 5}, table{"fence_mark", 5}, table{"job", 6},         table{"job_run", 6},
    table{"stale_head", 8}};

bool belongs_to(const table& which, std::int64_t version)
{
    return which.since <= version;
}

std::string quoted_names(std::string_view prefix, std::int64_t version)
{
    std::string result;
    for (const auto& each : tables)
        if (belongs_to(each, version))
            result += fmt::format("{}'{}{}'", result.empty() ? "" : ", ", prefix, each.name);
    return result;
}

std::int64_t number_from(connection& db, const std::string& sql, std::string_view during)
{
    return std::stoll(db.ask(sql, during).value_or("0"));
}

// One migration at a time for each set of tables. The server gives the lock back by itself when the
// connection goes.
class migration_lock {
public:
    explicit migration_lock(connection& db)
        : db_(db),
          name_(fmt::format("CONCAT('posthorn ', MD5(CONCAT(DATABASE(), '.{}')))", db.prefix()))
    {
        if (db_.ask(fmt::format("SELECT GET_LOCK({}, 60)", name_), "lock migration") != "1")
            throw error(error_code::busy, "another migration of these tables takes too long",
                        {.retryable = true});
    }
    migration_lock(const migration_lock&) = delete;
    migration_lock& operator=(const migration_lock&) = delete;
    ~migration_lock()
    {
        try {
            (void)db_.ask(fmt::format("SELECT RELEASE_LOCK({})", name_), "unlock migration");
        } catch (const error&) {
            // The connection is lost, and the lock with it.
        }
    }

private:
    connection& db_;
    std::string name_;
};

// The catalogue shows only what the user may touch: what it does not show is asked for.
bool is_missing(connection& db, const table& which)
{
    try {
        (void)db.ask(fmt::format("SELECT 1 FROM {}{} LIMIT 0", db.prefix(), which.name),
                     "look for tables");
        return false;
    } catch (const error& failure) {
        if (failure.code() != error_code::schema_missing && failure.code() != error_code::read_only)
            throw;
        return failure.code() == error_code::schema_missing;
    }
}

void require_tables(connection& db, std::int64_t version)
{
    const auto seen =
        number_from(db,
                    fmt::format("SELECT COUNT(*) FROM information_schema.tables "
                                "WHERE table_schema = DATABASE() AND table_name IN ({})",
                                quoted_names(db.prefix(), version)),
                    "look for tables");
    const auto expected =
        std::ranges::count_if(tables, [&](const table& each) { return belongs_to(each, version); });
    if (seen == expected)
        return;
    const auto missing = std::ranges::count_if(tables, [&](const table& each) {
        return belongs_to(each, version) && is_missing(db, each);
    });
    if (missing > 0)
        throw error(error_code::schema_foreign,
                    fmt::format("only {} of the {} tables named {}… are there; restore the others "
                                "from a backup",
                                expected - missing, expected, db.prefix()));
}

} // namespace

int newest_version()
{
    return sql::migrations.back().version;
}

int found_version(connection& db)
{
    const auto foreign = db.ask(
        fmt::format("SELECT GROUP_CONCAT(table_name SEPARATOR ', ') FROM information_schema.tables "
                    "WHERE table_schema = DATABASE() AND table_name IN ({}) "
                    "AND table_comment <> 'Posthorn'",
                    quoted_names(db.prefix(), newest_version())),
        "look for tables");
    if (foreign)
        throw error(error_code::schema_foreign,
                    fmt::format("tables of these names in this database are not Posthorn's: {}; "
                                "use another prefix (?prefix=…)",
                                *foreign));
    const auto has_schema =
        number_from(db,
                    fmt::format("SELECT COUNT(*) FROM information_schema.tables "
                                "WHERE table_schema = DATABASE() AND table_name = '{}schema'",
                                db.prefix()),
                    "look for tables");
    if (has_schema == 0)
        return 0;
    const auto version = number_from(
        db, fmt::format("SELECT MAX(version) FROM {}schema", db.prefix()), "read version");
    if (version == 0)
        return 0;
    require_tables(db, version);
    return static_cast<int>(version);
}

void require_current(connection& db)
{
    contract::require_version(
        found_version(db), newest_version(),
        fmt::format("with prefix '{}' in this database that this user may see", db.prefix()));
}

std::vector<std::string> statements_of(std::string_view script)
{
    std::vector<std::string> result;
    std::string delimiter = ";";
    std::string current;
    while (!script.empty()) {
        const auto line = script.substr(0, script.find('\n'));
        script.remove_prefix(std::min(script.size(), line.size() + 1));
        if (line.starts_with("DELIMITER ")) {
            delimiter = line.substr(10);
            continue;
        }
        const bool is_comment = line.starts_with("--");
        if (current.empty() && (line.empty() || is_comment))
            continue;
        current += line;
        current += '\n';
        if (is_comment || !line.ends_with(delimiter))
            continue;
        current.resize(current.size() - delimiter.size() - 1);
        result.push_back(std::move(current));
        current.clear();
    }
    return result;
}

migration_report bring_up_to_date(connection& db)
{
    const migration_lock alone(db);
    migration_report report;
    report.version_before = found_version(db);
    if (report.version_before > newest_version())
        require_current(db);
    for (const auto& each : sql::migrations) {
        if (each.version <= report.version_before)
            continue;
        for (const auto& statement : statements_of(each.text))
            db.execute(db.with_prefix(statement), each.name);
        db.execute(
            fmt::format("INSERT INTO {}schema (version, name, applied_at) VALUES ({}, '{}', {})",
                        db.prefix(), each.version, each.name, db.now().time_since_epoch().count()),
            "record migration");
        report.applied.emplace_back(each.name);
    }
    report.version_after = found_version(db);
    return report;
}

} // namespace posthorn::mariadb
