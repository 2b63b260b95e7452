// What a holder of a lease decides: when to renew it, and until when to believe in it. Everything
// is a share of the lease's own length, so that short leases are renewed in time, too.
#pragma once

#include <posthorn/leases.hpp>

#include <string_view>

namespace posthorn::core {

/// Throws: `error` with `invalid_argument`, naming what is wrong and what would be right.
void check_lease(std::string_view name, const lease_options& how);
void check_lease_name(std::string_view name);

/// For how long a holder may believe in a lease of this kind, from before it asked for it.
[[nodiscard]] duration believed_for(const lease_options& how) noexcept;

/// When to renew it, from the same moment: after 60 % of its length, and by chance (in [0, 1)) up
/// to a quarter of what is left then.
[[nodiscard]] duration renewed_after(const lease_options& how, double chance) noexcept;

/// How long to wait after a renewal that failed, if the lease is believed in for so long: sooner
/// each time, so that several tries always fit in.
[[nodiscard]] duration tried_again_after(duration left, double chance) noexcept;

} // namespace posthorn::core
