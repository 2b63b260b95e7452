// MariaDB for the conformance suite: a database of its own per test, on the server that
// POSTHORN_TEST_MARIADB names.
#pragma once

#include "conformance/store_under_test.hpp"

namespace posthorn::conformance {

/// Options travel as JSON and keep their types until Posthorn sees them; text is checked before.
inline constexpr features mariadb_features{.unchecked_text = false};

[[nodiscard]] std::unique_ptr<store_under_test> make_mariadb();

} // namespace posthorn::conformance
