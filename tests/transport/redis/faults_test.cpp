// What Redis alone can do to a message: permissions, other types, replicas, crashes.
#include "gate/socket.hpp"
#include "gate/tcp_gate.hpp"
#include "transport/feed_steps.hpp"
#include "transport/load.hpp"
#include "transport/private_broker.hpp"
#include "transport/redis/client.hpp"
#include <posthorn/error.hpp>
#include <posthorn/redis.hpp>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <poll.h>
#include <sys/socket.h>
#include <thread>

namespace posthorn::transports {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using kind = publish_answer::kind;

std::string at_port(std::uint16_t port, const std::string& user = {})
{
    return fmt::format("redis://{}127.0.0.1:{}", user.empty() ? "" : user + "@", port);
}

/// Takes one client, and says each of these after it has said the word before it.
void play(const test::socket& listener,
          const std::vector<std::pair<std::string, std::string>>& lines)
{
    const auto has_something = [](const test::socket& which) {
        pollfd watched{which.number(), POLLIN, 0};
        return ::poll(&watched, 1, 10'000) == 1;
    };
    if (!has_something(listener))
        return;
    const auto client = test::accepted_socket(listener).value();
    std::string heard;
    for (const auto& [word, reply] : lines) {
        std::array<char, 4'096> some{};
        while (heard.find(word) == std::string::npos && has_something(client)) {
            const auto got = ::recv(client.number(), some.data(), some.size(), 0);
            if (got <= 0)
                return;
            heard.append(some.data(), static_cast<std::size_t>(got));
        }
        heard.clear();
        EXPECT_EQ(::send(client.number(), reply.data(), reply.size(), MSG_NOSIGNAL),
                  static_cast<ssize_t>(reply.size()));
    }
    while (has_something(client)) // until it has heard enough
        if (std::array<char, 1> end{}; ::recv(client.number(), end.data(), end.size(), 0) <= 0)
            return;
}

// Proves: TRN-01
TEST(redis_transport, a_server_that_replies_to_what_nobody_has_asked_is_left)
{
    const auto listener = test::listening_socket(0);
    std::jthread server([&] {
        play(listener, {{"PING", "+OK\r\n+PONG\r\n"}, {"XADD", "-OOM not now\r\n-OOM again\r\n"}});
    });
    lines_seen lines;
    const auto redis = open_redis({.url = at_port(test::port_of(listener))}, lines.surroundings());
    const auto what = numbered_message("orders", 1);
    const auto answer = redis->publish({&what, 1}, {.until = in_time(5s)}).at(0);
    EXPECT_EQ(answer.verdict, kind::refused) << answer.detail;
    EXPECT_THAT(lines.text(), HasSubstr("it replied to what nobody has asked"));
}

// Proves: TRN-01
TEST(redis_transport, what_is_no_stream_or_not_ours_is_denied_and_its_neighbours_go)
{
    private_broker broker("redis");
    redis_client server(broker.port());
    server.ask({"SET", "text", "hello"});
    server.ask({"ACL", "SETUSER", "sender", "on", ">knock", "+xadd", "+ping", "~open*", "~text"});
    const auto redis = open_redis({.url = at_port(broker.port(), "sender:knock")});
    const std::vector some{numbered_message("open", 1), numbered_message("text", 2),
                           numbered_message("closed", 3), numbered_message("open2", 4)};
    const auto answers = redis->publish(some);
    EXPECT_TRUE(answers[0].accepted()) << answers[0].detail;
    EXPECT_EQ(answers[1].why, refusal::denied) << answers[1].detail;
    EXPECT_THAT(answers[1].detail, HasSubstr("text"));
    EXPECT_EQ(answers[2].why, refusal::denied) << answers[2].detail;
    EXPECT_THAT(answers[2].detail, HasSubstr("closed"));
    EXPECT_TRUE(answers[3].accepted()) << answers[3].detail;
}

// Proves: TRN-01
TEST(redis_transport, a_destination_is_the_stream_and_old_entries_may_go)
{
    private_broker broker("redis");
    redis_client server(broker.port());
    const auto redis =
        open_redis({.url = at_port(broker.port()), .prefix = "shop.", .entries_max = 100});
    std::vector<transport_message> many;
    for (int i = 0; i < 1'000; ++i)
        many.push_back(numbered_message("orders", i));
    for (auto& each : many)
        each.destination = "elsewhere";
    many.front().headers.emplace("payload", "a header of this name");
    EXPECT_TRUE(std::ranges::all_of(redis->publish(many), &publish_answer::accepted));
    EXPECT_GE(server.length("shop.elsewhere"), 100U);
    EXPECT_LT(server.length("shop.elsewhere"), 500U) << "Redis cuts whole blocks";
    EXPECT_EQ(server.contents("shop.elsewhere").back().payload, "999");
}

// Proves: TRN-02, F5
TEST(redis_transport, a_server_that_is_no_primary_is_unavailable_until_it_is_one)
{
    private_broker broker("redis");
    redis_client server(broker.port());
    const auto redis = open_redis({.url = at_port(broker.port())});
    const auto what = numbered_message("orders", 1);
    EXPECT_TRUE(redis->publish({&what, 1}).at(0).accepted());
    server.ask({"REPLICAOF", "127.0.0.1", "1"});
    const auto answer = redis->publish({&what, 1}).at(0);
    EXPECT_EQ(answer.verdict, kind::refused);
    EXPECT_EQ(answer.why, refusal::unavailable) << answer.detail;
    server.ask({"REPLICAOF", "NO", "ONE"});
    EXPECT_TRUE(redis->wait_until_ready({.until = in_time()}));
    EXPECT_TRUE(redis->publish({&what, 1}).at(0).accepted());
}

// Proves: TRN-02, F6
TEST(redis_transport, accepted_can_mean_that_replicas_have_it)
{
    private_broker primary("redis");
    const auto redis =
        open_redis({.url = at_port(primary.port()), .replicas = 1, .replicas_within = 100ms});
    const auto what = numbered_message("orders", 1);
    const auto alone = redis->publish({&what, 1}).at(0);
    EXPECT_EQ(alone.verdict, kind::unknown);
    EXPECT_EQ(alone.detail, "0 of 1 replicas have it");
    private_broker replica("redis", fmt::format("--replicaof 127.0.0.1 {}", primary.port()));
    redis_client behind(replica.port());
    ASSERT_TRUE(comes_true([&] { return redis->publish({&what, 1}).at(0).accepted(); }));
    EXPECT_GE(behind.length("orders"), 2U);
}

// Proves: TRN-02, F6
TEST(redis_transport, a_server_that_does_nothing_is_given_up_and_what_was_not_sent_is_refused)
{
    private_broker broker("redis");
    const auto redis = open_redis({.url = at_port(broker.port()),
                                   .window = 2,
                                   .connect_within = 200ms,
                                   .reply_within = 200ms});
    ASSERT_TRUE(redis->wait_until_ready({.until = in_time()}));
    broker.halt();
    const std::vector some{numbered_message("orders", 1, "a"), numbered_message("orders", 2, "a"),
                           numbered_message("orders", 3), numbered_message("orders", 4)};
    const auto answers = redis->publish(some);
    EXPECT_EQ(answers[0].verdict, kind::unknown);
    EXPECT_EQ(answers[1].why, refusal::held_back);
    EXPECT_EQ(answers[2].verdict, kind::unknown);
    EXPECT_EQ(answers[3].verdict, kind::refused);
    EXPECT_EQ(answers[3].why, refusal::unavailable);
    broker.go_on();
    EXPECT_TRUE(redis->wait_until_ready({.until = in_time()}));
    EXPECT_TRUE(redis->publish({some.data(), 1}).at(0).accepted());
}

// Proves: TRN-02, F5
TEST(redis_transport, a_server_that_is_killed_under_load_loses_nothing_that_it_accepted)
{
    private_broker broker("redis", "--appendfsync always");
    const auto redis = open_redis({.url = at_port(broker.port())});
    load_history sent(redis, "load");
    for (int i = 0; i < 2; ++i) {
        sent.wait_for_more(500);
        broker.kill();
        broker.start();
    }
    sent.wait_for_more(500);
    sent.end();
    redis_client server(broker.port());
    EXPECT_EQ(problems_with(sent.accepted(), server.contents("load"), duplicates::allowed), "");
}

// Proves: TRN-01
TEST(redis_transport, a_password_is_shown_nowhere)
{
    const std::string canary = "c4n4ry";
    private_broker broker("redis");
    redis_client(broker.port()).ask({"CONFIG", "SET", "requirepass", "other"});
    lines_seen lines;
    std::string seen;
    for (const auto& user : {":" + canary, "default:" + canary}) {
        const auto redis = open_redis({.url = at_port(broker.port(), user)}, lines.surroundings());
        const auto what = numbered_message("orders", 1);
        const auto answer = redis->publish({&what, 1}, {.until = in_time(300ms)}).at(0);
        EXPECT_EQ(answer.why, refusal::unavailable) << "another password may be right later";
        seen += redis->name() + "\n" + answer.detail + "\n";
    }
    for (const auto& url : {"redis://u:" + canary + "@h:x", "http://u:" + canary + "@h",
                            "redis://u:" + canary + "@", "rediss://u:" + canary + "@h"})
        try {
            (void)open_redis({.url = url});
            ADD_FAILURE() << url;
        } catch (const error& refused) {
            EXPECT_EQ(refused.code(), error_code::invalid_argument);
            seen += std::string(refused.what()) + "\n";
        }
    seen += lines.text();
    EXPECT_THAT(seen,
                AllOf(Not(HasSubstr(canary)), HasSubstr("127.0.0.1"), HasSubstr("WRONGPASS")));
    // With the right one, percent-encoded as a URL needs it.
    redis_client(broker.port()).ask({"AUTH", "other"});
    const auto redis = open_redis({.url = at_port(broker.port(), ":%6Fther")});
    EXPECT_TRUE(redis->wait_until_ready({.until = in_time()}));
}

// Proves: F21
TEST(redis_transport, options_that_make_no_sense_are_refused_with_what_would_be_right)
{
    const auto problem = [](redis_options how) -> std::string {
        try {
            (void)open_redis(std::move(how));
        } catch (const error& refused) {
            return refused.what();
        }
        return "none";
    };
    const std::string good = "redis://127.0.0.1:1";
    EXPECT_THAT(problem({.url = ""}), HasSubstr("redis://:secret@cache.example:6379/0"));
    EXPECT_THAT(problem({.url = "rediss://x"}), AllOf(HasSubstr("TLS"), HasSubstr("tunnel")));
    EXPECT_THAT(problem({.url = "redis://x:99999"}), HasSubstr("99999"));
    EXPECT_THAT(problem({.url = "redis://x/two"}), HasSubstr("two"));
    EXPECT_THAT(problem({.url = "redis://user@x"}), HasSubstr("password"));
    EXPECT_THAT(problem({.url = good, .entries_max = 0}), HasSubstr("entries_max"));
    EXPECT_THAT(problem({.url = good, .window = 0}), HasSubstr("window"));
    EXPECT_THAT(problem({.url = good, .reply_within = 0s}), HasSubstr("time limits"));
    EXPECT_EQ(problem({.url = "redis://[::1]:6379/3"}), "none");
}

} // namespace
} // namespace posthorn::transports
