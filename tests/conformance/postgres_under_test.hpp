// PostgreSQL for the conformance suite: a schema of its own per test, on the server that
// POSTHORN_TEST_POSTGRESQL names.
#pragma once

#include "conformance/store_under_test.hpp"

namespace posthorn::conformance {

/// The server knows types and text, and objects before Posthorn does.
inline constexpr features postgres_features{.untyped_arguments = false, .unchecked_text = false};

[[nodiscard]] std::unique_ptr<store_under_test> make_postgres();

} // namespace posthorn::conformance
