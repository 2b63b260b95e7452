// To be preloaded: a machine whose clock is an hour ahead of everybody else's.
#include <ctime>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" int clock_gettime(clockid_t which, timespec* into) noexcept
{
    const auto result = static_cast<int>(::syscall(SYS_clock_gettime, which, into));
    if (result == 0 && which == CLOCK_REALTIME)
        into->tv_sec += 3'600;
    return result;
}
