// HTTP in front of the reception.
#pragma once

#include "endpoint/reception.hpp"

#include <cstdint>
#include <memory>

namespace posthorn::endpoint {

class http_server {
public:
    /// Lifetime: the reception outlives it.
    explicit http_server(reception& behind);
    http_server(const http_server&) = delete;
    http_server& operator=(const http_server&) = delete;
    ~http_server();

    /// Returns: the port. Throws: `error` with `unavailable` if it is not free.
    std::uint16_t start();
    [[nodiscard]] bool is_listening() const noexcept;
    void stop_accepting(); ///< and return at once
    void stop();           ///< and end what has begun, or cut it off

private:
    struct state;
    std::unique_ptr<state> state_;
};

} // namespace posthorn::endpoint
