// A RabbitMQ of one test's own, to be killed and configured as that test likes. It takes a while
// to start: whoever wants the network alone to fail uses the gate.
#pragma once

#include "checker/scratch_folder.hpp"

#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>

namespace posthorn::test {

/// Runs from construction on; it ends, and its data with it, when this object does.
class private_broker {
public:
    /// `options` are lines of its configuration, each in quotes for the shell.
    explicit private_broker(std::string options = {}) : options_(std::move(options)) { start(); }
    private_broker(const private_broker&) = delete;
    private_broker& operator=(const private_broker&) = delete;
    ~private_broker() { (void)std::system(command("stop").c_str()); }

    /// A crash: all of its processes at once, with SIGKILL.
    void kill() { run(command("kill")); }

    /// Returns when it answers. After a crash it has its old data and its old port.
    void start() { run(command("start") + " " + options_); }

    /// Runs `rabbitmqctl` on it.
    void control(const std::string& words)
    {
        run(text_of("rabbitmq.home") + "/control -q " + words);
    }

    [[nodiscard]] std::uint16_t port() const
    {
        return static_cast<std::uint16_t>(std::stoi(text_of("rabbitmq.port")));
    }

    [[nodiscard]] std::string url() const
    {
        return "amqp://guest:guest@127.0.0.1:" + std::to_string(port());
    }

private:
    [[nodiscard]] std::string text_of(const char* file) const
    {
        const auto text = folder_.read(file);
        return text.substr(0, text.find('\n'));
    }

    [[nodiscard]] std::string command(const std::string& verb) const
    {
        return std::string("bash ") + SERVERS_SCRIPT + " rabbitmq " + verb + " " +
               folder_.file("").string();
    }

    static void run(const std::string& command)
    {
        if (std::system(command.c_str()) != 0)
            throw std::runtime_error("failed: " + command);
    }

    checker::scratch_folder folder_;
    std::string options_;
};

} // namespace posthorn::test
