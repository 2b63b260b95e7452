// Workers and joins: nobody registers anything, what waits for a join costs nothing while it waits,
// and many stores have joins of their own.
#include "joins/joining_test.hpp"
#include <posthorn/worker.hpp>

#include <atomic>
#include <mutex>

namespace posthorn::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

class join_workers : public joining<conformance_test> {
protected:
    /// A worker that handles everything, and remembers the topics.
    worker make_worker(worker_options how = {})
    {
        how.concurrency = 2;
        worker result(db(), std::move(how));
        result.handle("*", [this](const delivery_view& which) {
            const std::lock_guard lock(mutex_);
            handled_.push_back(which.topic());
            return which.payload() == "fails" ? posthorn::fail("as it was told") : done();
        });
        return result;
    }

    std::vector<std::string> handled()
    {
        const std::lock_guard lock(mutex_);
        return handled_;
    }

private:
    std::mutex mutex_;
    std::vector<std::string> handled_;
};

// Proves: JOIN-014, JOIN-018, JOIN-019
TEST_P(join_workers, count_without_being_told_to)
{
    const auto good = open(3);
    add_many_to(good, 3);
    const auto bad = open(2);
    add_to(bad);
    enqueue(db(), {"orders", "fails"}, {.join = bad});
    auto own = make_worker();
    EXPECT_EQ(own.process_outbox().done, 6U)
        << "five members, of which one dies, two continuations";
    EXPECT_EQ(end_of(good), join_state::completed);
    EXPECT_EQ(end_of(bad), join_state::failed);
    EXPECT_EQ(enqueued_of(complete_topic), 1U);
    EXPECT_EQ(enqueued_of(fail_topic), 1U);
}

// Proves: JOIN-002, JOIN-014
TEST_P(join_workers, transactional_handlers_are_counted_with_their_effects)
{
    const auto join = open(2);
    add_many_to(join, 2);
    worker own(db(), {.concurrency = 1});
    join_id inner;
    own.handle("orders", [&](transactional_delivery<>& which) {
        inner = open_join(which.tx(), {.expected = 1, .on_complete = message{"inner.done", ""}});
        enqueue(which.tx(), {"step", ""}, {.join = inner});
    });
    own.handle("*", [](const delivery_view&) {});
    own.process_outbox();
    EXPECT_EQ(end_of(join), join_state::completed);
    EXPECT_EQ(end_of(inner), join_state::completed);
    EXPECT_EQ(enqueued_of("inner.done"), 2U);
    EXPECT_EQ(continuations(), 1U);
}

// Proves: JOIN-015, JOIN-016, JOIN-018, I5
TEST_P(join_workers, what_waits_for_hours_burns_no_attempt)
{
    const auto join = open_join(db(), {.expected = 3});
    const auto wait = enqueue_join_wait(db(), {.join = join,
                                               .on_complete = message{complete_topic, "well"},
                                               .on_fail = message{fail_topic, "badly"}});
    for (int hours = 1; hours <= 3; ++hours)
        add_to(join, {.delay = std::chrono::hours{hours}});
    auto own = make_worker();
    for (int i = 0; i < 12; ++i) {
        own.process_outbox();
        EXPECT_EQ(state_of(wait.id), message_state::waiting);
        EXPECT_EQ(look(wait.id).attempts, 0);
        clock().advance(15min);
    }
    own.process_outbox();
    const auto ended = look(wait.id);
    EXPECT_EQ(ended.state, message_state::done);
    EXPECT_EQ(ended.attempts, 1);
    EXPECT_EQ(ended.errors, 0);
    EXPECT_EQ(end_of(join), join_state::completed);
    EXPECT_THAT(handled(), ElementsAre("orders", "orders", "orders", complete_topic))
        << "the wait itself is nobody else's to handle";
}

// Proves: JOIN-016, JOIN-017, JOIN-018, JOIN-019
TEST_P(join_workers, a_wait_gets_the_answer_of_its_own_flag)
{
    struct combination {
        bool of_join;
        bool of_wait;
        std::string sent;
        join_state state;
    };
    const std::vector<combination> all{
        {true, true, "failed.0", join_state::failed},
        {true, false, "done.1", join_state::failed},
        {false, true, "failed.2", join_state::failed},
        {false, false, "done.3", join_state::completed},
    };
    std::vector<join_id> joins;
    for (const auto& each : all) {
        const auto number = std::to_string(joins.size());
        const auto join = open_join(
            db(), {.expected = 2, .fail_if_any_step_failed = each.of_join, .grouping_key = "all"});
        joins.push_back(join);
        enqueue_join_wait(db(), {.join = join,
                                 .fail_if_any_step_failed = each.of_wait,
                                 .on_complete = message{"done." + number, "1"},
                                 .on_fail = message{"failed." + number, "2"}});
        add_to(join);
        enqueue(db(), {"orders", "fails"}, {.join = join});
    }
    auto own = make_worker();
    own.process_outbox();
    for (std::size_t i = 0; i < all.size(); ++i) {
        SCOPED_TRACE(i);
        const auto number = std::to_string(i);
        EXPECT_EQ(enqueued_of(all[i].sent), 1U);
        EXPECT_EQ(enqueued_of("done." + number) + enqueued_of("failed." + number), 1U);
        EXPECT_EQ(end_of(joins[i]), all[i].state);
        EXPECT_EQ(look_at(joins[i]).failed, 1);
    }
    EXPECT_EQ(list_messages(db(), {.topic = "failed.2", .with_payload = true})[0].payload, "2");
}

// Proves: JOIN-017, JOIN-018, JOIN-019
TEST_P(join_workers, two_waits_for_one_join_each_get_their_own_answer)
{
    for (const bool of_join : {true, false}) {
        SCOPED_TRACE(of_join);
        const std::string name = of_join ? "strict." : "tolerant.";
        const auto join = open_join(db(), {.expected = 2, .fail_if_any_step_failed = of_join});
        const auto wait = [&](bool strict) {
            const auto who = name + (strict ? "strict." : "tolerant.");
            enqueue_join_wait(db(), {.join = join,
                                     .fail_if_any_step_failed = strict,
                                     .on_complete = message{who + "done", ""},
                                     .on_fail = message{who + "failed", ""}});
        };
        wait(true);
        wait(false);
        add_to(join);
        enqueue(db(), {"orders", "fails"}, {.join = join});
        auto own = make_worker();
        own.process_outbox();
        wait(false); // it finds a join that a wait has marked failed
        own.process_outbox();
        EXPECT_EQ(enqueued_of(name + "strict.failed"), 1U);
        EXPECT_EQ(enqueued_of(name + "strict.done"), 0U);
        EXPECT_EQ(enqueued_of(name + "tolerant.done"), 2U);
        EXPECT_EQ(enqueued_of(name + "tolerant.failed"), 0U);
        EXPECT_EQ(end_of(join), join_state::failed);
    }
}

// Proves: JOIN-017, JOIN-023
TEST_P(join_workers, the_flag_of_a_wait_forgives_no_deadline_cancel_or_missed_number)
{
    const auto tolerant = [&](join_id join) {
        enqueue_join_wait(db(), {.join = join,
                                 .fail_if_any_step_failed = false,
                                 .on_complete = message{complete_topic, ""},
                                 .on_fail = message{fail_topic, ""}});
        return join;
    };
    tolerant(open_join(db(), {.expected = 1, .deadline = 1h}));
    cancel_join(db(), tolerant(open_join(db(), {.expected = 1})));
    const auto missed = tolerant(open_join(db(), {.expected = 1, .needed = 1}));
    enqueue(db(), {"orders", "fails"}, {.join = missed});
    auto own = make_worker();
    own.process_outbox();
    clock().advance(1h);
    own.process_outbox();
    EXPECT_EQ(enqueued_of(fail_topic), 3U);
    EXPECT_EQ(enqueued_of(complete_topic), 0U);

    const auto reached = open_join(db(), {.expected = 2, .needed = 1});
    enqueue_join_wait(db(), {.join = reached, .on_complete = message{complete_topic, ""}});
    enqueue(db(), {"orders", "fails"}, {.join = reached});
    own.process_outbox();
    add_to(reached);
    own.process_outbox();
    EXPECT_EQ(enqueued_of(complete_topic), 1U);
    EXPECT_EQ(end_of(reached), join_state::completed);
}

// Proves: JOIN-016, JOIN-023
TEST_P(join_workers, a_wait_never_hangs_whatever_ends_its_join)
{
    const auto waited = [&](const join_options& how) {
        const auto join = open_join(db(), how);
        enqueue_join_wait(db(), {.join = join, .on_fail = message{fail_topic, ""}});
        return join;
    };
    const auto cancelled = waited({.expected = 1});
    const auto too_late = waited({.expected = 1, .deadline = 1h});
    const auto has_ended = open_join(db(), join_options{});
    seal_join(db(), has_ended);
    enqueue_join_wait(db(), {.join = has_ended, .on_complete = message{complete_topic, ""}});
    EXPECT_TRUE(cancel_join(db(), cancelled));
    auto own = make_worker();
    own.process_outbox();
    EXPECT_EQ(enqueued_of(fail_topic), 1U);
    EXPECT_EQ(enqueued_of(complete_topic), 1U) << "it did not have to wait";
    clock().advance(1h);
    own.process_outbox();
    EXPECT_EQ(end_of(too_late), join_state::failed);
    EXPECT_EQ(enqueued_of(fail_topic), 2U);
    EXPECT_EQ(count_messages(db()).waiting, 0);
}

// Proves: JOIN-023
TEST_P(join_workers, a_worker_that_sleeps_meets_the_deadline)
{
    const auto join = open({.expected = 1, .deadline = 10min});
    auto own = make_worker();
    own.process_outbox();
    EXPECT_EQ(end_of(join), join_state::pending);
    clock().advance(10min);
    own.process_outbox();
    EXPECT_EQ(end_of(join), join_state::failed);
    EXPECT_THAT(handled(), ElementsAre(fail_topic));
}

// Proves: JOIN-025
TEST_P(join_workers, each_of_many_stores_has_joins_of_its_own)
{
    const auto other = GetParam().make();
    auto second = other->open({.environment = world()});
    const auto both = stores({{.name = "one", .at = db()}, {.name = "two", .at = second}});
    join_router router(both);
    const auto one =
        router.open("one", {.expected = 1, .on_complete = message{complete_topic, ""}});
    const auto two =
        router.open("two", {.expected = 1, .on_complete = message{complete_topic, ""}});
    add_to(one);
    const auto there = enqueue(second, {"orders", ""}).id;
    EXPECT_EQ(router.attach("two", two, there), attach_answer::attached);
    EXPECT_FALSE(router.find("one", two)) << "a join is where it was opened";
    const auto found = router.find(two);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->store, "two");
    EXPECT_EQ(found->join.attached, 1);
    EXPECT_EQ(thrown_by([&] { (void)router.open("three", {.expected = 1}); }).code(),
              error_code::not_found);

    worker all(both, {.concurrency = 2});
    all.handle("*", [](const delivery_view&) {});
    all.run({}, {.until_empty = true});
    EXPECT_EQ(router.find("one", one)->state, join_state::completed);
    EXPECT_EQ(router.find("two", two)->state, join_state::completed);
    EXPECT_EQ(enqueued_of(complete_topic), 1U);
    EXPECT_THAT(list_messages(second, {.topic = complete_topic}), SizeIs(1));
    const auto third = router.open("two", {.expected = 1});
    EXPECT_TRUE(router.cancel("two", third));
}

CONFORMANCE_SUITE(join_workers);

} // namespace
} // namespace posthorn::conformance
