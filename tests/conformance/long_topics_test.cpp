// Topics of the greatest length, wherever a topic is kept: with a message, a dedup key, a pause, a
// parked message, a blocked key, a join and a job. Two of them differ in their last byte only.
#include "conformance/parking_fixture.hpp"
#include <posthorn/joins.hpp>
#include <posthorn/schedules.hpp>
#include <posthorn/worker.hpp>

#include <array>

namespace {

struct long_named {};
struct too_long_named {};

template <std::size_t Size>
constexpr auto name_of_letters = [] {
    std::array<char, Size> result{};
    for (auto& each : result)
        each = 't';
    return result;
}();

struct empty_codec {
    template <typename Type>
    static std::string encode(const Type& /*value*/)
    {
        return {};
    }
    template <typename Type>
    static Type decode(std::string_view /*bytes*/)
    {
        return {};
    }
};

} // namespace

template <>
struct posthorn::message_type<long_named> {
    static constexpr std::string_view topic{name_of_letters<500>.data(), 500};
    using codec = empty_codec;
};

template <>
struct posthorn::message_type<too_long_named> {
    static constexpr std::string_view topic{name_of_letters<501>.data(), 501};
    using codec = empty_codec;
};

namespace posthorn::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

class long_topics : public parking_test {
protected:
    static std::string ending_in(char last, std::size_t size = 500)
    {
        return std::string(size - 1, 'x') + last;
    }

    const std::string topic = ending_in('a');
    const std::string other = ending_in('b');
};

} // namespace

// Proves: OUT-02
TEST_P(long_topics, are_stored_and_claimed_at_each_length_around_the_old_limit)
{
    for (const std::size_t size : {254, 255, 256, 257, 499, 500}) {
        const auto own = ending_in('z', size);
        const auto id = add(own);
        EXPECT_EQ(look(id).topic, own);
        const auto claimed = claim();
        ASSERT_THAT(ids_of(claimed), ElementsAre(id));
        EXPECT_EQ(claimed.deliveries[0].topic, own);
        EXPECT_EQ(acknowledge(claimed.deliveries[0].receipt), settled_as::done);
    }
}

// Proves: OUT-02
TEST_P(long_topics, a_character_may_lie_where_the_old_limit_was)
{
    const auto across = std::string(254, 'x') + "ä📯" + std::string(200, 'y');
    const auto id = add(across);
    EXPECT_EQ(look(id).topic, across);
    EXPECT_THAT(ids_of(list_messages(db(), {.topic = across})), ElementsAre(id));
}

// Proves: OUT-02
TEST_P(long_topics, many_at_once_keep_theirs)
{
    std::vector<outgoing> all;
    for (const auto* each : {"short", topic.c_str(), other.c_str(), "short"})
        all.push_back({.message = {each, each}});
    const auto added = enqueue(db(), all);
    ASSERT_THAT(added, SizeIs(4));
    for (const auto& each : list_messages(db()))
        EXPECT_EQ(each.topic, look(each.id).payload);
    all.push_back({.message = {ending_in('c', 501), ""}});
    EXPECT_EQ(thrown_by([&] { (void)enqueue(db(), all); }).code(), error_code::invalid_argument);
    EXPECT_EQ(total(), 4U);
}

// Proves: OUT-02
TEST_P(long_topics, of_types_are_as_long_and_no_longer)
{
    const auto id = enqueue(db(), long_named{}).id;
    EXPECT_EQ(look(id).topic, std::string(500, 't'));
    EXPECT_EQ(thrown_by([&] { (void)enqueue(db(), too_long_named{}); }).code(),
              error_code::invalid_argument);
    int handled = 0;
    worker own(db());
    own.handle<long_named>([&](const long_named& /*value*/) { ++handled; });
    own.process_outbox();
    EXPECT_EQ(handled, 1);
}

// Proves: OUT-02
TEST_P(long_topics, filters_tell_them_apart)
{
    const auto first = add(topic);
    const auto second = add(other);
    EXPECT_THAT(ids_of(list_messages(db(), {.topic = topic})), ElementsAre(first));
    EXPECT_THAT(ids_of(list_messages(db(), {.topic = other})), ElementsAre(second));
    const auto start = std::string(499, 'x') + "*";
    EXPECT_THAT(ids_of(list_messages(db(), {.topic = start})), ElementsAre(first, second));
    EXPECT_THAT(list_messages(db(), {.topic = topic.substr(0, 255)}), SizeIs(0));
}

// Proves: OUT-07
TEST_P(long_topics, have_dedup_keys_of_their_own)
{
    const auto key = std::string(255, 'k');
    const auto first = enqueue(db(), {topic, ""}, {.dedup_key = key});
    EXPECT_FALSE(enqueue(db(), {other, ""}, {.dedup_key = key}).duplicate);
    const auto again = enqueue(db(), {topic, ""}, {.dedup_key = key});
    EXPECT_TRUE(again.duplicate);
    EXPECT_EQ(again.id, first.id);
    EXPECT_EQ(total(), 2U);
}

// Proves: OUT-15
TEST_P(long_topics, are_parked_and_come_back_by_name)
{
    const auto first = add(topic);
    const auto keyed = add(topic, {.ordering_key = "k"});
    const auto second = add(other);
    park_all();
    EXPECT_EQ(look(first).parked_for, park_reason::no_handler);
    EXPECT_EQ(count_messages(db()).parked, 3U);
    EXPECT_THAT(ids_of(claim_with({other})), ElementsAre(second));
    EXPECT_THAT(ids_of(claim_with({topic})), ElementsAre(first, keyed));
    EXPECT_EQ(count_messages(db()).parked, 0U);
}

// Proves: OUT-06
TEST_P(long_topics, of_dead_messages_are_listed_with_their_keys)
{
    add_dead("broken", topic, {.ordering_key = "k"});
    const auto blocked = list_blocked_keys(db());
    ASSERT_THAT(blocked, SizeIs(1));
    EXPECT_EQ(blocked[0].topic, topic);
}

// Proves: JOIN-001
TEST_P(long_topics, carry_on_after_a_join)
{
    const auto join = open_join(db(), {.expected = 1, .on_complete = message{topic, "go on"}});
    EXPECT_EQ(thrown_by([&] {
                  open_join(db(), {.expected = 1, .on_fail = message{ending_in('c', 501), ""}});
              }).code(),
              error_code::invalid_argument);
    attach(db(), join, add(other));
    EXPECT_EQ(acknowledge(claim_one()), settled_as::done);
    const auto next = claim();
    ASSERT_THAT(next.deliveries, SizeIs(1));
    EXPECT_EQ(next.deliveries[0].topic, topic);
}

// Proves: SCH-01
TEST_P(long_topics, are_those_of_jobs_too)
{
    put_job(db(), "job", {.run = {topic, ""}, .every = 1h});
    EXPECT_EQ(find_job(db(), "job")->options.run.topic, topic);
    EXPECT_EQ(thrown_by([&] {
                  put_job(db(), "other", {.run = {ending_in('c', 501), ""}, .every = 1h});
              }).code(),
              error_code::invalid_argument);
    trigger_job(db(), "job");
    EXPECT_THAT(list_messages(db(), {.topic = topic}), SizeIs(1));
}

// Proves: OUT-15
TEST_P(long_topics, are_paused_by_name_and_by_their_start)
{
    const auto start = std::string(499, 'x') + "*";
    EXPECT_TRUE(pause(db(), start));
    EXPECT_TRUE(pause(db(), topic));
    EXPECT_TRUE(is_paused(list_pauses(db()), other));
    EXPECT_TRUE(resume(db(), start));
    EXPECT_FALSE(is_paused(list_pauses(db()), other));
    EXPECT_TRUE(is_paused(list_pauses(db()), topic));
}

CONFORMANCE_SUITE(long_topics);

} // namespace posthorn::conformance
