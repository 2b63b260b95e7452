// Asking any database a question in SQL, such as which tenants there are. It need not be a store.
#pragma once

#include "app/daemon/secret.hpp"

#include <map>
#include <string>
#include <vector>

namespace posthorn::daemon {

/// A row: its columns by their names, as text; NULL is empty.
using found_row = std::map<std::string, std::string, std::less<>>;

/// Changes nothing, and creates nothing. Throws: `error`, also for more rows than there can be
/// stores.
[[nodiscard]] std::vector<found_row> run_query(const secret_url& where, const std::string& sql);

} // namespace posthorn::daemon
