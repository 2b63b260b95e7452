// Sockets that never block, and TLS in memory between them and us: OpenSSL writing to a socket
// itself would raise SIGPIPE.
#include "transport/rabbitmq/stream.hpp"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>

namespace posthorn::rabbitmq {
namespace {

[[noreturn]] void break_with(std::string_view what, int number)
{
    throw broken(fmt::format("{}: {}", what, std::generic_category().message(number)));
}

// Of a socket. 0: nothing now.
std::size_t socket_write(int to, std::span<const char> bytes)
{
    while (true) {
        const auto sent = ::send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent >= 0)
            return static_cast<std::size_t>(sent);
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return 0;
        if (errno != EINTR)
            break_with("the connection was lost", errno);
    }
}

std::size_t socket_read(int from, std::span<char> into)
{
    while (true) {
        const auto got = ::recv(from, into.data(), into.size(), 0);
        if (got > 0)
            return static_cast<std::size_t>(got);
        if (got == 0)
            throw broken("the broker ended the connection");
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return 0;
        if (errno != EINTR)
            break_with("the connection was lost", errno);
    }
}

std::string tls_reason()
{
    std::array<char, 256> text{};
    const auto code = ::ERR_get_error();
    ::ERR_clear_error();
    if (code == 0)
        return "no reason given";
    ::ERR_error_string_n(code, text.data(), text.size());
    return text.data();
}

} // namespace

// ----------------------------------------------------------------------------------------- alarm

alarm::alarm() : number_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))
{
    if (number_ < 0)
        throw std::system_error(errno, std::generic_category(), "no eventfd");
}

alarm::~alarm()
{
    ::close(number_);
}

void alarm::ring() noexcept
{
    const std::uint64_t one = 1;
    (void)!::write(number_, &one, sizeof one); // it is full only when it rings already
}

void alarm::wait(int socket, bool to_write, std::optional<duration> at_most)
{
    std::array<pollfd, 2> watched{
        {{number_, POLLIN, 0},
         {socket, static_cast<short>(to_write ? POLLIN | POLLOUT : POLLIN), 0}}};
    int milliseconds = -1;
    if (at_most) {
        const auto whole = std::chrono::ceil<std::chrono::milliseconds>(*at_most).count();
        milliseconds = static_cast<int>(std::clamp<std::int64_t>(whole, 0, 3'600'000));
    }
    ::poll(watched.data(), watched.size(), milliseconds);
    std::uint64_t ignored = 0;
    (void)!::read(number_, &ignored, sizeof ignored); // it only woke us
}

// ------------------------------------------------------------------------------------------- TLS

class stream::tls {
public:
    tls(const address& to, const rabbitmq_connection::tls_options& how) : host_(to.place())
    {
        ::ERR_clear_error();
        context_.reset(::SSL_CTX_new(::TLS_client_method()));
        if (!context_)
            fail("TLS cannot begin");
        ::SSL_CTX_set_min_proto_version(context_.get(), TLS1_2_VERSION);
        if (how.verify && how.ca_file.empty() &&
            ::SSL_CTX_set_default_verify_paths(context_.get()) != 1)
            fail("what the system trusts cannot be read");
        if (!how.ca_file.empty() &&
            ::SSL_CTX_load_verify_locations(context_.get(), how.ca_file.c_str(), nullptr) != 1)
            fail("'" + how.ca_file + "' cannot be read");
        if (!how.certificate.empty() &&
            (::SSL_CTX_use_certificate_chain_file(context_.get(), how.certificate.c_str()) != 1 ||
             ::SSL_CTX_use_PrivateKey_file(context_.get(), how.key.c_str(), SSL_FILETYPE_PEM) != 1))
            fail("'" + how.certificate + "' or its key '" + how.key + "' cannot be used");
        ::SSL_CTX_set_verify(context_.get(), how.verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE,
                             nullptr);
        session_.reset(::SSL_new(context_.get()));
        if (!session_)
            fail("TLS cannot begin");
        name_broker(to.host, how.verify);
        in_ = ::BIO_new(::BIO_s_mem());
        out_ = ::BIO_new(::BIO_s_mem());
        ::SSL_set_bio(session_.get(), in_, out_); // which owns them from now on
        ::SSL_set_connect_state(session_.get());
    }

    bool shake_hands(int socket)
    {
        while (true) {
            const auto result = ::SSL_do_handshake(session_.get());
            flush(socket);
            if (result == 1)
                return true;
            if (::SSL_get_error(session_.get(), result) != SSL_ERROR_WANT_READ)
                fail_handshake();
            if (!fetch(socket))
                return false;
        }
    }

    // What is encrypted is on its way: it must leave before there is more.
    std::size_t write(int socket, std::span<const char> bytes)
    {
        if (!flush(socket) || bytes.empty())
            return 0;
        const auto some = std::min<std::size_t>(bytes.size(), 256 * 1024);
        const auto taken = ::SSL_write(session_.get(), bytes.data(), static_cast<int>(some));
        if (taken <= 0)
            fail("TLS cannot send");
        flush(socket);
        return static_cast<std::size_t>(taken);
    }

    // All records that have come, because nobody who watches the socket would see those left.
    std::size_t read(int socket, std::span<char> into)
    {
        std::size_t taken = 0;
        is_full_ = false;
        while (taken < into.size()) {
            const auto room = std::min<std::size_t>(into.size() - taken, 1U << 30U);
            const auto got =
                ::SSL_read(session_.get(), into.data() + taken, static_cast<int>(room));
            if (got > 0) {
                taken += static_cast<std::size_t>(got);
                continue;
            }
            const auto why = ::SSL_get_error(session_.get(), got);
            is_over_ = why != SSL_ERROR_WANT_READ;
            if (is_over_ && taken > 0) // what came before it counts; the next call says it
                return taken;
            if (why == SSL_ERROR_ZERO_RETURN)
                throw broken("the broker ended the connection");
            if (is_over_)
                fail("TLS cannot receive");
            flush(socket);
            if (taken > 0 || !fetch(socket))
                return taken;
        }
        is_full_ = true;
        return taken;
    }

    /// Whether to read again without a look at the socket.
    [[nodiscard]] bool has_input() const { return is_over_ || is_full_; }

    [[nodiscard]] bool has_output() const { return ::BIO_ctrl_pending(out_) > 0 || left_ > 0; }

private:
    void name_broker(const std::string& name, bool verify)
    {
        const bool is_number = name.find_first_not_of("0123456789.") == std::string::npos ||
                               name.find(':') != std::string::npos;
        if (!is_number)
            ::SSL_set_tlsext_host_name(session_.get(), name.c_str());
        if (!verify)
            return;
        auto* const wanted = ::SSL_get0_param(session_.get());
        const auto accepted = is_number ? ::X509_VERIFY_PARAM_set1_ip_asc(wanted, name.c_str())
                                        : ::X509_VERIFY_PARAM_set1_host(wanted, name.c_str(), 0);
        if (accepted != 1)
            fail("no certificate can be for this host");
    }

    // False: some of it must wait.
    bool flush(int socket)
    {
        while (true) {
            if (left_ == 0) {
                const auto got = ::BIO_read(out_, buffer_.data(), static_cast<int>(buffer_.size()));
                if (got <= 0)
                    return true;
                first_ = 0;
                left_ = static_cast<std::size_t>(got);
            }
            const auto sent = socket_write(socket, std::span(buffer_).subspan(first_, left_));
            first_ += sent;
            left_ -= sent;
            if (left_ > 0)
                return false;
        }
    }

    // False: nothing has come.
    bool fetch(int socket)
    {
        std::array<char, 16 * 1024> some{};
        const auto got = socket_read(socket, some);
        if (got == 0)
            return false;
        if (::BIO_write(in_, some.data(), static_cast<int>(got)) != static_cast<int>(got))
            fail("TLS cannot receive");
        return true;
    }

    [[noreturn]] void fail(const std::string& what)
    {
        throw broken(fmt::format("{}: {}", what, tls_reason()));
    }

    [[noreturn]] void fail_handshake()
    {
        const auto verdict = ::SSL_get_verify_result(session_.get());
        if (verdict != X509_V_OK)
            throw broken(fmt::format("the certificate of {} is not accepted: {}", host_,
                                     ::X509_verify_cert_error_string(verdict)));
        fail("TLS cannot begin");
    }

    struct free_context {
        void operator()(SSL_CTX* what) const { ::SSL_CTX_free(what); }
    };
    struct free_session {
        void operator()(SSL* what) const { ::SSL_free(what); }
    };

    std::string host_;
    std::unique_ptr<SSL_CTX, free_context> context_;
    std::unique_ptr<SSL, free_session> session_;
    BIO* in_ = nullptr;  // the session's
    BIO* out_ = nullptr; // the session's
    std::array<char, 16 * 1024> buffer_{};
    std::size_t first_ = 0;
    std::size_t left_ = 0;
    bool is_over_ = false; // for a reason that the next read finds
    bool is_full_ = false; // the last read took what it had room for
};

// ---------------------------------------------------------------------------------------- stream

struct stream::candidates {
    addrinfo* all = nullptr;
    addrinfo* next = nullptr;
    std::size_t left = 0; // from next on

    candidates() = default;
    candidates(const candidates&) = delete;
    candidates& operator=(const candidates&) = delete;
    ~candidates()
    {
        if (all != nullptr)
            ::freeaddrinfo(all);
    }
};

stream::stream(const address& to, const rabbitmq_connection& how)
    : candidates_(std::make_unique<candidates>())
{
    if (to.tls)
        tls_ = std::make_unique<tls>(to, how.tls);
    begin(to);
}

stream::~stream()
{
    if (socket_ >= 0)
        ::close(socket_);
}

void stream::begin(const address& to)
{
    addrinfo wanted{};
    wanted.ai_family = AF_UNSPEC;
    wanted.ai_socktype = SOCK_STREAM;
    wanted.ai_flags = AI_NUMERICSERV;
    const auto failed =
        ::getaddrinfo(to.host.c_str(), std::to_string(to.port).c_str(), &wanted, &candidates_->all);
    if (failed != 0)
        throw broken(
            fmt::format("the host '{}' cannot be found: {}", to.host, ::gai_strerror(failed)));
    candidates_->next = candidates_->all;
    for (const auto* each = candidates_->all; each != nullptr; each = each->ai_next)
        ++candidates_->left;
    errno = EHOSTUNREACH;
    if (!next_candidate())
        break_with("cannot connect", errno);
}

bool stream::next_candidate()
{
    while (candidates_->next != nullptr) {
        const auto& to = *candidates_->next;
        candidates_->next = to.ai_next;
        --candidates_->left;
        if (socket_ >= 0)
            ::close(socket_);
        socket_ = ::socket(to.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (socket_ < 0)
            continue;
        const int one = 1; // what we write is whole already
        ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (::connect(socket_, to.ai_addr, to.ai_addrlen) == 0 || errno == EINPROGRESS)
            return true;
    }
    return false;
}

std::size_t stream::others() const noexcept
{
    return candidates_ ? candidates_->left : 0;
}

bool stream::ready()
{
    if (!connected_) {
        pollfd state{socket_, POLLOUT, 0};
        if (::poll(&state, 1, 0) == 0)
            return false;
        int failed = 0;
        socklen_t length = sizeof failed;
        ::getsockopt(socket_, SOL_SOCKET, SO_ERROR, &failed, &length);
        if (failed != 0) {
            if (next_candidate())
                return false;
            break_with("cannot connect", failed);
        }
        connected_ = true;
        candidates_.reset();
    }
    return !tls_ || tls_->shake_hands(socket_);
}

std::size_t stream::write(std::span<const char> bytes)
{
    return tls_ ? tls_->write(socket_, bytes) : socket_write(socket_, bytes);
}

std::size_t stream::read(std::span<char> into)
{
    return tls_ ? tls_->read(socket_, into) : socket_read(socket_, into);
}

bool stream::has_input() const noexcept
{
    return tls_ && tls_->has_input();
}

bool stream::wants_to_write() const noexcept
{
    return !connected_ || (tls_ && tls_->has_output());
}

} // namespace posthorn::rabbitmq
