// The protocol is lines of words; only publishing and subscribing are looked at.
#include "transport/nats/scripted_server.hpp"

#include <fmt/format.h>

#include <array>
#include <poll.h>
#include <sstream>
#include <stdexcept>
#include <sys/socket.h>
#include <vector>

namespace posthorn::test {
namespace {

constexpr int patience_ms = 10'000;

void await_something(const socket& which)
{
    pollfd watched{which.number(), POLLIN, 0};
    if (::poll(&watched, 1, patience_ms) != 1)
        throw std::runtime_error("the client said nothing for ten seconds");
}

std::vector<std::string> words_of(const std::string& line)
{
    std::istringstream from(line);
    std::vector<std::string> result;
    for (std::string word; from >> word;)
        result.push_back(word);
    return result;
}

} // namespace

scripted_nats::scripted_nats() : listener_(listening_socket(0)) {}

void scripted_nats::greet()
{
    await_something(listener_);
    client_ = accepted_socket(listener_).value();
    say(R"(INFO {"server_id":"S","version":"2.9.10","proto":1,"headers":true,)"
        R"("max_payload":1048576,"jetstream":true})"
        "\r\n");
    while (subscription_.empty()) {
        const auto words = words_of(line());
        if (words.at(0) == "PING")
            say("PONG\r\n");
        else if (words.at(0) == "SUB")
            subscription_ = words.back();
    }
}

scripted_nats::request scripted_nats::expect(std::string_view subject)
{
    for (;;)
        if (auto found = next_published(); found.subject.starts_with(subject))
            return found;
}

void scripted_nats::answer(const request& to, std::string_view body)
{
    say(fmt::format("MSG {} {} {}\r\n{}\r\n", to.reply, subscription_, body.size(), body));
}

void scripted_nats::answer_with_status(const request& to, std::string_view status)
{
    const auto words = fmt::format("NATS/1.0 {}\r\n\r\n", status);
    say(fmt::format("HMSG {} {} {} {}\r\n{}\r\n", to.reply, subscription_, words.size(),
                    words.size(), words));
}

void scripted_nats::hand_over(const request& to, std::uint64_t place, std::string_view payload)
{
    say(fmt::format("MSG {} {} $JS.ACK.S.C.1.{}.{}.1.0 {}\r\n{}\r\n", to.reply, subscription_,
                    place, place, payload.size(), payload));
}

scripted_nats::request scripted_nats::next_published()
{
    for (;;) {
        const auto words = words_of(line());
        if (words.at(0) == "PING")
            say("PONG\r\n");
        if (words.at(0) != "PUB")
            continue;
        const auto body = take(std::stoul(words.back()) + 2);
        return {.subject = words.at(1),
                .reply = words.size() > 3 ? words.at(2) : "",
                .body = body.substr(0, body.size() - 2)};
    }
}

std::string scripted_nats::line()
{
    std::size_t end = 0;
    while ((end = unread_.find("\r\n")) == std::string::npos)
        fill();
    return take(end + 2);
}

std::string scripted_nats::take(std::size_t bytes)
{
    while (unread_.size() < bytes)
        fill();
    auto result = unread_.substr(0, bytes);
    unread_.erase(0, bytes);
    return result;
}

void scripted_nats::fill()
{
    await_something(client_);
    std::array<char, 4'096> some{};
    const auto got = ::recv(client_.number(), some.data(), some.size(), 0);
    if (got <= 0)
        throw std::runtime_error("the client has ended the connection");
    unread_.append(some.data(), static_cast<std::size_t>(got));
}

void scripted_nats::say(std::string_view text) const
{
    if (::send(client_.number(), text.data(), text.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(text.size()))
        throw std::runtime_error("the client does not listen");
}

} // namespace posthorn::test
