// A client that sends the bytes of a test, and reads until the server closes.
#pragma once

#include <posthorn/message.hpp>
#include <posthorn/webhook_signature.hpp>

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

namespace posthorn::test {

inline void connect(int socket, std::uint16_t port)
{
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(port);
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0)
        throw std::system_error(errno, std::generic_category(), "connect");
}

class http_client {
public:
    /// From: an address of this machine.
    explicit http_client(std::uint16_t port, const char* from = "127.0.0.1")
        : socket_(::socket(AF_INET, SOCK_STREAM, 0))
    {
        sockaddr_in here{};
        here.sin_family = AF_INET;
        (void)::inet_pton(AF_INET, from, &here.sin_addr);
        (void)::bind(socket_, reinterpret_cast<const sockaddr*>(&here), sizeof here);
        connect(socket_, port);
    }
    http_client(const http_client&) = delete;
    http_client& operator=(const http_client&) = delete;
    ~http_client() { ::close(socket_); }

    /// Returns: whether all of it was taken; false: the server has heard enough.
    bool send(std::string_view bytes)
    {
        while (!bytes.empty()) {
            const auto taken = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (taken <= 0)
                return false;
            bytes.remove_prefix(static_cast<std::size_t>(taken));
        }
        return true;
    }

    void say_no_more() { ::shutdown(socket_, SHUT_WR); }

    /// Whether something was said, or the connection closed, within this time.
    [[nodiscard]] bool hears_within(std::chrono::milliseconds length) const
    {
        pollfd which{.fd = socket_, .events = POLLIN, .revents = 0};
        return ::poll(&which, 1, static_cast<int>(length.count())) > 0;
    }

    [[nodiscard]] std::string read_all()
    {
        std::string result;
        std::array<char, 4'096> buffer{};
        while (true) {
            const auto got = ::recv(socket_, buffer.data(), buffer.size(), 0);
            if (got <= 0)
                return result;
            result.append(buffer.data(), static_cast<std::size_t>(got));
        }
    }

private:
    int socket_;
};

struct http_answer {
    int status = 0;
    std::string text; ///< all of it
};

[[nodiscard]] inline http_answer ask(std::uint16_t port, std::string_view bytes)
{
    http_client client(port);
    client.send(bytes);
    http_answer result{.text = client.read_all()};
    if (result.text.size() > 12)
        result.status = std::stoi(result.text.substr(9, 3));
    return result;
}

using header_lines = std::vector<std::pair<std::string, std::string>>;

[[nodiscard]] inline std::string request(const std::string& method, const std::string& path,
                                         const header_lines& lines, const std::string& body)
{
    auto result = method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n";
    for (const auto& [name, value] : lines)
        result += name + ": " + value + "\r\n";
    return result + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

/// The headers of a sender that knows the secrets.
[[nodiscard]] inline header_lines signed_lines(const std::string& id, std::int64_t unix_seconds,
                                               const std::string& body,
                                               const std::vector<std::string>& secrets)
{
    return {{"Webhook-Id", id},
            {"Webhook-Timestamp", std::to_string(unix_seconds)},
            {"Webhook-Signature", sign_webhook(id, unix_seconds, body, secrets)}};
}

} // namespace posthorn::test
