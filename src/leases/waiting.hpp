// Waiting for a lease, also without an end.
#pragma once

#include <posthorn/leases.hpp>

#include <optional>
#include <stop_token>
#include <string_view>

namespace posthorn {

/// `at_most`: nothing means until told to stop; then troubles with the store are logged and waited
/// out.
[[nodiscard]] std::optional<lease> wait_for_lease(store& where, std::string_view name,
                                                  std::optional<duration> at_most,
                                                  const lease_options& how,
                                                  const std::stop_token& stop);

} // namespace posthorn
