// Signatures: an implementation that is not ours agrees, and nothing else passes.
#include "transport/webhook/http_sink.hpp"
#include "transport/webhook/signature.hpp"
#include <posthorn/error.hpp>
#include <posthorn/publisher.hpp>
#include <posthorn/webhook.hpp>
#include <posthorn/webhook_signature.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <unistd.h>

namespace posthorn {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

// The example that Standard Webhooks' libraries test with.
const std::string known_secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const std::string other_secret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
constexpr std::string_view known_id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
constexpr std::int64_t known_time = 1'614'265'330;
constexpr std::string_view known_body = R"({"test": 2432232314})";
constexpr std::string_view known_signature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

timestamp at(std::int64_t unix_seconds)
{
    return timestamp{std::chrono::seconds{unix_seconds}};
}

/// What the openssl program says of these bytes, in base64.
std::string said_by_openssl(std::string_view secret, const std::string& content)
{
    const auto folder = std::filesystem::temp_directory_path() /
                        ("posthorn-signature-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "content", std::ios::binary) << content;
    std::string key;
    for (const char each : transports::secret_bytes(secret)) {
        std::array<char, 3> hex{};
        std::snprintf(hex.data(), hex.size(), "%02x", static_cast<unsigned char>(each));
        key += hex.data();
    }
    const auto command = "openssl dgst -sha256 -mac HMAC -macopt hexkey:" + key + " -binary '" +
                         (folder / "content").string() + "' | openssl base64 -A";
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), &::pclose);
    std::array<char, 256> buffer{};
    const auto got = std::fread(buffer.data(), 1, buffer.size(), pipe.get());
    std::filesystem::remove_all(folder);
    return {buffer.data(), got};
}

webhook_verdict verified(const signed_webhook& what, const std::vector<std::string>& secrets,
                         std::int64_t now = known_time)
{
    return verify_webhook(what, secrets, at(now));
}

// Proves: TRN-01
TEST(webhook_signatures, are_what_the_openssl_program_computes)
{
    const auto content =
        std::string(known_id) + "." + std::to_string(known_time) + "." + std::string(known_body);
    const auto theirs = said_by_openssl(known_secret, content);
    ASSERT_EQ(theirs.size(), 44U) << "is the openssl program installed?";
    EXPECT_EQ(sign_webhook(known_id, known_time, known_body, std::array{known_secret}),
              "v1," + theirs);
    EXPECT_EQ("v1," + theirs, known_signature);
    EXPECT_EQ(
        sign_webhook(known_id, known_time, known_body, std::array{known_secret, other_secret}),
        "v1," + theirs + " v1," + said_by_openssl(other_secret, content));
}

// Proves: TRN-01
TEST(webhook_signatures, on_the_wire_are_what_the_openssl_program_computes_of_the_request)
{
    test::http_sink sink([](const auto&) { return test::reply(200); });
    const std::string raw = "bytes that are no base64";
    for (const auto& secrets : {std::vector{known_secret}, std::vector{known_secret, raw}}) {
        direct_publisher hooks(open_webhook(
            {.url = sink.url("/x"), .secrets = secrets, .allow_private = {"127.0.0.1"}}));
        ASSERT_TRUE(hooks.publish(message{"orders", std::string("any\0bytes\xff", 10)}).accepted());
        const auto got = sink.requests().back();
        const auto content = got.headers.at("webhook-id") + "." +
                             got.headers.at("webhook-timestamp") + "." + got.body;
        std::string expected;
        for (const auto& each : secrets)
            expected += (expected.empty() ? "v1," : " v1,") + said_by_openssl(each, content);
        EXPECT_EQ(got.headers.at("webhook-signature"), expected);
        EXPECT_EQ(got.headers.at("webhook-id"), got.headers.at("posthorn-msg-id"));
    }
    direct_publisher plain(open_webhook({.url = sink.url(), .allow_private = {"127.0.0.1"}}));
    ASSERT_TRUE(plain.publish(message{"orders", ""}).accepted());
    EXPECT_FALSE(sink.requests().back().headers.contains("webhook-signature"));
}

// Proves: INB-05
TEST(webhook_signatures, of_one_of_several_secrets_are_genuine)
{
    const auto by = [&](const std::vector<std::string>& secrets) {
        return sign_webhook(known_id, known_time, known_body, secrets);
    };
    const auto time = std::to_string(known_time);
    const auto with = [&](std::string_view signature) {
        return signed_webhook{known_id, time, signature, known_body};
    };
    using enum webhook_verdict;
    const auto old = by({other_secret});
    const auto both = by({other_secret, known_secret});
    EXPECT_EQ(verified(with(both), {known_secret}), genuine);
    EXPECT_EQ(verified(with(old), {known_secret, other_secret}), genuine);
    EXPECT_EQ(verified(with(old), {known_secret}), forged);
    EXPECT_EQ(verified(with("v2,x v1a,y " + both), {known_secret}), genuine);
    EXPECT_EQ(verified(with(old), {}), forged);
}

// Proves: INB-05
TEST(webhook_signatures, stand_for_every_byte)
{
    using enum webhook_verdict;
    const auto good = sign_webhook(known_id, known_time, known_body, std::array{known_secret});
    const auto time = std::to_string(known_time);
    const std::vector keys{known_secret};
    EXPECT_EQ(verified({known_id, time, good, known_body}, keys), genuine);
    EXPECT_EQ(verified({"msg_other", time, good, known_body}, keys), forged);
    EXPECT_EQ(verified({known_id, "1614265331", good, known_body}, keys), forged);
    EXPECT_EQ(verified({known_id, time, good, "{}"}, keys), forged);
    for (std::size_t i = 3; i + 1 < good.size(); ++i) {
        auto bent = good;
        bent[i] = bent[i] == 'A' ? 'B' : 'A';
        EXPECT_EQ(verified({known_id, time, bent, known_body}, keys), forged) << bent;
    }
    for (const std::string bad : {"v1,", "v1", "g0hM9S", "v1,=", "v1,====", "v1, ", " ", "v1,\xff"})
        EXPECT_EQ(verified({known_id, time, bad, known_body}, keys), forged) << bad;
    EXPECT_EQ(verified({"", time, good, known_body}, keys), incomplete);
    EXPECT_EQ(verified({known_id, "", good, known_body}, keys), incomplete);
    EXPECT_EQ(verified({known_id, time, "", known_body}, keys), incomplete);
    for (const std::string_view bad : {"now", "1614265330x", "-1", "99999999999999999999", "1e9"})
        EXPECT_EQ(verified({known_id, bad, good, known_body}, keys), malformed) << bad;
}

// Proves: INB-05
TEST(webhook_signatures, cannot_be_used_for_another_id_by_cutting_the_parts_elsewhere)
{
    const auto body = std::to_string(known_time) + ".the rest";
    const auto good = sign_webhook("a", known_time, body, std::array{known_secret});
    const auto id = "a." + std::to_string(known_time);
    EXPECT_EQ(verified({id, std::to_string(known_time), good, "the rest"}, {known_secret}),
              webhook_verdict::malformed);
}

// Proves: INB-05
TEST(webhook_signatures, are_good_for_five_minutes_both_ways)
{
    using enum webhook_verdict;
    const auto good = sign_webhook(known_id, known_time, known_body, std::array{known_secret});
    const auto time = std::to_string(known_time);
    const signed_webhook what{known_id, time, good, known_body};
    EXPECT_EQ(verified(what, {known_secret}, known_time + 300), genuine);
    EXPECT_EQ(verified(what, {known_secret}, known_time + 301), too_old);
    EXPECT_EQ(verified(what, {known_secret}, known_time - 300), genuine);
    EXPECT_EQ(verified(what, {known_secret}, known_time - 301), too_new);
    // Who has no secret does not learn how the clock stands here.
    EXPECT_EQ(verified({known_id, time, "v1,x", known_body}, {known_secret}, 0), forged);
}

// Proves: F21
TEST(webhook_signatures, need_secrets_that_are_some)
{
    for (const std::string bad : {"", "short", "whsec_", "whsec_not base64!", "whsec_c2hvcnQ="}) {
        try {
            (void)open_webhook({.url = "https://example.com/", .secrets = {bad}});
            ADD_FAILURE() << bad;
        } catch (const error& refused) {
            EXPECT_EQ(refused.code(), error_code::invalid_argument);
            if (bad.size() > 6) {
                EXPECT_THAT(refused.what(), Not(HasSubstr(bad.substr(6))));
            }
        }
    }
}

TEST(webhook_signatures, base64_is_read_as_it_is_written)
{
    for (std::size_t size = 0; size < 70; ++size) {
        std::string bytes;
        for (std::size_t i = 0; i < size; ++i)
            bytes += static_cast<char>(i * 37 + size);
        const auto text = transports::to_base64(
            {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
        EXPECT_EQ(text.size() % 4, 0U);
        EXPECT_EQ(transports::from_base64(text), bytes);
    }
}

} // namespace
} // namespace posthorn
