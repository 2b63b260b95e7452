// What an idle worker has to know: one statement, and a second one only if messages are parked.
#pragma once

#include "store/contract/outlook.hpp"
#include "store/mariadb/connection.hpp"
#include "store/mariadb/ready_front.hpp"

namespace posthorn::mariadb {

/// Chores that, as the front says, had to be left undone a moment ago are not due before they are
/// tried again.
[[nodiscard]] contract::outlook look_ahead(connection& db, const ready_front* front);

} // namespace posthorn::mariadb
