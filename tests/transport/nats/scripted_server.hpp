// A server that does what a test says, word by word: what JetStream does rarely, and a feed must
// survive all the same.
#pragma once

#include "gate/socket.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace posthorn::test {

/// For one client. Whatever takes longer than ten seconds throws.
class scripted_nats {
public:
    scripted_nats();

    [[nodiscard]] std::uint16_t port() const { return port_of(listener_); }

    /// Until the client may use the connection, and listens for answers.
    void greet();

    struct request {
        std::string subject;
        std::string reply;
        std::string body;
    };

    /// The next that the client publishes to a subject that begins so; what comes before is
    /// skipped.
    [[nodiscard]] request expect(std::string_view subject);

    void answer(const request& to, std::string_view body);

    /// Such as "408 Request Timeout".
    void answer_with_status(const request& to, std::string_view status);

    /// A message at this place of the stream, which nobody has been given before.
    void hand_over(const request& to, std::uint64_t place, std::string_view payload);

private:
    [[nodiscard]] request next_published();
    [[nodiscard]] std::string line();
    [[nodiscard]] std::string take(std::size_t bytes);
    void fill();
    void say(std::string_view text) const;

    socket listener_;
    socket client_;
    std::string unread_;
    std::string subscription_;
};

} // namespace posthorn::test
