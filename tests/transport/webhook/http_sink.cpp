// A thread per connection, and no more of HTTP than a client needs that sends bodies of known size.
#include "transport/webhook/http_sink.hpp"

#include "transport/webhook/http_headers.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <netinet/in.h>
#include <optional>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>

namespace posthorn::test {
namespace {

constexpr std::size_t request_bytes_max = std::size_t{8} << 20U;

// Reads until there is a whole request; what is behind it stays in `bytes`. Nothing: it ended.
class request_reader {
public:
    explicit request_reader(int socket) : socket_(socket) {}

    std::optional<http_request> next()
    {
        std::size_t end = 0;
        while ((end = bytes_.find("\r\n\r\n")) == std::string::npos)
            if (!read_more())
                return std::nullopt;
        http_request result;
        auto head = bytes_.substr(0, end);
        bytes_.erase(0, end + 4);
        const auto first = head.substr(0, head.find("\r\n"));
        result.method = first.substr(0, first.find(' '));
        result.path = first.substr(result.method.size() + 1);
        result.path.resize(result.path.rfind(' '));
        head.erase(0, first.size());
        while (head.starts_with("\r\n")) {
            const auto line = head.substr(2, head.find("\r\n", 2) - 2);
            head.erase(0, line.size() + 2);
            const auto colon = line.find(':');
            const auto value = line.find_first_not_of(' ', colon + 1);
            result.headers[transports::lower_case(line.substr(0, colon))] =
                value == std::string::npos ? "" : line.substr(value);
        }
        const auto found = result.headers.find("content-length");
        const std::size_t size = found == result.headers.end() ? 0 : std::stoul(found->second);
        while (bytes_.size() < size)
            if (!read_more())
                return std::nullopt;
        result.body = bytes_.substr(0, size);
        bytes_.erase(0, size);
        return result;
    }

private:
    bool read_more()
    {
        std::array<char, 65'536> buffer{};
        const auto got = ::recv(socket_, buffer.data(), buffer.size(), 0);
        if (got <= 0 || bytes_.size() > request_bytes_max)
            return false;
        bytes_.append(buffer.data(), static_cast<std::size_t>(got));
        return true;
    }

    int socket_;
    std::string bytes_;
};

bool write_all(int socket, std::string_view bytes)
{
    while (!bytes.empty()) {
        const auto taken = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (taken <= 0)
            return false;
        bytes.remove_prefix(static_cast<std::size_t>(taken));
    }
    return true;
}

void break_off(int socket)
{
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

} // namespace

http_reply reply(int status, const std::string& body, const std::string& more_headers)
{
    return {.bytes = "HTTP/1.1 " + std::to_string(status) + " Word\r\nContent-Length: " +
                     std::to_string(body.size()) + "\r\n" + more_headers + "\r\n" + body};
}

http_sink::http_sink(function answer, const std::string& address, std::uint16_t port)
    : answer_(std::move(answer)), address_(address)
{
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(port);
    ::inet_pton(AF_INET, address.c_str(), &where.sin_addr);
    socklen_t size = sizeof where;
    auto* general = reinterpret_cast<sockaddr*>(&where);
    const int yes = 1;
    ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (::bind(listener_, general, size) != 0 || ::listen(listener_, 128) != 0 ||
        ::getsockname(listener_, general, &size) != 0)
        throw std::system_error(errno, std::generic_category(), "no sink at " + address);
    port_ = ntohs(where.sin_port);
    listening_ = std::thread([this] { listen(); });
}

http_sink::~http_sink()
{
    std::list<visitor> last;
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
        for (const auto& each : visitors_)
            ::shutdown(each.socket, SHUT_RDWR);
        changed_.notify_all();
    }
    ::shutdown(listener_, SHUT_RDWR);
    listening_.join();
    ::close(listener_);
    {
        const std::lock_guard lock(mutex_);
        last.swap(visitors_);
    }
    for (auto& each : last) {
        each.thread.join();
        ::close(each.socket);
    }
}

std::string http_sink::url(const std::string& path) const
{
    return "http://" + address_ + ":" + std::to_string(port_) + path;
}

std::size_t http_sink::connections() const
{
    const std::lock_guard lock(mutex_);
    return connections_;
}

std::vector<http_request> http_sink::requests(std::size_t at_least) const
{
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds{30}, [&] { return requests_.size() >= at_least; });
    return requests_;
}

void http_sink::listen()
{
    while (true) {
        const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        const std::lock_guard lock(mutex_);
        if (ending_ || socket < 0) {
            if (socket >= 0)
                ::close(socket);
            if (ending_)
                return;
            continue;
        }
        ++connections_;
        changed_.notify_all();
        auto& made = visitors_.emplace_back();
        made.socket = socket; // closed at the end, so that its number is not given away before
        made.thread = std::thread([this, socket] { serve(socket); });
    }
}

void http_sink::serve(int socket)
{
    request_reader reader(socket);
    while (auto got = reader.next()) {
        {
            const std::lock_guard lock(mutex_);
            requests_.push_back(*got);
            changed_.notify_all();
        }
        const auto said = answer_(*got);
        if (!write_all(socket, said.bytes))
            break;
        if (said.then == http_reply::ending::keep_alive)
            continue;
        if (said.then == http_reply::ending::silence) {
            std::array<char, 1> nothing{};
            while (::recv(socket, nothing.data(), nothing.size(), 0) > 0)
                continue;
        }
        if (said.then == http_reply::ending::reset) {
            // Closing is what resets; the number stays taken by a socket that is connected to none.
            break_off(socket);
            const int other = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
            ::dup3(other, socket, O_CLOEXEC);
            ::close(other);
            return;
        }
        break;
    }
    ::shutdown(socket, SHUT_RDWR);
}

} // namespace posthorn::test
