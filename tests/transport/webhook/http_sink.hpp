// A small HTTP server on the loopback interface that does what a test says, byte for byte: answer,
// stay silent, break off.
#pragma once

#include <posthorn/message.hpp>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace posthorn::test {

struct http_request {
    std::string method;
    std::string path;
    posthorn::headers headers; ///< names in lower case
    std::string body;
};

struct http_reply {
    enum class ending {
        keep_alive,
        close,
        reset,
        silence, ///< until the client gives up, or the sink ends
    };
    std::string bytes = {};
    ending then = ending::keep_alive;
};

[[nodiscard]] http_reply reply(int status, const std::string& body = {},
                               const std::string& more_headers = {});

/// Threads: safe to use from any; the function is called from several at once.
class http_sink {
public:
    using function = std::function<http_reply(const http_request&)>;

    explicit http_sink(function answer, const std::string& address = "127.0.0.1",
                       std::uint16_t port = 0);
    http_sink(const http_sink&) = delete;
    http_sink& operator=(const http_sink&) = delete;
    ~http_sink();

    [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
    [[nodiscard]] std::string url(const std::string& path = "/") const;

    [[nodiscard]] std::size_t connections() const;

    /// Those that came so far; waits until they are at least so many.
    [[nodiscard]] std::vector<http_request> requests(std::size_t at_least = 0) const;

private:
    struct visitor {
        int socket = -1;
        std::thread thread = {};
    };

    void listen();
    void serve(int socket);

    function answer_;
    std::string address_;
    int listener_ = -1;
    std::uint16_t port_ = 0;
    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    std::list<visitor> visitors_;
    std::vector<http_request> requests_;
    std::size_t connections_ = 0;
    bool ending_ = false;
    std::thread listening_;
};

} // namespace posthorn::test
