// Out of a queue: what was not acknowledged comes again, with the same id, and what was does not.
#include "transport/rabbitmq/broker_scene.hpp"
#include "transport/rabbitmq/feed.hpp"
#include <posthorn/error.hpp>
#include <posthorn/inbox.hpp>
#include <posthorn/testing/seeded_random.hpp>
#include <posthorn/testing/store_for_tests.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

namespace posthorn::test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

time_limit within(duration length)
{
    return {.until =
                std::chrono::time_point_cast<duration>(std::chrono::steady_clock::now()) + length};
}

class rabbitmq_feeds : public ::testing::Test {
protected:
    rabbitmq_feed_options options() const
    {
        return {.url = scene.url(), .queue = scene.queue, .connection = {.reconnect_min = 1ms}};
    }

    environment listening()
    {
        auto result = environment::system();
        result.log = [this](log_level, std::string_view line) {
            const std::lock_guard lock(mutex_);
            said_.append(line).append("\n");
        };
        return result;
    }

    std::string said()
    {
        const std::lock_guard lock(mutex_);
        return said_;
    }

    void put(int first, int last)
    {
        for (int i = first; i <= last; ++i)
            scene.client.publish(scene.queue, {.message_id = "id " + std::to_string(i),
                                               .type = "orders",
                                               .body = std::to_string(i)});
    }

    /// So many, however many calls it takes.
    static std::vector<fed_message> take(feed& from, std::size_t many)
    {
        std::vector<fed_message> result;
        const auto until = within(60s);
        while (result.size() < many) {
            auto some = from.receive(many - result.size(), until);
            if (some.empty()) {
                ADD_FAILURE() << "only " << result.size() << " of " << many << " came";
                break;
            }
            std::ranges::move(some, std::back_inserter(result));
        }
        return result;
    }

    static std::vector<std::string> ids(const std::vector<fed_message>& of)
    {
        std::vector<std::string> result;
        for (const auto& each : of)
            result.push_back(each.id);
        return result;
    }

    static std::vector<std::uint64_t> tickets(const std::vector<fed_message>& of)
    {
        std::vector<std::uint64_t> result;
        for (const auto& each : of)
            result.push_back(each.ticket);
        return result;
    }

    /// Until the broker says so too.
    bool becomes(const std::function<bool()>& condition)
    {
        const auto until = std::chrono::steady_clock::now() + 60s;
        while (!condition())
            if (std::chrono::steady_clock::now() > until)
                return false;
        return true;
    }

    broker_scene scene;

private:
    std::mutex mutex_;
    std::string said_;
};

// Proves: INB-05
TEST_F(rabbitmq_feeds, what_the_transport_sends_comes_out_as_it_was)
{
    scene.listen("orders.#");
    testing::seeded_random random{7};
    const transport_message what{
        .id = message_id(uuid::version_7(timestamp{1s}, random)),
        .topic = "orders.placed",
        .key = "customer 7",
        .headers = {{"content-type", "text/plain"}, {"posthorn-corr-id", "order-7"}, {"n", "dé"}},
        .payload = std::string("any\0bytes\xff", 10) + std::string(200'000, 'x')};
    ASSERT_TRUE(open_rabbitmq(scene.options())->publish({&what, 1}).at(0).accepted());
    const auto from = open_rabbitmq_feed(options());
    const auto got = take(*from, 1);
    ASSERT_THAT(got, SizeIs(1));
    EXPECT_EQ(got[0].id, to_string(what.id));
    EXPECT_EQ(got[0].topic, what.topic);
    EXPECT_EQ(got[0].key, what.key);
    EXPECT_EQ(got[0].payload, what.payload);
    EXPECT_EQ(got[0].headers, what.headers);
}

// Proves: INB-05
TEST_F(rabbitmq_feeds, others_name_their_messages_in_their_own_ways)
{
    scene.client.publish(scene.queue, {.message_id = "by property", .body = "1"});
    scene.client.publish(scene.queue, {.message_id = "by property",
                                       .type = "typed",
                                       .headers = {{"cloudEvents:id", "by event"}, {"lang", "de"}},
                                       .body = "2"});
    scene.client.publish(scene.queue, {.message_id = "by property",
                                       .headers = {{"cloudEvents:id", "by event"},
                                                   {"posthorn-msg-id", "by header"},
                                                   {"posthorn-topic", "said"}},
                                       .body = "3"});
    const auto from = open_rabbitmq_feed(options());
    const auto got = take(*from, 3);
    EXPECT_THAT(ids(got), ElementsAre("by property", "by event", "by header"));
    EXPECT_EQ(got[0].topic, scene.queue); // the routing key
    EXPECT_EQ(got[1].topic, "typed");
    EXPECT_EQ(got[2].topic, "said");
    EXPECT_THAT(got[1].headers, ElementsAre(Pair("lang", "de")));
}

// Proves: INB-05
TEST_F(rabbitmq_feeds, what_was_not_acknowledged_comes_again_after_an_interruption)
{
    put(1, 4);
    const auto from = open_rabbitmq_feed(options());
    const auto before = take(*from, 4);
    EXPECT_THAT(ids(before), ElementsAre("id 1", "id 2", "id 3", "id 4"));
    from->acknowledge(std::vector{before[1].ticket});
    from->give_back(std::vector{before[0].ticket}, 0s);
    const auto first_again = take(*from, 1); // so the broker has read what we said before it
    EXPECT_THAT(ids(first_again), ElementsAre("id 1"));
    scene.gate.cut();
    const auto again = take(*from, 3);
    EXPECT_THAT(ids(again), ElementsAre("id 1", "id 3", "id 4"));
    from->acknowledge(tickets(before)); // of a time that is over
    from->acknowledge(tickets(again));
    from->close();
    EXPECT_TRUE(becomes([&] { return scene.client.depth(scene.queue) == 0; }));
}

// Proves: INB-05
TEST_F(rabbitmq_feeds, old_tickets_acknowledge_nothing)
{
    put(1, 3);
    std::vector<fed_message> before;
    {
        const auto from = open_rabbitmq_feed(options());
        before = take(*from, 3);
        scene.gate.cut();
        EXPECT_THAT(take(*from, 3), SizeIs(3));
        from->acknowledge(tickets(before));
        from->give_back(tickets(before), 0s);
        from->refuse(tickets(before), "old");
        from->close();
    }
    const auto from = open_rabbitmq_feed(options());
    EXPECT_THAT(ids(take(*from, 3)), ElementsAre("id 1", "id 2", "id 3"));
}

// Proves: INB-05
TEST_F(rabbitmq_feeds, any_of_them_may_be_acknowledged_in_any_order)
{
    put(1, 10);
    {
        const auto from = open_rabbitmq_feed(options());
        const auto got = take(*from, 10);
        from->acknowledge(std::vector{got[4].ticket, got[1].ticket, got[0].ticket});
        from->acknowledge(std::vector{got[9].ticket, got[2].ticket, got[2].ticket});
        from->close(); // which tells the broker what it was told before
    }
    const auto from = open_rabbitmq_feed(options());
    EXPECT_THAT(ids(take(*from, 5)), ElementsAre("id 4", "id 6", "id 7", "id 8", "id 9"));
    EXPECT_THAT(from->receive(1, within(50ms)), IsEmpty());
}

// Proves: INB-05
TEST(unanswered, one_word_stands_for_all_before_only_if_it_is_true_for_each)
{
    rabbitmq::unanswered open;
    for (const std::uint64_t number : {1, 2, 3, 4, 5, 6})
        open.add(number);
    auto said = open.acknowledge({2, 3});
    EXPECT_EQ(said.up_to, 0U);
    EXPECT_THAT(said.single, ElementsAre(2U, 3U));
    said = open.acknowledge({1, 4, 6});
    EXPECT_EQ(said.up_to, 4U);
    EXPECT_THAT(said.single, ElementsAre(6U));
    said = open.acknowledge({5, 5, 7});
    EXPECT_EQ(said.up_to, 5U);
    EXPECT_THAT(said.single, IsEmpty());
}

// Proves: INB-05
TEST_F(rabbitmq_feeds, no_more_are_taken_than_the_prefetch_allows)
{
    put(1, 12);
    auto how = options();
    how.prefetch = 5;
    const auto from = open_rabbitmq_feed(how);
    const auto got = take(*from, 5);
    EXPECT_THAT(from->receive(1, within(50ms)), IsEmpty());
    EXPECT_EQ(scene.client.depth(scene.queue), 7U);
    from->acknowledge(std::vector{got[0].ticket, got[1].ticket});
    EXPECT_THAT(ids(take(*from, 2)), ElementsAre("id 6", "id 7"));
    EXPECT_THAT(from->receive(1, within(50ms)), IsEmpty());
    EXPECT_EQ(scene.client.depth(scene.queue), 5U);
}

// Proves: INB-05
TEST_F(rabbitmq_feeds, what_is_given_back_comes_again_after_its_pause_and_blocks_nobody)
{
    put(1, 2);
    const auto from = open_rabbitmq_feed(options());
    const auto got = take(*from, 2);
    const auto then = std::chrono::steady_clock::now();
    from->give_back(std::vector{got[0].ticket}, 300ms);
    from->acknowledge(std::vector{got[1].ticket});
    put(3, 3);
    EXPECT_THAT(ids(take(*from, 2)), ElementsAre("id 3", "id 1"));
    EXPECT_GE(std::chrono::steady_clock::now() - then, 300ms);
}

// Proves: INB-05
TEST_F(rabbitmq_feeds, what_is_refused_goes_to_the_dead_letter_exchange)
{
    const auto dead = unique_name("dead");
    scene.client.declare_exchange(dead, "fanout");
    scene.client.declare_queue(dead);
    scene.client.bind(dead, dead, "");
    for (const bool quorum : {false, true}) {
        auto how = options();
        how.queue = unique_name("declared");
        how.declare = true;
        how.quorum = quorum;
        how.dead_letter_exchange = dead;
        const auto from = open_rabbitmq_feed(how, listening());
        EXPECT_THAT(from->receive(1, within(1ms)), IsEmpty());
        ASSERT_TRUE(becomes([&] { // by the feed
            try {
                plain_client look(rabbitmq_port());
                return look.depth(how.queue) == 0;
            } catch (const std::runtime_error&) {
                return false;
            }
        }));
        scene.client.publish(how.queue, {.message_id = "bad", .body = "secret"});
        scene.client.publish(how.queue, {.body = "nameless"});
        const auto got = take(*from, 1);
        from->refuse(tickets(got), "too bad");
        std::set<std::string> letters;
        EXPECT_TRUE(becomes([&] {
            if (const auto letter = scene.client.get(dead))
                letters.insert(letter->body);
            return letters.size() == 2;
        }));
        EXPECT_THAT(letters, UnorderedElementsAre("secret", "nameless"));
        EXPECT_THAT(said(), HasSubstr("too bad"));
        EXPECT_THAT(said(), HasSubstr("it has no message_id"));
        EXPECT_THAT(said(), Not(HasSubstr("secret")));
        from->close();
        scene.client.delete_queue(how.queue);
    }
    scene.client.delete_queue(dead);
    scene.client.delete_exchange(dead);
}

// Proves: INB-05
TEST_F(rabbitmq_feeds, without_such_an_exchange_what_is_refused_is_not_lost)
{
    put(1, 1);
    auto how = options();
    how.refused_pause = 10ms;
    const auto from = open_rabbitmq_feed(how, listening());
    from->refuse(tickets(take(*from, 1)), "never");
    EXPECT_THAT(ids(take(*from, 1)), ElementsAre("id 1"));
    EXPECT_THAT(said(), HasSubstr("was refused and comes again: never"));
}

// Proves: INB-05
TEST_F(rabbitmq_feeds, messages_without_an_id_are_taken_only_on_request)
{
    scene.client.publish(scene.queue, {.body = "nameless"});
    scene.client.publish(scene.queue, {.body = "nameless"});
    auto how = options();
    how.accept_without_id = true;
    const auto from = open_rabbitmq_feed(how);
    const auto got = take(*from, 2);
    EXPECT_NE(got[0].id, got[1].id);
    EXPECT_FALSE(got[0].id.empty());
}

// Proves: INB-05
TEST_F(rabbitmq_feeds, a_queue_that_is_missing_or_deleted_is_waited_for)
{
    auto how = options();
    how.queue = unique_name("late");
    const auto from = open_rabbitmq_feed(how, listening());
    ASSERT_TRUE(becomes([&] { return said().find("404") != std::string::npos; }));
    EXPECT_THAT(said(), HasSubstr(how.queue));
    for (int round = 0; round < 2; ++round) {
        scene.client.declare_queue(how.queue);
        scene.client.publish(how.queue, {.message_id = "a", .body = "x"});
        const auto got = take(*from, 1);
        EXPECT_THAT(ids(got), ElementsAre("a"));
        scene.client.delete_queue(how.queue);
    }
    EXPECT_TRUE(becomes([&] { return said().find("was deleted") != std::string::npos; }));
}

// Proves: INB-05
TEST_F(rabbitmq_feeds, a_stop_or_a_close_ends_the_wait)
{
    const auto from = open_rabbitmq_feed(options());
    std::stop_source told;
    std::jthread stopper([&] { told.request_stop(); });
    EXPECT_THAT(from->receive(1, {.stop = told.get_token()}), IsEmpty());
    std::jthread closer([&] { from->close(); });
    EXPECT_THAT(from->receive(1, {}), IsEmpty());
    closer.join();
    from->close();
    EXPECT_THAT(from->receive(1, {}), IsEmpty());
}

// Proves: INB-05
TEST_F(rabbitmq_feeds, the_inbox_has_each_message_once_however_often_it_comes)
{
    put(1, 60);
    testing::store_for_tests store;
    const auto from = open_rabbitmq_feed(options());
    std::stop_source told;
    std::size_t stored = 0;
    std::size_t batches = 0;
    const auto report = feed_inbox(store, *from,
                                   {.source = "shop",
                                    .batch = 10,
                                    .progress =
                                        [&](const feed_report& now) {
                                            stored += now.stored;
                                            if (++batches == 2)
                                                scene.gate.cut(); // answers may be lost
                                            if (stored >= 60)
                                                told.request_stop();
                                        }},
                                   told.get_token());
    EXPECT_EQ(report.stored, 60U);
    EXPECT_EQ(report.refused, 0U);
    from->close();
}

// Proves: F21
TEST(rabbitmq_feed_options, that_can_never_work_are_refused_in_words)
{
    const auto complaint = [](const rabbitmq_feed_options& how) -> std::string {
        try {
            (void)open_rabbitmq_feed(how);
            return "nothing";
        } catch (const error& thrown) {
            EXPECT_EQ(thrown.code(), error_code::invalid_argument);
            return thrown.what();
        }
    };
    const std::string right = "amqp://127.0.0.1:1";
    EXPECT_THAT(complaint({.url = "x:canary", .queue = "q"}), HasSubstr("amqp://"));
    EXPECT_THAT(complaint({.url = "x:canary", .queue = "q"}), Not(HasSubstr("canary")));
    EXPECT_THAT(complaint({.url = right, .queue = ""}), HasSubstr("queue"));
    EXPECT_THAT(complaint({.url = right, .queue = "q", .prefetch = 0}), HasSubstr("prefetch"));
    EXPECT_THAT(complaint({.url = right, .queue = "q", .prefetch = 70'000}), HasSubstr("prefetch"));
    EXPECT_THAT(complaint({.url = right, .queue = "q", .refused_pause = -1s}),
                HasSubstr("refused_pause"));
    EXPECT_EQ(complaint({.url = right, .queue = "q"}), "nothing");
}

} // namespace
} // namespace posthorn::test
