// A consumer group as a feed: what is not acknowledged comes again.
#include "gate/tcp_gate.hpp"
#include "transport/feed_steps.hpp"
#include "transport/load.hpp"
#include "transport/redis/client.hpp"
#include <posthorn/error.hpp>
#include <posthorn/redis.hpp>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace posthorn::transports {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Pair;

class redis_feed_of : public ::testing::Test {
protected:
    void TearDown() override { server_.ask({"DEL", stream_, stream_ + ".refused"}); }

    std::unique_ptr<feed> open(const std::string& consumer = "one", duration claim_after = 60s,
                               std::uint16_t port = shared_redis_port())
    {
        return open_redis_feed({.url = fmt::format("redis://127.0.0.1:{}", port),
                                .stream = stream_,
                                .group = "billing",
                                .consumer = consumer,
                                .claim_after = claim_after},
                               lines_.surroundings());
    }

    std::string publish(const std::string& payload)
    {
        return server_.ask({"XADD", stream_, "*", "payload", payload}).at(0);
    }

    std::string pending() { return server_.ask({"XPENDING", stream_, "billing"}).at(0); }

    lines_seen lines_;
    std::string stream_ = unique_stream();
    redis_client server_{shared_redis_port()};
};

// Proves: INB-05
TEST_F(redis_feed_of, a_message_comes_as_our_transport_sent_it)
{
    const auto redis =
        open_redis({.url = fmt::format("redis://127.0.0.1:{}", shared_redis_port())});
    auto what = numbered_message("orders.placed", 7, "customer 7");
    what.destination = stream_;
    what.headers = {{"lang", "dé"}, {"payload", "a header"}, {"posthorn-corr-id", "order-7"}};
    ASSERT_TRUE(redis->publish({&what, 1}).at(0).accepted());
    const auto from = open();
    const auto got = take_from(*from, 1);
    ASSERT_EQ(got.size(), 1U);
    EXPECT_EQ(got[0].id, to_string(what.id));
    EXPECT_EQ(got[0].topic, "orders.placed");
    EXPECT_EQ(got[0].key, "customer 7");
    EXPECT_EQ(got[0].payload, "7");
    EXPECT_THAT(got[0].headers, ElementsAre(Pair("lang", "dé"), Pair("payload", "a header"),
                                            Pair("posthorn-corr-id", "order-7")));
    EXPECT_EQ(pending(), "1");
    from->acknowledge(tickets_of(got));
    EXPECT_EQ(pending(), "0");
}

// Proves: INB-05
TEST_F(redis_feed_of, the_id_of_what_strangers_send_is_its_place_in_the_stream)
{
    const auto id = publish("hello");
    const auto from = open();
    const auto got = take_from(*from, 1);
    ASSERT_EQ(got.size(), 1U);
    EXPECT_EQ(got[0].id, id);
    EXPECT_EQ(got[0].topic, stream_);
    EXPECT_EQ(got[0].payload, "hello");
}

// Proves: INB-05
TEST_F(redis_feed_of, what_we_had_in_hand_comes_first_after_a_restart)
{
    for (const auto* each : {"1", "2", "3"})
        publish(each);
    auto from = open();
    const auto first = take_from(*from, 3);
    ASSERT_EQ(first.size(), 3U);
    from->acknowledge(std::vector{first[0].ticket});
    publish("4");
    from = open();
    const auto again = take_from(*from, 3);
    EXPECT_THAT(payloads_of(again), ElementsAre("2", "3", "4"));
    EXPECT_EQ(again.at(0).id, first[1].id);
    from->acknowledge(tickets_of(again));
    EXPECT_EQ(pending(), "0");
}

// Proves: INB-05
TEST_F(redis_feed_of, what_a_dead_consumer_had_in_hand_comes_to_another)
{
    publish("1");
    auto dead = open("dead");
    const auto first = take_from(*dead, 1);
    ASSERT_EQ(first.size(), 1U);
    dead.reset();
    const auto other = open("other", 200ms);
    const auto got = take_from(*other, 1);
    ASSERT_EQ(got.size(), 1U);
    EXPECT_EQ(got[0].id, first[0].id);
    other->acknowledge(tickets_of(got));
    EXPECT_EQ(pending(), "0");
}

// Proves: INB-05
TEST_F(redis_feed_of, what_we_hold_for_long_does_not_come_twice)
{
    publish("1");
    const auto from = open("one", 50ms);
    const auto got = take_from(*from, 1);
    ASSERT_EQ(got.size(), 1U);
    EXPECT_TRUE(from->receive(1, {.until = in_time(400ms)}).empty());
    from->acknowledge(tickets_of(got));
    EXPECT_EQ(pending(), "0");
}

// Proves: INB-05
TEST_F(redis_feed_of, what_is_given_back_comes_again_after_the_pause)
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
    from->acknowledge(tickets_of(first));
    EXPECT_EQ(pending(), "1") << "the old ticket is nobody's";
    from->acknowledge(tickets_of(again));
    EXPECT_EQ(pending(), "0");
}

// Proves: INB-05
TEST_F(redis_feed_of, what_is_refused_is_kept_elsewhere_with_the_reason)
{
    const auto id = publish("bad");
    publish("good");
    const auto from = open();
    const auto got = take_from(*from, 2);
    ASSERT_EQ(got.size(), 2U);
    from->refuse(std::vector{got[0].ticket}, "no store could take it");
    from->acknowledge(std::vector{got[1].ticket});
    EXPECT_EQ(pending(), "0");
    EXPECT_THAT(server_.ask({"XRANGE", stream_ + ".refused", "-", "+"}),
                IsSupersetOf<std::string>({"posthorn-refused-id", id, "posthorn-refused-because",
                                           "no store could take it", "payload", "bad"}));
}

// Proves: INB-05
TEST_F(redis_feed_of, an_interruption_loses_nothing_and_an_answer_after_it_counts)
{
    test::tcp_gate gate("127.0.0.1", shared_redis_port());
    const auto from = open("one", 60s, gate.port());
    std::vector<std::string> seen;
    for (int i = 0; i < 5; ++i) {
        publish(std::to_string(2 * i));
        publish(std::to_string(2 * i + 1));
        const auto got = take_from(*from, 2);
        ASSERT_EQ(got.size(), 2U);
        for (const auto& each : got)
            seen.push_back(each.payload);
        gate.cut();
        from->acknowledge(tickets_of(got));
    }
    EXPECT_THAT(seen, ElementsAre("0", "1", "2", "3", "4", "5", "6", "7", "8", "9"));
    EXPECT_TRUE(comes_true([&] {
        from->acknowledge({}); // what failed is tried again
        return pending() == "0";
    }));
}

// Proves: INB-05
TEST_F(redis_feed_of, a_reply_that_is_lost_brings_its_messages_after_the_interruption)
{
    test::tcp_gate gate("127.0.0.1", shared_redis_port());
    gate.lose_reply("BLOCK", "precious"); // only who asks for what is new may block
    publish("precious");
    const auto from = open("one", 60s, gate.port());
    EXPECT_THAT(payloads_of(take_from(*from, 1)), ElementsAre("precious"));
    EXPECT_TRUE(gate.wait_for([](const auto& now) { return now.replies_lost == 1; }));
}

// Proves: INB-05
TEST_F(redis_feed_of, a_group_that_is_not_there_is_waited_for)
{
    const auto from =
        open_redis_feed({.url = fmt::format("redis://127.0.0.1:{}", shared_redis_port()),
                         .stream = stream_,
                         .group = "billing",
                         .create_group = false},
                        lines_.surroundings());
    EXPECT_TRUE(comes_true([&] {
        (void)from->receive(1, {.until = in_time(50ms)});
        return lines_.text().find("NOGROUP") != std::string::npos;
    }));
    server_.ask({"XGROUP", "CREATE", stream_, "billing", "0", "MKSTREAM"});
    publish("1");
    EXPECT_THAT(payloads_of(take_from(*from, 1)), ElementsAre("1"));
}

// Proves: INB-05
TEST_F(redis_feed_of, a_stream_that_is_deleted_is_made_again)
{
    const auto from = open();
    publish("1");
    EXPECT_THAT(payloads_of(take_from(*from, 1)), ElementsAre("1"));
    server_.ask({"DEL", stream_});
    publish("2");
    EXPECT_THAT(payloads_of(take_from(*from, 1)), ElementsAre("2"));
}

// Proves: INB-05
TEST_F(redis_feed_of, a_new_stream_may_have_the_ids_of_the_one_before)
{
    const auto put = [&](const char* payload) {
        server_.ask({"XADD", stream_, "5-1", "payload", payload});
    };
    const auto from = open();
    put("1");
    const auto first = take_from(*from, 1);
    EXPECT_THAT(payloads_of(first), ElementsAre("1"));
    server_.ask({"DEL", stream_});
    put("2");
    const auto second = take_from(*from, 1);
    EXPECT_THAT(payloads_of(second), ElementsAre("2"));
    from->acknowledge(tickets_of(first)); // means nothing any more
    EXPECT_EQ(pending(), "1");
    from->acknowledge(tickets_of(second));
    EXPECT_EQ(pending(), "0");
}

// Proves: INB-05
TEST_F(redis_feed_of, a_wait_ends_with_its_time_its_stop_and_the_feed)
{
    const auto from = open();
    EXPECT_TRUE(from->receive(1, {.until = in_time(10ms)}).empty());
    std::stop_source told;
    std::jthread later([&] { told.request_stop(); });
    EXPECT_TRUE(from->receive(1, {.stop = told.get_token()}).empty());
    publish("after");
    EXPECT_THAT(payloads_of(take_from(*from, 1)), ElementsAre("after"));
    std::jthread closer([&] { from->close(); });
    EXPECT_TRUE(from->receive(1, {}).empty());
    EXPECT_TRUE(from->receive(1, {}).empty());
}

// Proves: INB-05
TEST_F(redis_feed_of, many_come_in_their_order)
{
    for (int i = 0; i < 1'000; ++i)
        publish(std::to_string(i));
    const auto from = open();
    std::vector<fed_message> got;
    while (got.size() < 1'000)
        for (auto& each : take_from(*from, 100))
            got.push_back(std::move(each));
    for (int i = 0; i < 1'000; ++i)
        EXPECT_EQ(got[static_cast<std::size_t>(i)].payload, std::to_string(i));
    from->acknowledge(tickets_of(got));
    EXPECT_EQ(pending(), "0");
}

// Proves: F21
TEST_F(redis_feed_of, options_that_make_no_sense_are_refused)
{
    const auto problem = [](redis_feed_options how) -> std::string {
        try {
            (void)open_redis_feed(std::move(how));
        } catch (const error& refused) {
            return refused.what();
        }
        return "none";
    };
    const std::string good = "redis://127.0.0.1:1";
    EXPECT_THAT(problem({.url = good, .stream = "", .group = "g"}), HasSubstr("stream"));
    EXPECT_THAT(problem({.url = good, .stream = "s", .group = ""}), HasSubstr("group"));
    EXPECT_THAT(problem({.url = good, .stream = "s", .group = "g", .refused_stream = "s"}),
                HasSubstr("another stream"));
    EXPECT_THAT(problem({.url = good, .stream = "s", .group = "g", .claim_after = 0s}),
                HasSubstr("time limits"));
    EXPECT_EQ(problem({.url = good, .stream = "s", .group = "g"}), "none");
}

} // namespace
} // namespace posthorn::transports
