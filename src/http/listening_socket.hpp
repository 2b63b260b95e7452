// A socket that others connect to.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace posthorn::http {

class listening_socket {
public:
    /// Throws: `error` with `unavailable` if nobody can listen there, which says `who` cannot.
    /// Port 0: any that is free.
    listening_socket(const std::string& who, std::string address, std::uint16_t port);
    listening_socket(const listening_socket&) = delete;
    listening_socket& operator=(const listening_socket&) = delete;
    ~listening_socket();

    /// Who is at the other end: all of one network are the same.
    using peer = std::array<unsigned char, 8>;

    /// Returns: a socket that the caller closes, or -1 with `errno`; EAGAIN: nobody waits.
    [[nodiscard]] int accept(peer& from) const noexcept;

    /// Listens anew at the same port. Returns: whether that has worked.
    [[nodiscard]] bool reopen() noexcept;

    [[nodiscard]] int file() const noexcept { return socket_; } ///< can be read if somebody waits
    [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
    [[nodiscard]] std::string place() const; ///< for people: address and port

private:
    const std::string address_;
    std::uint16_t port_;
    int socket_;
};

} // namespace posthorn::http
