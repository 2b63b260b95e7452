// Where webhooks must never go: whoever may name a URL must not reach what only this machine can.
#include "transport/webhook/address_guard.hpp"
#include "transport/webhook/http_sink.hpp"
#include "transport/webhook/webhook.hpp"
#include <posthorn/error.hpp>
#include <posthorn/publisher.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <system_error>

namespace posthorn::transports {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

/// Names as somebody's name server may answer for them.
std::vector<std::string> hostile_lookup(const std::string& host)
{
    static const std::map<std::string, std::vector<std::string>> answers{
        {"localhost", {"127.0.0.1", "[::1]"}},
        {"localhost.", {"127.0.0.1"}},
        {"printer.localhost", {"127.0.0.1"}},
        {"metadata.google.internal", {"169.254.169.254"}},
        {"metadata.google.internal.", {"169.254.169.254"}},
        {"127.0.0.1.nip.example", {"127.0.0.1"}},
        {"intranet.example", {"10.1.2.3", "192.168.0.7"}},
        {"six.example", {"[::1]", "[fe80::1]", "[fd00::1]"}},
        {"mapped.example", {"[::ffff:127.0.0.1]"}},
        {"carrier.example", {"100.64.0.1"}},
    };
    const auto found = answers.find(host);
    return found == answers.end() ? std::vector<std::string>{} : found->second;
}

publish_answer sent_to(transport& hooks, const std::string& url)
{
    const transport_message what{.id = *message_id::parse("01890a5d-ac96-774b-bcce-b302099a8057"),
                                 .topic = "orders",
                                 .destination = url,
                                 .payload = "canary-payload"};
    return hooks.publish({&what, 1}, {}).at(0);
}

// Proves: TRN-01
TEST(webhook_guard, refuses_what_is_not_public_however_it_is_written)
{
    const std::vector<std::string> urls{
        // Loopback, in every spelling of IPv4 that a resolver understands.
        "http://127.0.0.1/", "https://127.0.0.1/", "http://127.0.0.1:8080/", "http://127.1/",
        "http://127.0.1/", "http://127.255.255.254/", "http://2130706433/", "http://0x7f000001/",
        "http://0X7F000001/", "http://017700000001/", "http://0177.0.0.1/", "http://0x7f.0.0.1/",
        "http://0x7f.1/", "http://127.0x0.0.1/", "http://00000177.0.0.1/", "http://127.0.0.1./",
        "http://127.0.0.1../", "HTTP://127.0.0.1/", "http://127.0.0.1?x=/", "http://127.0.0.1#x",
        // This network, private, shared, link-local, special.
        "http://0.0.0.0/", "http://0/", "http://0.1.2.3/", "http://10.0.0.1/",
        "http://10.255.255.255/", "http://167772161/", "http://172.16.0.1/",
        "http://172.31.255.255/", "http://192.168.0.1/", "http://192.168.1/", "http://3232235777/",
        "http://169.254.169.254/latest/meta-data/", "http://168.63.129.16/", "http://2852039166/",
        "http://0xa9fea9fe/", "http://0251.0376.0251.0376/", "http://100.64.0.1/",
        "http://100.127.255.255/", "http://192.0.0.1/", "http://192.0.0.170/", "http://192.0.2.1/",
        "http://192.88.99.1/", "http://198.18.0.1/", "http://198.19.255.255/",
        "http://198.51.100.7/", "http://203.0.113.7/", "http://224.0.0.1/",
        "http://239.255.255.250:1900/", "http://240.0.0.1/", "http://255.255.255.255/",
        "http://4294967295/",
        // IPv6.
        "http://[::1]/", "http://[::1]:8080/", "http://[0:0:0:0:0:0:0:1]/", "http://[::]/",
        "http://[fe80::1]/", "http://[fe80::1%25eth0]/", "http://[febf::1]/", "http://[fec0::1]/",
        "http://[fc00::1]/", "http://[fdff::1]/", "http://[ff02::1]/", "http://[ff0e::1]/",
        "http://[2001:db8::1]/", "http://[3fff::1]/", "http://[100::1]/", "http://[2001:2::1]/",
        "http://[2001:10::1]/",
        // IPv4 in the clothes of IPv6: mapped, compatible, translated, NAT64, 6to4, Teredo.
        "http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/", "http://[::ffff:169.254.169.254]/",
        "http://[::ffff:10.0.0.1]/", "http://[::127.0.0.1]/", "http://[::8.8.8.8]/",
        "http://[::ffff:0:127.0.0.1]/", "http://[64:ff9b::127.0.0.1]/", "http://[64:ff9b::a00:1]/",
        "http://[64:ff9b::169.254.169.254]/", "http://[64:ff9b:1::8.8.8.8]/",
        "http://[2002:7f00:1::]/", "http://[2002:a00:1::1]/", "http://[2002:c0a8:101::1]/",
        "http://[2001:0:7f00:1::1]/", "http://[2001:0:808:808::f5ff:fffe]/",
        // Names that lead there.
        "http://localhost/", "http://LOCALHOST/", "http://localhost./", "http://printer.localhost/",
        "http://metadata.google.internal/", "http://metadata.google.internal./",
        "http://127.0.0.1.nip.example/", "http://intranet.example/", "http://six.example/",
        "http://mapped.example/", "http://carrier.example/",
        // Users, so that the host is not where a reader looks for it.
        "http://good.example@127.0.0.1/", "http://good.example:80@127.0.0.1/",
        "http://127.0.0.1@good.example/", "http://:@127.0.0.1/", "http://user:word@8.8.8.8/",
        "http://good.example%40127.0.0.1@127.0.0.1/",
        // Other schemes, and what is neither a name nor an address.
        "file:///etc/passwd", "gopher://127.0.0.1:11211/_stats", "dict://127.0.0.1:11211/",
        "ftp://10.0.0.1/", "ldap://127.0.0.1/", "unix:///run/docker.sock", "smb://127.0.0.1/x",
        "javascript://127.0.0.1/", "ws://127.0.0.1/", "http://256.256.256.256/",
        "http://127.0.0.1.1/", "http://1.2.3.4.5/", "http://0x7f.0.0.0x/",
        // Characters that some take for digits, dots or slashes.
        "http://１２７.0.0.1/", "http://①②⑦.⓪.⓪.①/", "http://127。0。0。1/", "http://127.0.0.1\t/",
        "http://127.0.0.1\r\nX: y/", "http:// 127.0.0.1/", "http://8.8.8.8\\@127.0.0.1/",
        "http://127.0.0.1\\.example.com/"};
    ASSERT_GE(urls.size(), 60U);
    const auto hooks =
        open_webhook_with({.connect_within = 2s}, environment::system(), &hostile_lookup);
    for (const auto& url : urls) {
        const auto answer = sent_to(*hooks, url);
        EXPECT_EQ(answer.verdict, publish_answer::kind::refused) << url;
        EXPECT_EQ(to_string(answer.why), to_string(refusal::denied)) << url << answer.detail;
        EXPECT_TRUE(is_permanent(answer.why)) << url;
        EXPECT_THAT(answer.detail, Not(HasSubstr("canary"))) << url;
    }
}

// Proves: F21
TEST(webhook_guard, calls_malformed_what_is_no_url)
{
    const auto hooks = open_webhook({});
    for (const std::string url :
         {"orders", "127.0.0.1", "//127.0.0.1/", "http:/127.0.0.1/", "http://", "http:///path",
          "https://///127.0.0.1/", "http://[::1/", "http://[1.2.3.4]/", "http://host:99999/",
          "http://host:0/", "http://a<b>/"}) {
        const auto answer = sent_to(*hooks, url);
        EXPECT_EQ(to_string(answer.why), to_string(refusal::malformed)) << url << answer.detail;
    }
}

TEST(webhook_guard, knows_what_is_public)
{
    for (const std::string host :
         {"8.8.8.8", "1.1.1.1", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1",
          "192.0.1.1", "198.17.0.1", "198.20.0.1", "223.255.255.255", "[2606:4700::1111]",
          "[2a00:1450::1]", "[64:ff9b::8.8.8.8]", "[2002:808:808::1]", "[::ffff:8.8.8.8]",
          "[2001:200::1]", "[2001:0:808:808::f7f7:f7f7]"}) {
        const auto address = address_in(host);
        ASSERT_TRUE(address) << host;
        EXPECT_TRUE(is_public(*address)) << host;
    }
    EXPECT_FALSE(address_in("example.com"));
    EXPECT_FALSE(is_misspelt_address("example.com"));
    EXPECT_FALSE(is_misspelt_address("0x7f.example"));
    EXPECT_FALSE(is_misspelt_address("1.2.3.4.example"));
}

// Proves: F21
TEST(webhook_guard, opens_the_networks_that_are_named_and_no_others)
{
    const address_guard guard(
        std::vector<std::string>{"10.1.0.0/16", "127.0.0.2", "fd00:1::/32", "::1", "0.0.0.0/32"});
    for (const std::string host : {"10.1.255.1", "127.0.0.2", "[::ffff:10.1.2.3]", "[fd00:1::7]",
                                   "[::1]", "0.0.0.0", "8.8.8.8"})
        EXPECT_TRUE(guard.allows(*address_in(host))) << host;
    for (const std::string host : {"10.2.0.1", "127.0.0.1", "127.0.0.3", "[fd00:2::7]", "[::2]",
                                   "[64:ff9b::10.1.2.3]", "0.0.0.1"})
        EXPECT_FALSE(guard.allows(*address_in(host))) << host;
    for (const std::string bad : {"", "10.1.0.0/33", "10.1.0.0/", "10.1.0.0/x", "10.1/16", "::/129",
                                  "localhost", "10.1.0.0/-1", "10.1.0.0/16 "})
        EXPECT_THROW(address_guard(std::vector{bad}), error) << bad;
    const address_guard everything(std::vector<std::string>{"0.0.0.0/0", "::/0"});
    EXPECT_TRUE(everything.allows(*address_in("127.0.0.1")));
    EXPECT_TRUE(everything.allows(*address_in("[fe80::1]")));
}

// 127.0.0.2 stands for an address that may be reached, since tests reach nothing public.
class rebinding : public ::testing::Test {
protected:
    std::shared_ptr<transport> open(name_lookup lookup)
    {
        return open_webhook_with({.allow_private = {"127.0.0.2/32"}}, environment::system(),
                                 std::move(lookup));
    }

    // Both on the same port, which somebody else may have on one of the addresses.
    void SetUp() override
    {
        for (int i = 0; !behind_secret; ++i) {
            behind_allowed = std::make_unique<test::http_sink>(
                [](const auto&) { return test::reply(200, "", "Connection: close\r\n"); },
                "127.0.0.2");
            try {
                behind_secret =
                    std::make_unique<test::http_sink>([](const auto&) { return test::reply(200); },
                                                      "127.0.0.1", behind_allowed->port());
            } catch (const std::system_error&) {
                ASSERT_LT(i, 100);
            }
        }
    }

    [[nodiscard]] const test::http_sink& allowed() const { return *behind_allowed; }
    [[nodiscard]] const test::http_sink& secret() const { return *behind_secret; }
    [[nodiscard]] std::string url() const
    {
        return "http://rebinding.example:" + std::to_string(allowed().port()) + "/";
    }

private:
    std::unique_ptr<test::http_sink> behind_allowed;
    std::unique_ptr<test::http_sink> behind_secret;
};

// Proves: TRN-01
TEST_F(rebinding, a_name_that_stands_for_something_else_the_second_time_leads_nowhere)
{
    std::atomic<int> asked = 0;
    const auto hooks = open([&](const std::string&) {
        return std::vector<std::string>{++asked == 1 ? "127.0.0.2" : "127.0.0.1"};
    });
    EXPECT_TRUE(sent_to(*hooks, url()).accepted());
    const auto second = sent_to(*hooks, url());
    EXPECT_EQ(asked, 2);
    EXPECT_EQ(to_string(second.why), "denied");
    EXPECT_THAT(second.detail, HasSubstr("http://rebinding.example:"));
    EXPECT_EQ(allowed().connections(), 1U);
    EXPECT_EQ(secret().connections(), 0U);
}

// Proves: TRN-01
TEST_F(rebinding, of_several_addresses_only_those_are_tried_that_are_allowed)
{
    const auto both = open([](const std::string&) {
        return std::vector<std::string>{"127.0.0.1", "127.0.0.2"};
    });
    EXPECT_TRUE(sent_to(*both, url()).accepted());
    EXPECT_EQ(allowed().connections(), 1U);
    const auto neither = open([](const std::string&) {
        return std::vector<std::string>{"127.0.0.1", "[::1]", "127.0.0.3"};
    });
    EXPECT_EQ(to_string(sent_to(*neither, url()).why), "denied");
    EXPECT_EQ(secret().connections(), 0U);
}

// Proves: TRN-01
TEST_F(rebinding, whoever_answers_does_not_choose_where_it_goes)
{
    for (const int status : {301, 302, 303, 307, 308, 300, 304}) {
        test::http_sink redirecting(
            [&](const auto&) {
                return test::reply(status, "", "Location: " + secret().url("/admin") + "\r\n");
            },
            "127.0.0.2");
        const auto hooks = open({});
        const auto answer = sent_to(*hooks, redirecting.url("/hook"));
        EXPECT_EQ(to_string(answer.why), "declined") << status;
        EXPECT_THAT(answer.detail, HasSubstr("redirects are not followed"));
        EXPECT_THAT(answer.detail, HasSubstr(std::to_string(status)));
    }
    EXPECT_EQ(secret().connections(), 0U);
}

// Proves: TRN-01
TEST_F(rebinding, no_proxy_of_the_environment_is_asked)
{
    for (const auto* name : {"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"})
        ::setenv(name, secret().url().c_str(), 1);
    EXPECT_TRUE(sent_to(*open({}), allowed().url("/hook")).accepted());
    for (const auto* name : {"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"})
        ::unsetenv(name);
    EXPECT_EQ(secret().connections(), 0U);
}

// Proves: F21
TEST(webhook_guard, refuses_a_url_that_can_never_be_used_when_it_is_opened)
{
    for (const std::string url :
         {"http://127.0.0.1/", "http://user@example.com/", "nonsense", "ftp://example.com/"}) {
        try {
            (void)open_webhook({.url = url});
            ADD_FAILURE() << url;
        } catch (const error& refused) {
            EXPECT_EQ(refused.code(), error_code::invalid_argument);
        }
    }
}

} // namespace
} // namespace posthorn::transports
