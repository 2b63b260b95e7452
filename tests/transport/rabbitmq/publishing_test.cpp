// What is particular to RabbitMQ: routes, channels that close, and connections that break.
#include "transport/rabbitmq/broker_scene.hpp"
#include "transport/rabbitmq/hurried_clock.hpp"
#include "transport/stubborn.hpp"
#include <posthorn/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <thread>

namespace posthorn::test {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using kind = publish_answer::kind;

monotonic_time in(duration length)
{
    return std::chrono::time_point_cast<duration>(std::chrono::steady_clock::now()) + length;
}

class rabbitmq_publishing : public ::testing::Test {
protected:
    transport_message letter(std::string payload = "hello", std::string key = {})
    {
        return {.id = message_id(uuid::version_7(timestamp{1'700'000'000s}, random_)),
                .topic = "orders",
                .key = std::move(key),
                .payload = std::move(payload)};
    }

    transport_message letter_to(std::string destination)
    {
        auto made = letter(destination);
        made.destination = std::move(destination);
        return made;
    }

    std::vector<std::string> bodies(const std::string& queue)
    {
        std::vector<std::string> result;
        while (auto got = scene.client.get(queue))
            result.push_back(got->body);
        return result;
    }

    broker_scene scene;

private:
    testing::seeded_random random_{7};
};

// Proves: TRN-01
TEST_F(rabbitmq_publishing, properties_say_what_the_headers_say)
{
    scene.listen("orders");
    auto options = scene.options();
    options.source = "shop";
    const auto way = open_rabbitmq(options);
    auto what = letter("{}", "customer 7");
    what.headers = {{"Content-Type", "application/json"}, {"posthorn-corr-id", "order-7"}};
    ASSERT_TRUE(way->publish({&what, 1}).at(0).accepted());
    const auto got = scene.client.get(scene.queue).value();
    EXPECT_EQ(got.routing_key, "orders");
    EXPECT_EQ(got.message_id, to_string(what.id));
    EXPECT_EQ(got.type, "orders");
    EXPECT_EQ(got.content_type, "application/json");
    EXPECT_EQ(got.correlation_id, "order-7");
    EXPECT_EQ(got.delivery_mode, 2);
    EXPECT_EQ(got.timestamp, 1'700'000'000U);
    EXPECT_THAT(got.headers, Contains(Pair("cloudEvents:source", "shop")));
    EXPECT_THAT(got.headers, Contains(Pair("cloudEvents:id", to_string(what.id))));
    EXPECT_THAT(got.headers, Contains(Pair("posthorn-key", "customer 7")));
}

// Proves: TRN-01
TEST_F(rabbitmq_publishing, a_destination_names_an_exchange_and_perhaps_a_routing_key)
{
    const auto other = unique_name("other");
    scene.client.declare_exchange(other, "direct");
    scene.client.bind(scene.queue, other, "orders");
    scene.client.bind(scene.queue, other, "special/one");
    auto options = scene.options();
    options.persistent = false;
    const auto way = open_rabbitmq(options);
    const std::vector some{letter_to(other), letter_to(other + "/special/one"),
                           letter_to("/" + scene.queue), letter_to(other + "/nobody")};
    const auto answers = way->publish(some);
    EXPECT_TRUE(answers.at(0).accepted());
    EXPECT_TRUE(answers.at(1).accepted());
    EXPECT_TRUE(answers.at(2).accepted());
    EXPECT_EQ(answers.at(3).why, refusal::unroutable);
    EXPECT_THAT(answers.at(3).detail, HasSubstr("exchange '" + other + "', routing key 'nobody'"));
    std::vector<std::string> keys;
    while (const auto got = scene.client.get(scene.queue)) {
        keys.push_back(got->exchange + "/" + got->routing_key);
        EXPECT_EQ(got->delivery_mode, 1);
    }
    EXPECT_THAT(keys, ElementsAre(other + "/orders", other + "/special/one", "/" + scene.queue));
    scene.client.delete_exchange(other);
}

// Proves: TRN-01, F7
TEST_F(rabbitmq_publishing, of_many_exactly_those_are_refused_that_nobody_gets)
{
    scene.listen("orders");
    const auto way = open_rabbitmq(scene.options());
    std::vector<transport_message> some;
    for (int i = 0; i < 700; ++i) {
        some.push_back(letter(std::to_string(i)));
        if (i % 7 == 3)
            some.back().topic = "nowhere";
        if (i % 7 == 5) // the same message, where it goes and where it does not
            some.push_back(some.back()), some.back().destination = scene.exchange + "/nowhere";
    }
    const auto answers = way->publish(some);
    for (std::size_t i = 0; i < some.size(); ++i) {
        const bool lost = some[i].topic == "nowhere" || !some[i].destination.empty();
        EXPECT_EQ(answers[i].accepted(), !lost) << i << ": " << answers[i].detail;
        EXPECT_EQ(answers[i].why, lost ? refusal::unroutable : refusal::none);
    }
    EXPECT_EQ(scene.client.depth(scene.queue), 600U);
}

// Proves: TRN-01
TEST_F(rabbitmq_publishing, without_the_duty_to_be_routed_a_message_may_go_nowhere)
{
    auto options = scene.options();
    options.mandatory = false;
    const auto way = open_rabbitmq(options);
    const auto what = letter();
    EXPECT_TRUE(way->publish({&what, 1}).at(0).accepted());
    EXPECT_FALSE(way->capabilities().reports_unroutable);
}

// Proves: TRN-04
TEST_F(rabbitmq_publishing, a_window_smaller_than_the_batch_is_enough)
{
    scene.listen("orders");
    auto options = scene.options();
    options.window = 3;
    const auto way = open_rabbitmq(options);
    const auto all = numbered_messages(100, 5, 1, "orders");
    for (const auto& each : way->publish(all))
        EXPECT_TRUE(each.accepted());
    arrivals got;
    while (auto next = scene.client.get(scene.queue))
        got.add(next->message_id, next->headers["posthorn-key"], next->body);
    EXPECT_EQ(got.missing(all), 0U);
    EXPECT_EQ(got.all(), all.size());
}

// Proves: TRN-01, F7
TEST_F(rabbitmq_publishing, a_missing_exchange_is_refused_without_harm_to_others_until_it_is_there)
{
    scene.listen("orders");
    const auto way = open_rabbitmq(scene.options());
    const auto missing = unique_name("missing");
    const std::vector some{letter("1"), letter_to(missing), letter("2"), letter_to(missing + "/x"),
                           letter("3")};
    const auto answers = way->publish(some);
    EXPECT_TRUE(answers.at(0).accepted() && answers.at(2).accepted() && answers.at(4).accepted());
    EXPECT_EQ(answers.at(1).why, refusal::unroutable);
    EXPECT_EQ(answers.at(3).why, refusal::unroutable);
    EXPECT_THAT(answers.at(1).detail, HasSubstr(missing));
    EXPECT_THAT(bodies(scene.queue), ElementsAre("1", "2", "3"));

    scene.client.declare_exchange(missing, "fanout");
    scene.client.bind(scene.queue, missing, "");
    const auto until = std::chrono::steady_clock::now() + 30s;
    while (!way->publish(std::span(some).subspan(1, 1)).at(0).accepted())
        ASSERT_LT(std::chrono::steady_clock::now(), until);
    scene.client.delete_exchange(missing);
}

// Proves: TRN-01
TEST_F(rabbitmq_publishing, an_exchange_that_is_deleted_on_the_way_is_found_out)
{
    scene.listen("orders");
    const auto way = open_rabbitmq(scene.options());
    const auto mortal = unique_name("mortal");
    scene.client.declare_exchange(mortal, "fanout");
    scene.client.bind(scene.queue, mortal, "");
    const std::vector some{letter("1"), letter_to(mortal), letter("2")};
    for (const auto& each : way->publish(some))
        EXPECT_TRUE(each.accepted());
    scene.client.delete_exchange(mortal);
    const auto answers = way->publish(some);
    EXPECT_TRUE(answers.at(0).accepted() && answers.at(2).accepted());
    EXPECT_EQ(answers.at(1).why, refusal::unroutable) << answers.at(1).detail;
    EXPECT_THAT(bodies(scene.queue), ::testing::IsSupersetOf({"1", mortal.c_str(), "2", "1", "2"}));
}

// Proves: TRN-01
TEST_F(rabbitmq_publishing, who_may_not_publish_is_told_so_and_others_are_not_burnt)
{
    scene.listen("orders");
    const auto way = open_rabbitmq(scene.options());
    const auto internal = unique_name("internal");
    scene.client.declare_internal_exchange(internal);
    std::vector<transport_message> some;
    for (int i = 0; i < 60; ++i)
        some.push_back(i % 20 == 10 ? letter_to(internal) : letter(std::to_string(i)));
    some.push_back(letter("before", "k"));
    some.push_back(letter_to(internal));
    some.back().key = "k";
    some.push_back(letter("after", "k"));
    const auto answers = way->publish(some);
    for (std::size_t i = 0; i < 60; ++i)
        EXPECT_EQ(answers[i].why, i % 20 == 10 ? refusal::denied : refusal::none)
            << i << ": " << to_string(answers[i].verdict) << " " << answers[i].detail;
    EXPECT_TRUE(answers.at(60).accepted());
    EXPECT_EQ(answers.at(61).why, refusal::denied);
    EXPECT_EQ(answers.at(62).why, refusal::held_back);
    EXPECT_THAT(answers.at(10).detail, HasSubstr(internal));
    scene.client.delete_exchange(internal);
}

// Proves: TRN-02, F7
TEST_F(rabbitmq_publishing, a_full_queue_says_no_and_the_next_time_yes)
{
    scene.listen("orders");
    const auto way = open_rabbitmq(scene.options());
    std::vector<transport_message> some;
    for (int i = 0; i < 20; ++i)
        some.push_back(letter(std::to_string(i), i % 2 == 0 ? "a" : ""));
    scene.reject(to_string(some[4].id));
    const auto answers = way->publish(some);
    scene.reject_nothing_more(to_string(some[4].id));
    for (std::size_t i = 0; i < some.size(); ++i) {
        auto expected = refusal::none;
        if (i % 2 == 0 && i >= 4)
            expected = i == 4 ? refusal::rejected : refusal::held_back;
        EXPECT_EQ(answers[i].why, expected) << i;
    }
    EXPECT_TRUE(way->publish(std::span(some).subspan(4, 1)).at(0).accepted());
}

// Proves: TRN-02
TEST_F(rabbitmq_publishing, a_route_that_was_refused_for_long_gets_a_channel_that_works)
{
    const auto time = std::make_shared<hurried_clock>();
    const auto way = open_rabbitmq(scene.options(), hurried_clock::around(time));
    const auto what = letter();
    const auto publish = [&] {
        return way->publish({&what, 1}, {.until = time->monotonic() + 20s}).at(0);
    };
    scene.client.bind(scene.full, scene.by_topic, "orders");
    EXPECT_EQ(publish().why, refusal::rejected);
    for (int i = 0; i < 3; ++i) {
        time->advance(1'100ms);
        const auto answer = publish();
        EXPECT_EQ(answer.why, refusal::rejected) << answer.detail;
    }
    scene.client.unbind(scene.full, scene.by_topic, "orders");
    scene.listen("orders");
    time->advance(1'100ms);
    EXPECT_TRUE(publish().accepted());
}

// Proves: TRN-01
TEST_F(rabbitmq_publishing, what_amqp_has_no_room_for_is_refused_for_good)
{
    scene.listen("orders");
    const auto way = open_rabbitmq(scene.options());
    std::vector some{letter("name"), letter("headers"), letter("route"), letter("fine")};
    some[0].headers.emplace(std::string(256, 'n'), "v");
    some[1].headers.emplace("n", std::string(200'000, 'v'));
    some[2].destination = scene.exchange + "/" + std::string(256, 'r');
    some[3].headers.emplace(std::string(255, 'n'), std::string(50'000, 'v'));
    const auto answers = way->publish(some);
    EXPECT_EQ(answers.at(0).why, refusal::malformed);
    EXPECT_EQ(answers.at(1).why, refusal::too_large);
    EXPECT_EQ(answers.at(2).why, refusal::malformed);
    EXPECT_TRUE(answers.at(3).accepted()) << answers.at(3).detail;
    EXPECT_THAT(bodies(scene.queue), ElementsAre("fine"));
}

// Proves: TRN-02, TRN-04, F5
TEST_F(rabbitmq_publishing, connections_that_break_in_between_lose_nothing_and_keep_the_order)
{
    scene.listen("orders");
    auto options = scene.options();
    options.connection.reconnect_min = 1ms;
    const auto way = open_rabbitmq(options);
    const auto all = numbered_messages(2'000, 20, 3, "orders");
    std::jthread cutter([&](const std::stop_token& stop) {
        for (std::size_t cuts = 1; !stop.stop_requested() && cuts <= 8; ++cuts) {
            (void)scene.gate.wait_for(
                [&](const auto& seen) {
                    return stop.stop_requested() || seen.bytes_to_server > cuts * 150'000;
                },
                60s);
            scene.gate.cut(cuts % 2 == 0 ? tcp_gate::ending::close : tcp_gate::ending::reset);
        }
    });
    const auto report = publish_stubbornly(*way, all, 300, 60s);
    cutter.request_stop();
    scene.gate.cut(); // wakes it
    EXPECT_GT(report.unknown, 0U);
    arrivals got;
    while (auto next = scene.client.get(scene.queue))
        got.add(next->message_id, next->headers["posthorn-key"], next->body);
    EXPECT_EQ(got.missing(all), 0U);
    EXPECT_EQ(got.different(), all.size());
}

// Proves: TRN-02, F6
TEST_F(rabbitmq_publishing, a_broker_without_a_heartbeat_is_given_up_and_the_next_one_is_tried)
{
    scene.listen("orders");
    auto options = scene.options();
    options.connection.heartbeat = 1s;
    options.connection.connect_within = 500ms;
    options.url += ",amqp://127.0.0.1:" + std::to_string(rabbitmq_port());
    const auto way = open_rabbitmq(options);
    ASSERT_TRUE(way->wait_until_ready({.until = in(30s)}));
    scene.gate.stall(true); // nobody says a word, and nobody says goodbye
    const auto what = letter("once");
    EXPECT_EQ(way->publish({&what, 1}, {.until = in(120s)}).at(0).verdict, kind::unknown);
    EXPECT_TRUE(way->publish({&what, 1}, {.until = in(120s)}).at(0).accepted());
    EXPECT_THAT(bodies(scene.queue), ElementsAre("once"));
}

// Proves: TRN-02, F5
TEST_F(rabbitmq_publishing, what_never_left_is_sent_when_the_broker_is_there)
{
    scene.listen("orders");
    scene.gate.refuse(true);
    const auto way = open_rabbitmq(scene.options());
    const auto what = letter();
    std::jthread later([&] {
        EXPECT_FALSE(way->wait_until_ready({.until = in(50ms)}));
        scene.gate.refuse(false);
    });
    EXPECT_TRUE(way->publish({&what, 1}, {.until = in(60s)}).at(0).accepted());
}

// Proves: TRN-01, F21
TEST(rabbitmq_options, that_can_never_work_are_refused_in_words)
{
    const auto complaint = [](const rabbitmq_options& options) -> std::string {
        try {
            (void)open_rabbitmq(options);
            return "nothing";
        } catch (const error& thrown) {
            EXPECT_EQ(thrown.code(), error_code::invalid_argument);
            return thrown.what();
        }
    };
    const auto url = [&](std::string text) { return complaint({.url = std::move(text)}); };
    EXPECT_THAT(url(""), HasSubstr("amqp://USER:PASSWORD@HOST:PORT/VHOST"));
    EXPECT_THAT(url("http://host"), HasSubstr("neither amqp:// nor amqps://"));
    EXPECT_THAT(url("amqp://"), HasSubstr("no host"));
    EXPECT_THAT(url("amqp://host:99999"), HasSubstr("port"));
    EXPECT_THAT(url("amqp://host/a/b"), HasSubstr("%2F"));
    EXPECT_THAT(url("amqp://host/v?heartbeat=5"), HasSubstr("options of its own"));
    EXPECT_THAT(url("amqp://[::1"), HasSubstr("without its ]"));
    EXPECT_THAT(url("amqp://host,"), HasSubstr("neither"));
    const std::string right = "amqp://127.0.0.1:1";
    EXPECT_THAT(complaint({.url = right, .window = 0}), HasSubstr("window"));
    EXPECT_THAT(complaint({.url = right, .payload_bytes_max = 0}), HasSubstr("payload_bytes_max"));
    EXPECT_THAT(complaint({.url = right, .source = ""}), HasSubstr("source"));
    EXPECT_THAT(complaint({.url = right, .connection = {.tls = {.key = "k"}}}),
                HasSubstr("certificate"));
    EXPECT_THAT(complaint({.url = right, .connection = {.heartbeat = -1s}}),
                HasSubstr("heartbeat"));
    EXPECT_EQ(url("amqp://us%65r:p%40ss@127.0.0.1:1/%2Fvhost,amqps://[::1]:2"), "nothing");
}

// Proves: TRN-01
TEST_F(rabbitmq_publishing, a_password_is_never_told)
{
    const std::string canary = "canary%2Fbird";
    std::mutex mutex;
    std::string said;
    auto around = environment::system();
    around.log = [&](log_level, std::string_view line) {
        const std::lock_guard lock(mutex);
        said.append(line).append("\n");
    };
    {
        auto options = scene.options();
        options.url = scene.url("nobody", canary);
        const auto way = open_rabbitmq(options, around);
        const auto what = letter();
        publish_answer answer;
        const auto until = in(60s);
        do { // the broker takes its time to say no
            answer = way->publish({&what, 1}, {.until = in(50ms)}).at(0);
            EXPECT_EQ(answer.why, refusal::unavailable);
        } while (answer.detail.find("403") == std::string::npos && in(0s) < until);
        EXPECT_THAT(answer.detail, HasSubstr("403"));
        said += answer.detail + way->name();
        EXPECT_THAT(way->name(), HasSubstr("127.0.0.1"));
    }
    for (const auto* wrong : {"amqp://u:canary@", "amqp://u:canary", "amqp://u:can%zzary@h",
                              "ampq://u:canary@h", "amqp://u:canary@h:canary/a/b"})
        try {
            (void)open_rabbitmq({.url = wrong}, around);
            ADD_FAILURE() << wrong;
        } catch (const error& thrown) {
            said += thrown.what();
        }
    EXPECT_THAT(said, HasSubstr("127.0.0.1"));
    EXPECT_THAT(said, Not(HasSubstr("canary")));
    EXPECT_THAT(said, Not(HasSubstr("bird")));
}

} // namespace
} // namespace posthorn::test
