// A server that strangers can reach: everything about a request has a limit, and one time for all
// of it. One request for each connection, so that what is left of one that was refused early can
// never be taken for another one.
#pragma once

#include "http/connection.hpp"
#include <posthorn/environment.hpp>
#include <posthorn/time.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace httplib {
class Server;
} // namespace httplib

namespace posthorn::http {

struct server_options {
    std::string who;     ///< for people, as in "the inbox endpoint cannot listen"
    std::string address; ///< of this machine
    std::uint16_t port;  ///< 0: any that is free
    /// Answered at once. Sixteen times as many may be sending their requests meanwhile; of more
    /// than that, and of more bytes than fit into as many bodies, the network that has most gives
    /// way.
    std::size_t connections_max;
    std::size_t body_bytes_max;
    duration request_within; ///< from the connection to the last byte; and as long for the answer
    log_sink log = {};
};

class server {
public:
    explicit server(server_options how);
    server(const server&) = delete;
    server& operator=(const server&) = delete;
    ~server(); ///< stops

    /// What is answered: handlers are to be set before `start`. It never listens itself.
    [[nodiscard]] httplib::Server& answers();

    /// Returns: the port. Throws: `error` with `unavailable` if it is not free.
    std::uint16_t start();

    /// Whether connections are taken now. Not so before `start` and after `stop_accepting`, and
    /// while the system does not let us, which is told to the log and tried again.
    [[nodiscard]] bool is_listening() const noexcept;

    /// Gives the port back and returns at once. Repeating it is harmless.
    void stop_accepting();

    /// The same, then waits for requests in progress. What has not been received a second later is
    /// cut off; a handler that runs is waited for. Repeating it is harmless.
    void stop();

private:
    class state;
    std::unique_ptr<state> state_;
};

/// Why a handler could not read all of the request that it answers.
[[nodiscard]] shortfall shortfall_of_this_request() noexcept;

} // namespace posthorn::http
