// Unparking: a claim that names topics takes parked messages of them back, the oldest first, and
// never more than it could use.
#include "conformance/parking_fixture.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

namespace posthorn::conformance {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class unparking : public parking_test {};

// Proves: OUT-15
TEST_P(unparking, a_claim_that_names_its_topic_takes_it)
{
    const auto id = add_parked();
    const auto claimed = claim_with({"orders"});
    ASSERT_THAT(ids_of(claimed), ElementsAre(id));
    EXPECT_EQ(claimed.deliveries[0].topic, "orders");
    EXPECT_EQ(claimed.deliveries[0].payload, "payload");
    EXPECT_EQ(acknowledge(claimed.deliveries[0].receipt), settled_as::done);
    EXPECT_EQ(state_of(id), message_state::done);
    EXPECT_THAT(parked_ids(), IsEmpty());
}

// Proves: OUT-15
TEST_P(unparking, only_the_topics_that_are_named_come_back)
{
    const auto a = add_parked("a");
    const auto b = add_parked("b");
    const auto c = add_parked("c");
    EXPECT_THAT(ids_of(claim_with({"nobody"})), IsEmpty());
    EXPECT_THAT(ids_of(claim_with({""})), IsEmpty());
    EXPECT_THAT(ids_of(claim_with({"c", "a"})), ElementsAre(a, c));
    EXPECT_THAT(parked_ids(), ElementsAre(b));
}

// Proves: OUT-15
TEST_P(unparking, a_topic_is_meant_exactly)
{
    const auto id = add_parked("orders");
    const auto upper = add_parked("Orders");
    const auto longer = add_parked("orders ");
    const auto accent = add_parked("ördérs");
    for (const auto* other : {"order", "orders*", "*", "ORDERS", "orders  ", "order_", "ord%"})
        EXPECT_THAT(ids_of(claim_with({other})), IsEmpty()) << other;
    EXPECT_THAT(ids_of(claim_with({"orders"})), ElementsAre(id));
    EXPECT_THAT(ids_of(claim_with({"orders "})), ElementsAre(longer));
    EXPECT_THAT(ids_of(claim_with({"ördérs"})), ElementsAre(accent));
    EXPECT_THAT(parked_ids(), ElementsAre(upper));
}

// Proves: OUT-15
TEST_P(unparking, the_oldest_come_back_first_over_all_topics)
{
    std::vector<message_id> ids;
    for (const auto* topic : {"b", "a", "b", "c", "a", "b"})
        ids.push_back(add(topic));
    park_all();
    EXPECT_THAT(ids_of(claim_with({"a", "b"}, 2)), ElementsAre(ids[0], ids[1]));
    EXPECT_THAT(parked_ids(), ElementsAre(ids[2], ids[3], ids[4], ids[5]));
    EXPECT_THAT(ids_of(claim_with({"a", "b"}, 2)), ElementsAre(ids[2], ids[4]));
    EXPECT_THAT(ids_of(claim_with({"a", "b"}, 2)), ElementsAre(ids[5]));
    EXPECT_THAT(parked_ids(), ElementsAre(ids[3]));
}

// Proves: OUT-15
TEST_P(unparking, a_topic_that_is_named_twice_counts_once)
{
    const auto ids = add_many(3);
    park_all();
    EXPECT_THAT(ids_of(claim_with({"orders", "orders"}, 2)), ElementsAre(ids[0], ids[1]));
    EXPECT_THAT(parked_ids(), ElementsAre(ids[2]));
}

// Proves: OUT-15
TEST_P(unparking, what_came_back_but_did_not_fit_waits_like_any_other)
{
    const auto id = add_parked();
    const auto urgent = add("orders", {.priority = 9});
    EXPECT_THAT(ids_of(claim_with({"orders"}, 1)), ElementsAre(urgent));
    EXPECT_EQ(state_of(id), message_state::ready);
    EXPECT_THAT(claimed_ids(), ElementsAre(id));
}

// Proves: OUT-05, OUT-15
TEST_P(unparking, its_old_due_time_brings_it_before_newer_messages)
{
    const auto first = add("orders");
    const auto second = add("orders", {.delay = 1s});
    clock().advance(2s);
    park_all();
    clock().advance(1h);
    const auto late = add();
    const auto due_first = look(first).due_at;
    const auto due_second = look(second).due_at;
    EXPECT_THAT(ids_of(claim_with({"orders"})), ElementsAre(first, second, late));
    EXPECT_EQ(look(first).due_at, due_first);
    EXPECT_EQ(look(second).due_at, due_second);
    EXPECT_EQ(due_second, due_first + 1s);
}

// Proves: OUT-05, OUT-15
TEST_P(unparking, priorities_count_again_once_it_is_back)
{
    const auto low = add("orders", {.priority = -5});
    const auto plain = add();
    const auto high = add("orders", {.priority = 5});
    park_all();
    // Which come back is decided by age, in which order they are handed out by priority.
    EXPECT_THAT(ids_of(claim_with({"orders"}, 2)), ElementsAre(plain, low));
    EXPECT_THAT(ids_of(claim_with({"orders"}, 2)), ElementsAre(high));
}

// Proves: OUT-04, OUT-15, I17
TEST_P(unparking, a_claim_ends_what_has_expired_instead_of_taking_it_back)
{
    const auto late = add_parked("orders", {.expires_after = 10s});
    const auto good = add_parked("orders", {.expires_after = 11s});
    clock().advance(10s);
    EXPECT_THAT(ids_of(claim_with({"orders"})), ElementsAre(good));
    EXPECT_EQ(state_of(late), message_state::expired);
    EXPECT_EQ(look(late).attempts, 0);
}

// Proves: OUT-10, OUT-15, I4, I5
TEST_P(unparking, a_worker_that_dies_with_it_costs_an_attempt_as_always)
{
    auto patient = box_with(steady_retries(1s, 5));
    const auto started = add_parked();
    const auto held = add_parked();
    ASSERT_EQ(claim_with({"orders"}, 100, 1).size(), 2U);
    clock().advance(30s);
    const auto report = patient.reap_expired();
    EXPECT_EQ(report.retrying, 1U);
    EXPECT_EQ(report.released, 1U);
    EXPECT_EQ(look(started).attempts, 1);
    EXPECT_EQ(look(held).attempts, 0);
    EXPECT_THAT(states_of({started, held}), Each(message_state::ready));
    clock().advance(1s);
    EXPECT_EQ(claim().size(), 2U) << "nobody has to name the topic again";
}

// Proves: OUT-15
TEST_P(unparking, many_parked_messages_of_many_topics_all_come_back)
{
    std::vector<message_id> ids;
    std::vector<std::string> topics;
    for (int topic = 0; topic < 30; ++topic) {
        topics.push_back("topic " + std::to_string(topic));
        std::ranges::copy(add_many(10, topics.back()), std::back_inserter(ids));
    }
    const auto r = claim(1'000).receipts();
    std::vector<settlement> all;
    for (const auto& each : r)
        all.push_back({each, park(park_reason::no_handler)});
    EXPECT_THAT(box().settle(alice, all).answers, Each(settled_as::parked));
    ASSERT_EQ(count_messages(db()).parked, 300);
    std::vector<message_id> back;
    for (auto part = claim_with(topics, 70); !part.empty(); part = claim_with(topics, 70)) {
        EXPECT_LE(part.size(), 70U);
        std::ranges::copy(ids_of(part), std::back_inserter(back));
    }
    EXPECT_EQ(back, ids);
}

// Proves: OUT-15
TEST_P(unparking, only_messages_behind_a_position_come_back_if_that_is_wanted)
{
    const auto ids = add_many(6);
    park_all(park_reason::at_limit);
    const auto behind = [&](message_id id, std::size_t limit) {
        return ids_of(box().claim(
            alice, {.limit = limit, .unpark = {"orders"}, .unpark_after = look(id).position}));
    };
    EXPECT_THAT(behind(ids[5], 10), IsEmpty());
    EXPECT_THAT(behind(ids[2], 2), ElementsAre(ids[3], ids[4]));
    EXPECT_THAT(behind(ids[2], 10), ElementsAre(ids[5]));
    EXPECT_THAT(ids_of(claim_with({"orders"})), ElementsAre(ids[0], ids[1], ids[2]));
}

CONFORMANCE_SUITE(unparking);

} // namespace
} // namespace posthorn::conformance
