// Bound so that nobody shares the port unknowingly, and closed in children.
#include "http/listening_socket.hpp"

#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <cstring>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace posthorn::http {
namespace {

// They wait in the kernel, where they cost us no file and no memory.
constexpr int waiting_max = 128;

int open_at(const addrinfo& where)
{
    const int result = ::socket(where.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (result < 0)
        return -1;
    // After a restart the port is free at once; SO_REUSEPORT would let a second process share it.
    const int yes = 1;
    (void)::setsockopt(result, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    const int no = 0;
    if (where.ai_family == AF_INET6)
        (void)::setsockopt(result, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    if (::bind(result, where.ai_addr, where.ai_addrlen) == 0 && ::listen(result, waiting_max) == 0)
        return result;
    ::close(result);
    return -1;
}

int open_at(const std::string& address, std::uint16_t port)
{
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
    addrinfo* found = nullptr;
    if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
        return -1;
    int result = -1;
    for (const auto* each = found; each != nullptr && result < 0; each = each->ai_next)
        result = open_at(*each);
    ::freeaddrinfo(found);
    return result;
}

std::uint16_t port_of(int socket)
{
    sockaddr_storage where{};
    socklen_t length = sizeof where;
    (void)::getsockname(socket, reinterpret_cast<sockaddr*>(&where), &length);
    return ntohs(where.ss_family == AF_INET6
                     ? reinterpret_cast<const sockaddr_in6&>(where).sin6_port
                     : reinterpret_cast<const sockaddr_in&>(where).sin_port);
}

// Of IPv6 the first half: a host that has one address there has all of the second.
listening_socket::peer network_of(const sockaddr_storage& who)
{
    listening_socket::peer result{};
    if (who.ss_family == AF_INET6)
        std::memcpy(result.data(), &reinterpret_cast<const sockaddr_in6&>(who).sin6_addr,
                    result.size());
    else if (who.ss_family == AF_INET)
        std::memcpy(result.data(), &reinterpret_cast<const sockaddr_in&>(who).sin_addr,
                    sizeof(in_addr));
    return result;
}

} // namespace

listening_socket::listening_socket(const std::string& who, std::string address, std::uint16_t port)
    : address_(std::move(address)), port_(port), socket_(open_at(address_, port))
{
    if (socket_ < 0)
        throw error(error_code::unavailable,
                    fmt::format("{} cannot listen at {}: is it an address of this machine, and the "
                                "port free?",
                                who, place()));
    port_ = port_of(socket_);
}

listening_socket::~listening_socket()
{
    if (socket_ >= 0)
        ::close(socket_);
}

std::string listening_socket::place() const
{
    const bool has_colons = address_.find(':') != std::string::npos;
    return has_colons ? fmt::format("[{}]:{}", address_, port_)
                      : fmt::format("{}:{}", address_, port_);
}

int listening_socket::accept(peer& from) const noexcept
{
    sockaddr_storage who{};
    socklen_t length = sizeof who;
    const int result = ::accept4(socket_, reinterpret_cast<sockaddr*>(&who), &length,
                                 SOCK_CLOEXEC | SOCK_NONBLOCK);
    from = network_of(who);
    return result;
}

bool listening_socket::reopen() noexcept
{
    if (socket_ >= 0)
        ::close(socket_);
    try {
        socket_ = open_at(address_, port_);
    } catch (const std::exception&) { // no memory, which may be there the next time
        socket_ = -1;
    }
    return socket_ >= 0;
}

} // namespace posthorn::http
