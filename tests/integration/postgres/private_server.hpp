// A PostgreSQL server of one test's own, to be killed and configured as that test likes.
#pragma once

#include "checker/scratch_folder.hpp"

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>

namespace posthorn::test {

/// Runs from construction on; it ends, and its data with it, when this object does.
class private_server {
public:
    /// `options` are the server's own: "-c fsync=on".
    explicit private_server(std::string options) : options_(std::move(options)) { start(); }
    private_server(const private_server&) = delete;
    private_server& operator=(const private_server&) = delete;
    ~private_server() { (void)std::system(command("stop").c_str()); }

    /// A crash: all of its processes at once, with SIGKILL.
    void kill() { run(command("kill")); }

    /// Returns when it answers. After a crash it has its old data and its old port.
    void start() { run(command("start") + " " + options_); }

    [[nodiscard]] std::string port() const
    {
        auto text = folder_.read("postgres.port");
        return text.substr(0, text.find('\n'));
    }

    [[nodiscard]] std::string url(const std::string& user = "postgres",
                                  const std::string& database = "postgres") const
    {
        return "postgresql://" + user + "@127.0.0.1:" + port() + "/" + database;
    }

    [[nodiscard]] const checker::scratch_folder& folder() const { return folder_; }

private:
    [[nodiscard]] std::string command(const std::string& verb) const
    {
        return std::string("bash ") + SERVERS_SCRIPT + " postgres " + verb + " " +
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
