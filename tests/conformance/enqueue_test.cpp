// Enqueueing: what goes in comes out unchanged, under an id of its own, one at a time or by the
// thousand, and not before it is due.
#include "conformance/conformance_test.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>

namespace posthorn::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

class enqueueing : public conformance_test {};

// The milliseconds since 1970 that a version 7 UUID starts with.
std::int64_t milliseconds_of(message_id id)
{
    std::int64_t result = 0;
    for (std::size_t i = 0; i < 6; ++i)
        result = (result << 8U) | id.value().bytes[i];
    return result;
}

bool is_version_7(message_id id)
{
    const auto& bytes = id.value().bytes;
    return (bytes[6] & 0xf0U) == 0x70U && (bytes[8] & 0xc0U) == 0x80U;
}

message_id parsed(std::string_view text)
{
    return message_id::parse(text).value();
}

std::vector<message_id> ids_in(const std::vector<enqueued>& answers)
{
    std::vector<message_id> result;
    for (const auto& each : answers)
        result.push_back(each.id);
    return result;
}

const auto everything = enqueue_options{.ordering_key = "customer 7",
                                        .priority = 3,
                                        .delay = 5s,
                                        .expires_after = 1min,
                                        .correlation_id = "request 12",
                                        .causation_id = "click 4",
                                        .headers = {{"content-type", "text/plain"}, {"empty", ""}}};

// Proves: OUT-01, I1
TEST_P(enqueueing, without_a_transaction_the_message_is_there_at_once)
{
    const auto answer = enqueue(db(), {.topic = "orders", .payload = "one"});
    EXPECT_FALSE(answer.duplicate);
    const auto found = look(answer.id);
    EXPECT_EQ(found.position, answer.position);
    EXPECT_EQ(found.state, message_state::ready);
    EXPECT_EQ(found.topic, "orders");
    EXPECT_EQ(found.payload, "one");
    EXPECT_EQ(found.created_at, now());
    EXPECT_EQ(found.due_at, now());
    EXPECT_EQ(found.expires_at, std::nullopt);
    EXPECT_EQ(total(), 1U);
}

// Proves: OUT-02, OUT-12
TEST_P(enqueueing, a_message_without_options_has_none)
{
    const auto found = look(add());
    EXPECT_EQ(found.ordering_key, "");
    EXPECT_EQ(found.correlation_id, "");
    EXPECT_EQ(found.causation_id, "");
    EXPECT_EQ(found.headers, headers{});
    EXPECT_EQ(found.priority, 0);
    EXPECT_EQ(found.attempts, 0);
    EXPECT_EQ(found.started_at, std::nullopt);
}

// Proves: OUT-02, OUT-04, OUT-05, OUT-06
TEST_P(enqueueing, every_option_can_be_seen)
{
    const auto found = look(add("orders", everything));
    EXPECT_EQ(found.ordering_key, "customer 7");
    EXPECT_EQ(found.priority, 3);
    EXPECT_EQ(found.created_at, now());
    EXPECT_EQ(found.due_at, now() + 5s);
    EXPECT_EQ(found.expires_at, now() + 1min);
    EXPECT_EQ(found.correlation_id, "request 12");
    EXPECT_EQ(found.causation_id, "click 4");
    EXPECT_EQ(found.headers, everything.headers);
}

// Proves: OUT-02, OUT-03
TEST_P(enqueueing, every_option_reaches_the_worker)
{
    const auto id = add("orders", everything);
    const auto created = now();
    clock().advance(5s);
    const auto claimed = claim();
    ASSERT_EQ(claimed.size(), 1U);
    const auto& got = claimed.deliveries.front();
    EXPECT_EQ(got.receipt.id, id);
    EXPECT_EQ(got.topic, "orders");
    EXPECT_EQ(got.payload, "payload");
    EXPECT_EQ(got.ordering_key, "customer 7");
    EXPECT_EQ(got.priority, 3);
    EXPECT_EQ(got.correlation_id, "request 12");
    EXPECT_EQ(got.causation_id, "click 4");
    EXPECT_EQ(got.headers, everything.headers);
    EXPECT_EQ(got.created_at, created);
    EXPECT_EQ(got.due_at, created + 5s);
    EXPECT_EQ(got.expires_at, created + 1min);
}

// Proves: OUT-03
TEST_P(enqueueing, an_id_is_a_version_7_uuid_of_the_time_of_its_enqueueing)
{
    for (int i = 0; i < 20; ++i) {
        clock().advance(7ms);
        const auto id = add();
        EXPECT_TRUE(is_version_7(id)) << to_string(id);
        EXPECT_EQ(std::chrono::milliseconds{milliseconds_of(id)},
                  std::chrono::floor<std::chrono::milliseconds>(now().time_since_epoch()));
    }
    EXPECT_EQ(total(), 20U);
}

// Proves: OUT-03, OUT-08
TEST_P(enqueueing, ids_differ_within_one_bulk_and_between_bulks)
{
    const auto first = add_many(500);
    const auto second = add_many(500);
    std::set<message_id> all(first.begin(), first.end());
    all.insert(second.begin(), second.end());
    EXPECT_EQ(all.size(), 1'000U);
    EXPECT_TRUE(std::ranges::all_of(all, is_version_7));
}

// Proves: OUT-03
TEST_P(enqueueing, a_message_keeps_its_id_through_its_retries)
{
    const auto id = add();
    std::set<fence> fences;
    for (int attempt = 1; attempt <= 4; ++attempt) {
        const auto claimed = claim();
        ASSERT_EQ(ids_of(claimed), std::vector{id});
        EXPECT_EQ(claimed.deliveries.front().attempt, attempt);
        fences.insert(claimed.fence);
        EXPECT_EQ(abandon(claimed.deliveries.front().receipt, 1s, "again"), settled_as::retrying);
        clock().advance(1s);
    }
    EXPECT_EQ(fences.size(), 4U);
    EXPECT_EQ(acknowledge(claim_one()), settled_as::done);
    EXPECT_EQ(look(id).attempts, 5);
    EXPECT_EQ(total(), 1U);
}

// Proves: OUT-03
TEST_P(enqueueing, an_id_of_the_callers_own_is_kept)
{
    // Of another version than 7 too: it is the caller's choice.
    const auto own = {parsed("018bcfe5-687b-7fff-bfff-ffffffffffff"),
                      parsed("6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
                      parsed("00000000-0000-0000-0000-000000000001"),
                      parsed("ffffffff-ffff-ffff-ffff-ffffffffffff")};
    for (const auto id : own) {
        EXPECT_EQ(add("orders", {.id = id}), id);
        EXPECT_EQ(look(id).id, id);
    }
    EXPECT_THAT(claimed_ids(), ElementsAreArray(own));
}

// Proves: OUT-03
TEST_P(enqueueing, an_id_of_the_callers_own_is_kept_by_every_kind_of_message)
{
    const auto keyed = parsed("018bcfe5-687b-7fff-bfff-000000000001");
    const auto delayed = parsed("018bcfe5-687b-7fff-bfff-000000000002");
    const auto deduped = parsed("018bcfe5-687b-7fff-bfff-000000000003");
    EXPECT_EQ(add("orders", {.id = keyed, .ordering_key = "k"}), keyed);
    EXPECT_EQ(add("orders", {.id = delayed, .delay = 1s}), delayed);
    EXPECT_EQ(add("orders", {.id = deduped, .dedup_key = "d"}), deduped);
    EXPECT_EQ(look(keyed).ordering_key, "k");
    EXPECT_EQ(look(delayed).due_at, now() + 1s);
    EXPECT_EQ(look(deduped).state, message_state::ready);
}

// Proves: OUT-03
TEST_P(enqueueing, an_id_can_be_used_once_only)
{
    const auto id = parsed("018bcfe5-687b-7fff-bfff-000000000001");
    for (const auto& how :
         {enqueue_options{.id = id}, enqueue_options{.id = id, .ordering_key = "k"},
          enqueue_options{.id = id, .delay = 1s}, enqueue_options{.id = id, .dedup_key = "d"}}) {
        if (total() == 0) {
            EXPECT_EQ(add("orders", how), id);
            continue;
        }
        const auto refused = thrown_by([&] { add("other", how); });
        EXPECT_EQ(refused.code(), error_code::constraint);
        EXPECT_FALSE(refused.retryable());
        EXPECT_THAT(refused.what(), ::testing::HasSubstr(to_string(id)));
    }
    EXPECT_EQ(total(), 1U);
    EXPECT_EQ(look(id).topic, "orders");
    EXPECT_EQ(work_off(), std::vector{id});
    EXPECT_EQ(thrown_by([&] { add("orders", {.id = id}); }).code(), error_code::constraint);
}

// Proves: OUT-03
TEST_P(enqueueing, an_id_that_posthorn_made_cannot_be_used_again)
{
    const auto plain = add();
    const auto keyed = add_keyed("k");
    for (const auto id : {plain, keyed})
        EXPECT_EQ(thrown_by([&] { add("other", {.id = id}); }).code(), error_code::constraint);
    EXPECT_THAT(work_off(), ElementsAre(plain, keyed));
    for (const auto id : {plain, keyed})
        EXPECT_EQ(thrown_by([&] { add("other", {.id = id}); }).code(), error_code::constraint);
    EXPECT_EQ(total(), 2U);
}

// Proves: OUT-03
TEST_P(enqueueing, an_id_that_resembles_another_is_another)
{
    // Whatever of an id a store may look at first: all sixteen bytes count.
    const auto made = add();
    std::vector<message_id> ids{made};
    for (std::size_t i = 0; i < 16; ++i) {
        auto value = made.value();
        value.bytes[i] ^= 1U;
        ids.push_back(add("orders", {.id = message_id{value}}));
        EXPECT_EQ(ids.back(), message_id{value});
    }
    for (const auto id : ids)
        EXPECT_EQ(look(id).id, id);
    EXPECT_THAT(claimed_ids(), ElementsAreArray(ids));
}

// Proves: OUT-03
TEST_P(enqueueing, a_refused_id_does_no_harm_to_the_rest_of_its_transaction)
{
    const auto id = add();
    auto tx = db().begin();
    const auto before = enqueue(tx, {.topic = "before", .payload = ""}).id;
    EXPECT_EQ(thrown_by([&] {
                  enqueue(tx, {"refused", ""}, {.id = id});
              }).code(),
              error_code::constraint);
    const auto after = enqueue(tx, {.topic = "after", .payload = ""}).id;
    tx.commit();
    EXPECT_THAT(work_off(), ElementsAre(id, before, after));
    EXPECT_EQ(total(), 3U);
}

// Proves: OUT-04, I17
TEST_P(enqueueing, a_delayed_message_starts_when_it_is_due_and_no_sooner)
{
    const auto id = add("orders", {.delay = 10s});
    EXPECT_EQ(state_of(id), message_state::ready);
    EXPECT_THAT(claimed_ids(), IsEmpty());
    clock().advance(10s - 1us);
    EXPECT_THAT(claimed_ids(), IsEmpty());
    clock().advance(1us);
    EXPECT_THAT(claimed_ids(), ElementsAre(id));
}

// Proves: OUT-04, I17
TEST_P(enqueueing, a_due_time_in_the_future_is_kept_to_the_microsecond)
{
    const auto due = now() + 36h + 17us;
    const auto id = add("orders", {.due_at = due});
    EXPECT_EQ(look(id).due_at, due);
    clock().set(due - 1us);
    EXPECT_THAT(claimed_ids(), IsEmpty());
    clock().set(due);
    EXPECT_THAT(claimed_ids(), ElementsAre(id));
}

// Proves: OUT-04
TEST_P(enqueueing, a_due_time_in_the_past_means_now)
{
    const auto early = add("orders", {.due_at = now() - 24h});
    const auto exact = add("orders", {.due_at = now()});
    const auto negative = add("orders", {.delay = -5s});
    const auto none = add("orders", {.delay = 0s});
    for (const auto id : {early, exact, negative, none})
        EXPECT_EQ(look(id).due_at, now());
    // No message overtakes another by pretending to be older.
    EXPECT_THAT(claimed_ids(), ElementsAre(early, exact, negative, none));
}

// Proves: OUT-04
TEST_P(enqueueing, a_delay_holds_back_nobody_else)
{
    const auto delayed = add("orders", {.delay = 1h});
    const auto plain = add();
    EXPECT_THAT(work_off(), ElementsAre(plain));
    EXPECT_EQ(state_of(delayed), message_state::ready);
}

// Proves: OUT-08
TEST_P(enqueueing, thousands_of_messages_come_out_in_their_order)
{
    std::vector<outgoing> all;
    for (int i = 0; i < 5'000; ++i)
        all.push_back({.message = {.topic = "orders", .payload = std::to_string(i)}});
    const auto answers = enqueue(db(), all);
    ASSERT_EQ(answers.size(), 5'000U);
    EXPECT_EQ(
        std::ranges::adjacent_find(answers, std::ranges::greater_equal{}, &enqueued::position),
        answers.end());

    const auto claimed = claim(5'000);
    ASSERT_EQ(claimed.size(), 5'000U);
    for (std::size_t i = 0; i < claimed.size(); ++i) {
        ASSERT_EQ(claimed.deliveries[i].receipt.id, answers[i].id);
        ASSERT_EQ(claimed.deliveries[i].payload, std::to_string(i));
    }
    EXPECT_EQ(total(), 5'000U);
}

// Proves: OUT-08
TEST_P(enqueueing, one_bulk_may_be_larger_than_one_claim)
{
    const auto ids = add_many(limits{}.batch_max + 1);
    EXPECT_EQ(std::set<message_id>(ids.begin(), ids.end()).size(), limits{}.batch_max + 1);
    EXPECT_EQ(total(), limits{}.batch_max + 1);
}

// Proves: OUT-08
TEST_P(enqueueing, every_message_of_a_bulk_has_its_own_options)
{
    const auto own = parsed("018bcfe5-687b-7fff-bfff-000000000009");
    const auto ids = ids_in(enqueue(
        db(), std::vector<outgoing>{{{"a", "1"}, {.id = own}},
                                    {{"b", "2"}, {.ordering_key = "k"}},
                                    {{"c", "3"}, {.ordering_key = "k", .delay = 1s}},
                                    {{"d", "4"}, {.priority = 9}},
                                    {{"e", "5"}, {.due_at = now() + 1h}},
                                    {{"f", "6"}, {.expires_after = 1min}},
                                    {{"g", "7"}, {.correlation_id = "c", .causation_id = "d"}},
                                    {{"h", "8"}, {.headers = {{"x", "y"}}}}}));
    ASSERT_EQ(ids.size(), 8U);
    EXPECT_EQ(ids[0], own);
    EXPECT_EQ(look(ids[1]).state, message_state::ready);
    EXPECT_EQ(look(ids[2]).state, message_state::waiting);
    EXPECT_EQ(look(ids[2]).due_at, now() + 1s);
    EXPECT_EQ(look(ids[3]).priority, 9);
    EXPECT_EQ(look(ids[4]).due_at, now() + 1h);
    EXPECT_EQ(look(ids[5]).expires_at, now() + 1min);
    EXPECT_EQ(look(ids[6]).correlation_id, "c");
    EXPECT_EQ(look(ids[6]).causation_id, "d");
    EXPECT_EQ(look(ids[7]).headers, (headers{{"x", "y"}}));
    std::string topics;
    std::string payloads;
    for (const auto id : ids) {
        topics += look(id).topic;
        payloads += look(id).payload;
    }
    EXPECT_EQ(topics, "abcdefgh");
    EXPECT_EQ(payloads, "12345678");
    EXPECT_THAT(claimed_ids(), ElementsAre(ids[3], ids[0], ids[1], ids[5], ids[6], ids[7]));
}

// Proves: OUT-08
TEST_P(enqueueing, a_bulk_of_none_adds_nothing)
{
    EXPECT_THAT(enqueue(db(), std::vector<outgoing>{}), IsEmpty());
    auto tx = db().begin();
    EXPECT_THAT(enqueue(tx, std::vector<outgoing>{}), IsEmpty());
    tx.commit();
    EXPECT_EQ(total(), 0U);
    EXPECT_THAT(claimed_ids(), IsEmpty());
}

// Proves: OUT-08
TEST_P(enqueueing, a_bulk_of_one_is_a_message_like_any_other)
{
    const auto ids = add_many(1);
    EXPECT_EQ(claimed_ids(), ids);
}

// Proves: OUT-03, OUT-08
TEST_P(enqueueing, a_bulk_that_names_an_id_twice_adds_nothing)
{
    const auto id = parsed("018bcfe5-687b-7fff-bfff-000000000009");
    const std::vector<outgoing> all{{{"a", ""}}, {{"b", ""}, {.id = id}}, {{"c", ""}, {.id = id}}};
    EXPECT_EQ(thrown_by([&] { enqueue(db(), all); }).code(), error_code::constraint);
    EXPECT_EQ(total(), 0U);
    EXPECT_EQ(add("orders", {.id = id}), id);
}

// Proves: OUT-02, OUT-08
TEST_P(enqueueing, a_bulk_with_one_bad_message_adds_nothing)
{
    std::vector<outgoing> all(100, {.message = {.topic = "orders", .payload = ""}});
    all[73].message.topic = "";
    EXPECT_EQ(thrown_by([&] { enqueue(db(), all); }).code(), error_code::invalid_argument);
    EXPECT_EQ(total(), 0U);
    EXPECT_THAT(claimed_ids(), IsEmpty());
}

// Proves: OUT-08, I2
TEST_P(enqueueing, messages_of_bulks_and_single_ones_share_one_order)
{
    std::vector<message_id> all;
    for (int i = 0; i < 5; ++i) {
        all.push_back(add());
        std::ranges::copy(add_many(3), std::back_inserter(all));
    }
    EXPECT_THAT(claimed_ids(), ElementsAreArray(all));
}

CONFORMANCE_SUITE(enqueueing);

} // namespace
} // namespace posthorn::conformance
