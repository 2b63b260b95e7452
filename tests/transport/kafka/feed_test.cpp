// Messages of Kafka on their way in: handed out, answered, committed, and again what was not.
#include "transport/kafka/cluster.hpp"
#include "transport/kafka/lane.hpp"
#include <posthorn/error.hpp>
#include <posthorn/kafka.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <stdexcept>
#include <stop_token>
#include <string_view>
#include <thread>
#include <utility>

namespace posthorn::transports {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class kafka_feed : public ::testing::Test {
protected:
    void SetUp() override { brokers.create("orders"); }

    std::unique_ptr<feed> open(kafka_feed_options how = {.url = {}, .topics = {}, .group = {}})
    {
        how.url = brokers.url();
        if (how.topics.empty())
            how.topics = {"orders"};
        how.group = "shop";
        how.settings.emplace("topic.metadata.propagation.max.ms", "200");
        how.settings.emplace("fetch.wait.max.ms", "20");
        how.settings.emplace("session.timeout.ms", "3000"); // until the group goes on without one
        how.settings.emplace("heartbeat.interval.ms", "300");
        return open_kafka_feed(how);
    }

    void add(int from, int to)
    {
        for (int i = from; i <= to; ++i)
            brokers.add({.topic = "orders", .key = "k", .payload = std::to_string(i)});
    }

    static time_limit within(duration length)
    {
        return {.until = std::chrono::time_point_cast<duration>(std::chrono::steady_clock::now()) +
                         length};
    }

    /// So many, in as many pieces as they come.
    static std::vector<fed_message> take(feed& from, std::size_t how_many)
    {
        std::vector<fed_message> result;
        const auto limit = within(60s);
        while (result.size() < how_many && std::chrono::steady_clock::now() < *limit.until)
            for (auto& each : from.receive(how_many - result.size(), limit))
                result.push_back(std::move(each));
        return result;
    }

    static std::vector<std::string> payloads(const std::vector<fed_message>& messages)
    {
        std::vector<std::string> result;
        for (const auto& each : messages)
            result.push_back(each.payload);
        return result;
    }

    static std::vector<std::uint64_t> tickets(const std::vector<fed_message>& messages)
    {
        std::vector<std::uint64_t> result;
        for (const auto& each : messages)
            result.push_back(each.ticket);
        return result;
    }

    /// What is committed, when it has changed from `before`.
    std::int64_t committed_after(std::int64_t before, const std::string& topic = "orders")
    {
        const auto limit = within(60s);
        auto now = before;
        while (now == before && std::chrono::steady_clock::now() < *limit.until)
            now = brokers.committed("shop", topic);
        return now;
    }

    cluster brokers;
};

// Proves: INB-05
TEST_F(kafka_feed, hands_out_what_a_transport_has_sent)
{
    const auto id = *message_id::parse("01890a5d-ac96-774b-bcce-b302099a8057");
    const transport_message sent{.id = id,
                                 .topic = "orders.placed",
                                 .key = "customer 7",
                                 .destination = "orders",
                                 .headers = {{"lang", "de"}},
                                 .payload = "{}"};
    ASSERT_TRUE(open_kafka({.url = brokers.url()})->publish({&sent, 1}).at(0).accepted());
    const auto from = open();
    const auto got = take(*from, 1).at(0);
    EXPECT_EQ(got.id, to_string(id));
    EXPECT_EQ(got.topic, "orders.placed");
    EXPECT_EQ(got.key, "customer 7");
    EXPECT_EQ(got.headers, sent.headers);
    EXPECT_EQ(got.payload, "{}");
}

// Proves: INB-05
TEST_F(kafka_feed, knows_a_stranger_by_its_place_in_the_log)
{
    add(1, 2);
    const auto from = open();
    const auto got = take(*from, 2);
    EXPECT_EQ(got.at(0).id, "orders/0/0");
    EXPECT_EQ(got.at(1).id, "orders/0/1");
    EXPECT_EQ(got.at(1).topic, "orders");
    EXPECT_EQ(got.at(1).key, "k");
}

// Proves: INB-05
TEST_F(kafka_feed, commits_as_far_as_everything_before_is_acknowledged)
{
    add(1, 4);
    const auto from = open();
    const auto got = tickets(take(*from, 4));
    from->acknowledge(std::vector{got.at(2)});
    from->acknowledge(std::vector{got.at(0)});
    (void)from->receive(1, within(10ms));
    EXPECT_EQ(committed_after(-1), 1);
    from->acknowledge(std::vector{got.at(0), got.at(1)});
    EXPECT_EQ(committed_after(1), 3);
}

// Proves: INB-05
TEST_F(kafka_feed, brings_again_what_was_not_acknowledged_when_its_reader_ended)
{
    add(1, 3);
    {
        const auto from = open();
        const auto got = take(*from, 3);
        from->acknowledge(std::vector{got.at(0).ticket});
    }
    const auto from = open();
    EXPECT_THAT(payloads(take(*from, 2)), ElementsAre("2", "3"));
}

// Proves: INB-05
TEST_F(kafka_feed, what_is_given_back_comes_again_before_what_follows_it)
{
    add(1, 5);
    const auto from = open();
    const auto first = take(*from, 3);
    from->acknowledge(std::vector{first.at(0).ticket});
    const auto before = std::chrono::steady_clock::now();
    from->give_back(std::vector{first.at(1).ticket, first.at(2).ticket}, 300ms);
    EXPECT_THAT(from->receive(10, within(0s)), IsEmpty());
    const auto again = take(*from, 4);
    EXPECT_GE(std::chrono::steady_clock::now() - before, 300ms);
    EXPECT_THAT(payloads(again), ElementsAre("2", "3", "4", "5"));
    EXPECT_EQ(again.at(0).id, first.at(1).id);
    from->acknowledge(tickets(first)); // from before: nobody knows them any more
    EXPECT_EQ(committed_after(-1), 1);
    from->acknowledge(tickets(again));
    EXPECT_EQ(committed_after(1), 5);
}

// Proves: INB-05
TEST_F(kafka_feed, what_is_refused_is_kept_in_another_topic_with_the_reason)
{
    brokers.add({.topic = "orders", .key = "k", .named = {{"lang", "de"}}, .payload = "bad"});
    add(1, 1);
    const auto from = open();
    const auto got = tickets(take(*from, 2));
    from->refuse(std::vector{got.at(0)}, "it is not an order");
    const auto kept = brokers.log({"orders.refused"});
    ASSERT_EQ(kept.size(), 1U);
    EXPECT_EQ(kept.at(0).payload, "bad");
    EXPECT_EQ(kept.at(0).key, "k");
    EXPECT_EQ(kept.at(0).named.at("lang"), "de");
    EXPECT_EQ(kept.at(0).named.at("posthorn-refused"), "it is not an order");
    EXPECT_EQ(committed_after(-1), 1);
}

// Proves: INB-05
TEST_F(kafka_feed, what_is_refused_comes_again_if_there_is_no_place_for_it)
{
    brokers.forget("orders.refused");
    add(1, 1);
    const auto from = open();
    from->refuse(tickets(take(*from, 1)), "it is not an order");
    EXPECT_THAT(payloads(take(*from, 1)), ElementsAre("1"));
    EXPECT_EQ(brokers.committed("shop", "orders"), -1);
}

// Proves: INB-05
TEST_F(kafka_feed, waits_for_brokers_that_are_away)
{
    add(1, 1);
    brokers.go_down();
    const auto from = open();
    EXPECT_THAT(from->receive(1, within(200ms)), IsEmpty());
    brokers.come_up();
    EXPECT_THAT(payloads(take(*from, 1)), ElementsAre("1"));
}

// Proves: INB-05
TEST_F(kafka_feed, waits_until_it_is_told_to_stop_or_closed)
{
    const auto from = open();
    std::stop_source told;
    std::jthread later([&] { told.request_stop(); });
    EXPECT_THAT(from->receive(1, {.stop = told.get_token()}), IsEmpty());
    std::jthread closing([&] { from->close(); });
    EXPECT_THAT(from->receive(1, {}), IsEmpty());
    EXPECT_THAT(from->receive(1, {}), IsEmpty());
}

// Proves: INB-05
TEST_F(kafka_feed, forgets_its_tickets_when_its_partitions_go_to_another)
{
    brokers.create("shared", 2);
    for (const int partition : {0, 1})
        brokers.add({.topic = "shared",
                     .partition = partition,
                     .key = std::to_string(partition),
                     .payload = "x"});
    const auto first = open({.url = {}, .topics = {"shared"}, .group = {}});
    const auto had = take(*first, 2);
    const auto second = open({.url = {}, .topics = {"shared"}, .group = {}});
    // Both have to ask for more until the group has agreed; what nobody acknowledged comes again.
    std::vector<fed_message> now;
    for (const auto limit = within(60s);
         now.empty() && std::chrono::steady_clock::now() < *limit.until;) {
        (void)first->receive(10, within(50ms));
        now = second->receive(10, within(50ms));
    }
    ASSERT_FALSE(now.empty());
    first->acknowledge(tickets(had));
    second->acknowledge(std::vector{now.at(0).ticket});
    const auto partition = static_cast<std::int32_t>(std::stoi(now.at(0).key));
    const auto limit = within(60s);
    while (brokers.committed("shop", "shared", partition) != 1) {
        ASSERT_LT(std::chrono::steady_clock::now(), *limit.until);
        (void)second->receive(10, within(10ms));
    }
    EXPECT_EQ(brokers.committed("shop", "shared", 1 - partition), -1);
}

// Proves: F21
TEST(kafka_feed_options, that_cannot_work_are_refused_with_what_is_wrong)
{
    const auto complaint = [](const kafka_feed_options& options) -> std::string {
        try {
            (void)open_kafka_feed(options);
        } catch (const error& thrown) {
            EXPECT_EQ(thrown.code(), error_code::invalid_argument);
            return thrown.what();
        }
        return "none";
    };
    EXPECT_THAT(complaint({.url = "kafka://a", .topics = {}, .group = "g"}), HasSubstr("topics"));
    EXPECT_THAT(complaint({.url = "kafka://a", .topics = {"a b"}, .group = "g"}),
                HasSubstr("'a b'"));
    EXPECT_THAT(complaint({.url = "kafka://a", .topics = {"t"}, .group = ""}), HasSubstr("group"));
    EXPECT_THAT(complaint({.url = "redis://a", .topics = {"t"}, .group = "g"}),
                HasSubstr("kafka://host:9092"));
    EXPECT_THAT(complaint({.url = "kafka://a",
                           .topics = {"t"},
                           .group = "g",
                           .settings = {{"enable.auto.commit", "true"}}}),
                HasSubstr("'enable.auto.commit'"));
    EXPECT_THAT(
        complaint({.url = "kafka://a", .topics = {"t"}, .group = "g", .refused_suffix = "/x"}),
        HasSubstr("refused_suffix"));
}

/// A log from its beginning, as the client hands it over.
class plain_reader {
public:
    explicit plain_reader(const cluster& brokers)
    {
        kafka::conf_handle conf(rd_kafka_conf_new());
        const auto servers = brokers.url().substr(std::string_view("kafka://").size());
        for (const auto& [name, value] :
             {std::pair{"bootstrap.servers", servers}, {"group.id", std::string("reader")}})
            rd_kafka_conf_set(conf.get(), name, value.c_str(), nullptr, 0);
        client_.reset(rd_kafka_new(RD_KAFKA_CONSUMER, conf.release(), nullptr, 0));
    }

    [[nodiscard]] kafka::message_handle first()
    {
        const kafka::partitions_handle one(rd_kafka_topic_partition_list_new(1));
        rd_kafka_topic_partition_list_add(one.get(), "orders", 0)->offset = 0;
        rd_kafka_assign(client_.get(), one.get());
        return next();
    }

    [[nodiscard]] kafka::message_handle next()
    {
        while (true) {
            kafka::message_handle got(rd_kafka_consumer_poll(client_.get(), 30'000));
            if (!got)
                throw std::runtime_error("the log does not come");
            if (got->err == RD_KAFKA_RESP_ERR_NO_ERROR)
                return got;
        }
    }

private:
    kafka::client_handle client_;
};

// Proves: INB-05
TEST_F(kafka_feed, a_message_that_comes_twice_is_counted_once)
{
    add(0, 1);
    plain_reader log(brokers);
    { // while it is held
        kafka::lane of("orders", 0);
        of.hand_out(log.first());
        of.put_back(0, {});
        of.hand_out(log.first());
        EXPECT_FALSE(of.is_held());
        EXPECT_EQ(of.take_next(), nullptr);
        of.put_back(0, {});
        EXPECT_NE(of.take_next(), nullptr);
        EXPECT_FALSE(of.is_held());
    }
    { // one is put back, and then the other acknowledged
        kafka::lane of("orders", 0);
        of.hand_out(log.first());
        of.put_back(0, {});
        EXPECT_TRUE(of.finish(0));
        EXPECT_FALSE(of.is_held());
    }
    { // the other way round, behind one that is not done
        kafka::lane of("orders", 0);
        of.hand_out(log.first());
        of.hand_out(log.next());
        EXPECT_FALSE(of.finish(1));
        of.put_back(1, {});
        EXPECT_FALSE(of.is_held());
        EXPECT_TRUE(of.finish(0));
        EXPECT_EQ(of.position(), 2);
    }
}

} // namespace
} // namespace posthorn::transports
