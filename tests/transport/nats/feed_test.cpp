// A durable consumer as a feed: what is not acknowledged comes again.
#include "gate/tcp_gate.hpp"
#include "transport/feed_steps.hpp"
#include "transport/load.hpp"
#include "transport/nats/jetstream.hpp"
#include <posthorn/error.hpp>
#include <posthorn/nats.hpp>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace posthorn::transports {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class nats_feed_of : public ::testing::Test {
protected:
    void SetUp() override { server_.set_stream(stream_, {stream_ + ".>"}); }

    std::unique_ptr<feed> open(duration ack_wait = 30s, std::uint16_t port = shared_nats_port())
    {
        return open_nats_feed({.url = fmt::format("nats://127.0.0.1:{}", port),
                               .stream = stream_,
                               .consumer = "billing",
                               .ack_wait = ack_wait},
                              lines_.surroundings());
    }

    void publish(const std::string& payload) { server_.publish(stream_ + ".orders", payload); }

    bool all_is_acknowledged_up_to(std::uint64_t sequence)
    {
        return comes_true(
            [&] { return server_.acknowledged_up_to(stream_, "billing") == sequence; });
    }

    lines_seen lines_;
    std::string stream_ = unique_name();
    jetstream server_{shared_nats_port()};
};

// Proves: INB-05
TEST_F(nats_feed_of, a_message_comes_as_our_transport_sent_it)
{
    const auto nats = open_nats(
        {.url = fmt::format("nats://127.0.0.1:{}", shared_nats_port()), .prefix = stream_ + "."});
    auto what = numbered_message("orders.placed", 7, "customer 7");
    what.headers = {{"lang", "dé"}, {"posthorn-corr-id", "order-7"}};
    ASSERT_TRUE(nats->publish({&what, 1}).at(0).accepted());
    const auto from = open();
    const auto got = take_from(*from, 1);
    ASSERT_EQ(got.size(), 1U);
    EXPECT_EQ(got[0].id, to_string(what.id));
    EXPECT_EQ(got[0].topic, "orders.placed");
    EXPECT_EQ(got[0].key, "customer 7");
    EXPECT_EQ(got[0].payload, "7");
    EXPECT_THAT(got[0].headers,
                ElementsAre(Pair("lang", "dé"), Pair("posthorn-corr-id", "order-7")));
    from->acknowledge(tickets_of(got));
    EXPECT_TRUE(all_is_acknowledged_up_to(1));
}

// Proves: INB-05
TEST_F(nats_feed_of, an_id_is_the_senders_or_the_place_in_the_stream)
{
    const auto subject = stream_ + ".orders";
    server_.publish(subject, "1", {{"Nats-Msg-Id", "one"}});
    server_.publish(subject, "2", {{"ce-id", "two"}, {"ce-type", "paid"}, {"other", "x"}});
    server_.publish(subject, "3");
    const auto from = open();
    const auto got = take_from(*from, 3);
    ASSERT_EQ(got.size(), 3U);
    EXPECT_EQ(got[0].id, "one");
    EXPECT_TRUE(got[0].headers.empty());
    EXPECT_EQ(got[0].topic, subject);
    EXPECT_EQ(got[1].id, "two");
    EXPECT_EQ(got[1].topic, "paid");
    EXPECT_THAT(got[1].headers, ElementsAre(Pair("other", "x")));
    EXPECT_EQ(got[2].id, stream_ + ":3");
}

// Proves: INB-05
TEST_F(nats_feed_of, what_is_not_acknowledged_comes_again_to_whoever_opens_it_next)
{
    for (const auto* each : {"1", "2", "3"})
        publish(each);
    auto from = open();
    const auto first = take_from(*from, 3);
    ASSERT_EQ(first.size(), 3U);
    from->acknowledge(std::vector{first[0].ticket});
    EXPECT_TRUE(all_is_acknowledged_up_to(1));
    from = open();
    const auto again = take_from(*from, 2);
    ASSERT_EQ(again.size(), 2U);
    EXPECT_THAT(payloads_of(again), ElementsAre("2", "3"));
    EXPECT_EQ(again[0].id, first[1].id);
    from->acknowledge(tickets_of(again));
    EXPECT_TRUE(all_is_acknowledged_up_to(3));
}

// Proves: INB-05
TEST_F(nats_feed_of, what_a_dead_process_had_in_hand_comes_again_to_another)
{
    publish("1");
    test::tcp_gate gate("127.0.0.1", shared_nats_port());
    const auto dead = open(1s, gate.port());
    ASSERT_EQ(take_from(*dead, 1).size(), 1U);
    gate.refuse(true);
    gate.cut(); // it can say nothing more
    const auto other = open(1s);
    const auto got = take_from(*other, 1);
    ASSERT_EQ(got.size(), 1U);
    EXPECT_EQ(got[0].id, stream_ + ":1");
}

// Proves: INB-05
TEST_F(nats_feed_of, nothing_overtakes_what_a_dead_process_had_in_hand)
{
    test::tcp_gate gate("127.0.0.1", shared_nats_port());
    for (const auto* each : {"1", "2", "3"})
        publish(each);
    const auto dead = open(1s, gate.port());
    ASSERT_EQ(take_from(*dead, 3).size(), 3U);
    gate.refuse(true);
    gate.cut();
    publish("4");
    publish("5");
    const auto other = open(1s);
    EXPECT_THAT(payloads_of(take_from(*other, 5)), ElementsAre("1", "2", "3", "4", "5"));
}

// Proves: INB-05
TEST_F(nats_feed_of, nothing_overtakes_what_goes_to_somebody_of_whose_end_the_server_does_not_know)
{
    test::tcp_gate gate("127.0.0.1", shared_nats_port());
    const auto dead = open(1s, gate.port());
    ASSERT_TRUE(comes_true([&] {
        EXPECT_TRUE(dead->receive(10, {.until = in_time(20ms)}).empty());
        return server_.requests_at(stream_, "billing") == 1;
    }));
    gate.stall(true); // from here on nothing reaches it, and its request stands
    const auto other = open(1s);
    std::jthread publisher([&](const std::stop_token& over) {
        EXPECT_TRUE(comes_true([&] {
            return over.stop_requested() ||
                   lines_.text().find("somebody else asks") != std::string::npos ||
                   server_.requests_at(stream_, "billing") > 1;
        }));
        for (const auto* each : {"1", "2", "3", "4"})
            publish(each);
        gate.refuse(true);
        gate.cut();
    });
    EXPECT_THAT(payloads_of(take_from(*other, 4)), ElementsAre("1", "2", "3", "4"));
}

// Proves: INB-05
TEST_F(nats_feed_of, a_consumer_may_hand_out_only_a_few_at_a_time)
{
    server_.set_consumer(stream_, "billing", 1s, 2);
    test::tcp_gate gate("127.0.0.1", shared_nats_port());
    for (const auto* each : {"1", "2", "3", "4", "5"})
        publish(each);
    const auto dead = open(1s, gate.port());
    ASSERT_EQ(take_from(*dead, 5).size(), 5U);
    gate.refuse(true);
    gate.cut();
    publish("6");
    const auto other = open(1s);
    EXPECT_THAT(payloads_of(take_from(*other, 6)), ElementsAre("1", "2", "3", "4", "5", "6"));
}

// Proves: INB-05
TEST_F(nats_feed_of, a_link_that_breaks_again_and_again_does_not_keep_it_waiting)
{
    publish("1");
    test::tcp_gate gate("127.0.0.1", shared_nats_port());
    const auto dead = open(2s, gate.port());
    ASSERT_EQ(take_from(*dead, 1).size(), 1U);
    gate.refuse(true);
    gate.cut();
    publish("2");
    test::tcp_gate flapping("127.0.0.1", shared_nats_port());
    const auto other = open(2s, flapping.port());
    std::jthread cutter([&](const std::stop_token& over) {
        std::mutex mutex;
        std::unique_lock lock(mutex);
        std::condition_variable_any never;
        while (!never.wait_for(lock, over, 1s, [&] { return over.stop_requested(); }))
            flapping.cut();
    });
    EXPECT_THAT(payloads_of(take_from(*other, 2)), ElementsAre("1", "2"));
}

// Proves: INB-05
TEST_F(nats_feed_of, who_does_not_care_for_order_need_not_wait)
{
    publish("1");
    const auto slow = open(30s);
    ASSERT_EQ(take_from(*slow, 1).size(), 1U);
    publish("2");
    const auto other =
        open_nats_feed({.url = fmt::format("nats://127.0.0.1:{}", shared_nats_port()),
                        .stream = stream_,
                        .consumer = "billing",
                        .in_order = false});
    EXPECT_THAT(payloads_of(take_from(*other, 1)), ElementsAre("2"));
}

// Proves: INB-05
TEST_F(nats_feed_of, what_another_keeps_in_hand_holds_up_nobody_for_longer_than_its_time)
{
    publish("1");
    const auto slow = open(1s);
    ASSERT_EQ(take_from(*slow, 1).size(), 1U);
    const auto other = open(1s);
    publish("2");
    const auto got = payloads_of(take_from(*other, 2));
    EXPECT_THAT(got, ElementsAre("1", "2")); // the first one's time was over
}

// Proves: INB-05
TEST_F(nats_feed_of, what_is_given_back_comes_again_after_the_pause)
{
    publish("1");
    const auto from = open();
    const auto first = take_from(*from, 1);
    ASSERT_EQ(first.size(), 1U);
    const auto before = std::chrono::steady_clock::now();
    from->give_back(tickets_of(first), 300ms);
    const auto again = take_from(*from, 1);
    ASSERT_EQ(again.size(), 1U);
    EXPECT_GE(std::chrono::steady_clock::now() - before, 300ms);
    EXPECT_EQ(again[0].id, first[0].id);
    EXPECT_NE(again[0].ticket, first[0].ticket);
}

// Proves: INB-05
TEST_F(nats_feed_of, what_is_refused_stays_in_the_stream_and_does_not_come_again)
{
    publish("bad");
    publish("good");
    const auto from = open(1s);
    const auto got = take_from(*from, 2);
    ASSERT_EQ(got.size(), 2U);
    from->refuse(std::vector{got[0].ticket}, "no store could take it");
    from->acknowledge(std::vector{got[1].ticket});
    EXPECT_TRUE(all_is_acknowledged_up_to(2));
    EXPECT_EQ(server_.messages_in(stream_), 2U);
    EXPECT_THAT(lines_.text(), HasSubstr("no store could take it"));
}

// Proves: INB-05
TEST_F(nats_feed_of, what_is_refused_stays_in_a_work_queue_and_is_put_back)
{
    const auto queue = unique_name();
    server_.set_stream(queue, {queue + ".>"}, {-1, -1, -1, 1, true});
    server_.publish(queue + ".orders", "bad");
    const auto from = open_nats_feed({.url = fmt::format("nats://127.0.0.1:{}", shared_nats_port()),
                                      .stream = queue,
                                      .consumer = "billing"},
                                     lines_.surroundings());
    from->refuse(tickets_of(take_from(*from, 1)), "no store could take it");
    EXPECT_TRUE(comes_true([&] { return lines_.text().find("put back") != std::string::npos; }));
    EXPECT_EQ(server_.messages_in(queue), 1U);
    EXPECT_EQ(server_.unacknowledged(queue, "billing"), 1U);
}

// Proves: INB-05
TEST_F(nats_feed_of, an_interruption_loses_nothing_and_an_answer_after_it_counts)
{
    test::tcp_gate gate("127.0.0.1", shared_nats_port());
    const auto from = open(30s, gate.port());
    for (int i = 0; i < 5; ++i) {
        publish(std::to_string(2 * i));
        publish(std::to_string(2 * i + 1));
        const auto got = take_from(*from, 2);
        ASSERT_EQ(got.size(), 2U);
        gate.cut();
        from->acknowledge(tickets_of(got));
    }
    // An answer that was on its way when the connection ended is lost, and its message comes again.
    EXPECT_TRUE(comes_true([&] {
        from->acknowledge(tickets_of(from->receive(10, {.until = in_time(50ms)})));
        return server_.unacknowledged(stream_, "billing") == 0 &&
               server_.acknowledged_up_to(stream_, "billing") == 10;
    }));
}

// Proves: INB-05
TEST_F(nats_feed_of, a_stream_that_is_not_there_is_waited_for)
{
    server_.remove_stream(stream_);
    const auto from = open();
    EXPECT_TRUE(from->receive(1, {.until = in_time(200ms)}).empty());
    EXPECT_TRUE(comes_true([&] {
        (void)from->receive(1, {.until = in_time(50ms)});
        return lines_.text().find("no such") != std::string::npos ||
               lines_.text().find("not found") != std::string::npos;
    }));
    server_.set_stream(stream_, {stream_ + ".>"});
    publish("1");
    EXPECT_THAT(payloads_of(take_from(*from, 1)), ElementsAre("1"));
}

// Proves: INB-05
TEST_F(nats_feed_of, a_consumer_that_is_removed_is_made_again)
{
    publish("1");
    const auto from = open();
    EXPECT_THAT(payloads_of(take_from(*from, 1)), ElementsAre("1"));
    server_.remove_consumer(stream_, "billing");
    publish("2");
    EXPECT_THAT(payloads_of(take_from(*from, 2)), ElementsAre("1", "2"));
}

// Proves: INB-05
TEST_F(nats_feed_of, a_wait_ends_with_its_time_its_stop_and_the_feed)
{
    const auto from = open();
    EXPECT_TRUE(from->receive(1, {.until = in_time(10ms)}).empty());
    std::stop_source told;
    std::jthread later([&] { told.request_stop(); });
    EXPECT_TRUE(from->receive(1, {.stop = told.get_token()}).empty());
    std::jthread closer([&] { from->close(); });
    EXPECT_TRUE(from->receive(1, {}).empty());
    EXPECT_TRUE(from->receive(1, {}).empty());
}

// Proves: INB-05
TEST_F(nats_feed_of, many_come_in_their_order)
{
    for (int i = 0; i < 500; ++i)
        publish(std::to_string(i));
    const auto from = open();
    const auto got = take_from(*from, 500);
    ASSERT_EQ(got.size(), 500U);
    for (int i = 0; i < 500; ++i)
        EXPECT_EQ(got[static_cast<std::size_t>(i)].payload, std::to_string(i));
    from->acknowledge(tickets_of(got));
    EXPECT_TRUE(all_is_acknowledged_up_to(500));
}

// Proves: F21
TEST_F(nats_feed_of, options_that_make_no_sense_are_refused)
{
    const auto problem = [](nats_feed_options how) -> std::string {
        try {
            (void)open_nats_feed(std::move(how));
        } catch (const error& refused) {
            return refused.what();
        }
        return "none";
    };
    const std::string good = "nats://127.0.0.1:1";
    EXPECT_THAT(problem({.url = good, .stream = "A.B", .consumer = "x"}), HasSubstr("A.B"));
    EXPECT_THAT(problem({.url = good, .stream = "A", .consumer = ""}), HasSubstr("consumer"));
    EXPECT_THAT(problem({.url = good, .stream = "A", .consumer = "x", .ack_wait = 0s}),
                HasSubstr("time limits"));
    EXPECT_EQ(problem({.url = good, .stream = "A", .consumer = "x"}), "none");
}

} // namespace
} // namespace posthorn::transports
