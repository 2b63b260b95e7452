// Messages from outside on every store: what another delivery of the same one does, and how the
// inbox learns of its end.
#include "conformance/conformance_test.hpp"
#include <posthorn/correlation.hpp>
#include <posthorn/enqueue.hpp>
#include <posthorn/inbox.hpp>
#include <posthorn/trace.hpp>
#include <posthorn/worker.hpp>

#include <string>
#include <vector>

namespace posthorn::conformance {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

const inbound order{.source = "shop", .id = "4711"};

class inbox : public conformance_test {
protected:
    inbox_receipt receive(const std::string& payload = "body", const inbox_options& how = {})
    {
        return enqueue_inbound(db(), order, {"orders.placed", payload}, how);
    }

    inbox_record look_at(const inbound& from = order)
    {
        auto found = find_inbound(db(), from);
        if (!found)
            throw std::runtime_error("nothing is known of " + from.id);
        return *found;
    }

    inbox_state state() { return look_at().state; }
};

} // namespace

// Proves: INB-01, INB-02, INB-03, I7
TEST_P(inbox, a_message_from_outside_is_handled_once)
{
    const auto first = receive("first");
    EXPECT_EQ(first.answer, inbox_answer::added);
    EXPECT_FALSE(first.hash_differs);
    EXPECT_EQ(state(), inbox_state::seen);
    EXPECT_EQ(look_at().seen_at, now());
    const auto again = receive("second");
    EXPECT_EQ(again.answer, inbox_answer::replaced);
    EXPECT_EQ(again.message, first.message);

    const auto claimed = claim();
    ASSERT_THAT(claimed.deliveries, SizeIs(1));
    const auto& only = claimed.deliveries.front();
    EXPECT_EQ(only.receipt.id, first.message);
    EXPECT_EQ(only.topic, inbox_topic("orders.placed"));
    EXPECT_EQ(only.topic, "inbox:orders.placed");
    EXPECT_EQ(only.payload, "second");
    EXPECT_EQ(only.headers.at(std::string(inbox_source_header)), "shop");
    EXPECT_EQ(only.headers.at(std::string(inbox_id_header)), "4711");
    EXPECT_EQ(state(), inbox_state::processing);

    clock().advance(1s);
    EXPECT_EQ(acknowledge(only.receipt), settled_as::done);
    EXPECT_EQ(state(), inbox_state::done);
    EXPECT_EQ(look_at().settled_at, now());
    EXPECT_EQ(receive("third").answer, inbox_answer::known);
    EXPECT_THAT(claim().deliveries, IsEmpty());
    EXPECT_EQ(total(), 1U);
}

// Proves: INB-01
TEST_P(inbox, source_and_id_are_known_together)
{
    receive();
    EXPECT_EQ(enqueue_inbound(db(), {"other shop", "4711"}, {"orders.placed", ""}).answer,
              inbox_answer::added);
    EXPECT_EQ(enqueue_inbound(db(), {"shop", "4712"}, {"orders.placed", ""}).answer,
              inbox_answer::added);
    EXPECT_EQ(enqueue_inbound(db(), {"SHOP", "4711"}, {"orders.placed", ""}).answer,
              inbox_answer::added);
    EXPECT_EQ(enqueue_inbound(db(), {"shop ", "4711"}, {"orders.placed", ""}).answer,
              inbox_answer::added);
    EXPECT_THAT(claim().deliveries, SizeIs(5));
}

// Proves: INB-02, I1
TEST_P(inbox, what_is_rolled_back_was_never_seen)
{
    {
        auto tx = db().begin();
        EXPECT_EQ(enqueue_inbound(tx, order, {"orders.placed", ""}).answer, inbox_answer::added);
        EXPECT_EQ(enqueue_inbound(tx, order, {"orders.placed", ""}).answer, inbox_answer::replaced);
        tx.rollback();
    }
    EXPECT_FALSE(find_inbound(db(), order));
    EXPECT_EQ(total(), 0U);
    EXPECT_EQ(receive().answer, inbox_answer::added);
}

// Proves: INB-02, INB-03
TEST_P(inbox, what_a_worker_has_is_left_to_it)
{
    receive("first");
    const auto held = claim_one();
    EXPECT_EQ(receive("second").answer, inbox_answer::held);
    EXPECT_EQ(abandon(held, 10s), settled_as::retrying);
    EXPECT_EQ(state(), inbox_state::seen);
    EXPECT_EQ(receive("third").answer, inbox_answer::replaced);
    EXPECT_THAT(claim().deliveries, IsEmpty()) << "it waits as long as it would have";
    clock().advance(10s);
    const auto claimed = claim();
    ASSERT_THAT(claimed.deliveries, SizeIs(1));
    EXPECT_EQ(claimed.deliveries[0].payload, "third");
    EXPECT_EQ(claimed.deliveries[0].attempt, 2);
}

// Proves: INB-03, I7
TEST_P(inbox, a_late_acknowledgement_leaves_it_open)
{
    receive();
    const auto late = claim_one();
    clock().advance(1min);
    EXPECT_EQ(box().reap_expired().retrying, 1U);
    EXPECT_EQ(acknowledge(late), settled_as::lost);
    EXPECT_EQ(state(), inbox_state::seen);
    clock().advance(1min);
    EXPECT_EQ(acknowledge(bob, claim_one(bob)), settled_as::done);
    EXPECT_EQ(state(), inbox_state::done);
}

// Proves: INB-02, INB-03
TEST_P(inbox, a_dead_one_gets_new_content_and_waits_for_its_revival)
{
    const auto id = receive("bad").message;
    EXPECT_FALSE(revive(db(), order)) << "it is not dead";
    EXPECT_EQ(fail(claim_one()), settled_as::dead);
    EXPECT_EQ(state(), inbox_state::dead);
    EXPECT_EQ(look_at().settled_at, now());

    EXPECT_EQ(receive("better").answer, inbox_answer::replaced);
    EXPECT_EQ(state(), inbox_state::dead);
    EXPECT_THAT(claim().deliveries, IsEmpty());

    EXPECT_TRUE(revive(db(), order, 5s));
    EXPECT_EQ(state(), inbox_state::seen);
    EXPECT_FALSE(look_at().settled_at);
    EXPECT_THAT(claim().deliveries, IsEmpty());
    clock().advance(5s);
    const auto claimed = claim();
    ASSERT_THAT(claimed.deliveries, SizeIs(1));
    EXPECT_EQ(claimed.deliveries[0].receipt.id, id);
    EXPECT_EQ(claimed.deliveries[0].payload, "better");
    EXPECT_EQ(acknowledge(claimed.receipts()[0]), settled_as::done);
    EXPECT_EQ(state(), inbox_state::done);
    EXPECT_FALSE(revive(db(), order));
}

// Proves: INB-03, I5
TEST_P(inbox, one_that_kills_its_workers_is_dead)
{
    auto strict = box_with(steady_retries(1s, 1));
    receive();
    EXPECT_EQ(strict.claim(alice).size(), 1U);
    clock().advance(1min);
    EXPECT_EQ(strict.reap_expired().dead, 1U);
    EXPECT_EQ(state(), inbox_state::dead);
    EXPECT_TRUE(revive(db(), order));
    work_off();
    EXPECT_EQ(state(), inbox_state::done);
}

// Proves: INB-02, INB-03, OUT-15
TEST_P(inbox, what_was_put_aside_gets_new_content_and_stays_there)
{
    receive("first");
    const settlement aside{.receipt = claim_one(), .outcome = park(park_reason::no_handler)};
    EXPECT_EQ(box().settle(alice, {&aside, 1}).answers.front(), settled_as::parked);
    EXPECT_EQ(state(), inbox_state::seen);
    EXPECT_EQ(receive("second").answer, inbox_answer::replaced);
    EXPECT_THAT(claim().deliveries, IsEmpty());
    const auto claimed = box().claim(alice, {.unpark = {inbox_topic("orders.placed")}});
    ASSERT_THAT(claimed.deliveries, SizeIs(1));
    EXPECT_EQ(claimed.deliveries[0].payload, "second");
    EXPECT_EQ(claimed.deliveries[0].attempt, 1);
    EXPECT_EQ(acknowledge(claimed.receipts()[0]), settled_as::done);
    EXPECT_EQ(state(), inbox_state::done);
}

// Proves: INB-03
TEST_P(inbox, whoever_redrives_the_message_revives_it)
{
    const auto id = receive().message;
    EXPECT_EQ(fail(claim_one()), settled_as::dead);
    EXPECT_TRUE(redrive(db(), *id));
    EXPECT_EQ(state(), inbox_state::seen);
    EXPECT_EQ(acknowledge(claim_one()), settled_as::done);
    EXPECT_EQ(state(), inbox_state::done);
}

// Proves: INB-02
TEST_P(inbox, what_was_called_off_or_purged_is_enqueued_anew)
{
    const auto first = receive("1");
    EXPECT_EQ(cancel(db(), *first.message), cancel_answer::cancelled);
    EXPECT_EQ(state(), inbox_state::dead);
    EXPECT_FALSE(revive(db(), order)) << "nobody can bring back what was cancelled";

    const auto second = receive("2", {.delivery = {.expires_after = 10s}});
    EXPECT_EQ(second.answer, inbox_answer::added);
    EXPECT_NE(second.message, first.message);
    EXPECT_EQ(state(), inbox_state::seen);
    clock().advance(10s);
    EXPECT_EQ(box().expire_due(), 1U);
    EXPECT_EQ(state(), inbox_state::dead);

    const auto third = receive("3");
    EXPECT_EQ(third.answer, inbox_answer::added);
    EXPECT_EQ(fail(claim_one()), settled_as::dead);
    EXPECT_TRUE(purge(db(), *third.message));
    EXPECT_EQ(state(), inbox_state::dead);

    EXPECT_EQ(receive("4").answer, inbox_answer::added);
    const auto claimed = claim();
    ASSERT_THAT(claimed.deliveries, SizeIs(1));
    EXPECT_EQ(claimed.deliveries[0].payload, "4");
    EXPECT_EQ(acknowledge(claimed.receipts()[0]), settled_as::done);
    EXPECT_EQ(state(), inbox_state::done);
}

// Proves: INB-03, I7
TEST_P(inbox, it_remembers_longer_than_the_queue)
{
    receive();
    work_off();
    clock().advance(24h * 8);
    EXPECT_EQ(clean(db()).finished, 1U);
    EXPECT_EQ(total(), 0U);
    EXPECT_EQ(state(), inbox_state::done);
    EXPECT_EQ(receive().answer, inbox_answer::known);

    clock().advance(24h * 22);
    const auto cleaned = clean(db());
    EXPECT_EQ(cleaned.inbox, 1U);
    EXPECT_FALSE(find_inbound(db(), order));
    EXPECT_EQ(receive().answer, inbox_answer::added);
}

// Proves: INB-03
TEST_P(inbox, only_what_is_done_is_ever_removed_and_a_few_at_a_time)
{
    for (int i = 0; i < 5; ++i)
        enqueue_inbound(db(), {"shop", std::to_string(i)}, {"orders.placed", ""});
    work_off(3);
    EXPECT_EQ(fail(claim(1).receipts().front()), settled_as::dead);
    clock().advance(24h * 31);
    EXPECT_EQ(clean(db(), {.batch = 2}, 1).inbox, 2U);
    EXPECT_EQ(clean(db(), {.batch = 2}).inbox, 1U);
    EXPECT_EQ(look_at({"shop", "3"}).state, inbox_state::dead);
    EXPECT_EQ(look_at({"shop", "4"}).state, inbox_state::seen);
}

// Proves: INB-03, I7
TEST_P(inbox, a_worker_that_forgets_what_is_done_forgets_nothing_here)
{
    auto forgetful = box_with({.keep_done = false});
    receive();
    const auto claimed = forgetful.claim(alice);
    EXPECT_EQ(forgetful.acknowledge(alice, claimed.receipts()).settled(), 1U);
    EXPECT_EQ(total(), 0U);
    EXPECT_EQ(state(), inbox_state::done);
    EXPECT_EQ(receive().answer, inbox_answer::known);
}

// Proves: INB-01
TEST_P(inbox, another_content_is_a_warning_and_nothing_more)
{
    EXPECT_FALSE(receive("1", {.content_hash = "one"}).hash_differs);
    EXPECT_FALSE(receive("1", {.content_hash = "one"}).hash_differs);
    EXPECT_FALSE(receive("1").hash_differs) << "none given: nothing to compare";
    EXPECT_EQ(logged("another content"), 0U);
    const auto waiting = receive("2", {.content_hash = "two"});
    EXPECT_EQ(waiting.answer, inbox_answer::replaced);
    EXPECT_TRUE(waiting.hash_differs);
    EXPECT_EQ(logged("another content"), 1U);
    work_off();
    const auto done = receive("3", {.content_hash = "three"});
    EXPECT_EQ(done.answer, inbox_answer::known);
    EXPECT_TRUE(done.hash_differs);
    EXPECT_TRUE(already_processed(db(), order, "four"));
    EXPECT_EQ(logged("another content"), 3U);
    EXPECT_EQ(look_at().content_hash, "one");
}

// Proves: INB-02, OUT-06
TEST_P(inbox, a_replaced_one_keeps_its_turn_among_its_key)
{
    const inbox_options keyed{.delivery = {.ordering_key = "customer"}};
    enqueue_inbound(db(), {"shop", "a"}, {"orders.placed", "a1"}, keyed);
    enqueue_inbound(db(), {"shop", "b"}, {"orders.placed", "b1"}, keyed);
    enqueue_inbound(db(), {"shop", "c"}, {"orders.placed", "c1"}, keyed);
    EXPECT_EQ(enqueue_inbound(db(), {"shop", "b"}, {"orders.placed", "b2"}, keyed).answer,
              inbox_answer::replaced);
    EXPECT_EQ(enqueue_inbound(db(), {"shop", "a"}, {"orders.placed", "a2"}, keyed).answer,
              inbox_answer::replaced);
    std::vector<std::string> seen;
    for (int i = 0; i < 3; ++i) {
        const auto claimed = claim();
        ASSERT_THAT(claimed.deliveries, SizeIs(1));
        seen.push_back(claimed.deliveries[0].payload);
        EXPECT_EQ(acknowledge(claimed.receipts()[0]), settled_as::done);
    }
    EXPECT_THAT(seen, ::testing::ElementsAre("a2", "b2", "c1"));
}

// Proves: INB-02
TEST_P(inbox, it_is_due_when_its_delivery_says_so)
{
    receive("later", {.delivery = {.priority = 5, .delay = 1h}});
    EXPECT_THAT(claim().deliveries, IsEmpty());
    clock().advance(1h);
    const auto claimed = claim();
    ASSERT_THAT(claimed.deliveries, SizeIs(1));
    EXPECT_EQ(claimed.deliveries[0].priority, 5);
}

// Proves: INB-03, MDB-03, OUT-19, I7
TEST_P(inbox, workers_handle_it_as_they_handle_everything)
{
    int handled = 0;
    worker own(db(), {.concurrency = 1});
    own.handle(inbox_topic("orders.*"), [&](transactional_delivery<>& which) {
        ++handled;
        enqueue(which.tx(), {"effect", which.payload()});
    });
    own.handle("effect", [](const delivery_view&) {});
    receive();
    receive();
    own.process_outbox();
    receive();
    own.process_outbox();
    EXPECT_EQ(handled, 1);
    EXPECT_EQ(list_messages(db(), {.topic = "effect"}).size(), 1U);
    EXPECT_EQ(state(), inbox_state::done);
}

// Proves: INB-03, JOIN-014
TEST_P(inbox, it_can_be_a_member_of_a_join)
{
    const auto join = open_join(db(), {.expected = 1, .on_complete = message{"next", ""}});
    EXPECT_EQ(receive("x", {.delivery = {.join = join}}).answer, inbox_answer::added);
    EXPECT_EQ(acknowledge(claim_one()), settled_as::done);
    EXPECT_EQ(find_join(db(), join)->state, join_state::completed);
    EXPECT_EQ(state(), inbox_state::done);
}

// Proves: INB-01
TEST_P(inbox, names_out_of_bounds_are_refused_before_anything_is_written)
{
    const auto refused = [&](const inbound& from, const message& what, const inbox_options& how) {
        return thrown_by([&] { enqueue_inbound(db(), from, what, how); }).code();
    };
    const message fine{"orders.placed", ""};
    EXPECT_EQ(refused({"", "1"}, fine, {}), error_code::invalid_argument);
    EXPECT_EQ(refused({"shop", ""}, fine, {}), error_code::invalid_argument);
    EXPECT_EQ(refused({std::string(256, 's'), "1"}, fine, {}), error_code::invalid_argument);
    EXPECT_EQ(refused({"shop", std::string(256, 'i')}, fine, {}), error_code::invalid_argument);
    EXPECT_EQ(refused({"shop", "\xff"}, fine, {}), error_code::invalid_argument);
    EXPECT_EQ(refused(order, {"", ""}, {}), error_code::invalid_argument);
    EXPECT_EQ(refused(order, {std::string(495, 't'), ""}, {}), error_code::invalid_argument);
    EXPECT_EQ(refused(order, fine, {.content_hash = std::string(256, 'h')}),
              error_code::invalid_argument);
    EXPECT_EQ(refused(order, fine, {.delivery = {.dedup_key = "k"}}), error_code::invalid_argument);
    EXPECT_EQ(total(), 0U);
    EXPECT_THAT(list_inbound(db()), IsEmpty());
    EXPECT_EQ(enqueue_inbound(db(), {std::string(255, 's'), std::string(255, 'i')},
                              {std::string(494, 't'), ""}, {.content_hash = std::string(255, 'h')})
                  .answer,
              inbox_answer::added);
}

// Proves: INB-01
TEST_P(inbox, it_can_be_listed_by_state_and_source_page_by_page)
{
    for (const auto* id : {"1", "2", "3"})
        enqueue_inbound(db(), {"shop", id}, {"orders.placed", ""});
    mark_dead(db(), {"bank", "1"});
    mark_processing(db(), {"bank", "2"});
    work_off(1);

    const auto first = list_inbound(db(), {.limit = 2});
    ASSERT_THAT(first, SizeIs(2));
    EXPECT_EQ(first[0].from, (inbound{"shop", "1"}));
    EXPECT_EQ(first[0].state, inbox_state::done);
    const auto rest = list_inbound(db(), {.after_position = first[1].position});
    ASSERT_THAT(rest, SizeIs(3));
    EXPECT_EQ(rest[0].from, (inbound{"shop", "3"}));
    EXPECT_THAT(list_inbound(db(), {.source = "bank"}), SizeIs(2));
    EXPECT_THAT(list_inbound(db(), {.state = inbox_state::seen}), SizeIs(2));
    EXPECT_THAT(list_inbound(db(), {.state = inbox_state::done}), SizeIs(1));
    EXPECT_THAT(list_inbound(db(), {.state = inbox_state::dead, .source = "shop"}), IsEmpty());
    EXPECT_THAT(list_inbound(db(), {.state = inbox_state::processing}), SizeIs(1));
}

// Proves: COR-05, COR-06, INB-01
TEST_P(inbox, a_trace_goes_through_to_what_the_handler_enqueues)
{
    constexpr auto theirs = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    constexpr auto ours = "00-11111111111111111111111111111111-2222222222222222-01";
    const auto trace_of = [](const headers& from) { return from.at("traceparent").substr(3, 32); };
    const auto first = receive("given", {.delivery = {.headers = {{"traceparent", theirs}}}});
    EXPECT_EQ(look(*first.message).headers.at("traceparent"), theirs) << "it is the sender's span";
    const inbound other{.source = "shop", .id = "4712"};
    {
        const auto scope = correlation_scope::begin_from(
            {.id = "order-7", .cause = "a click", .traceparent = ours});
        (void)enqueue_inbound(db(), other, {"orders.placed", "inherited"});
        (void)enqueue_inbound(db(), {.source = "shop", .id = "4713"}, {"orders.placed", "given"},
                              {.delivery = {.headers = {{"traceparent", theirs}}}});
    }
    worker own(db(), {.concurrency = 1});
    own.handle(inbox_topic("orders.placed"), [](transactional_delivery<>& which) {
        enqueue(which.tx(), {"receipts", which.payload()}, {.delay = 1h});
    });
    own.process_outbox();
    std::size_t seen = 0;
    for (const auto& each : list_messages(db(), {.topic = "receipts", .with_payload = true})) {
        const bool given = each.payload == "given";
        EXPECT_EQ(trace_of(each.headers), std::string(given ? theirs : ours).substr(3, 32));
        ++seen;
    }
    EXPECT_EQ(seen, 3U);
    EXPECT_EQ(trace_messages(db(), "order-7").messages.size(), 4U);
    EXPECT_EQ(trace_messages(db(), to_string(*first.message)).messages.size(), 2U);
}

CONFORMANCE_SUITE(inbox);

} // namespace posthorn::conformance
