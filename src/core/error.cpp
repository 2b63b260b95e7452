// The error type and the names of its codes.
#include <posthorn/error.hpp>

#include <utility>

namespace posthorn {

std::string_view to_string(error_code code) noexcept
{
    switch (code) {
    case error_code::invalid_argument: return "invalid_argument";
    case error_code::no_transaction: return "no_transaction";
    case error_code::not_found: return "not_found";
    case error_code::schema_missing: return "schema_missing";
    case error_code::schema_newer: return "schema_newer";
    case error_code::schema_foreign: return "schema_foreign";
    case error_code::schema_outdated: return "schema_outdated";
    case error_code::read_only: return "read_only";
    case error_code::corrupt: return "corrupt";
    case error_code::storage_full: return "storage_full";
    case error_code::busy: return "busy";
    case error_code::serialization: return "serialization";
    case error_code::constraint: return "constraint";
    case error_code::connection_lost: return "connection_lost";
    case error_code::unavailable: return "unavailable";
    case error_code::unsupported: return "unsupported";
    case error_code::lease_lost: return "lease_lost";
    case error_code::stopped: return "stopped";
    case error_code::internal: return "internal";
    }
    return "unknown";
}

error::error(error_code code, const std::string& what) : error(code, what, properties{}) {}

error::error(error_code code, const std::string& what, properties details)
    : std::runtime_error(what), code_(code), details_(std::move(details))
{}

} // namespace posthorn
