// Each wait is for the socket, the latch and what is left of the time. A time for each `recv` would
// let a sender that sends a byte now and then stay forever.
#include "http/connection.hpp"

#include <posthorn/environment.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace posthorn::http {
namespace {

constexpr std::size_t discarded_bytes_max = std::size_t{1} << 20U;

constexpr std::size_t ahead_piece_bytes = 16'384;

bool would_wait(ssize_t answer)
{
    return answer < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

} // namespace

monotonic_time machine_time()
{
    static const auto clock = environment::system().clock;
    return clock->monotonic();
}

connection::connection(int socket, const latch& interrupted, duration within)
    : socket_(socket),
      interrupted_(interrupted),
      within_(within),
      receive_until_(machine_time() + within)
{}

connection::~connection()
{
    (void)::shutdown(socket_, SHUT_RDWR);
    ::close(socket_);
}

bool connection::wait_for(short what, monotonic_time until)
{
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - machine_time()).count();
    if (left <= 0) {
        why_ = shortfall::too_slow;
        return false;
    }
    constexpr decltype(left) slice_ms_max = 60'000; // what fits whatever poll takes
    std::array<pollfd, 2> both{{{.fd = socket_, .events = what, .revents = 0},
                                {.fd = interrupted_.file(), .events = POLLIN, .revents = 0}}};
    (void)::poll(both.data(), both.size(), static_cast<int>(std::min(left, slice_ms_max)));
    if (both[1].revents != 0)
        why_ = shortfall::interrupted;
    return both[1].revents == 0;
}

std::size_t connection::nothing_more(shortfall why)
{
    why_ = why;
    return 0;
}

bool connection::take_ahead(std::size_t bytes_max)
{
    std::array<char, ahead_piece_bytes> piece; // NOLINT(cppcoreguidelines-pro-type-member-init)
    while (ahead_.size() < bytes_max) {
        const auto room = std::min(piece.size(), bytes_max - ahead_.size());
        const auto got = ::recv(socket_, piece.data(), room, 0);
        if (got <= 0)
            return would_wait(got);
        ahead_.append(piece.data(), static_cast<std::size_t>(got));
    }
    return true;
}

std::size_t connection::receive(char* into, std::size_t bytes_max)
{
    send_until_.reset();
    if (ahead_given_ < ahead_.size()) {
        const auto given = ahead_.copy(into, bytes_max, ahead_given_);
        ahead_given_ += given;
        return given;
    }
    while (why_ == shortfall::none) {
        // Before the bytes are looked at: a sender that always has some must not stay either.
        if (machine_time() >= receive_until_)
            return nothing_more(shortfall::too_slow);
        const auto got = ::recv(socket_, into, bytes_max, 0);
        if (got > 0)
            return static_cast<std::size_t>(got);
        if (!would_wait(got))
            return nothing_more(got == 0 ? shortfall::ended : shortfall::broken);
        if (!wait_for(POLLIN, receive_until_))
            return 0;
    }
    return 0;
}

bool connection::send(std::string_view bytes)
{
    if (!send_until_)
        send_until_ = machine_time() + within_;
    while (!bytes.empty()) {
        const auto taken = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (taken > 0)
            bytes.remove_prefix(static_cast<std::size_t>(taken));
        else if (!would_wait(taken) || !wait_for(POLLOUT, *send_until_))
            return false;
    }
    return true;
}

void connection::discard_rest()
{
    (void)::shutdown(socket_, SHUT_WR);
    std::array<char, 4'096> nowhere{};
    std::size_t total = 0;
    while (total < discarded_bytes_max) {
        const auto got = receive(nowhere.data(), nowhere.size());
        if (got == 0)
            return;
        total += got;
    }
}

} // namespace posthorn::http
