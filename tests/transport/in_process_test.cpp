// Subscribers in the same process: who is called, in which context, and until when.
#include <posthorn/correlation.hpp>
#include <posthorn/error.hpp>
#include <posthorn/in_process.hpp>
#include <posthorn/publisher.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace posthorn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class in_process : public ::testing::Test {
protected:
    publish_answer publish(const std::string& topic)
    {
        return direct_publisher(bus).publish(message{topic, "hello"});
    }
    auto noting(const std::string& name)
    {
        return [this, name](const transport_message& what) {
            seen.push_back(name + " " + what.topic);
        };
    }

    std::shared_ptr<in_process_transport> bus = std::make_shared<in_process_transport>();
    std::vector<std::string> seen;
};

// Proves: TRN-01
TEST_F(in_process, every_subscriber_whose_pattern_fits_is_called_in_its_turn)
{
    const auto all = bus->subscribe("*", noting("all"));
    const auto orders = bus->subscribe("orders.*", noting("orders"));
    const auto exact = bus->subscribe("orders.placed", noting("exact"));
    EXPECT_TRUE(publish("orders.placed").accepted());
    EXPECT_TRUE(publish("orders.placed.twice").accepted());
    EXPECT_TRUE(publish("mail").accepted());
    EXPECT_THAT(seen,
                ElementsAre("all orders.placed", "orders orders.placed", "exact orders.placed",
                            "all orders.placed.twice", "orders orders.placed.twice", "all mail"));
    EXPECT_THROW((void)bus->subscribe("", noting("x")), error);
    EXPECT_THROW((void)bus->subscribe("t", nullptr), error);
}

// Proves: TRN-01
TEST_F(in_process, a_subscription_ends_with_its_life_also_from_inside)
{
    auto first = bus->subscribe("t", noting("first"));
    in_process_transport::subscription second;
    second = bus->subscribe("t", [&](const transport_message&) {
        seen.emplace_back("second");
        second = {};
    });
    EXPECT_TRUE(publish("t").accepted());
    EXPECT_TRUE(publish("t").accepted());
    first = {};
    EXPECT_EQ(publish("t").why, refusal::unroutable);
    EXPECT_THAT(seen, ElementsAre("first t", "second", "first t"));
}

// Proves: TRN-01
TEST_F(in_process, whoever_ends_a_subscription_waits_for_calls_in_progress)
{
    std::atomic<bool> entered = false;
    std::atomic<bool> may_leave = false;
    std::atomic<bool> left = false;
    auto slow = bus->subscribe("t", [&](const transport_message&) {
        entered = true;
        while (!may_leave)
            std::this_thread::yield();
        left = true;
    });
    std::jthread publishing([&] { EXPECT_TRUE(publish("t").accepted()); });
    while (!entered)
        std::this_thread::yield();
    std::jthread opening([&] { may_leave = true; });
    slow = {};
    EXPECT_TRUE(left);
}

// Proves: TRN-01
TEST_F(in_process, closing_waits_for_what_is_being_published_unless_told_otherwise)
{
    std::atomic<bool> entered = false;
    std::atomic<bool> may_leave = false;
    std::atomic<bool> left = false;
    const auto slow = bus->subscribe("t", [&](const transport_message&) {
        entered = true;
        while (!may_leave)
            std::this_thread::yield();
        left = true;
    });
    std::jthread publishing([&] { EXPECT_TRUE(publish("t").accepted()); });
    while (!entered)
        std::this_thread::yield();
    std::stop_source impatient;
    impatient.request_stop();
    bus->close({.stop = impatient.get_token()});
    EXPECT_FALSE(left);
    std::jthread opening([&] { may_leave = true; });
    bus->close();
    publishing.join();
    EXPECT_TRUE(left);
}

// Proves: COR-05
TEST_F(in_process, a_subscriber_runs_in_the_correlation_of_the_message)
{
    std::vector<std::string> ids;
    const auto first = bus->subscribe("first", [&](const transport_message&) {
        ids.push_back(correlation_scope::current()->id());
        EXPECT_TRUE(publish("second").accepted());
    });
    const auto second = bus->subscribe("second", [&](const transport_message& what) {
        ids.push_back(what.headers.at("posthorn-corr-id"));
        ids.push_back(what.headers.at("posthorn-corr-seq"));
        ids.push_back(what.headers.at("posthorn-causation-id"));
    });
    const auto sent = direct_publisher(bus).publish(message{"first", ""});
    const auto id = to_string(sent.id);
    EXPECT_THAT(ids, ElementsAre(id, id, "1", id));
    EXPECT_EQ(correlation_scope::current(), nullptr);
}

// Proves: TRN-01
TEST_F(in_process, what_a_subscriber_throws_is_a_rejection_with_its_words)
{
    const auto throws =
        bus->subscribe("t", [](const transport_message&) { throw std::runtime_error("no room"); });
    const auto worse = bus->subscribe("u", [](const transport_message&) { throw 42; });
    EXPECT_EQ(publish("t").why, refusal::rejected);
    EXPECT_THAT(publish("t").detail, HasSubstr("no room"));
    EXPECT_EQ(publish("u").why, refusal::rejected);
    EXPECT_EQ(correlation_scope::current(), nullptr);
}

// Proves: TRN-01
TEST_F(in_process, a_subscriber_that_publishes_to_itself_comes_to_an_end)
{
    std::vector<refusal> whys;
    const auto echo = bus->subscribe("t", [&](const transport_message&) {
        const auto answer = publish("t");
        if (!answer.accepted())
            whys.push_back(answer.why);
    });
    EXPECT_TRUE(publish("t").accepted());
    EXPECT_THAT(whys, ElementsAre(refusal::busy));
}

// Proves: TRN-01
TEST_F(in_process, without_the_duty_to_be_routed_a_message_may_go_nowhere)
{
    bus = std::make_shared<in_process_transport>(in_process_options{.mandatory = false});
    EXPECT_FALSE(bus->capabilities().reports_unroutable);
    EXPECT_TRUE(publish("nowhere").accepted());
}

} // namespace
} // namespace posthorn
