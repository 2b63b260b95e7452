// A gate between a client and its server: everything passes through it, until a test says
// otherwise. Networks fail between a request and its answer; this is how a test chooses where.
#pragma once

#include "hang_limit.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace posthorn::test {

/// Listens on a port of 127.0.0.1 and forwards each connection. Its connections end with it.
/// Threads: safe to use from any; each control has taken effect when it returns.
class tcp_gate {
public:
    /// The server's address in numbers. It need not be there before the first connection.
    tcp_gate(const std::string& address, std::uint16_t port);
    tcp_gate(const tcp_gate&) = delete;
    tcp_gate& operator=(const tcp_gate&) = delete;
    ~tcp_gate();

    /// Where clients connect instead.
    [[nodiscard]] std::uint16_t port() const;

    /// How both sides hear of an end: as a close, or as a broken connection.
    enum class ending { close, reset };

    /// Ends all connections now, and throws away what was on its way.
    void cut(ending how = ending::reset);

    /// Refuses new connections, as if nobody listened, or takes them again; open ones go on.
    void refuse(bool refusing);

    /// Takes new connections and bytes, but passes nothing on; and lets it flow again.
    void stall(bool stalling);

    enum class direction { to_server, to_client };

    /// Bytes that arrive from now on pass on so much later.
    void delay(direction which, std::chrono::milliseconds by);

    /// The next client that sends `request`: its connection ends before the server has got all of
    /// it, so that a server that reads whole messages never acts on it.
    void lose_request(std::string request, ending how = ending::reset);

    /// The next client that sends `request`: the server gets it, and the connection ends when an
    /// answer has come that holds `answer` (any will do without). The client never sees it.
    void lose_reply(std::string request, std::string answer = {}, ending how = ending::reset);

    /// Takes back a loss that has not happened.
    void lose_nothing();

    struct counters {
        std::size_t connections = 0; ///< taken and connected to the server
        std::size_t open = 0;        ///< of these, not ended
        std::size_t bytes_to_server = 0;
        std::size_t bytes_to_client = 0;
        std::size_t requests_lost = 0;
        std::size_t replies_lost = 0;
    };

    [[nodiscard]] counters seen() const;

    /// Waits for something to be counted. Returns: false if that did not happen in time.
    [[nodiscard]] bool wait_for(const std::function<bool(const counters&)>& enough,
                                std::chrono::milliseconds at_most = hang_limit) const;

private:
    class loop;
    std::unique_ptr<loop> loop_;
};

} // namespace posthorn::test
