// Ending waits from outside: reading from a socket that is shut down ends at once.
#include "store/contract/patience.hpp"

#include <algorithm>
#include <sys/socket.h>

namespace posthorn::contract {
namespace {

thread_local patience* own = nullptr;
thread_local bool for_worker = false;

} // namespace

void patience::give_up() noexcept
{
    over_ = true;
    const std::lock_guard lock(mutex_);
    for (const int each : sockets_)
        shutdown(each, SHUT_RDWR);
}

void patience::require() const
{
    if (is_over())
        throw error(error_code::unavailable,
                    "the store does not answer, and the worker that asked it has to end",
                    {.retryable = true});
}

patience_scope::patience_scope(patience& whose, of what) noexcept
    : before_(std::exchange(own, &whose)),
      was_worker_(std::exchange(for_worker, what == of::worker))
{}

patience_scope::~patience_scope()
{
    own = before_;
    for_worker = was_worker_;
}

patience* patience_scope::current() noexcept
{
    return own;
}

bool patience_scope::is_worker() noexcept
{
    return for_worker;
}

socket_wait::socket_wait(int socket) noexcept : whose_(own), socket_(socket)
{
    if (whose_ == nullptr || socket_ < 0)
        return;
    const std::lock_guard lock(whose_->mutex_);
    try {
        whose_->sockets_.insert(socket_);
    } catch (...) {
        whose_ = nullptr; // without memory the client library's own limit has to do
        return;
    }
    if (whose_->is_over()) // after the insertion, or the end would be missed
        shutdown(socket_, SHUT_RDWR);
}

socket_wait::~socket_wait()
{
    if (whose_ == nullptr || socket_ < 0)
        return;
    const std::lock_guard lock(whose_->mutex_);
    whose_->sockets_.erase(whose_->sockets_.find(socket_));
}

void rest_patiently(const environment& world, duration length)
{
    const auto* const whose = patience_scope::current();
    if (whose == nullptr || world.clock->database_time())
        return world.clock->pause(length);
    while (length > duration::zero()) {
        whose->require();
        const auto part = std::min<duration>(length, patience_look_every);
        world.clock->pause(part);
        length -= part;
    }
}

} // namespace posthorn::contract
