// A MariaDB URL, understood.
#pragma once

#include "store/mariadb/connection.hpp"
#include <posthorn/store.hpp>

#include <string_view>

namespace posthorn::mariadb {

/// Throws: `error` with `invalid_argument`, which never holds the password.
[[nodiscard]] settings parse_location(std::string_view url, const store_options& options);

} // namespace posthorn::mariadb
