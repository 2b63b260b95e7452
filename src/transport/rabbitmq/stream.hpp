// Bytes to and from a broker, through TCP or TLS. Nothing here blocks: whoever has nothing to do
// waits in `alarm::wait`, which anybody can end.
#pragma once

#include "transport/rabbitmq/address.hpp"
#include <posthorn/environment.hpp>
#include <posthorn/rabbitmq.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

namespace posthorn::rabbitmq {

/// The connection cannot be used any more, or cannot be had.
class broken : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// Wakes a thread that waits for a socket. Threads: `ring` from any.
class alarm {
public:
    alarm();
    alarm(const alarm&) = delete;
    alarm& operator=(const alarm&) = delete;
    ~alarm();

    void ring() noexcept;

    /// Until the socket (none: −1) can be read or, if wanted, written, until somebody rings, or
    /// until the time is over.
    void wait(int socket, bool to_write, std::optional<duration> at_most);

private:
    int number_;
};

/// A connected socket, with TLS if the address says so.
class stream {
public:
    /// Begins to connect. Throws: `broken`.
    stream(const address& to, const rabbitmq_connection& how);
    stream(const stream&) = delete;
    stream& operator=(const stream&) = delete;
    ~stream();

    /// False: not yet; wait for the socket, and ask again. Throws: `broken`.
    [[nodiscard]] bool ready();

    /// How many bytes were taken or given; 0: none now. Throws: `broken`.
    [[nodiscard]] std::size_t write(std::span<const char> bytes);
    [[nodiscard]] std::size_t read(std::span<char> into);

    /// While it is not ready: how many more addresses the host has, and on to the next of them.
    /// False: there is none.
    [[nodiscard]] std::size_t others() const noexcept;
    [[nodiscard]] bool next_candidate();

    [[nodiscard]] int socket() const noexcept { return socket_; }

    /// Whether there is something to read that the socket does not know of.
    [[nodiscard]] bool has_input() const noexcept;

    /// Whether to wait until the socket can be written, whatever else there is to write.
    [[nodiscard]] bool wants_to_write() const noexcept;

private:
    class tls;

    void begin(const address& to);
    struct candidates;
    std::unique_ptr<candidates> candidates_; // of the host, until one has answered
    int socket_ = -1;
    bool connected_ = false;
    std::unique_ptr<tls> tls_;
};

} // namespace posthorn::rabbitmq
