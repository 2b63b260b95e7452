// The verb `serve`: a daemon that does what one file says.
#pragma once

#include "app/cli/verbs.hpp"
#include "app/daemon/config.hpp"

#include <string>

namespace posthorn::cli {

struct serve_request {
    std::string config;
    bool check = false;   ///< only look at the file
    bool connect = false; ///< and open what it names
};

exit_status serve(const serve_request& what, output& to);

} // namespace posthorn::cli

namespace posthorn::daemon {

/// Says what a configuration means, and with `connect` whether it can be reached.
[[nodiscard]] cli::exit_status show_check(const configuration& what, bool connect, cli::output& to);

/// Says everything that is wrong, each with its place.
void tell_problems(const bad_configuration& wrong, const cli::output& to);

/// Runs until a signal ends it.
[[nodiscard]] cli::exit_status run_daemon(configuration what, cli::output& to);

} // namespace posthorn::daemon
