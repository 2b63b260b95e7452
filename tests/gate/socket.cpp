// The system calls behind the gate's sockets.
#include "gate/socket.hpp"

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdexcept>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>

namespace posthorn::test {
namespace {

[[noreturn]] void give_up(const char* what)
{
    throw std::system_error(errno, std::generic_category(), what);
}

const sockaddr* general(const sockaddr_in& address)
{
    return reinterpret_cast<const sockaddr*>(&address);
}

void set(const socket& which, int level, int option)
{
    const int on = 1;
    if (::setsockopt(which.number(), level, option, &on, sizeof on) != 0)
        give_up("setsockopt");
}

} // namespace

socket::socket(int number) : number_(number)
{
    if (number < 0)
        give_up("no socket");
}

socket::~socket()
{
    if (number_ >= 0)
        ::close(number_);
}

void socket::close_with_reset()
{
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(number_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    ::close(std::exchange(number_, -1));
}

// A close with bytes unread would be a reset.
void socket::close_in_peace()
{
    ::shutdown(number_, SHUT_WR);
    std::array<char, 4096> unread{};
    while (::recv(number_, unread.data(), unread.size(), MSG_DONTWAIT) > 0)
        continue;
    ::close(std::exchange(number_, -1));
}

sockaddr_in loopback_or(const std::string& address, std::uint16_t port)
{
    sockaddr_in result{};
    result.sin_family = AF_INET;
    result.sin_port = htons(port);
    if (::inet_pton(AF_INET, address.c_str(), &result.sin_addr) != 1)
        throw std::invalid_argument("not an address in numbers: " + address);
    return result;
}

socket bound_socket(std::uint16_t port)
{
    socket result(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    set(result, SOL_SOCKET, SO_REUSEADDR);
    const auto place = loopback_or("127.0.0.1", port);
    if (::bind(result.number(), general(place), sizeof place) != 0)
        give_up("bind");
    return result;
}

socket listening_socket(std::uint16_t port)
{
    auto result = bound_socket(port);
    if (::listen(result.number(), SOMAXCONN) != 0)
        give_up("listen");
    return result;
}

std::uint16_t port_of(const socket& which)
{
    sockaddr_in place{};
    socklen_t size = sizeof place;
    if (::getsockname(which.number(), reinterpret_cast<sockaddr*>(&place), &size) != 0)
        give_up("getsockname");
    return ntohs(place.sin_port);
}

std::optional<socket> accepted_socket(const socket& listener)
{
    const int number = ::accept4(listener.number(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (number < 0)
        return std::nullopt; // nobody there, or gone again
    socket result(number);
    set(result, IPPROTO_TCP, TCP_NODELAY);
    return result;
}

// Connecting on this machine takes no time, so it may block; what follows may not.
std::optional<socket> connected_socket(const sockaddr_in& server)
{
    socket result(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(result.number(), general(server), sizeof server) != 0)
        return std::nullopt;
    if (::fcntl(result.number(), F_SETFL, O_NONBLOCK) != 0)
        give_up("fcntl");
    set(result, IPPROTO_TCP, TCP_NODELAY);
    return result;
}

} // namespace posthorn::test
