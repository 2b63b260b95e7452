// What NATS alone can do to a message: permissions, limits of streams, crashes.
#include "gate/tcp_gate.hpp"
#include "transport/feed_steps.hpp"
#include "transport/load.hpp"
#include "transport/nats/jetstream.hpp"
#include "transport/private_broker.hpp"
#include <posthorn/error.hpp>
#include <posthorn/nats.hpp>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <future>

namespace posthorn::transports {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using kind = publish_answer::kind;

/// A configuration that the server's own user can read.
class server_file {
public:
    explicit server_file(std::string_view text)
    {
        folder_.write("nats.conf", text);
        std::filesystem::permissions(folder_.file(""), std::filesystem::perms(0755));
    }

    [[nodiscard]] std::string option() const { return "-c " + folder_.file("nats.conf").string(); }

private:
    checker::scratch_folder folder_;
};

std::string local(std::uint16_t port, const std::string& user = {})
{
    return fmt::format("nats://{}127.0.0.1:{}", user.empty() ? "" : user + "@", port);
}

// Proves: TRN-01
TEST(nats_transport, a_header_that_cannot_be_carried_is_the_fault_of_its_message_alone)
{
    const auto stream = unique_name();
    jetstream server(shared_nats_port());
    server.set_stream(stream, {stream + ".>"});
    const auto nats = open_nats({.url = local(shared_nats_port()), .prefix = stream + "."});
    std::vector<transport_message> some;
    const std::vector<std::pair<std::string, std::string>> bad{{"two-lines", "one\r\ntwo"},
                                                               {"a blank", "x"},
                                                               {"colon:", "x"},
                                                               {"umlaut-ä", "x"},
                                                               {"blanks-around", " x "},
                                                               {"", "x"},
                                                               {"nul", std::string("a\0b", 3)}};
    some.push_back(numbered_message("orders", 0));
    for (const auto& [name, value] : bad) {
        some.push_back(numbered_message("orders", static_cast<int>(some.size())));
        some.back().headers.emplace(name, value);
    }
    some.push_back(numbered_message("orders", 99));
    some.push_back(numbered_message("or ders", 100));
    some.push_back(numbered_message("orders.*", 101));
    const auto answers = nats->publish(some);
    for (std::size_t i = 0; i < some.size(); ++i) {
        const bool is_good = i == 0 || i == bad.size() + 1;
        EXPECT_EQ(answers[i].accepted(), is_good) << i << " " << answers[i].detail;
        EXPECT_EQ(answers[i].why, is_good ? refusal::none : refusal::malformed) << i;
    }
    EXPECT_EQ(server.messages_in(stream), 2U);
}

// Proves: TRN-01
TEST(nats_transport, a_destination_is_the_subject_and_a_prefix_stands_before_it)
{
    const auto stream = unique_name();
    jetstream server(shared_nats_port());
    server.set_stream(stream, {stream + ".>"});
    const auto nats = open_nats({.url = local(shared_nats_port()), .prefix = stream + "."});
    auto what = numbered_message("orders", 1);
    what.destination = "elsewhere.at.all";
    EXPECT_TRUE(nats->publish({&what, 1}).at(0).accepted());
    const auto got = server.contents(stream);
    ASSERT_EQ(got.size(), 1U);
    EXPECT_EQ(got.front().destination, stream + ".elsewhere.at.all");
    EXPECT_EQ(got.front().topic, "orders");
}

// Proves: TRN-01
TEST(nats_transport, what_is_too_large_for_its_stream_is_refused_for_good)
{
    const auto stream = unique_name();
    jetstream server(shared_nats_port());
    server.set_stream(stream, {stream + ".>"}, {.message_bytes_max = 2'000});
    const auto nats = open_nats({.url = local(shared_nats_port()), .prefix = stream + "."});
    auto what = numbered_message("orders", 1);
    what.payload.assign(3'000, 'x');
    const auto answer = nats->publish({&what, 1}).at(0);
    EXPECT_EQ(answer.verdict, kind::refused);
    EXPECT_EQ(answer.why, refusal::too_large) << answer.detail;
    EXPECT_THAT(answer.detail, HasSubstr("orders"));
}

// Proves: TRN-01
TEST(nats_transport, what_is_not_permitted_is_denied_and_its_neighbours_go)
{
    const server_file configuration(R"(
authorization {
  users = [
    { user: admin, password: root }
    { user: sender, password: knock, permissions: {
        publish: ["allowed.>", "$JS.API.STREAM.NAMES"], subscribe: ["_INBOX.>"] } }
  ]
}
)");
    const private_broker broker("nats", configuration.option());
    jetstream server(broker.port(), "admin:root");
    server.set_stream("ALL", {"allowed.>", "forbidden.>"});
    const auto nats = open_nats({.url = local(broker.port(), "sender:knock")});
    const std::vector some{numbered_message("allowed.one", 1), numbered_message("forbidden.one", 2),
                           numbered_message("allowed.two", 3)};
    const auto answers = nats->publish(some);
    EXPECT_TRUE(answers[0].accepted()) << answers[0].detail;
    EXPECT_EQ(answers[1].why, refusal::denied) << answers[1].detail;
    EXPECT_THAT(answers[1].detail, HasSubstr("forbidden.one"));
    EXPECT_TRUE(answers[2].accepted()) << answers[2].detail;
    EXPECT_EQ(server.messages_in("ALL"), 2U);
}

// Proves: TRN-02, F7
TEST(nats_transport, a_full_stream_rejects_until_there_is_room)
{
    const auto stream = unique_name();
    jetstream server(shared_nats_port());
    server.set_stream(stream, {stream + ".>"}, {.messages_max = 2});
    const auto nats = open_nats({.url = local(shared_nats_port()), .prefix = stream + "."});
    const std::vector some{numbered_message("orders", 1), numbered_message("orders", 2),
                           numbered_message("orders", 3)};
    const auto answers = nats->publish(some);
    EXPECT_TRUE(answers[0].accepted());
    EXPECT_TRUE(answers[1].accepted());
    EXPECT_EQ(answers[2].why, refusal::rejected) << answers[2].detail;
    server.set_stream(stream, {stream + ".>"});
    const auto again = nats->publish(std::span(some).last(1)).at(0);
    EXPECT_TRUE(again.accepted()) << again.detail;
    EXPECT_FALSE(again.duplicate) << "its id was not remembered when it was rejected";
    EXPECT_EQ(server.messages_in(stream), 3U);
}

// Proves: TRN-01
TEST(nats_transport, headers_say_in_the_words_of_cloudevents_what_a_message_is)
{
    const auto stream = unique_name();
    jetstream server(shared_nats_port());
    server.set_stream(stream, {stream + ".>"});
    const auto nats =
        open_nats({.url = local(shared_nats_port()), .prefix = stream + ".", .source = "the shop"});
    const auto what = numbered_message("orders.placed", 1, "customer 7");
    ASSERT_TRUE(nats->publish({&what, 1}).at(0).accepted());
    const auto got = server.headers_in(stream);
    ASSERT_EQ(got.size(), 1U);
    EXPECT_THAT(got.front(), IsSupersetOf(headers{{"ce-id", to_string(what.id)},
                                                  {"ce-type", "orders.placed"},
                                                  {"ce-source", "the shop"},
                                                  {"ce-specversion", "1.0"},
                                                  {"ce-partitionkey", "customer 7"},
                                                  {"Nats-Msg-Id", to_string(what.id)}}));
}

// Proves: TRN-02
TEST(nats_transport, whatever_strangers_answer_is_unknown_and_does_no_harm)
{
    const auto stream = unique_name();
    jetstream server(shared_nats_port());
    server.set_stream(stream, {stream + ".kept"});
    const auto nats = open_nats({.url = local(shared_nats_port()), .prefix = stream + "."});
    const std::vector<std::string> answers{R"({"error":{"err_code":"x"}})",
                                           R"({"error":{"err_code":1.5}})",
                                           R"({"error":"x"})",
                                           R"({"stream":5})",
                                           R"({"stream":null})",
                                           "[1, 2]",
                                           "hello",
                                           "{\"error\":\"\xff\"}",
                                           "{"};
    std::vector<transport_message> some;
    for (std::size_t i = 0; i < answers.size(); ++i) {
        const auto topic = fmt::format("strange.{}", i);
        server.answer_as_a_stranger(stream + "." + topic, answers[i]);
        some.push_back(numbered_message(topic, static_cast<int>(i)));
    }
    some.push_back(numbered_message("kept", 99));
    const auto said = nats->publish(some);
    for (std::size_t i = 0; i < answers.size(); ++i)
        EXPECT_EQ(said[i].verdict, kind::unknown) << answers[i] << " " << said[i].detail;
    EXPECT_TRUE(said.back().accepted());
}

// Proves: TRN-02
TEST(nats_transport, an_error_without_words_is_an_error)
{
    const auto stream = unique_name();
    jetstream server(shared_nats_port());
    server.answer_as_a_stranger(stream, R"({"error":{"err_code":10077,"description":5}})");
    const auto nats = open_nats({.url = local(shared_nats_port())});
    const auto what = numbered_message(stream, 1);
    const auto answer = nats->publish({&what, 1}).at(0);
    EXPECT_EQ(answer.why, refusal::rejected);
    EXPECT_THAT(answer.detail, HasSubstr("no reason given (10077)"));
}

// Proves: TRN-01
TEST(nats_transport, a_subject_that_is_no_text_is_unroutable_like_any_other)
{
    const auto nats = open_nats({.url = local(shared_nats_port())});
    auto what = numbered_message("orders", 1);
    what.destination = unique_name() + ".\xff\xfe";
    const auto answer = nats->publish({&what, 1}).at(0);
    EXPECT_EQ(answer.why, refusal::unroutable) << answer.detail;
}

// Proves: TRN-02
TEST(nats_transport, a_server_with_tls_that_stops_reading_holds_nobody_up_for_ever)
{
    const checker::scratch_folder folder;
    const auto certificate = folder.file("certificate.pem").string();
    const auto key = folder.file("key.pem").string();
    const auto make =
        fmt::format("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
                    "-days 2 -subj /CN=test -keyout '{}' -out '{}' 2>/dev/null && chmod 755 '{}' "
                    "&& chmod 644 '{}'",
                    key, certificate, folder.file("").string(), key);
    ASSERT_EQ(std::system(make.c_str()), 0) << "is the openssl program installed?";
    const server_file configuration(
        fmt::format("tls {{ cert_file: \"{}\", key_file: \"{}\" }}\n", certificate, key));
    private_broker broker("nats", configuration.option());
    auto nats = open_nats({.url = local(broker.port()),
                           .access = {.tls = true, .verify_server = false},
                           .ping_every = 500ms});
    ASSERT_TRUE(nats->wait_until_ready({.until = in_time()}));
    broker.halt();
    std::vector<transport_message> some(32, numbered_message("orders", 1));
    for (auto& each : some)
        each.payload.assign(1'000'000, 'x'); // together more than the sockets take
    auto ended = std::async(std::launch::async, [&] {
        for (int i = 0; i < 2; ++i) { // the second one finds the first in the way
            const auto answers = nats->publish(some, {.until = in_time(1s)});
            EXPECT_FALSE(std::ranges::any_of(answers, &publish_answer::accepted));
        }
        nats.reset();
    });
    EXPECT_EQ(ended.wait_for(15s), std::future_status::ready);
    broker.go_on(); // also if it hangs: this test must end
    ended.get();
}

// Proves: TRN-02, F6
TEST(nats_transport, an_acknowledgement_that_does_not_come_in_time_is_unknown)
{
    const auto stream = unique_name();
    jetstream server(shared_nats_port());
    server.set_stream(stream, {stream + ".>"});
    test::tcp_gate gate("127.0.0.1", shared_nats_port());
    const auto nats =
        open_nats({.url = local(gate.port()), .prefix = stream + ".", .ack_within = 100ms});
    ASSERT_TRUE(nats->wait_until_ready({}));
    gate.stall(true);
    const std::vector some{numbered_message("orders", 1, "a"), numbered_message("orders", 2, "a"),
                           numbered_message("orders", 3)};
    const auto answers = nats->publish(some);
    EXPECT_EQ(answers[0].verdict, kind::unknown);
    EXPECT_EQ(answers[1].why, refusal::held_back);
    EXPECT_EQ(answers[2].verdict, kind::unknown);
    gate.stall(false);
    for (const auto& each : some)
        EXPECT_TRUE(nats->publish({&each, 1}).at(0).accepted());
    EXPECT_EQ(server.messages_in(stream), 3U) << "the same ids are stored once";
}

// Proves: TRN-02, F5
TEST(nats_transport, what_was_never_sent_is_refused_and_what_was_is_unknown)
{
    const auto stream = unique_name();
    jetstream server(shared_nats_port());
    server.set_stream(stream, {stream + ".>"});
    test::tcp_gate gate("127.0.0.1", shared_nats_port());
    const auto nats = open_nats({.url = local(gate.port()), .prefix = stream + ".", .window = 2});
    ASSERT_TRUE(nats->wait_until_ready({}));
    std::vector some{numbered_message("orders", 1), numbered_message("orders", 2),
                     numbered_message("orders", 3)};
    some[1].payload = "the last that fits into the window";
    gate.delay(test::tcp_gate::direction::to_client, 1h); // no answer arrives
    gate.refuse(true);
    gate.lose_request(some[1].payload);
    const auto answers = nats->publish(some);
    EXPECT_EQ(answers[0].verdict, kind::unknown) << answers[0].detail;
    EXPECT_EQ(answers[1].verdict, kind::unknown) << answers[1].detail;
    EXPECT_EQ(answers[2].verdict, kind::refused) << answers[2].detail;
    EXPECT_EQ(answers[2].why, refusal::unavailable);
}

// Proves: TRN-02, F5
TEST(nats_transport, a_server_that_is_killed_under_load_loses_nothing_that_it_accepted)
{
    private_broker broker("nats");
    std::optional<jetstream> server(broker.port());
    server->set_stream("LOAD", {"load"});
    const auto nats = open_nats({.url = local(broker.port())});
    load_history sent(nats, "load");
    server->leave_streams();
    server.reset(); // its connection would end with the server
    for (int i = 0; i < 2; ++i) {
        sent.wait_for_more(500);
        broker.kill();
        broker.start();
    }
    sent.wait_for_more(500);
    sent.end();
    server.emplace(broker.port());
    const auto got = server->contents("LOAD");
    EXPECT_EQ(problems_with(sent.accepted(), got, duplicates::forbidden), "");
}

// Proves: TRN-01
TEST(nats_transport, a_password_is_shown_nowhere)
{
    const server_file configuration("authorization { user: sender, password: other }\n");
    const private_broker broker("nats", configuration.option());
    std::mutex mutex;
    std::string seen;
    auto surroundings = environment::system();
    surroundings.log = [&](log_level, std::string_view line) {
        const std::lock_guard lock(mutex);
        seen += std::string(line) + "\n";
    };
    const std::string canary = "c4n4ry";
    for (const auto& user : {"sender:" + canary, canary}) {
        const auto nats = open_nats({.url = local(broker.port(), user)}, surroundings);
        const auto what = numbered_message("orders", 1);
        const auto answer =
            nats->publish({&what, 1}, {.until = std::chrono::time_point_cast<duration>(
                                           std::chrono::steady_clock::now() + 300ms)});
        EXPECT_EQ(answer[0].why, refusal::unavailable) << "another password may be right later";
        const std::lock_guard lock(mutex);
        seen += nats->name() + "\n" + answer[0].detail + "\n";
    }
    for (const auto& url : {"nats://u:" + canary + "@h:x", "http://u:" + canary + "@h",
                            "nats://u:" + canary + "@,nats://h",
                            "nats://u:" + canary + "@a," + "nats://v:" + canary + "@b"})
        try {
            (void)open_nats({.url = url});
            ADD_FAILURE() << url;
        } catch (const error& refused) {
            EXPECT_EQ(refused.code(), error_code::invalid_argument);
            seen += std::string(refused.what()) + "\n";
        }
    EXPECT_THAT(seen,
                AllOf(Not(HasSubstr(canary)), HasSubstr("127.0.0.1"), HasSubstr("Authorization")));
}

// Proves: F21
TEST(nats_transport, options_that_make_no_sense_are_refused_with_what_would_be_right)
{
    const auto problem = [](nats_options how) -> std::string {
        try {
            (void)open_nats(std::move(how));
        } catch (const error& refused) {
            return refused.what();
        }
        return "none";
    };
    const std::string good = "nats://127.0.0.1:1";
    EXPECT_THAT(problem({.url = ""}), HasSubstr("nats://nats.example:4222"));
    EXPECT_THAT(problem({.url = "amqp://x"}), HasSubstr("nats://nats.example:4222"));
    EXPECT_THAT(problem({.url = "nats://x:99999"}), HasSubstr("99999"));
    EXPECT_THAT(problem({.url = good, .access = {.certificate_file = "x"}}), HasSubstr("key"));
    EXPECT_THAT(problem({.url = good, .access = {.ca_file = "/no/such"}}), HasSubstr("/no/such"));
    EXPECT_THAT(problem({.url = good, .prefix = "a b."}), HasSubstr("shop."));
    EXPECT_THAT(problem({.url = good, .domain = "a.b"}), HasSubstr("domain"));
    EXPECT_THAT(problem({.url = good, .window = 0}), HasSubstr("window"));
    EXPECT_THAT(problem({.url = good, .ack_within = 0s}), HasSubstr("time limits"));
    EXPECT_EQ(problem({.url = good + ",nats://[::1]:4222,nats://localhost"}), "none");
}

} // namespace
} // namespace posthorn::transports
