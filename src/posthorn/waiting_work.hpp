// The part of a diagnosis that is the same on all engines: work that nothing is done about.
#pragma once

#include <posthorn/store.hpp>

#include <vector>

namespace posthorn {

/// Looks at messages, jobs and pauses of a store whose tables are up to date.
void look_at_waiting_work(store& where, std::vector<finding>& into);

} // namespace posthorn
