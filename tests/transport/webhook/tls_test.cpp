// Webhooks over TLS: only to who can show that it is the host of the URL.
#include "integration/sqlite/temporary_store.hpp"
#include <posthorn/publisher.hpp>
#include <posthorn/webhook.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <arpa/inet.h>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <netinet/in.h>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace posthorn {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

/// A certificate that signs itself, made by the openssl program.
class self_signed {
public:
    explicit self_signed(const std::string& names)
    {
        const auto command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 "
                             "-nodes -days 2 -subj /CN=test -addext 'subjectAltName=" +
                             names + "' -keyout '" + key() + "' -out '" + certificate() +
                             "' 2>/dev/null";
        if (std::system(command.c_str()) != 0)
            throw std::runtime_error("is the openssl program installed?");
    }
    [[nodiscard]] std::string key() const { return folder_.file("key.pem"); }
    [[nodiscard]] std::string certificate() const { return folder_.file("certificate.pem"); }

private:
    test::temporary_folder folder_;
};

/// Answers 200 to whoever gets as far as a request.
class tls_sink {
public:
    explicit tls_sink(const self_signed& as)
        : context_(SSL_CTX_new(TLS_server_method()), &SSL_CTX_free),
          listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))
    {
        SSL_CTX_use_certificate_file(context_.get(), as.certificate().c_str(), SSL_FILETYPE_PEM);
        SSL_CTX_use_PrivateKey_file(context_.get(), as.key().c_str(), SSL_FILETYPE_PEM);
        sockaddr_in where{};
        where.sin_family = AF_INET;
        where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof where;
        auto* general = reinterpret_cast<sockaddr*>(&where);
        if (::bind(listener_, general, size) != 0 || ::listen(listener_, 16) != 0 ||
            ::getsockname(listener_, general, &size) != 0)
            throw std::runtime_error("no sink");
        port_ = ntohs(where.sin_port);
        thread_ = std::thread([this] { run(); });
    }
    tls_sink(const tls_sink&) = delete;
    tls_sink& operator=(const tls_sink&) = delete;
    ~tls_sink()
    {
        ending_ = true;
        ::shutdown(listener_, SHUT_RDWR);
        thread_.join();
        ::close(listener_);
    }

    [[nodiscard]] std::string url(const std::string& host) const
    {
        return "https://" + host + ":" + std::to_string(port_) + "/";
    }
    [[nodiscard]] int requests() const { return requests_; }

private:
    void run()
    {
        sigset_t all{}; // OpenSSL writes without regard to whether somebody reads
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, nullptr);
        while (!ending_) {
            const int socket = ::accept(listener_, nullptr, nullptr);
            if (socket < 0)
                continue;
            const std::unique_ptr<SSL, void (*)(SSL*)> line(SSL_new(context_.get()), &SSL_free);
            SSL_set_fd(line.get(), socket);
            if (SSL_accept(line.get()) == 1)
                answer(line.get());
            ::close(socket);
        }
    }

    void answer(SSL* to)
    {
        std::string got;
        std::array<char, 4'096> buffer{};
        while (!got.ends_with("the end")) {
            const int count = SSL_read(to, buffer.data(), static_cast<int>(buffer.size()));
            if (count <= 0)
                return;
            got.append(buffer.data(), static_cast<std::size_t>(count));
        }
        ++requests_;
        const std::string said =
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        SSL_write(to, said.data(), static_cast<int>(said.size()));
        SSL_shutdown(to);
    }

    std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context_;
    int listener_;
    std::uint16_t port_ = 0;
    std::atomic<bool> ending_ = false;
    std::atomic<int> requests_ = 0;
    std::thread thread_;
};

publish_answer sent_over_tls(const std::string& url, const std::string& ca_file)
{
    direct_publisher hooks(
        open_webhook({.url = url, .allow_private = {"127.0.0.1"}, .ca_file = ca_file}));
    return hooks.publish(message{"orders", "the end"});
}

// Proves: TRN-01
TEST(webhooks_over_tls, go_only_to_who_shows_a_certificate_for_the_host)
{
    const self_signed good("IP:127.0.0.1,DNS:localhost");
    const self_signed other("IP:127.0.0.1,DNS:localhost");
    const self_signed elsewhere("DNS:partner.example");
    tls_sink sink(good);
    EXPECT_TRUE(sent_over_tls(sink.url("127.0.0.1"), good.certificate()).accepted());
    EXPECT_TRUE(sent_over_tls(sink.url("localhost"), good.certificate()).accepted());
    EXPECT_EQ(sink.requests(), 2);
    for (const auto& authority : {std::string(), other.certificate()}) {
        const auto answer = sent_over_tls(sink.url("127.0.0.1"), authority);
        EXPECT_EQ(answer.verdict, publish_answer::kind::refused);
        EXPECT_EQ(answer.why, refusal::unavailable) << "a certificate can be put right";
        EXPECT_THAT(answer.detail, HasSubstr("certificate"));
    }
    EXPECT_EQ(sink.requests(), 2);
    tls_sink impostor(elsewhere);
    EXPECT_EQ(sent_over_tls(impostor.url("127.0.0.1"), elsewhere.certificate()).why,
              refusal::unavailable);
    EXPECT_EQ(impostor.requests(), 0);
}

} // namespace
} // namespace posthorn
