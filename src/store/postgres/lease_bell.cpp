// Sleeping on a socket. Without a connection this bell is a clock, and connects again meanwhile.
#include "store/postgres/lease_bell.hpp"

#include "store/postgres/statements.hpp"
#include <posthorn/error.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <poll.h>
#include <sys/eventfd.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace posthorn::postgres {

lease_bell::lease_bell(location where, environment world, std::string name)
    : where_(std::move(where)),
      world_(std::move(world)),
      name_(std::move(name)),
      waker_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))
{
    if (waker_ < 0)
        throw std::system_error(errno, std::generic_category(), "eventfd");
}

lease_bell::~lease_bell()
{
    close(waker_);
}

void lease_bell::arm()
{
    if (subscribe() || !db_)
        return;
    try {
        (void)has_rung(); // what has rung until now, the caller's look will see
    } catch (const std::exception&) {
        lose();
    }
}

void lease_bell::disarm() noexcept
{
    db_.reset();
}

bool lease_bell::subscribe() noexcept
{
    if (db_ || !connecting_.is_time())
        return false;
    try {
        db_ = connect_patiently(where_);
        db_->run(sql::listen_for_leases::text);
        connecting_.succeeded();
        return true;
    } catch (const std::exception&) {
        lose();
        return false;
    }
}

bool lease_bell::has_rung()
{
    if (PQconsumeInput(db_->handle()) == 0)
        throw error(error_code::connection_lost, "the connection has ended");
    bool rung = false;
    for (;;) {
        const std::unique_ptr<PGnotify, void (*)(void*)> next{PQnotifies(db_->handle()),
                                                              &PQfreemem};
        if (!next)
            return rung;
        rung = rung || name_ == next->extra;
    }
}

void lease_bell::lose() noexcept
{
    db_.reset();
    connecting_.failed(world_);
}

bool lease_bell::wait(duration at_most) noexcept
{
    using namespace std::chrono_literals;
    const auto end = clock::now() + std::clamp<duration>(at_most, 0s, 24h);
    for (;;) {
        if (subscribe())
            return true; // whatever rang before, nobody heard it
        const auto until = db_ ? end : std::min(end, connecting_.next());
        const auto left = std::max<clock::duration>(until - clock::now(), 0s);
        const auto whole = std::chrono::duration_cast<std::chrono::seconds>(left);
        const timespec for_long{.tv_sec = whole.count(),
                                .tv_nsec = std::chrono::nanoseconds(left - whole).count()};
        std::array<pollfd, 2> sources{
            pollfd{.fd = waker_, .events = POLLIN, .revents = 0},
            pollfd{.fd = db_ ? PQsocket(db_->handle()) : -1, .events = POLLIN, .revents = 0}};
        const int ready = ppoll(sources.data(), sources.size(), &for_long, nullptr);
        if (ready > 0 && sources[0].revents != 0) {
            std::uint64_t count = 0;
            (void)!read(waker_, &count, sizeof count);
            return true;
        }
        try {
            if (ready > 0 && has_rung())
                return true;
        } catch (const std::exception&) {
            lose();
        }
        if (clock::now() >= end)
            return false;
    }
}

void lease_bell::wake() noexcept
{
    const std::uint64_t one = 1;
    while (write(waker_, &one, sizeof one) < 0 && errno == EINTR) {}
}

} // namespace posthorn::postgres
