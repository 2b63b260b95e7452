// One datagram per message. A manager that does not listen is no reason to fail.
#include "app/daemon/notify.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace posthorn::daemon {

service_manager::service_manager()
{
    // NOLINTBEGIN(concurrency-mt-unsafe): there is no other thread yet
    if (const char* path = std::getenv("NOTIFY_SOCKET"))
        socket_ = path;
    const char* interval = std::getenv("WATCHDOG_USEC");
    const char* whose = std::getenv("WATCHDOG_PID");
    const bool ours = whose == nullptr || std::strtol(whose, nullptr, 10) == ::getpid();
    if (interval != nullptr && ours)
        if (const auto length = std::strtoll(interval, nullptr, 10); length > 0)
            watchdog_every_ = duration{length / 2};
    for (const char* each : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"})
        ::unsetenv(each);
    // NOLINTEND(concurrency-mt-unsafe)
}

void service_manager::ready(std::string_view status) const
{
    tell(fmt::format("READY=1\nSTATUS={}", status));
}

void service_manager::reloading(monotonic_time now) const
{
    tell(fmt::format("RELOADING=1\nMONOTONIC_USEC={}", now.time_since_epoch().count()));
}

void service_manager::stopping() const
{
    tell("STOPPING=1\nSTATUS=ending what is in hand");
}

void service_manager::alive() const
{
    tell("WATCHDOG=1");
}

void service_manager::tell(std::string_view what) const
{
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (socket_.empty() || socket_.size() >= sizeof address.sun_path)
        return;
    std::memcpy(address.sun_path, socket_.data(), socket_.size());
    if (socket_.front() == '@') // a name that is in no folder
        address.sun_path[0] = '\0';
    const int channel = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (channel < 0)
        return;
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): as the system call wants it
    (void)::sendto(channel, what.data(), what.size(), MSG_NOSIGNAL,
                   reinterpret_cast<const sockaddr*>(&address), length);
    ::close(channel);
}

} // namespace posthorn::daemon
