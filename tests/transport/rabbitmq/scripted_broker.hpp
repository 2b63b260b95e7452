// A broker that does what a test says, frame by frame: what RabbitMQ does rarely, or never, and a
// client must survive all the same.
#pragma once

#include "gate/socket.hpp"

#include <amqp.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::test {

/// Kind, channel, length, content and end mark.
[[nodiscard]] std::string frame_of(std::uint8_t kind, amqp_channel_t channel,
                                   std::string_view content);

[[nodiscard]] std::string method_frame(amqp_channel_t channel, amqp_method_number_t number,
                                       void* method);

template <typename Method>
[[nodiscard]] std::string method_frame(amqp_channel_t channel, amqp_method_number_t number,
                                       Method method)
{
    return method_frame(channel, number, static_cast<void*>(&method));
}

[[nodiscard]] std::string ack_frame(std::uint64_t number);
[[nodiscard]] std::string nack_frame(std::uint64_t number);
[[nodiscard]] std::string channel_close_frame(std::uint16_t code, std::string_view words);

/// One client. Whatever takes longer than ten seconds throws.
class scripted_peer {
public:
    scripted_peer(socket client, const std::string& certificate);
    scripted_peer(scripted_peer&&) noexcept;
    ~scripted_peer();

    /// Until the client may use the connection.
    void greet(std::uint32_t frame_bytes_max = 131'072);

    /// As far as the limits that the client must agree to.
    void offer(std::uint32_t frame_bytes_max);

    /// What a publisher asks for first: a channel with confirms, and one for questions.
    void open_channels();

    /// What a publisher asks for when its channel of messages was closed.
    void open_channel();

    /// Skips whatever comes before this method.
    void expect(amqp_method_number_t number);
    void expect(amqp_method_number_t number, int times);

    /// All in one piece; with TLS, each in a record of its own.
    void say(const std::vector<std::string>& frames);

    /// The same, and in the same piece that this is the end; with TLS alone.
    void say_and_end(const std::vector<std::string>& frames);

    /// The client hears nothing more, and then that the connection is broken.
    void reset() { socket_.close_with_reset(); }

    /// Waits until the client has ended the connection.
    void expect_end();

private:
    struct tls;

    [[nodiscard]] std::string take(std::size_t bytes);
    [[nodiscard]] bool fill(); ///< false: the client has ended it
    void send(std::string_view bytes) const;

    socket socket_;
    std::string unread_;
    std::unique_ptr<tls> tls_;
};

class scripted_broker {
public:
    /// With the name of a file that holds a key and its certificate, it speaks TLS.
    explicit scripted_broker(std::string certificate = {});

    [[nodiscard]] std::uint16_t port() const { return port_of(listener_); }
    [[nodiscard]] std::string url() const;

    /// The next client.
    [[nodiscard]] scripted_peer accept() const;

private:
    std::string certificate_;
    socket listener_ = listening_socket(0);
};

} // namespace posthorn::test
