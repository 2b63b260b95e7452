// Letting time pass for leases under a manual clock: they renew themselves as they would have.
#pragma once

#include <posthorn/leases.hpp>
#include <posthorn/testing/manual_clock.hpp>

#include <initializer_list>

namespace posthorn::testing {

/// Moves the clock on by `length`, and stands still whenever one of these leases is to be renewed,
/// until it has been. Leases that are not named may lose their time meanwhile.
/// Throws: `error` with `busy` if a renewal takes longer than half a minute of real time.
void let_time_pass(manual_clock& clock, duration length,
                   std::initializer_list<const lease*> renewing = {});

} // namespace posthorn::testing
