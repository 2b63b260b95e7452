// SQLite for the conformance suite: a file of its own per test, or a store in memory.
#pragma once

#include "conformance/store_under_test.hpp"

namespace posthorn::conformance {

[[nodiscard]] std::unique_ptr<store_under_test> make_sqlite_file();
[[nodiscard]] std::unique_ptr<store_under_test> make_sqlite_memory();

} // namespace posthorn::conformance
