// Frames are put together by the client's library; what comes is only looked at as far as the
// number of its method.
#include "transport/rabbitmq/scripted_broker.hpp"

#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <poll.h>
#include <stdexcept>
#include <sys/socket.h>

namespace posthorn::test {
namespace {

constexpr int patience_ms = 10'000;

void await(const socket& which, short what)
{
    pollfd watched{which.number(), what, 0};
    if (::poll(&watched, 1, patience_ms) != 1)
        throw std::runtime_error("the client said nothing for ten seconds");
}

void append(std::string& to, std::uint64_t number, unsigned bytes)
{
    while (bytes-- > 0)
        to.push_back(static_cast<char>(number >> (8 * bytes) & 0xffU));
}

std::uint32_t number_at(std::string_view text, std::size_t where)
{
    std::uint32_t result = 0;
    for (const char each : text.substr(where, 4))
        result = result << 8U | static_cast<unsigned char>(each);
    return result;
}

amqp_bytes_t bytes_in(std::string_view text)
{
    return {text.size(), const_cast<char*>(text.data())};
}

} // namespace

std::string frame_of(std::uint8_t kind, amqp_channel_t channel, std::string_view content)
{
    std::string result;
    append(result, kind, 1);
    append(result, channel, 2);
    append(result, content.size(), 4);
    result.append(content);
    append(result, AMQP_FRAME_END, 1);
    return result;
}

std::string method_frame(amqp_channel_t channel, amqp_method_number_t number, void* method)
{
    std::array<char, 4'000> encoded{};
    const auto length = amqp_encode_method(number, method, {encoded.size(), encoded.data()});
    if (length < 0)
        throw std::runtime_error("not a method");
    std::string content;
    append(content, number, 4);
    content.append(encoded.data(), static_cast<std::size_t>(length));
    return frame_of(AMQP_FRAME_METHOD, channel, content);
}

std::string ack_frame(std::uint64_t number)
{
    return method_frame(1, AMQP_BASIC_ACK_METHOD, amqp_basic_ack_t{number, 0});
}

std::string nack_frame(std::uint64_t number)
{
    return method_frame(1, AMQP_BASIC_NACK_METHOD, amqp_basic_nack_t{number, 0, 0});
}

std::string channel_close_frame(std::uint16_t code, std::string_view words)
{
    return method_frame(1, AMQP_CHANNEL_CLOSE_METHOD,
                        amqp_channel_close_t{code, bytes_in(words), 0, 0});
}

// ------------------------------------------------------------------------------------------ peer

// Memory on both sides, so that several records can leave in one piece.
struct scripted_peer::tls {
    explicit tls(const std::string& certificate)
    {
        context.reset(::SSL_CTX_new(::TLS_server_method()));
        const auto* const file = certificate.c_str();
        if (::SSL_CTX_use_certificate_file(context.get(), file, SSL_FILETYPE_PEM) != 1 ||
            ::SSL_CTX_use_PrivateKey_file(context.get(), file, SSL_FILETYPE_PEM) != 1)
            throw std::runtime_error(certificate + " cannot be used");
        session.reset(::SSL_new(context.get()));
        in = ::BIO_new(::BIO_s_mem());
        out = ::BIO_new(::BIO_s_mem());
        ::SSL_set_bio(session.get(), in, out);
        ::SSL_set_accept_state(session.get());
    }

    [[nodiscard]] std::string encrypted() const
    {
        std::string result(::BIO_ctrl_pending(out), '\0');
        if (!result.empty())
            ::BIO_read(out, result.data(), static_cast<int>(result.size()));
        return result;
    }

    struct free_context {
        void operator()(SSL_CTX* what) const { ::SSL_CTX_free(what); }
    };
    struct free_session {
        void operator()(SSL* what) const { ::SSL_free(what); }
    };
    std::unique_ptr<SSL_CTX, free_context> context;
    std::unique_ptr<SSL, free_session> session;
    BIO* in = nullptr;  // the session's
    BIO* out = nullptr; // the session's
};

scripted_peer::scripted_peer(socket client, const std::string& certificate)
    : socket_(std::move(client)),
      tls_(certificate.empty() ? nullptr : std::make_unique<tls>(certificate))
{}

scripted_peer::scripted_peer(scripted_peer&&) noexcept = default;
scripted_peer::~scripted_peer() = default;

void scripted_peer::send(std::string_view bytes) const
{
    while (!bytes.empty()) {
        const auto sent = ::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN)
            throw std::runtime_error("the client is gone");
        if (sent < 0)
            await(socket_, POLLOUT);
        else
            bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
}

void scripted_peer::say(const std::vector<std::string>& frames)
{
    std::string all;
    for (const auto& each : frames) {
        if (tls_)
            ::SSL_write(tls_->session.get(), each.data(), static_cast<int>(each.size()));
        else
            all += each;
    }
    send(tls_ ? tls_->encrypted() : all);
}

void scripted_peer::say_and_end(const std::vector<std::string>& frames)
{
    for (const auto& each : frames)
        ::SSL_write(tls_->session.get(), each.data(), static_cast<int>(each.size()));
    ::SSL_shutdown(tls_->session.get());
    send(tls_->encrypted());
}

bool scripted_peer::fill()
{
    await(socket_, POLLIN);
    std::array<char, 16'384> some{};
    const auto got = ::recv(socket_.number(), some.data(), some.size(), 0);
    if (got <= 0)
        return false;
    if (!tls_) {
        unread_.append(some.data(), static_cast<std::size_t>(got));
        return true;
    }
    ::BIO_write(tls_->in, some.data(), static_cast<int>(got));
    for (int read = 1; read > 0;) {
        read = ::SSL_read(tls_->session.get(), some.data(), static_cast<int>(some.size()));
        unread_.append(some.data(), static_cast<std::size_t>(std::max(read, 0)));
    }
    send(tls_->encrypted()); // of the handshake
    return true;
}

std::string scripted_peer::take(std::size_t bytes)
{
    while (unread_.size() < bytes)
        if (!fill())
            throw std::runtime_error("the client has ended the connection");
    auto result = unread_.substr(0, bytes);
    unread_.erase(0, bytes);
    return result;
}

void scripted_peer::expect(amqp_method_number_t number)
{
    while (true) {
        const auto head = take(7);
        const auto content = take(number_at(head, 3));
        (void)take(1);
        if (head.front() == AMQP_FRAME_METHOD && number_at(content, 0) == number)
            return;
    }
}

void scripted_peer::expect(amqp_method_number_t number, int times)
{
    for (int i = 0; i < times; ++i)
        expect(number);
}

void scripted_peer::expect_end()
{
    while (fill())
        unread_.clear();
}

void scripted_peer::offer(std::uint32_t frame_bytes_max)
{
    (void)take(8); // which protocol it speaks
    say({method_frame(
        0, AMQP_CONNECTION_START_METHOD,
        amqp_connection_start_t{0, 9, {}, amqp_cstring_bytes("PLAIN"), amqp_cstring_bytes("en")})});
    expect(AMQP_CONNECTION_START_OK_METHOD);
    say({method_frame(0, AMQP_CONNECTION_TUNE_METHOD,
                      amqp_connection_tune_t{10, frame_bytes_max, 0})});
}

void scripted_peer::greet(std::uint32_t frame_bytes_max)
{
    offer(frame_bytes_max);
    expect(AMQP_CONNECTION_OPEN_METHOD);
    say({method_frame(0, AMQP_CONNECTION_OPEN_OK_METHOD, amqp_connection_open_ok_t{})});
}

void scripted_peer::open_channel()
{
    expect(AMQP_CONFIRM_SELECT_METHOD);
    say({method_frame(1, AMQP_CHANNEL_OPEN_OK_METHOD, amqp_channel_open_ok_t{}),
         method_frame(1, AMQP_CONFIRM_SELECT_OK_METHOD, amqp_confirm_select_ok_t{})});
}

void scripted_peer::open_channels()
{
    open_channel();
    say({method_frame(2, AMQP_CHANNEL_OPEN_OK_METHOD, amqp_channel_open_ok_t{})});
}

// ---------------------------------------------------------------------------------------- broker

scripted_broker::scripted_broker(std::string certificate) : certificate_(std::move(certificate)) {}

std::string scripted_broker::url() const
{
    return (certificate_.empty() ? "amqp" : "amqps") + std::string("://127.0.0.1:") +
           std::to_string(port());
}

scripted_peer scripted_broker::accept() const
{
    await(listener_, POLLIN);
    return {accepted_socket(listener_).value(), certificate_};
}

} // namespace posthorn::test
