// A test's own look at a Redis server.
#pragma once

#include <posthorn/transport.hpp>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct redisContext;

namespace posthorn::transports {

/// A name that nobody else uses on a server that is shared.
[[nodiscard]] std::string unique_stream();

/// The server that all tests share.
[[nodiscard]] std::uint16_t shared_redis_port();

class redis_client {
public:
    explicit redis_client(std::uint16_t port);
    redis_client(const redis_client&) = delete;
    redis_client& operator=(const redis_client&) = delete;
    ~redis_client();

    /// Its answer as words, however deep they are. Throws what an error says.
    std::vector<std::string> ask(const std::vector<std::string>& command);

    [[nodiscard]] std::size_t length(const std::string& stream);

    /// What is in a stream, in its order.
    [[nodiscard]] std::vector<transport_message> contents(const std::string& stream);

private:
    redisContext* of_;
};

} // namespace posthorn::transports
