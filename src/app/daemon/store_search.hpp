// Looking for the stores that an entry of the configuration means.
#pragma once

#include "app/daemon/config.hpp"
#include <posthorn/stores.hpp>

#include <string>
#include <vector>

namespace posthorn::daemon {

/// Whether it is one store, for which nobody needs to look.
[[nodiscard]] bool is_fixed(const store_settings& which);

/// The stores of one entry, asked now. Rows that are no store are left out, and told.
/// Throws: `error`.
[[nodiscard]] std::vector<named_store> find_stores(const store_settings& which,
                                                   std::vector<std::string>& left_out);

/// The name of a store that was given none: its address, with the schema or prefix if there is one.
[[nodiscard]] std::string default_name(const secret_url& url);

} // namespace posthorn::daemon
