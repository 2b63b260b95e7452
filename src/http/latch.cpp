// An eventfd: once it is written to, it stays readable for all until it is cleared.
#include "http/latch.hpp"

#include <posthorn/error.hpp>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace posthorn::http {

latch::latch() : file_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))
{
    if (file_ < 0)
        throw error(error_code::unavailable, "no file is left to listen with");
}

latch::~latch()
{
    ::close(file_);
}

void latch::set() noexcept
{
    (void)::eventfd_write(file_, 1); // full: it is set already
}

void latch::clear() noexcept
{
    eventfd_t count = 0;
    (void)::eventfd_read(file_, &count); // empty: it was not set
}

bool latch::is_set() const noexcept
{
    pollfd which{.fd = file_, .events = POLLIN, .revents = 0};
    return ::poll(&which, 1, 0) > 0;
}

} // namespace posthorn::http
