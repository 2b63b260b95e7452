// What an idle worker has to know: one statement, and a second one only if messages are parked.
#pragma once

#include "store/contract/outlook.hpp"
#include "store/mariadb/connection.hpp"

namespace posthorn::mariadb {

[[nodiscard]] contract::outlook look_ahead(connection& db);

} // namespace posthorn::mariadb
