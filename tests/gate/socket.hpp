// Sockets that close themselves, none of which ever blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <netinet/in.h>
#include <optional>
#include <string>
#include <sys/types.h>
#include <utility>

namespace posthorn::test {

class socket {
public:
    socket() = default;
    explicit socket(int number); ///< Throws: `std::system_error` if it is none.
    socket(socket&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    socket& operator=(socket&& other) noexcept
    {
        std::swap(number_, other.number_);
        return *this;
    }
    ~socket();

    [[nodiscard]] int number() const { return number_; }

    /// Ends it as a broken connection, or in peace after what the other side has sent is read.
    void close_with_reset();
    void close_in_peace();

private:
    int number_ = -1;
};

[[nodiscard]] sockaddr_in loopback_or(const std::string& address, std::uint16_t port);

/// On 127.0.0.1; any port that is free if `port` is zero. Two may share one until they listen.
[[nodiscard]] socket bound_socket(std::uint16_t port);
[[nodiscard]] socket listening_socket(std::uint16_t port);
[[nodiscard]] std::uint16_t port_of(const socket& which);

/// The next client, if there is one.
[[nodiscard]] std::optional<socket> accepted_socket(const socket& listener);
[[nodiscard]] std::optional<socket> connected_socket(const sockaddr_in& server);

} // namespace posthorn::test
