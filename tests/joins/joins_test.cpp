// Joins on every store: what is counted, when it ends, and what follows.
#include "joins/joining_test.hpp"
#include <posthorn/publisher.hpp>

#include <functional>
#include <stop_token>
#include <vector>

namespace posthorn::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class joins : public joining<conformance_test> {};

// Proves: JOIN-005, JOIN-006, JOIN-007
TEST_P(joins, a_new_join_is_pending_and_has_counted_nothing)
{
    const auto join = open_join(db(), {.expected = 3,
                                       .on_complete = message{"next", ""},
                                       .grouping_key = "customer-7",
                                       .metadata = R"({"type": "etl"})"});
    const auto other = open_join(db(), {.expected = 3});
    EXPECT_NE(join, other);

    const auto found = look_at(join);
    EXPECT_EQ(found.id, join);
    EXPECT_EQ(found.state, join_state::pending);
    EXPECT_EQ(found.expected, 3);
    EXPECT_EQ(found.needed, std::nullopt);
    EXPECT_EQ(found.attached, 0);
    EXPECT_EQ(found.completed, 0);
    EXPECT_EQ(found.failed, 0);
    EXPECT_EQ(found.grouping_key, "customer-7");
    EXPECT_EQ(found.metadata, R"({"type": "etl"})");
    ASSERT_TRUE(found.on_complete);
    EXPECT_EQ(found.on_complete->topic, "next");
    EXPECT_EQ(found.on_complete->payload, "");
    EXPECT_FALSE(found.on_fail);
    EXPECT_EQ(found.created_at, now());
    EXPECT_EQ(found.updated_at, now());
    EXPECT_FALSE(found.ended_at);
}

// Proves: JOIN-001, JOIN-002, JOIN-014, JOIN-018, I10, I11
TEST_P(joins, acknowledged_members_complete_it_and_the_last_one_enqueues_its_continuation)
{
    const auto join = open(3);
    for (int i = 0; i < 3; ++i)
        add_to(join);
    const auto claimed = claim();
    clock().advance(1s);
    EXPECT_EQ(acknowledge(claimed.receipts()[0]), settled_as::done);
    EXPECT_EQ(acknowledge(claimed.receipts()[1]), settled_as::done);
    auto half = look_at(join);
    EXPECT_EQ(half.completed, 2);
    EXPECT_EQ(half.state, join_state::pending);
    EXPECT_EQ(half.updated_at, now());
    EXPECT_EQ(continuations(), 0U);

    EXPECT_EQ(acknowledge(claimed.receipts()[2]), settled_as::done);
    const auto ended = look_at(join);
    EXPECT_EQ(ended.state, join_state::completed);
    EXPECT_EQ(ended.ended_by, join_end::members);
    EXPECT_EQ(ended.completed, 3);
    EXPECT_EQ(ended.failed, 0);
    EXPECT_EQ(ended.ended_at, now());
    const auto next = claim();
    ASSERT_THAT(next.deliveries, SizeIs(1));
    EXPECT_EQ(next.deliveries[0].topic, complete_topic);
    EXPECT_EQ(next.deliveries[0].payload, "well");
    EXPECT_EQ(next.deliveries[0].causation_id, to_string(claimed.receipts()[2].id));
    EXPECT_EQ(next.deliveries[0].headers.at(std::string(join_header)), to_string(join));
    EXPECT_EQ(continuations(), 1U);
}

// Proves: JOIN-002, JOIN-004, I1, I11
TEST_P(joins, counts_and_continuation_share_the_fate_of_the_settlement)
{
    const auto join = open(2);
    add_to(join);
    add_to(join);
    const auto claimed = claim();
    {
        auto tx = db().begin();
        box().acknowledge(tx, alice, claimed.receipts());
        const auto inside = find_join(tx, join);
        ASSERT_TRUE(inside);
        EXPECT_EQ(inside->completed, 2) << "it is counted in the transaction that settles";
        EXPECT_EQ(inside->state, join_state::completed);
        tx.rollback();
    }
    EXPECT_EQ(look_at(join).completed, 0);
    EXPECT_EQ(end_of(join), join_state::pending);
    EXPECT_EQ(continuations(), 0U);

    auto tx = db().begin();
    box().acknowledge(tx, alice, claimed.receipts());
    tx.commit();
    EXPECT_EQ(end_of(join), join_state::completed);
    EXPECT_EQ(enqueued_of(complete_topic), 1U);
}

// Proves: JOIN-003, JOIN-004, JOIN-015, JOIN-017, JOIN-019
TEST_P(joins, one_failed_member_makes_it_fail_when_all_have_ended)
{
    const auto join = open(3);
    for (int i = 0; i < 3; ++i)
        add_to(join);
    const auto claimed = claim();
    EXPECT_EQ(fail(claimed.receipts()[0]), settled_as::dead);
    EXPECT_EQ(look_at(join).failed, 1);
    EXPECT_EQ(end_of(join), join_state::pending) << "the others are still to come";
    EXPECT_EQ(acknowledge(claimed.receipts()[1]), settled_as::done);
    EXPECT_EQ(acknowledge(claimed.receipts()[2]), settled_as::done);
    const auto ended = look_at(join);
    EXPECT_EQ(ended.state, join_state::failed);
    EXPECT_EQ(ended.completed, 2);
    EXPECT_EQ(ended.failed, 1);
    EXPECT_EQ(enqueued_of(fail_topic), 1U);
    EXPECT_EQ(enqueued_of(complete_topic), 0U);
}

// Proves: JOIN-015, JOIN-017, JOIN-018
TEST_P(joins, failures_that_do_not_matter_are_counted_all_the_same)
{
    const auto join = open({.expected = 2, .fail_if_any_step_failed = false});
    add_to(join);
    add_to(join);
    const auto claimed = claim();
    fail(claimed.receipts()[0]);
    acknowledge(claimed.receipts()[1]);
    EXPECT_EQ(end_of(join), join_state::completed);
    EXPECT_EQ(look_at(join).failed, 1);
    EXPECT_EQ(enqueued_of(complete_topic), 1U);
}

// Proves: JOIN-015, JOIN-018
TEST_P(joins, no_continuation_and_an_empty_one_are_both_valid)
{
    const auto silent = open_join(db(), {.expected = 1});
    const auto empty = open_join(db(), {.expected = 1, .on_complete = message{"next", ""}});
    add_to(silent);
    add_to(empty);
    work_off();
    EXPECT_EQ(end_of(silent), join_state::completed);
    EXPECT_EQ(end_of(empty), join_state::completed);
    const auto next = list_messages(db(), {.state = message_state::ready, .with_payload = true});
    ASSERT_THAT(next, SizeIs(1));
    EXPECT_EQ(next[0].topic, "next");
    EXPECT_EQ(next[0].payload, "");
}

// Proves: JOIN-008, JOIN-009
TEST_P(joins, attaching_twice_is_attaching_once)
{
    const auto join = open(2);
    const auto id = add();
    EXPECT_EQ(attach(db(), join, id), attach_answer::attached);
    EXPECT_EQ(attach(db(), join, id), attach_answer::known);
    const std::vector<message_id> twice{id, id};
    EXPECT_THAT(attach(db(), join, twice), ElementsAre(attach_answer::known, attach_answer::known));
    EXPECT_EQ(look_at(join).attached, 1);
    const auto members = list_join_members(db(), join);
    ASSERT_THAT(members, SizeIs(1));
    EXPECT_EQ(members[0].id, id);
    EXPECT_EQ(members[0].state, member_state::pending);
    EXPECT_THAT(work_off(), ElementsAre(id));
    EXPECT_EQ(look_at(join).completed, 1);
    EXPECT_EQ(attach(db(), join, id), attach_answer::known);
    EXPECT_EQ(look_at(join).completed, 1);
}

// Proves: JOIN-010, JOIN-011, JOIN-024
TEST_P(joins, a_member_reported_by_hand_is_not_counted_again_when_it_ends)
{
    const auto join = open(2);
    const auto first = add_to(join);
    add_to(join);
    EXPECT_EQ(report_step_completed(db(), join, first), report_answer::counted);
    EXPECT_EQ(report_step_completed(db(), join, first), report_answer::known);
    EXPECT_EQ(report_step_failed(db(), join, first), report_answer::known)
        << "the first word counts";
    EXPECT_EQ(look_at(join).completed, 1);
    work_off();
    EXPECT_EQ(look_at(join).completed, 2);
    EXPECT_EQ(end_of(join), join_state::completed);
    EXPECT_EQ(report_step_completed(db(), join, first), report_answer::known);
    EXPECT_EQ(continuations(), 1U);
}

// Proves: JOIN-012, JOIN-013, JOIN-019, JOIN-024
TEST_P(joins, a_member_reported_as_failed_stays_so)
{
    const auto join = open(1);
    const auto id = add_to(join);
    EXPECT_EQ(report_step_failed(db(), join, id), report_answer::counted);
    EXPECT_EQ(end_of(join), join_state::failed);
    EXPECT_EQ(report_step_failed(db(), join, id), report_answer::known);
    EXPECT_EQ(report_step_completed(db(), join, id), report_answer::ended);
    EXPECT_THAT(work_off(1), ElementsAre(id));
    EXPECT_EQ(look_at(join).failed, 1);
    EXPECT_EQ(look_at(join).completed, 0);
    EXPECT_EQ(enqueued_of(fail_topic), 1U);
    EXPECT_EQ(continuations(), 1U);
}

// Proves: JOIN-024
TEST_P(joins, only_members_can_be_reported)
{
    const auto join = open(1);
    const auto stranger = add();
    EXPECT_EQ(thrown_by([&] { report_step_completed(db(), join, stranger); }).code(),
              error_code::not_found);
    EXPECT_EQ(look_at(join).completed, 0);
}

// Proves: JOIN-020
TEST_P(joins, joins_are_found_by_their_grouping_key_and_state)
{
    const auto first = open({.expected = 1, .grouping_key = "customer-7"});
    const auto second = open({.expected = 1, .grouping_key = "customer-7"});
    const auto other = open({.expected = 1, .grouping_key = "customer-8"});
    const auto member = add_to(first);
    work_off();
    const auto ids = [&](const join_filter& filter) {
        std::vector<join_id> result;
        for (const auto& each : list_joins(db(), filter))
            result.push_back(each.id);
        return result;
    };
    EXPECT_THAT(ids({.grouping_key = "customer-7"}), ElementsAre(first, second));
    EXPECT_THAT(ids({.state = join_state::pending, .grouping_key = "customer-7"}),
                ElementsAre(second));
    EXPECT_THAT(ids({.state = join_state::completed}), ElementsAre(first));
    EXPECT_THAT(ids({}), ElementsAre(first, second, other));
    EXPECT_THAT(ids({.member = member}), ElementsAre(first));
    EXPECT_THAT(ids({.grouping_key = "customer-9"}), IsEmpty());
    EXPECT_THAT(ids({.limit = 2}), ElementsAre(first, second));
    EXPECT_THAT(ids({.after_position = look_at(second).position}), ElementsAre(other));
}

// Proves: JOIN-021, I10
TEST_P(joins, a_message_may_be_a_member_of_several)
{
    const auto one = open(1);
    const auto two = open(2);
    const auto shared = add_to(one);
    EXPECT_EQ(attach(db(), two, shared), attach_answer::attached);
    add_to(two);
    work_off();
    EXPECT_EQ(end_of(one), join_state::completed);
    EXPECT_EQ(end_of(two), join_state::completed);
    EXPECT_EQ(look_at(two).completed, 2);
    EXPECT_EQ(enqueued_of(complete_topic), 2U);
}

// Proves: JOIN-001, JOIN-003, JOIN-021, I10, I11
TEST_P(joins, one_settlement_counts_for_many_joins)
{
    std::vector<join_id> all;
    for (int i = 0; i < 5; ++i)
        all.push_back(open(4));
    for (int i = 0; i < 4; ++i)
        for (const auto& each : all)
            add_to(each);
    const auto claimed = claim();
    std::vector<settlement> mixed;
    for (const auto& each : claimed.receipts())
        mixed.push_back({each, mixed.size() == 0 ? posthorn::fail("broken") : done()});
    EXPECT_EQ(box().settle(alice, mixed).settled(), 20U);
    EXPECT_EQ(end_of(all[0]), join_state::failed);
    for (std::size_t i = 1; i < all.size(); ++i) {
        EXPECT_EQ(end_of(all[i]), join_state::completed);
        EXPECT_EQ(look_at(all[i]).completed, 4);
    }
    EXPECT_EQ(enqueued_of(complete_topic), 4U);
    EXPECT_EQ(enqueued_of(fail_topic), 1U);
}

// Proves: JOIN-022
TEST_P(joins, a_member_that_has_ended_before_it_is_attached_is_counted_at_once)
{
    const auto done_one = add();
    work_off();
    const auto dead_one = add_dead();
    const auto cancelled_one = add();
    EXPECT_EQ(cancel(db(), cancelled_one), cancel_answer::cancelled);
    const auto expired_one = add("orders", {.expires_after = 1s});
    clock().advance(2s);
    EXPECT_EQ(box().expire_due(), 1U);

    const auto join = open(4);
    EXPECT_EQ(attach(db(), join, done_one), attach_answer::counted);
    EXPECT_EQ(look_at(join).completed, 1);
    EXPECT_EQ(attach(db(), join, dead_one), attach_answer::counted);
    EXPECT_EQ(attach(db(), join, cancelled_one), attach_answer::counted);
    EXPECT_EQ(end_of(join), join_state::pending);
    EXPECT_EQ(attach(db(), join, expired_one), attach_answer::counted);
    EXPECT_EQ(look_at(join).failed, 3);
    EXPECT_EQ(end_of(join), join_state::failed);
    EXPECT_EQ(continuations(), 1U);
}

// Proves: JOIN-022, I10
TEST_P(joins, a_member_is_attached_wherever_its_message_is)
{
    const auto delayed = add("orders", {.delay = 1h});
    const auto head = add_keyed("k");
    const auto behind = add_keyed("k");
    const auto urgent = add("orders", {.priority = 5});
    const auto plain = add_many(3);
    const auto join = open(8);
    EXPECT_EQ(attach(db(), join, plain[0]), attach_answer::attached) << "it waits";
    const auto claimed = claim(100, 2);
    ASSERT_THAT(claimed.deliveries, SizeIs(5));
    for (const auto& each : {delayed, head, behind, urgent, plain[1], plain[2]})
        EXPECT_EQ(attach(db(), join, each), attach_answer::attached);
    const auto retried = claimed.receipts()[0];
    EXPECT_EQ(abandon(retried, 1s), settled_as::retrying);
    auto rest = claimed.receipts();
    rest.erase(rest.begin());
    EXPECT_EQ(box().acknowledge(alice, rest).settled(), 4U);
    EXPECT_EQ(look_at(join).completed, 4);
    EXPECT_EQ(attach(db(), join, add()), attach_answer::attached);
    clock().advance(2h);
    work_off();
    work_off();
    EXPECT_EQ(look_at(join).completed, 8);
    EXPECT_EQ(end_of(join), join_state::completed);
    EXPECT_EQ(continuations(), 1U);
}

// Proves: JOIN-022, I10
TEST_P(joins, a_member_attached_while_it_runs_is_counted_with_its_batch)
{
    const auto ids = add_many(3);
    const auto claimed = claim();
    const auto join = open(1);
    EXPECT_EQ(attach(db(), join, ids[1]), attach_answer::attached);
    EXPECT_EQ(box().acknowledge(alice, claimed.receipts()).settled(), 3U);
    EXPECT_EQ(end_of(join), join_state::completed);
    EXPECT_EQ(states_of(ids), std::vector(3, message_state::done));
}

// Proves: JOIN-022
TEST_P(joins, an_unknown_message_or_join_is_an_error_and_never_a_wait)
{
    const auto join = open(1);
    const message_id nobody{uuid::version_7(now(), *world().random)};
    const auto unknown = thrown_by([&] { attach(db(), join, nobody); });
    EXPECT_EQ(unknown.code(), error_code::not_found);
    EXPECT_THAT(unknown.what(), HasSubstr(to_string(nobody)));
    EXPECT_EQ(look_at(join).attached, 0);

    const join_id no_join{nobody.value()};
    EXPECT_EQ(thrown_by([&] { attach(db(), no_join, add()); }).code(), error_code::not_found);
    EXPECT_EQ(thrown_by([&] { seal_join(db(), no_join); }).code(), error_code::not_found);
    EXPECT_EQ(thrown_by([&] { cancel_join(db(), no_join); }).code(), error_code::not_found);
    EXPECT_EQ(thrown_by([&] { add_to(no_join); }).code(), error_code::not_found);
    EXPECT_FALSE(find_join(db(), no_join));
    EXPECT_EQ(total(), 1U) << "what cannot be attached is not enqueued either";

    auto forgetful = box_with({.keep_done = false});
    const auto claimed = claim();
    EXPECT_EQ(forgetful.acknowledge(alice, claimed.receipts()).settled(), 1U);
    EXPECT_EQ(thrown_by([&] { attach(db(), join, claimed.receipts()[0].id); }).code(),
              error_code::not_found);
}

// Proves: JOIN-001, I10
TEST_P(joins, members_that_are_forgotten_when_done_are_counted_before)
{
    const auto join = open(2);
    add_to(join);
    add_to(join, {.priority = 1});
    auto forgetful = box_with({.keep_done = false});
    const auto claimed = claim();
    EXPECT_EQ(forgetful.acknowledge(alice, claimed.receipts()).settled(), 2U);
    EXPECT_EQ(end_of(join), join_state::completed);
    EXPECT_EQ(look_at(join).completed, 2);
}

// Proves: JOIN-001, I4, I10
TEST_P(joins, a_stale_acknowledgement_counts_nothing)
{
    const auto join = open(2);
    add_to(join);
    const auto stale = claim_one();
    clock().advance(1h);
    box().reap_expired();
    clock().advance(1h);
    const auto current = claim_one(bob);
    EXPECT_EQ(acknowledge(stale), settled_as::lost);
    EXPECT_EQ(fail(stale), settled_as::lost);
    EXPECT_EQ(look_at(join).completed, 0);
    EXPECT_EQ(look_at(join).failed, 0);
    EXPECT_EQ(acknowledge(bob, current), settled_as::done);
    EXPECT_EQ(look_at(join).completed, 1);
    EXPECT_EQ(acknowledge(bob, current), settled_as::lost);
    EXPECT_EQ(acknowledge(stale), settled_as::lost);
    EXPECT_EQ(look_at(join).completed, 1);
}

// Proves: JOIN-008, JOIN-009
TEST_P(joins, members_can_be_attached_as_they_are_enqueued)
{
    const auto join = open(7);
    auto tx = db().begin();
    enqueue(tx, {"orders", "one"}, {.join = join});
    const std::vector<outgoing> bulk(2, {{"orders", "many"}, {.join = join}});
    enqueue(tx, bulk);
    tx.commit();
    const outgoing once{{"orders", "once"}, {.dedup_key = "same", .join = join}};
    const auto added = enqueue(db(), {once.message}, once.options);
    EXPECT_TRUE(enqueue(db(), {once.message}, once.options).duplicate);
    EXPECT_EQ(look_at(join).attached, 4) << "a duplicate is the member it was";
    const std::vector<outgoing> mixed{{{"orders", "plain"}, {}},
                                      {{"orders", "keyed"}, {.ordering_key = "k", .join = join}},
                                      {{"orders", "late"}, {.delay = 1s, .join = join}}};
    enqueue(db(), mixed);
    outbox_publisher publisher(db());
    publisher.publish({"orders", "published"}, {.join = join});
    EXPECT_EQ(look_at(join).attached, 7);
    clock().advance(1s);
    work_off();
    EXPECT_EQ(state_of(added.id), message_state::done);
    EXPECT_EQ(end_of(join), join_state::completed);

    const auto other = open(1);
    EXPECT_TRUE(enqueue(db(), {once.message}, {.dedup_key = "same", .join = other}).duplicate);
    EXPECT_EQ(end_of(other), join_state::completed) << "the earlier one has ended already";
}

// Proves: JOIN-005
TEST_P(joins, a_join_exists_if_its_transaction_commits)
{
    join_id join;
    {
        auto tx = db().begin();
        join = open_join(tx, {.expected = 1});
        enqueue(tx, {"orders", ""}, {.join = join});
        tx.rollback();
    }
    EXPECT_FALSE(find_join(db(), join));
    EXPECT_EQ(total(), 0U);
}

// Proves: JOIN-018
TEST_P(joins, the_continuation_belongs_to_what_its_join_belongs_to)
{
    join_id join;
    {
        const auto scope = correlation_scope::begin_from({.id = "order-17"});
        join = open(1);
    }
    add_to(join);
    work_off();
    EXPECT_EQ(look_at(join).correlation_id, "order-17");
    const auto next = claim();
    ASSERT_THAT(next.deliveries, SizeIs(1));
    EXPECT_EQ(next.deliveries[0].correlation_id, "order-17");
}

// Proves: JOIN-005, JOIN-023
TEST_P(joins, what_cannot_be_a_join_is_refused)
{
    const auto refused = [&](const join_options& how) {
        return thrown_by([&] { open_join(db(), how); }).code() == error_code::invalid_argument;
    };
    EXPECT_TRUE(refused({.expected = 0}));
    EXPECT_TRUE(refused({.expected = -1}));
    EXPECT_TRUE(refused({.expected = 2, .needed = 3}));
    EXPECT_TRUE(refused({.needed = 0}));
    EXPECT_TRUE(refused({.expected = 1, .deadline = 0s}));
    EXPECT_TRUE(refused({.expected = 1, .grouping_key = std::string(256, 'k')}));
    EXPECT_TRUE(refused({.expected = 1, .metadata = std::string((64 << 10) + 1, 'm')}));
    EXPECT_TRUE(refused({.expected = 1, .on_complete = message{"", ""}}));
    EXPECT_TRUE(refused({.expected = 1, .on_fail = message{std::string(501, 't'), ""}}));
    EXPECT_THAT(list_joins(db()), IsEmpty());
    const join_id id{uuid::version_7(now(), *world().random)};
    EXPECT_EQ(open_join(db(), {.expected = 1,
                               .grouping_key = std::string(255, 'k'),
                               .metadata = std::string(64 << 10, 'm'),
                               .id = id}),
              id);
    EXPECT_EQ(look_at(id).metadata.size(), std::size_t{64} << 10U);
    EXPECT_EQ(thrown_by([&] { open_join(db(), {.expected = 1, .id = id}); }).code(),
              error_code::constraint);
}

// Proves: JOIN-015, JOIN-023
TEST_P(joins, a_store_with_joins_is_in_order)
{
    const auto join = open({.expected = 2, .deadline = 1h});
    enqueue_join_wait(db(), {.join = join});
    add_to(join);
    const auto claimed = claim();
    if (GetParam().can.second_handle) {
        for (const auto& each : diagnose(under_test().url()))
            EXPECT_TRUE(each.level != severity::problem || each.check == "durability")
                << each.check << ": " << each.detail;
    }
    EXPECT_EQ(box().acknowledge(alice, claimed.receipts()).settled(), 1U);
}

// Proves: JOIN-005, JOIN-016
TEST_P(joins, are_not_opened_attached_or_waited_for_after_a_stop)
{
    const auto join = open(2);
    const auto id = add();
    std::stop_source stop;
    stop.request_stop();
    const stop_request told(stop.get_token());
    const std::vector<std::function<void()>> calls{
        [&] { open_join(db(), {.expected = 1}, told); }, [&] { attach(db(), join, id, told); },
        [&] { enqueue_join_wait(db(), {.join = join}, told); }};
    for (const auto& call : calls) {
        const auto why = thrown_by(call);
        EXPECT_EQ(why.code(), error_code::stopped);
        EXPECT_TRUE(why.retryable());
    }
    EXPECT_THAT(list_joins(db()), SizeIs(1));
    EXPECT_EQ(look_at(join).attached, 0);
    EXPECT_EQ(total(), 1U) << "no message waits";
}

CONFORMANCE_SUITE(joins);

} // namespace
} // namespace posthorn::conformance
