// What a message says about itself on its way, and what is understood of it at the end.
#include "transport/envelope.hpp"
#include <posthorn/testing/seeded_random.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace posthorn::transports {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::StartsWith;

transport_message letter()
{
    testing::seeded_random random{7};
    return {.id =
                message_id(uuid::version_7(timestamp{std::chrono::seconds{1'800'000'000}}, random)),
            .topic = "orders.placed",
            .key = "customer 7",
            .headers = {{"lang", "de"}, {"posthorn-corr-id", "order-7"}},
            .payload = "{}"};
}

// Proves: TRN-01
TEST(envelope, names_the_message_and_its_cloud_event_beside_its_own_headers)
{
    const auto what = letter();
    const auto said = envelope_of(what, kafka_attributes, "shop");
    EXPECT_THAT(said, Contains(Pair("lang", "de")));
    EXPECT_THAT(said, Contains(Pair("posthorn-corr-id", "order-7")));
    EXPECT_THAT(said, Contains(Pair("posthorn-msg-id", to_string(what.id))));
    EXPECT_THAT(said, Contains(Pair("posthorn-topic", "orders.placed")));
    EXPECT_THAT(said, Contains(Pair("posthorn-key", "customer 7")));
    EXPECT_THAT(said, Contains(Pair("ce_id", to_string(what.id))));
    EXPECT_THAT(said, Contains(Pair("ce_type", "orders.placed")));
    EXPECT_THAT(said, Contains(Pair("ce_source", "shop")));
    EXPECT_THAT(said, Contains(Pair("ce_specversion", "1.0")));
    EXPECT_THAT(said, Contains(Pair("ce_partitionkey", "customer 7")));
    EXPECT_THAT(said, Contains(Pair("ce_time", StartsWith("2027-01-15T08:00:00"))));
}

// Proves: TRN-01
TEST(envelope, has_no_attributes_where_the_protocol_has_no_convention_and_no_time_of_other_ids)
{
    auto what = letter();
    for (const auto& [name, value] : envelope_of(what, no_attributes, "shop"))
        EXPECT_THAT(name, ::testing::Not(StartsWith("ce")));
    what.id = message_id(*uuid::parse("f81d4fae-7dec-41d0-a765-00a0c91e6bf6"));
    EXPECT_FALSE(envelope_of(what, http_attributes, "shop").contains("ce-time"));
}

// Proves: INB-05
TEST(envelope, is_opened_as_it_was_closed)
{
    const auto what = letter();
    const auto got = opened(envelope_of(what, amqp_attributes, "shop"), what.payload,
                            {.id = "tag", .topic = "routing.key"}, amqp_attributes);
    EXPECT_EQ(got.id, to_string(what.id));
    EXPECT_EQ(got.topic, what.topic);
    EXPECT_EQ(got.key, what.key);
    EXPECT_EQ(got.headers, what.headers);
    EXPECT_EQ(got.payload, what.payload);
}

// Proves: INB-05
TEST(envelope, of_a_stranger_says_what_its_cloud_event_says)
{
    const auto got = opened({{"CE-Id", "4711"}, {"Ce-Type", "shop.order"}, {"ce-source", "/shop"}},
                            "", {.id = "tag", .topic = "subject"}, http_attributes);
    EXPECT_EQ(got.id, "4711");
    EXPECT_EQ(got.topic, "shop.order");
    EXPECT_THAT(got.headers, IsEmpty());
}

// Proves: INB-05
TEST(envelope, of_somebody_who_says_nothing_is_known_by_the_protocol)
{
    const auto got =
        opened({{"a", "b"}}, "x", {.id = "5-0", .topic = "stream", .key = "k"}, no_attributes);
    EXPECT_EQ(got.id, "5-0");
    EXPECT_EQ(got.topic, "stream");
    EXPECT_EQ(got.key, "k");
    EXPECT_THAT(got.headers, Contains(Pair("a", "b")));
}

} // namespace
} // namespace posthorn::transports
