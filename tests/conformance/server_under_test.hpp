// What the servers have in common in the suite: where they are, and a name that nobody else uses.
#pragma once

#include <string>

namespace posthorn::conformance {

/// The URL of a running server, which `./dev servers` tells by that variable.
/// Throws: `std::runtime_error` with what to do, if it is missing.
[[nodiscard]] std::string server_url(const char* variable);

/// A name for a schema or a database of one test.
[[nodiscard]] std::string unused_name();

} // namespace posthorn::conformance
