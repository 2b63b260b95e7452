// The version of a store's tables, and bringing them up to date.
#pragma once

#include "store/postgres/connection.hpp"
#include <posthorn/store.hpp>

namespace posthorn::postgres {

[[nodiscard]] int newest_version();

/// 0: there are no tables. Throws: `error` with `schema_foreign`.
[[nodiscard]] int found_version(connection& db, const location& where);

/// Throws: `error` unless the tables are what this library needs.
void require_current(connection& db, const location& where);

migration_report bring_up_to_date(connection& db, const location& where, const environment& world);

} // namespace posthorn::postgres
