// Where brokers are, as URLs say it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::rabbitmq {

struct address {
    bool tls = false;
    std::string user = "guest";
    std::string password = "guest";
    std::string host;
    std::uint16_t port = 0;
    std::string vhost = "/";

    /// For people and logs.
    [[nodiscard]] std::string place() const;
};

/// One or several with commas between. Throws: `error` with `invalid_argument`, which quotes
/// nothing that could be a password.
[[nodiscard]] std::vector<address> addresses_of(std::string_view urls);

/// The places of all of them, for people and logs.
[[nodiscard]] std::string places_of(const std::vector<address>& all);

} // namespace posthorn::rabbitmq
