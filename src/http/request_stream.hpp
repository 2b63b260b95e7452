// What the HTTP library reads a request from: a head that is there already, and a body that ends at
// a limit. The library itself would keep lines, headers and bodies of any size.
#pragma once

#include "http/connection.hpp"

#include <httplib.h>

#include <cstdint>
#include <optional>
#include <string>

namespace posthorn::http {

/// How much of a body is received. The lines between chunks count as well, as chunks of a sensible
/// size need them.
[[nodiscard]] std::size_t with_chunk_lines(std::size_t body_bytes_max);

class request_stream final : public httplib::Stream {
public:
    /// Lifetime: the connection outlives it. Threads: at most one of them on each.
    request_stream(connection& with, std::size_t body_bytes_max);
    request_stream(const request_stream&) = delete;
    request_stream& operator=(const request_stream&) = delete;
    ~request_stream() override;

    enum class head { complete, absent, too_large, too_slow, malformed };
    [[nodiscard]] head receive_head();

    /// Whether more may come than was read.
    [[nodiscard]] bool is_unread() const noexcept;

    /// Of the request that the calling thread answers: the library does not tell its handlers.
    [[nodiscard]] static shortfall of_this_thread() noexcept;

    [[nodiscard]] bool is_readable() const override { return true; }
    [[nodiscard]] bool is_writable() const override { return true; }
    ssize_t read(char* into, std::size_t bytes_max) override;
    ssize_t write(const char* bytes, std::size_t count) override;
    void get_remote_ip_and_port(std::string& ip, int& port) const override;
    void get_local_ip_and_port(std::string& ip, int& port) const override;
    [[nodiscard]] socket_t socket() const override;

private:
    [[nodiscard]] bool receive_more();

    connection& with_;
    const std::size_t body_bytes_max_;
    std::string received_;
    std::size_t taken_ = 0; ///< of what is received
    std::uint64_t body_received_ = 0;
    std::optional<std::uint64_t> body_announced_ = 0;
    bool too_much_ = false;
};

} // namespace posthorn::http
