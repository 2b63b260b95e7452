// What is Kafka's own: topics, headers, batches that fail as one, brokers that go and come.
#include "transport/kafka/cluster.hpp"
#include "transport/kafka/shipment.hpp"
#include <posthorn/error.hpp>
#include <posthorn/kafka.hpp>
#include <posthorn/testing/seeded_random.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

namespace posthorn::transports {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using kind = publish_answer::kind;

constexpr int message_too_large = 10; // codes of the protocol
constexpr int topic_authorization_failed = 29;
constexpr int out_of_order_sequence = 45;

std::string complaint_about(const kafka_options& options)
{
    try {
        (void)open_kafka(options);
    } catch (const error& thrown) {
        EXPECT_EQ(thrown.code(), error_code::invalid_argument);
        return thrown.what();
    }
    return "none";
}

// Proves: TRN-01, F21
TEST(kafka_options, that_cannot_work_are_refused_with_what_is_wrong)
{
    EXPECT_THAT(complaint_about({.url = "amqp://localhost"}), HasSubstr("kafka://host:9092"));
    EXPECT_THAT(complaint_about({.url = "kafka://"}), HasSubstr("kafka://host:9092"));
    EXPECT_THAT(complaint_about({.url = "kafka://a:9092,,b"}), HasSubstr("kafka://host:9092"));
    EXPECT_THAT(complaint_about({.url = "kafka://a:port"}), HasSubstr("kafka://host:9092"));
    EXPECT_THAT(complaint_about({.url = "kafka://a/orders"}), HasSubstr("kafka://host:9092"));
    EXPECT_THAT(complaint_about({.url = "kafka://a", .topic = "not a topic"}),
                HasSubstr("'not a topic'"));
    EXPECT_THAT(complaint_about({.url = "kafka://a", .source = ""}), HasSubstr("source"));
    EXPECT_THAT(complaint_about({.url = "kafka://a", .payload_bytes_max = 1}),
                HasSubstr("payload_bytes_max"));
    EXPECT_THAT(complaint_about({.url = "kafka://a", .linger = -1s}), HasSubstr("linger"));
    EXPECT_THAT(complaint_about({.url = "kafka://a", .publish_within = 0s}),
                HasSubstr("publish_within"));
    EXPECT_THAT(complaint_about({.url = "kafka://a", .settings = {{"no.such.setting", "1"}}}),
                HasSubstr("'no.such.setting'"));
    EXPECT_THAT(complaint_about({.url = "kafka://a", .settings = {{"compression.codec", "none!"}}}),
                HasSubstr("'compression.codec'"));
    EXPECT_THAT(complaint_about({.url = "kafka://a", .settings = {{"acks", "1"}}}),
                HasSubstr("'acks'"));
    EXPECT_THAT(complaint_about({.url = "kafka://a", .access = {.password = "x"}}),
                HasSubstr("access.user"));
    EXPECT_THAT(complaint_about({.url = "kafka://a", .access = {.ca_file = "x"}}),
                HasSubstr("access.tls"));
    EXPECT_THAT(complaint_about({.url = "kafka://a",
                                 .access = {.user = "me", .password = "x", .mechanism = "MAGIC"}}),
                Not(HasSubstr("none")));
    EXPECT_EQ(complaint_about({.url = "kafka://127.0.0.1:1"}), "none");
}

// Proves: TRN-01
TEST(kafka_options, a_password_is_nowhere_to_be_read)
{
    const std::string canary = "canary-4711";
    EXPECT_THAT(complaint_about({.url = "kafka://me:" + canary + "@a"}), Not(HasSubstr(canary)));
    EXPECT_THAT(complaint_about({.url = "kafka://a",
                                 .access = {.tls = true,
                                            .certificate_file = "/nowhere.pem",
                                            .private_key_file = "/nowhere.key",
                                            .private_key_password = canary}}),
                Not(HasSubstr(canary)));
    std::mutex mutex;
    std::vector<std::string> lines;
    auto surroundings = environment::system();
    surroundings.log = [&](log_level, std::string_view line) {
        const std::lock_guard lock(mutex);
        lines.emplace_back(line);
    };
    cluster brokers; // which know nothing of SASL
    const auto way = open_kafka({.url = brokers.url(),
                                 .access = {.user = "me", .password = canary},
                                 .settings = {{"debug", "security,broker,conf"}}},
                                surroundings);
    const transport_message what{.id = message_id(uuid{}), .topic = "orders"};
    const auto until = std::chrono::time_point_cast<duration>(std::chrono::steady_clock::now());
    const auto answer = way->publish({&what, 1}, {.until = until + 300ms}).at(0);
    EXPECT_EQ(answer.verdict, kind::refused);
    EXPECT_EQ(answer.why, refusal::unavailable);
    EXPECT_THAT(answer.detail, Not(HasSubstr(canary)));
    EXPECT_THAT(way->name(), Not(HasSubstr(canary)));
    const std::lock_guard lock(mutex);
    EXPECT_FALSE(lines.empty());
    for (const auto& each : lines)
        EXPECT_THAT(each, Not(HasSubstr(canary)));
}

class kafka_brokers : public ::testing::Test {
protected:
    std::shared_ptr<transport> open(kafka_options how = {.url = {}})
    {
        how.url = brokers.url();
        how.settings.emplace("topic.metadata.propagation.max.ms", "200");
        return open_kafka(how);
    }

    transport_message make(std::string topic = "orders", std::string payload = "hello",
                           std::string key = {})
    {
        return {.id = message_id(uuid::version_7(timestamp{1s}, random_)),
                .topic = std::move(topic),
                .key = std::move(key),
                .payload = std::move(payload)};
    }

    std::vector<transport_message> make_many(int how_many)
    {
        std::vector<transport_message> result;
        for (int i = 0; i < how_many; ++i)
            result.push_back(make("orders", std::to_string(i)));
        return result;
    }

    static time_limit within(duration length)
    {
        return {.until = std::chrono::time_point_cast<duration>(std::chrono::steady_clock::now()) +
                         length};
    }

    static bool all_accepted(const std::vector<publish_answer>& answers)
    {
        return std::ranges::all_of(answers, &publish_answer::accepted);
    }

    cluster brokers;

private:
    testing::seeded_random random_{7};
};

// Proves: TRN-01
TEST_F(kafka_brokers, the_topic_is_the_destination_else_the_options_else_the_messages_own)
{
    auto elsewhere = make("orders", "1");
    elsewhere.destination = "elsewhere";
    EXPECT_TRUE(all_accepted(open()->publish(std::vector{make("orders", "2"), elsewhere})));
    EXPECT_TRUE(all_accepted(
        open({.url = {}, .topic = "all"})->publish(std::vector{make("orders", "3"), elsewhere})));
    std::vector<std::string> found;
    for (const auto& each : brokers.log({"orders", "all", "elsewhere"}))
        found.push_back(each.topic + " " + each.payload);
    EXPECT_THAT(found,
                ::testing::UnorderedElementsAre("orders 2", "all 3", "elsewhere 1", "elsewhere 1"));
}

// Proves: TRN-01
TEST_F(kafka_brokers, a_topic_that_kafka_cannot_have_is_refused_for_good_and_holds_its_key_back)
{
    const auto answers = open()->publish(std::vector{
        make("orders/placed", "1", "a"), make("orders", "2", "a"), make("orders", "3", "b")});
    EXPECT_EQ(answers.at(0).why, refusal::malformed);
    EXPECT_THAT(answers.at(0).detail, HasSubstr("orders/placed"));
    EXPECT_EQ(answers.at(1).why, refusal::held_back);
    EXPECT_TRUE(answers.at(2).accepted());
}

// Proves: TRN-01
TEST_F(kafka_brokers, a_record_is_a_cloud_event_with_the_key_of_the_message)
{
    auto what = make("orders", "{}", "customer 7");
    what.headers = {{"Content-Type", "application/json"}, {"lang", "de"}};
    ASSERT_TRUE(all_accepted(open({.url = {}, .source = "shop"})->publish({&what, 1})));
    const auto found = brokers.log({"orders"}).at(0);
    EXPECT_EQ(found.key, "customer 7");
    EXPECT_THAT(found.named, Contains(Pair("ce_id", to_string(what.id))));
    EXPECT_THAT(found.named, Contains(Pair("ce_source", "shop")));
    EXPECT_THAT(found.named, Contains(Pair("ce_type", "orders")));
    EXPECT_THAT(found.named, Contains(Pair("ce_partitionkey", "customer 7")));
    EXPECT_THAT(found.named, Contains(Pair("content-type", "application/json")));
    EXPECT_THAT(found.named, Contains(Pair("lang", "de")));
    EXPECT_FALSE(found.named.contains("Content-Type"));
}

// Proves: TRN-01, F7
TEST_F(kafka_brokers, a_topic_that_we_may_not_write_to_is_denied_for_good_and_others_go_on)
{
    brokers.create("secrets");
    brokers.answer_produce_with({topic_authorization_failed});
    const auto way = open();
    const auto answer = way->publish(std::vector{make("secrets")}).at(0);
    EXPECT_EQ(answer.verdict, kind::refused);
    EXPECT_EQ(answer.why, refusal::denied);
    EXPECT_THAT(answer.detail, HasSubstr("secrets"));
    EXPECT_TRUE(all_accepted(way->publish(std::vector{make("orders")})));
}

// Proves: TRN-02, F7
TEST_F(kafka_brokers, who_shares_a_request_with_a_bad_message_does_not_share_its_fate)
{
    brokers.create("orders");
    // All in one request, which is refused; then each alone, and the first is refused again.
    brokers.answer_produce_with({message_too_large, message_too_large});
    const auto answers = open({.url = {}, .linger = 2s})->publish(make_many(10));
    EXPECT_EQ(answers.at(0).verdict, kind::refused);
    EXPECT_EQ(answers.at(0).why, refusal::too_large);
    EXPECT_TRUE(std::all_of(answers.begin() + 1, answers.end(),
                            [](const auto& each) { return each.accepted(); }));
    EXPECT_EQ(brokers.log({"orders"}).size(), 9U);
}

// Proves: TRN-02
TEST_F(kafka_brokers, a_producer_that_broke_is_replaced)
{
    brokers.create("orders");
    const auto way = open();
    ASSERT_TRUE(all_accepted(way->publish(make_many(1))));
    brokers.answer_produce_with({out_of_order_sequence});
    const auto answer = way->publish(make_many(1)).at(0);
    EXPECT_EQ(answer.verdict, kind::unknown);
    EXPECT_TRUE(all_accepted(way->publish(make_many(100))));
    EXPECT_EQ(brokers.log({"orders"}).size(), 101U);
}

// Proves: TRN-02, F5
TEST_F(kafka_brokers, a_full_queue_is_waited_for)
{
    const auto way = open({.url = {}, .settings = {{"queue.buffering.max.messages", "10"}}});
    EXPECT_TRUE(all_accepted(way->publish(make_many(300))));
    EXPECT_EQ(brokers.log({"orders"}).size(), 300U);
    brokers.go_down();
    for (const auto& each : way->publish(make_many(30), within(200ms))) {
        EXPECT_FALSE(each.accepted());
        EXPECT_FALSE(is_permanent(each.why));
    }
}

// Proves: TRN-02, F5
TEST_F(kafka_brokers, a_call_whose_time_is_over_takes_nothing_from_others)
{
    brokers.create("orders");
    const auto way = open();
    brokers.go_down();
    std::vector<publish_answer> patient;
    std::jthread other([&] { patient = way->publish(make_many(50)); });
    const std::vector short_of_time{make("orders", "late")};
    for (int i = 0; i < 3; ++i)
        EXPECT_FALSE(way->publish(short_of_time, within(100ms)).at(0).accepted());
    brokers.come_up();
    other.join();
    EXPECT_TRUE(all_accepted(patient));
    std::set<std::string> found;
    for (const auto& each : brokers.log({"orders"}))
        EXPECT_TRUE(found.insert(each.payload).second) << each.payload;
    EXPECT_EQ(found.size(), 50U);
}

// Proves: TRN-01
TEST_F(kafka_brokers, closing_waits_for_what_is_being_published)
{
    brokers.create("orders");
    const auto way = open();
    brokers.delay_produce(1, 1s);
    std::atomic<bool> accepted = false;
    const auto start = std::chrono::steady_clock::now();
    std::jthread other([&] { accepted = all_accepted(way->publish(make_many(1))); });
    while (brokers.log({"orders"}).empty()) {}
    way->close();
    EXPECT_GE(std::chrono::steady_clock::now() - start, 900ms); // not before the answer
    other.join();
    EXPECT_TRUE(accepted);
}

// Proves: TRN-02
TEST_F(kafka_brokers, a_call_without_a_limit_ends_all_the_same_and_so_does_closing)
{
    const auto way = open({.url = {}, .publish_within = 300ms});
    brokers.go_down();
    for (const auto& each : way->publish(make_many(3))) {
        EXPECT_EQ(each.verdict, kind::refused);
        EXPECT_EQ(each.why, refusal::unavailable) << each.detail;
    }
    std::jthread other([&] { (void)way->publish(make_many(3)); });
    way->close();
}

// Proves: TRN-02
TEST_F(kafka_brokers, reports_may_come_to_a_call_that_has_ended_with_an_exception)
{
    brokers.create("orders");
    brokers.create("letters");
    const kafka_options how{.url = brokers.url()};
    const auto around = std::make_shared<const environment>(environment::system());
    const auto many =
        std::make_shared<kafka::producer>(how, around, kafka::producer::company::many);
    const auto source = [&](kafka::producer::company which) {
        if (which == kafka::producer::company::alone)
            throw std::runtime_error("no more of them");
        return many;
    };
    const auto run = [&] {
        const std::vector two{make("orders"), make("letters")};
        const auto limit = within(20s);
        return kafka::shipment(how, source, two, limit).run();
    };
    ASSERT_TRUE(all_accepted(run())); // so that it knows the topics, and sends both at once
    brokers.refuse_one_and_delay_the_next(message_too_large, 500ms);
    EXPECT_THROW((void)run(), std::runtime_error); // the refused one is to be sent alone
    EXPECT_TRUE(all_accepted(run()));              // after the report that was late
}

// Proves: TRN-02, TRN-04, F5
TEST_F(kafka_brokers, brokers_that_go_and_come_lose_nothing_and_keep_the_order_of_keys)
{
    constexpr int keys = 5;
    constexpr int rounds = 6;
    brokers.create("orders", 3);
    const auto way = open();
    std::atomic<int> gone = 0; // rounds that have gone
    std::jthread weather([&] {
        for (int round = 0; round < rounds; ++round) {
            gone.wait(round - 1);
            brokers.go_down();
            (void)way->wait_until_ready(within(100ms)); // some time without them
            brokers.come_up();
        }
    });
    std::map<std::string, std::vector<std::string>> sent; // ids by key
    for (int round = 0; round < rounds; ++round) {
        std::vector<transport_message> left;
        for (int i = 0; i < keys * 4; ++i) {
            left.push_back(make("orders", std::to_string(round), std::to_string(i % keys)));
            sent[left.back().key].push_back(to_string(left.back().id));
        }
        while (!left.empty()) { // as a relay does: in order, until it is accepted
            const auto answers = way->publish(left, within(150ms));
            std::vector<transport_message> again;
            for (std::size_t i = 0; i < left.size(); ++i)
                if (!answers[i].accepted()) {
                    EXPECT_FALSE(is_permanent(answers[i].why)) << answers[i].detail;
                    again.push_back(left[i]);
                }
            left = std::move(again);
        }
        gone = round + 1;
        gone.notify_all();
    }
    weather.join();
    std::map<std::string, std::vector<std::string>> found;
    std::set<std::string> seen; // one that was unknown may be there twice
    for (const auto& each : brokers.log({"orders"}))
        if (const auto& id = each.named.at("posthorn-msg-id"); seen.insert(id).second)
            found[each.key].push_back(id);
    EXPECT_EQ(found, sent);
}

} // namespace
} // namespace posthorn::transports
