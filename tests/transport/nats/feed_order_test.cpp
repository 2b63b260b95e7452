// A feed after an interruption, on a server that is slow, or counts before it answers: nothing
// newer is asked for as long as something older may come.
#include "transport/feed_steps.hpp"
#include "transport/nats/scripted_server.hpp"
#include <posthorn/nats.hpp>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <future>

namespace posthorn::transports {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

class order_of_a_nats_feed : public ::testing::Test {
protected:
    using request = test::scripted_nats::request;

    void SetUp() override
    {
        feed_ = open_nats_feed({.url = fmt::format("nats://127.0.0.1:{}", server_.port()),
                                .stream = "S",
                                .consumer = "C"});
        server_.greet();
    }

    void TearDown() override { feed_->close(); }

    /// What `receive` returns, once it does.
    std::future<std::vector<fed_message>> receiving()
    {
        return std::async(std::launch::async,
                          [this] { return feed_->receive(10, {.until = in_time()}); });
    }

    /// The consumer has handed out messages up to a place, and some are not acknowledged; they come
    /// again at once.
    void tell_consumer(const request& asked, std::size_t pending, std::uint64_t delivered)
    {
        server_.answer(asked, nlohmann::json{{"num_ack_pending", pending},
                                             {"delivered", {{"stream_seq", delivered}}},
                                             {"num_waiting", 0},
                                             {"config", {{"ack_wait", 1}}}}
                                  .dump());
    }

    /// The next request for messages; until then the same is told of the consumer.
    request next_pull(std::size_t pending, std::uint64_t delivered)
    {
        for (;;) {
            const auto asked = server_.expect("$JS.API.CONSUMER.");
            if (asked.subject.starts_with("$JS.API.CONSUMER.MSG.NEXT."))
                return asked;
            tell_consumer(asked, pending, delivered);
        }
    }

    /// Only what others had in hand, or somebody has given back; not what is new.
    static bool gathers(const request& pull)
    {
        return nlohmann::json::parse(pull.body).contains("no_wait");
    }

    /// The first, before the time of what others have is over.
    void let_gather_early(std::size_t pending, std::uint64_t delivered)
    {
        const auto early = next_pull(pending, delivered);
        ASSERT_TRUE(gathers(early));
        server_.answer_with_status(early, "408 Request Timeout");
    }

    test::scripted_nats server_;
    std::unique_ptr<feed> feed_;
};

} // namespace

// Proves: INB-05
TEST_F(order_of_a_nats_feed, who_got_no_answer_does_not_believe_that_there_is_nothing_older)
{
    const auto got = receiving();
    let_gather_early(1, 1);
    const auto late = next_pull(1, 1);
    ASSERT_TRUE(gathers(late)); // and the server says nothing
    const auto again = next_pull(1, 1);
    EXPECT_TRUE(gathers(again)) << again.body;
    server_.answer_with_status(again, "408 Request Timeout");
    EXPECT_FALSE(gathers(next_pull(1, 1))) << "now it has said so";
    feed_->close();
}

// Proves: INB-05
TEST_F(order_of_a_nats_feed, what_came_after_the_count_does_not_stand_for_something_older)
{
    auto got = receiving();
    const auto early = next_pull(3, 20);
    for (const std::uint64_t place : {21, 22, 23}) // new ones, since the older ones are not due
        server_.hand_over(early, place, std::to_string(place));
    const auto late = next_pull(3, 20);
    ASSERT_TRUE(gathers(late)) << late.body;
    for (const std::uint64_t place : {18, 19, 20})
        server_.hand_over(late, place, std::to_string(place));
    tell_consumer(server_.expect("$JS.API.CONSUMER.INFO."), 6, 23);
    EXPECT_THAT(payloads_of(got.get()), ElementsAre("18", "19", "20", "21", "22", "23"));
}

// Proves: INB-05
TEST_F(order_of_a_nats_feed, a_consumer_that_says_no_is_looked_at_again_as_after_an_interruption)
{
    const auto got = receiving();
    let_gather_early(1, 1);
    const auto late = next_pull(1, 1);
    server_.answer_with_status(late, "408 Request Timeout");
    const auto read = next_pull(1, 1);
    ASSERT_FALSE(gathers(read));
    server_.answer_with_status(read, "409 Leadership Change");
    EXPECT_TRUE(gathers(next_pull(5, 10)));
    feed_->close();
}

} // namespace posthorn::transports
