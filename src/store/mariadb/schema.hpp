// The version of a store's tables, and how they are brought up to date.
#pragma once

#include "store/mariadb/connection.hpp"
#include <posthorn/store.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace posthorn::mariadb {

/// The newest version this library knows.
[[nodiscard]] int newest_version();

/// The version of the tables; 0 if there are none. Throws: `error` with `schema_foreign`.
[[nodiscard]] int found_version(connection& db);

/// Throws unless the tables are exactly what this library needs.
void require_current(connection& db);

migration_report bring_up_to_date(connection& db);

/// A script as the mariadb client reads it, taken apart: `DELIMITER` lines are its own affair.
[[nodiscard]] std::vector<std::string> statements_of(std::string_view script);

} // namespace posthorn::mariadb
