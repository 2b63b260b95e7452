// A URL that was read and may be used.
#pragma once

#include "transport/webhook/address_guard.hpp"
#include <posthorn/transport.hpp>

#include <memory>
#include <string>

namespace posthorn::transports {

struct webhook_target {
    std::string url;
    std::string endpoint; ///< scheme://host:port, which is what can be well or not
    std::string host;
    std::string port;
    std::string shown;  ///< scheme://host/…: what is behind it may be a secret
    std::string hidden; ///< that: path and query
};

struct target_reading {
    std::shared_ptr<const webhook_target> target; ///< shared by the messages that go there
    publish_answer instead = {};                  ///< if there is none
};

/// Only http and https, without a user, and no address in numbers that the guard refuses. What
/// a name stands for is looked at when it is connected to.
[[nodiscard]] target_reading read_target(const std::string& url, const address_guard& guard);

} // namespace posthorn::transports
