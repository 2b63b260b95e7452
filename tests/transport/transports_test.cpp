// What every transport promises.
#include "transport/transport_under_test.hpp"
#include <posthorn/publisher.hpp>
#include <posthorn/testing/seeded_random.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <stop_token>
#include <thread>

namespace posthorn::transports {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using kind = publish_answer::kind;

std::vector<kind> verdicts(const std::vector<publish_answer>& answers)
{
    std::vector<kind> result;
    for (const auto& each : answers)
        result.push_back(each.verdict);
    return result;
}

std::vector<std::string> payloads(const std::vector<transport_message>& messages)
{
    std::vector<std::string> result;
    for (const auto& each : messages)
        result.push_back(each.payload);
    return result;
}

monotonic_time soon(duration length)
{
    return std::chrono::time_point_cast<duration>(std::chrono::steady_clock::now()) + length;
}

class transports : public ::testing::TestWithParam<transport_kind> {
protected:
    void SetUp() override
    {
        under_test_ = GetParam().make();
        way_ = under_test_->open();
    }

    /// Skips the test where this fault cannot be.
    [[nodiscard]] bool can_have(fault which)
    {
        for (const auto& [without, reason] : GetParam().without)
            if (without == which) {
                skip(reason);
                return false;
            }
        return true;
    }

    transport_message make(std::string topic = "orders", std::string payload = "hello",
                           std::string key = {})
    {
        return {.id = message_id(uuid::version_7(timestamp{1s}, random_)),
                .topic = std::move(topic),
                .key = std::move(key),
                .payload = std::move(payload)};
    }

    publish_answer send(const transport_message& what, const time_limit& how_long = {})
    {
        return way().publish({&what, 1}, how_long).at(0);
    }

    transport& way() { return *way_; }
    transport_under_test& behind() { return *under_test_; }
    std::shared_ptr<transport> shared_way() { return way_; }

private:
    static void skip(const std::string& reason) { GTEST_SKIP() << reason; }

    testing::seeded_random random_{7};
    std::unique_ptr<transport_under_test> under_test_;
    std::shared_ptr<transport> way_;
};

// Proves: TRN-01
TEST_P(transports, a_message_arrives_as_it_was_sent)
{
    behind().listen("orders");
    auto what = make("orders", std::string("any\0bytes\xff", 10), "customer 7");
    what.headers = {{"posthorn-corr-id", "order-7"}, {"posthorn-corr-seq", "1"}, {"lang", "dé"}};
    EXPECT_TRUE(send(what).accepted());
    EXPECT_TRUE(send(make("orders", "")).accepted());
    const auto got = behind().arrived(2);
    ASSERT_EQ(got.size(), 2U);
    EXPECT_EQ(got.front().id, what.id);
    EXPECT_EQ(got.front().topic, what.topic);
    EXPECT_EQ(got.front().key, what.key);
    EXPECT_EQ(got.front().payload, what.payload);
    for (const auto& each : what.headers)
        EXPECT_THAT(got.front().headers, Contains(each));
    EXPECT_EQ(got.back().payload, "");
}

// Proves: TRN-04
TEST_P(transports, there_is_one_answer_for_each_message_and_none_for_none)
{
    behind().listen("orders");
    std::vector<transport_message> many;
    for (int i = 0; i < 50; ++i)
        many.push_back(make("orders", std::to_string(i)));
    EXPECT_TRUE(way().publish({}).empty());
    const auto answers = way().publish(many);
    ASSERT_EQ(answers.size(), many.size());
    EXPECT_THAT(verdicts(answers), Each(kind::accepted));
    EXPECT_EQ(behind().arrived(50).size(), 50U);
}

// Proves: TRN-04
TEST_P(transports, messages_of_a_key_arrive_in_their_order)
{
    ASSERT_TRUE(way().capabilities().keeps_order);
    behind().listen("orders");
    for (int batch = 0; batch < 5; ++batch) {
        std::vector<transport_message> some;
        for (int i = 0; i < 10; ++i)
            some.push_back(make("orders", std::to_string(batch * 10 + i), i % 2 == 0 ? "a" : "b"));
        EXPECT_THAT(verdicts(way().publish(some)), Each(kind::accepted));
    }
    std::map<std::string, std::vector<int>> by_key;
    for (const auto& each : behind().arrived(50))
        by_key[each.key].push_back(std::stoi(each.payload));
    EXPECT_EQ(by_key["a"].size(), 25U);
    EXPECT_TRUE(std::ranges::is_sorted(by_key["a"]));
    EXPECT_TRUE(std::ranges::is_sorted(by_key["b"]));
}

// Proves: TRN-01, F7
TEST_P(transports, a_message_that_nobody_would_get_is_refused_and_its_neighbours_go)
{
    if (!way().capabilities().reports_unroutable)
        GTEST_SKIP() << "this transport cannot know whether anybody gets a message";
    behind().listen("orders.*");
    const std::vector some{make("orders.placed"), make("nowhere", "secret"), make("orders.paid")};
    const auto answers = way().publish(some);
    EXPECT_THAT(verdicts(answers),
                ::testing::ElementsAre(kind::accepted, kind::refused, kind::accepted));
    // A queue may be made a moment later; of a URL the other side says that it is gone for good.
    EXPECT_THAT(answers.at(1).why, ::testing::AnyOf(refusal::unroutable, refusal::gone));
    EXPECT_EQ(is_permanent(answers.at(1).why), answers.at(1).why == refusal::gone);
    EXPECT_THAT(answers.at(1).detail, HasSubstr("nowhere"));
    EXPECT_THAT(answers.at(1).detail, Not(HasSubstr("secret")));
    EXPECT_EQ(behind().arrived(2).size(), 2U);
}

// Proves: TRN-01
TEST_P(transports, a_message_that_is_too_large_is_refused_for_good_and_its_neighbours_go)
{
    behind().listen("orders");
    const auto most = way().capabilities().payload_bytes_max;
    ASSERT_LE(most, std::size_t{1} << 30U) << "say what the transport carries";
    const std::vector some{make("orders", std::string(most, 'x')),
                           make("orders", std::string(most + 1, 'x')), make()};
    const auto answers = way().publish(some);
    EXPECT_THAT(verdicts(answers),
                ::testing::ElementsAre(kind::accepted, kind::refused, kind::accepted));
    EXPECT_EQ(answers.at(1).why, refusal::too_large);
    EXPECT_EQ(behind().arrived(2).size(), 2U);
}

// Proves: TRN-01
TEST_P(transports, what_was_accepted_is_there)
{
    if (!way().capabilities().confirms)
        GTEST_SKIP() << "this transport does not wait for the other side";
    behind().listen("orders");
    for (std::size_t i = 1; i <= 10; ++i) {
        ASSERT_TRUE(send(make("orders", std::to_string(i))).accepted());
        EXPECT_EQ(behind().arrived(0).size(), i);
    }
}

// Proves: TRN-04
TEST_P(transports, threads_that_publish_at_once_lose_and_double_nothing)
{
    constexpr int threads = 4;
    constexpr int each = 25;
    behind().listen("orders");
    std::vector<std::vector<transport_message>> batches(threads);
    for (int i = 0; i < threads * each; ++i)
        batches[static_cast<std::size_t>(i / each)].push_back(make("orders", std::to_string(i)));
    {
        std::vector<std::jthread> all;
        for (const auto& batch : batches)
            all.emplace_back(
                [&] { EXPECT_THAT(verdicts(way().publish(batch)), Each(kind::accepted)); });
    }
    const auto got = payloads(behind().arrived(threads * each));
    EXPECT_EQ(got.size(), static_cast<std::size_t>(threads * each));
    EXPECT_EQ(std::set(got.begin(), got.end()).size(), got.size());
}

// Proves: TRN-01
TEST_P(transports, the_same_message_again_is_accepted_and_told_apart_where_that_is_promised)
{
    behind().listen("orders");
    const auto what = make();
    EXPECT_TRUE(send(what).accepted());
    const auto again = send(what);
    EXPECT_TRUE(again.accepted());
    const bool suppressed = way().capabilities().suppresses_duplicates;
    EXPECT_EQ(again.duplicate, suppressed);
    EXPECT_EQ(behind().arrived(suppressed ? 1 : 2).size(), suppressed ? 1U : 2U);
}

// Proves: TRN-04
TEST_P(transports, a_direct_publisher_cuts_what_is_more_than_a_batch)
{
    behind().listen("orders");
    const auto many = way().capabilities().batch_max + 1;
    ASSERT_LE(many, 100'000U);
    const std::vector<direct_message> all(many, {.message = {"orders", "x"}});
    direct_publisher publisher(shared_way());
    const auto answers = publisher.publish(all);
    EXPECT_EQ(answers.size(), many);
    EXPECT_TRUE(std::ranges::all_of(answers, &publish_answer::accepted));
    EXPECT_EQ(behind().arrived(many).size(), many);
}

// Proves: TRN-01
TEST_P(transports, a_closed_one_refuses_and_may_be_closed_again)
{
    behind().listen("orders");
    EXPECT_TRUE(way().wait_until_ready({}));
    way().close();
    way().close();
    EXPECT_FALSE(way().wait_until_ready({}));
    const auto answer = send(make());
    EXPECT_EQ(answer.verdict, kind::refused);
    EXPECT_EQ(answer.why, refusal::closed);
    EXPECT_FALSE(is_permanent(answer.why));
    EXPECT_TRUE(behind().arrived(0).empty());
}

// Proves: TRN-01
TEST_P(transports, a_time_that_is_over_sends_nothing_that_was_not_sent)
{
    behind().listen("orders");
    const auto late = send(make(), {.until = soon(-1s)});
    // It may be quicker than its look at the clock, but must not lie.
    EXPECT_EQ(behind().arrived(0).size(), late.accepted() ? 1U : 0U);
    EXPECT_FALSE(is_permanent(late.why));
}

// Proves: TRN-02, F7
TEST_P(transports, a_rejection_is_not_for_good_and_holds_back_what_follows_of_its_key)
{
    if (!can_have(fault::rejection))
        return;
    behind().listen("orders");
    behind().begin(fault::rejection);
    const std::string large(20'000, '1'); // where all are taken for which there is room
    const std::vector some{make("orders", large, "a"), make("orders", "2", "a"),
                           make("orders", "3", "b"), make("orders", "4")};
    const auto answers = way().publish(some);
    EXPECT_THAT(verdicts(answers), ::testing::ElementsAre(kind::refused, kind::refused,
                                                          kind::accepted, kind::accepted));
    EXPECT_EQ(answers.at(0).why, refusal::rejected);
    EXPECT_EQ(answers.at(1).why, refusal::held_back);
    EXPECT_FALSE(is_permanent(answers.at(0).why));
    EXPECT_FALSE(is_permanent(answers.at(1).why));
    behind().end(fault::rejection);
    EXPECT_THAT(verdicts(way().publish(std::span(some).first(2))), Each(kind::accepted));
    EXPECT_THAT(payloads(behind().arrived(4)), ::testing::ElementsAre("3", "4", large, "2"));
}

// Proves: TRN-02, F5
TEST_P(transports, an_outage_accepts_nothing_and_the_same_transport_goes_on_after_it)
{
    if (!can_have(fault::outage))
        return;
    behind().listen("orders");
    behind().begin(fault::outage);
    const auto answer = send(make("orders", "secret"), {.until = soon(50ms)});
    EXPECT_FALSE(answer.accepted());
    EXPECT_FALSE(is_permanent(answer.why));
    EXPECT_THAT(answer.detail, Not(HasSubstr("secret")));
    EXPECT_FALSE(way().wait_until_ready({.until = soon(10ms)}));
    std::jthread later([&] { behind().end(fault::outage); });
    EXPECT_TRUE(way().wait_until_ready({.until = soon(30s)}));
    EXPECT_TRUE(send(make("orders", "after")).accepted());
    EXPECT_THAT(payloads(behind().arrived(1)), Contains("after"));
}

// Proves: TRN-02, F6
TEST_P(transports, a_lost_answer_is_unknown_and_sending_again_is_safe)
{
    if (!can_have(fault::silence))
        return;
    behind().listen("orders");
    behind().begin(fault::silence);
    const auto what = make("orders", "once");
    const auto answer = send(what, {.until = soon(200ms)});
    EXPECT_EQ(answer.verdict, kind::unknown);
    behind().end(fault::silence);
    EXPECT_TRUE(way().wait_until_ready({.until = soon(30s)}));
    EXPECT_TRUE(send(what).accepted());
    const auto got = behind().arrived(1);
    EXPECT_GE(got.size(), 1U);
    EXPECT_THAT(payloads(got), Each("once"));
    if (way().capabilities().suppresses_duplicates) {
        EXPECT_EQ(got.size(), 1U);
    }
}

// Proves: TRN-02, F6
TEST_P(transports, pressure_is_waited_for_and_then_refused_for_now)
{
    if (!can_have(fault::pressure))
        return;
    behind().listen("orders");
    behind().begin(fault::pressure);
    const auto answer = send(make(), {.until = soon(50ms)});
    EXPECT_EQ(answer.verdict, kind::refused);
    EXPECT_EQ(answer.why, refusal::busy);
    EXPECT_FALSE(is_permanent(answer.why));
    std::jthread later([&] { behind().end(fault::pressure); });
    EXPECT_TRUE(send(make("orders", "after"), {.until = soon(30s)}).accepted());
    later.join();
    EXPECT_THAT(payloads(behind().arrived(1)), ::testing::ElementsAre("after"));
}

// Proves: TRN-02, F5
TEST_P(transports, a_stop_request_ends_every_wait)
{
    if (!can_have(fault::outage))
        return;
    behind().listen("orders");
    behind().begin(fault::outage);
    std::stop_source told;
    std::jthread later([&] { told.request_stop(); });
    EXPECT_FALSE(way().wait_until_ready({.stop = told.get_token()}));
    EXPECT_FALSE(send(make(), {.stop = told.get_token()}).accepted());
    way().close({.stop = told.get_token()});
}

// Proves: TRN-02
TEST_P(transports, short_looks_are_enough_for_a_side_that_is_far_away)
{
    behind().listen("orders");
    if (!behind().move_away(40ms))
        GTEST_SKIP() << "there is no way between this transport and the other side";
    for (int i = 0; i < 3; ++i) {
        const auto until = std::chrono::steady_clock::now() + 20s;
        bool ready = false;
        while (!ready && std::chrono::steady_clock::now() < until)
            ready = way().wait_until_ready({.until = soon(50ms)}); // as a relay does
        ASSERT_TRUE(ready) << "look " << i;
        EXPECT_TRUE(send(make("orders", std::to_string(i))).accepted());
    }
    EXPECT_EQ(behind().arrived(3).size(), 3U);
}

INSTANTIATE_TEST_SUITE_P(kinds, transports, ::testing::ValuesIn(transport_kinds()),
                         [](const auto& each) { return each.param.name; });

} // namespace
} // namespace posthorn::transports
