// Telling the service manager how the daemon is, in the protocol of systemd: a datagram to the
// socket that NOTIFY_SOCKET names. Without one, nobody is told.
#pragma once

#include <posthorn/time.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace posthorn::daemon {

class service_manager {
public:
    /// Reads NOTIFY_SOCKET and WATCHDOG_USEC, and takes them away from children.
    service_manager();

    void ready(std::string_view status) const;
    void reloading(monotonic_time now) const;
    void stopping() const;

    /// How often it wants to hear that all is well; nothing: never.
    [[nodiscard]] std::optional<duration> watchdog_every() const { return watchdog_every_; }
    void alive() const;

private:
    void tell(std::string_view what) const;

    std::string socket_;
    std::optional<duration> watchdog_every_;
};

} // namespace posthorn::daemon
