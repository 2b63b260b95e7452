// A broker of one test's own, to be killed and configured as that test likes.
#pragma once

#include "checker/scratch_folder.hpp"

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>

namespace posthorn::transports {

/// Runs from construction on; it ends, and its data with it, when this object does.
class private_broker {
public:
    /// `options` are the server's own.
    explicit private_broker(std::string name, std::string options = {})
        : name_(std::move(name)), options_(std::move(options))
    {
        start();
    }
    private_broker(const private_broker&) = delete;
    private_broker& operator=(const private_broker&) = delete;
    ~private_broker()
    {
        go_on(); // one that is halted could not end
        (void)std::system(command("stop").c_str());
    }

    /// A crash: all of its processes at once, with SIGKILL.
    void kill() { run(command("kill")); }

    /// Returns when it answers. After a crash it has its old data and its old port.
    void start() { run(command("start") + " " + options_); }

    /// It is there, and does nothing.
    void halt() const { ::kill(pid(), SIGSTOP); }
    void go_on() const { ::kill(pid(), SIGCONT); }

    [[nodiscard]] std::uint16_t port() const
    {
        return static_cast<std::uint16_t>(std::stoi(folder_.read(name_ + ".port")));
    }

private:
    [[nodiscard]] pid_t pid() const { return std::stoi(folder_.read(name_ + ".pid")); }

    [[nodiscard]] std::string command(const std::string& verb) const
    {
        return std::string("bash ") + SERVERS_SCRIPT + " " + name_ + " " + verb + " " +
               folder_.file("").string();
    }

    static void run(const std::string& command)
    {
        if (std::system(command.c_str()) != 0)
            throw std::runtime_error("failed: " + command);
    }

    checker::scratch_folder folder_;
    std::string name_;
    std::string options_;
};

} // namespace posthorn::transports
