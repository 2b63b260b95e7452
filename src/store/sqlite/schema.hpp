// The version of a store's tables, and how they are brought up to date.
#pragma once

#include "store/sqlite/connection.hpp"
#include <posthorn/store.hpp>

namespace posthorn::sqlite {

/// The newest version this library knows.
[[nodiscard]] int newest_version();

/// The version of the tables; 0 if there are none. Throws: `error` with `schema_foreign`.
[[nodiscard]] int found_version(connection& db);

/// Throws unless the tables are exactly what this library needs.
void require_current(connection& db);

migration_report bring_up_to_date(connection& db, const environment& world);

} // namespace posthorn::sqlite
