// The command line: reads the arguments, runs the verb they name, and turns errors into exit codes.
#pragma once

#include "app/cli/verbs.hpp"

namespace posthorn::cli {

/// Carries out one command line. What goes wrong is said on standard error.
[[nodiscard]] exit_status run(int argc, const char* const* argv);

} // namespace posthorn::cli
