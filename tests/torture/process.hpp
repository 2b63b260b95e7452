// A program that runs beside the test: it can be asked how it ended, and sent any signal.
#pragma once

#include <posthorn/time.hpp>

#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace posthorn::torture {

/// Killed with this object, if it still runs.
class process {
public:
    /// The first argument is the program. What it prints is appended to `log`.
    process(std::vector<std::string> arguments, const std::filesystem::path& log);
    process(process&& other) noexcept;
    process(const process&) = delete;
    process& operator=(const process&) = delete;
    process& operator=(process&&) = delete;
    ~process();

    void send(int signal) const { ::kill(pid_, signal); }

    /// Returns when it stands still.
    void stop_and_wait() const;

    /// How it ended: the exit code, or a signal as a negative number; nothing while it runs.
    std::optional<int> ended();

    /// The same, waited for; nothing if it still runs after that time.
    std::optional<int> wait(duration at_most);

private:
    pid_t pid_ = 0;
    std::optional<int> status_;
};

} // namespace posthorn::torture
