// Where a Redis server is, and who we are there.
#pragma once

#include <posthorn/time.hpp>

#include <string>
#include <string_view>

namespace posthorn::transports {

struct redis_address {
    std::string host;
    int port = 6379;
    std::string user = {};
    std::string password = {}; ///< never shown
    int database = 0;
    std::string client_name = {};
    duration connect_within{};
    duration reply_within{};

    /// Throws: `error` with `invalid_argument`, which never holds the password.
    [[nodiscard]] static redis_address parse(std::string_view url);

    [[nodiscard]] std::string shown() const; ///< without user and password
};

} // namespace posthorn::transports
