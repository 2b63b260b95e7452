// What follows from events, outside of any request.
#pragma once

#include "settings.hpp"
#include "user_table.hpp"
#include <posthorn/worker.hpp>

namespace users {

/// Handles both events. Lifetime: `table` must outlive it.
[[nodiscard]] posthorn::worker make_worker(const posthorn::store& store, const user_table& table,
                                           const settings& how);

} // namespace users
