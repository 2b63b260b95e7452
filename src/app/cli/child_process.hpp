// One command run as a child process: fed, listened to, and ended with everything it started.
#pragma once

#include <posthorn/time.hpp>

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::cli {

/// A program and its words; no shell is involved.
struct command {
    std::string path; ///< where the program was found
    std::vector<std::string> words;
};

/// Looks the first word up as a shell would.
/// Throws: `error` with `invalid_argument` when there is no such program, or it cannot be run.
[[nodiscard]] command find_command(std::vector<std::string> words);

/// What must not leave a child's output.
struct output_filter {
    std::function<std::string(std::string)> cleaned = {}; ///< without it, all may
    std::size_t secret_bytes_max = 0; ///< so many bytes are looked at together at least
};

struct child_request {
    const command& what;
    std::string_view input; ///< its standard input; it need not read it
    std::vector<std::string> environment;

    /// Is given what the child writes to standard output. Without it, that is our own.
    std::function<void(std::string_view)> on_output;

    /// Is given what the child writes to standard error, as it comes.
    std::function<void(std::string_view)> on_error_output;

    /// Is applied to all output, also to `child_end::last_output`.
    output_filter filter;

    /// Ends the child and all of its process group: asks first, and kills after `patience`, which
    /// is asked for again and again in case there is more hurry by then.
    std::stop_token stop;
    std::function<duration()> patience;
};

/// How a child ended.
struct child_end {
    int start_error = 0; ///< it could not be started: an errno
    std::optional<int> exit_code;
    int signal = 0;          ///< that killed it
    bool stopped = false;    ///< we asked it to end
    std::string last_output; ///< the end of what it wrote to standard error
};

/// Runs a child to its end. Threads: safe to call from several.
/// Requires: SIGPIPE is ignored and SIGCHLD is not, and descriptors 0 to 2 are open.
[[nodiscard]] child_end run_child(const child_request& request);

} // namespace posthorn::cli
