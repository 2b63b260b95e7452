// Commands as handlers: what a message becomes for a child process, and what its end means for the
// message. Shared by `work` and the daemon.
#pragma once

#include "app/cli/child_process.hpp"
#include "app/cli/process_shortage.hpp"
#include <posthorn/delivery.hpp>
#include <posthorn/handler.hpp>
#include <posthorn/stop.hpp>
#include <posthorn/time.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace posthorn::cli {

struct command_rules {
    std::optional<duration> timeout = {}; ///< of the handler, for the words of an error
    duration grace = {};                  ///< of the worker
    stop_request stop = {};               ///< of the worker: a hurry shortens the patience

    /// Are given what the child says; without the first, standard output is ours.
    std::function<void(std::string_view)> on_output = {};
    std::function<void(std::string_view)> on_error_output = {};

    output_filter filter = {}; ///< of both, and of the error that becomes the message's

    /// Of all commands that share the machine, and how its beginning and end are told.
    std::shared_ptr<process_shortage> shortage = std::make_shared<process_shortage>();
    std::function<void(std::string_view)> on_shortage = {};
};

struct command_end {
    outcome said;
    /// Of a message that was postponed for a reason that has not been told already.
    std::string put_off_because = {};
};

/// Runs a command for a message, to its end. Threads: safe to call from several.
[[nodiscard]] command_end handle_by_command(const command& what, const delivery_view& view,
                                            const command_rules& how);

/// Children are born with descriptors 0 to 2, and their ends must reach us: to be called once,
/// before there are threads.
void prepare_for_children();

} // namespace posthorn::cli
