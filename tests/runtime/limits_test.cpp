// How many handlers run at once: in all, per topic, per key; and messages that are better left
// alone.
#include "runtime/worker_test.hpp"

#include <atomic>

namespace posthorn::conformance {
namespace {

using ::testing::Each;

class worker_limits : public worker_test {
protected:
    /// Runs a worker until these are done, while time goes by.
    void run_until_done(worker& one, const std::vector<message_id>& ids, duration step = 0s)
    {
        background running(one);
        EXPECT_TRUE(eventually([&] {
            const auto states = states_of(ids);
            // While a worker has one in hand time stands still, or its lease would be over.
            if (std::ranges::find(states, message_state::claimed) == states.end())
                clock().advance(step);
            return std::ranges::all_of(states,
                                       [](auto state) { return state == message_state::done; });
        }));
    }
};

// Proves: OUT-10
TEST_P(worker_limits, as_many_handlers_run_at_once_as_allowed_and_never_more)
{
    const auto ids = add_many(40);
    crowd inside;
    worker one(db(), steady(4));
    one.handle("orders", [&](const delivery_view&) {
        inside.enter();
        EXPECT_TRUE(eventually([&] { return inside.most() >= 4; }));
        inside.leave();
    });
    EXPECT_EQ(one.process_outbox().done, 40U);
    EXPECT_EQ(inside.most(), 4U);
    EXPECT_THAT(states_of(ids), Each(message_state::done));
}

// Proves: OUT-10
TEST_P(worker_limits, a_topic_at_its_limit_lets_others_go_on_and_is_worked_off_completely)
{
    const auto mail = add_many(20, "mail");
    const auto orders = add_many(20, "orders");
    crowd inside;
    std::atomic<int> orders_left = 20;
    std::atomic<int> rewritten = 0;
    auto options = steady(6);
    options.on.settled = [&](const delivery_view&, settled_as answer) {
        if (answer == settled_as::parked || answer == settled_as::released)
            ++rewritten;
    };
    worker one(db(), options);
    one.handle("mail",
               [&](const delivery_view&) {
                   inside.enter();
                   EXPECT_TRUE(eventually([&] { return orders_left == 0; }));
                   inside.leave();
               },
               {.concurrency = 2});
    one.handle("orders", [&](const delivery_view&) { --orders_left; });
    EXPECT_EQ(one.process_outbox().done, 40U);
    EXPECT_LE(inside.most(), 2U);
    EXPECT_LE(rewritten, 60);
    EXPECT_THAT(states_of(mail), Each(message_state::done));
    EXPECT_THAT(states_of(orders), Each(message_state::done));
    EXPECT_EQ(look(mail.back()).attempts, 1);
}

TEST_P(worker_limits, topics_that_are_handled_together_share_one_limit)
{
    auto ids = add_many(10, "mail.in");
    for (const auto& each : add_many(10, "mail.out"))
        ids.push_back(each);
    for (const auto& each : add_many(10, "letters"))
        ids.push_back(each);
    crowd inside;
    worker one(db(), steady(6));
    one.handle(std::vector<std::string>{"mail.*", "mail.out", "letters"},
               [&](const delivery_view&) {
                   inside.enter();
                   EXPECT_TRUE(eventually([&] { return inside.most() >= 2; }));
                   inside.leave();
               },
               {.concurrency = 2});
    EXPECT_EQ(one.process_outbox().done, 30U);
    EXPECT_EQ(inside.most(), 2U);
    EXPECT_THAT(states_of(ids), Each(message_state::done));
}

TEST_P(worker_limits, topics_that_are_handled_together_share_the_limit_of_a_group)
{
    auto ids = add_many(6, "mail");
    for (const auto& each : add_many(6, "letters"))
        ids.push_back(each);
    crowd inside;
    worker one(db(), steady(6));
    one.handle(std::vector<std::string>{"mail", "letters"},
               [&](const delivery_view&) {
                   inside.enter();
                   inside.leave();
               },
               {.per_key = 1, .key = [](const delivery&) { return std::string("one"); }});
    run_until_done(one, ids, 10ms);
    EXPECT_EQ(inside.most(), 1U);
}

TEST_P(worker_limits, a_handler_with_its_fill_of_bytes_lets_others_go_on)
{
    std::vector<message_id> large;
    for (int i = 0; i < 8; ++i)
        large.push_back(enqueue(db(), {"large", std::string(100, 'x')}).id);
    const auto orders = add_many(8, "orders");
    crowd inside;
    std::atomic<int> orders_left = 8;
    auto options = steady(100);
    worker one(db(), options);
    one.handle("large",
               [&](const delivery_view&) {
                   inside.enter();
                   EXPECT_TRUE(eventually([&] { return orders_left == 0; }));
                   inside.leave();
               },
               {.payload_bytes_max = 250});
    one.handle("orders", [&](const delivery_view&) { --orders_left; });
    EXPECT_EQ(one.process_outbox().done, 16U);
    EXPECT_LE(inside.most(), 3U) << "as long as a byte is free one more may begin";
    EXPECT_THAT(states_of(large), Each(message_state::done));
}

// On the real clock: whoever ends lets the next one in, and nobody waits for the next look.
TEST_P(worker_limits, a_topic_at_its_limit_goes_on_as_soon_as_one_of_it_ends)
{
    auto real = under_test().open({});
    std::atomic<int> handled = 0;
    auto options = steady(6);
    options.look_at_least_every = 120s;
    worker one(real, options);
    const auto count = [&](const delivery_view&) { ++handled; };
    one.handle("mail", count, {.concurrency = 1});
    enqueue(real, std::vector<outgoing>(10, {.message = {.topic = "mail", .payload = ""}}));
    background running(one);
    EXPECT_TRUE(eventually([&] { return handled == 10; }));
    EXPECT_EQ(running.end().done, 10U);
}

// Proves: OUT-10
TEST_P(worker_limits, no_more_of_a_group_run_at_once_than_allowed)
{
    std::vector<message_id> ids;
    for (int i = 0; i < 12; ++i)
        ids.push_back(enqueue(db(), {"mail", i % 2 == 0 ? "a" : "b"}).id);
    std::map<std::string, crowd> inside;
    inside["a"];
    inside["b"];
    crowd all;
    worker one(db(), steady(6));
    one.handle("mail",
               [&](const delivery_view& which) {
                   auto& group = inside.at(which.payload());
                   group.enter();
                   all.enter();
                   EXPECT_TRUE(eventually([&] { return all.most() == 2; }));
                   all.leave();
                   group.leave();
               },
               {.per_key = 1, .key = [](const delivery& which) { return which.payload; }});
    run_until_done(one, ids, 10ms);
    EXPECT_EQ(inside["a"].most(), 1U);
    EXPECT_EQ(inside["b"].most(), 1U);
    EXPECT_EQ(look(ids.back()).attempts, 1);
}

// Proves: OUT-12, OPS-01
TEST_P(worker_limits, what_waits_for_a_limit_counts_as_ready_since_it_is_due)
{
    const auto by_topic = add_many(4, "mail");
    const auto by_group = add_many(4, "letters");
    clock().advance(1min);
    gate doors;
    worker one(db(), steady(6));
    const auto handler = [&](const delivery_view&) { EXPECT_TRUE(doors.pass()); };
    one.handle("mail", handler, {.concurrency = 1});
    one.handle("letters", handler,
               {.per_key = 1, .key = [](const delivery&) { return std::string("one"); }});
    {
        background running(one);
        EXPECT_TRUE(eventually([&] {
            const auto now = count_messages(db());
            return now.claimed == 2 && now.ready == 6 && look(by_topic[3]).parked_for &&
                   look(by_group[3]).parked_for;
        })) << "all of them have been met, and two run";
        const auto stats = count_messages(db());
        EXPECT_EQ(stats.parked, 0);
        EXPECT_EQ(stats.delayed, 0);
        EXPECT_GE(stats.oldest_ready, 1min);
        EXPECT_EQ(state_of(by_topic[3]), message_state::ready);
        EXPECT_EQ(state_of(by_group[3]), message_state::ready);
        EXPECT_EQ(look(by_group[3]).due_at, look(by_group[3]).created_at);
        doors.open();
    }
    EXPECT_EQ(one.process_outbox().parked, 0U);
    EXPECT_THAT(states_of(by_topic), Each(message_state::done));
    EXPECT_THAT(states_of(by_group), Each(message_state::done));
    EXPECT_EQ(look(by_group[3]).attempts, 1);
}

// On the real clock. Its group was full when it came, and is free now; those before it still wait.
// Proves: OUT-10, OUT-15
TEST_P(worker_limits, a_free_group_is_found_behind_many_of_a_full_one)
{
    auto real = under_test().open({});
    const auto state = [&](message_id id) { return find_message(real, id)->state; };
    const auto is_aside = [&](message_id id) {
        return find_message(real, id)->parked_for == park_reason::at_limit;
    };
    const auto crowded =
        enqueue(real, std::vector<outgoing>(40, {.message = {.topic = "mail", .payload = "many"}}));
    const auto first = enqueue(real, {"mail", "few"}).id;
    gate many;
    gate few;
    worker one(real, steady(3));
    one.handle("mail",
               [&](const delivery_view& which) {
                   EXPECT_TRUE((which.payload() == "few" ? few : many).pass());
               },
               {.per_key = 1, .key = [](const delivery& which) { return which.payload; }});
    background running(one);
    EXPECT_TRUE(eventually([&] { return many.arrived() == 1 && few.arrived() == 1; }));
    const auto second = enqueue(real, {"mail", "few"}).id;
    EXPECT_TRUE(eventually([&] { return is_aside(second) && is_aside(crowded.back().id); }));
    few.open();
    EXPECT_TRUE(eventually([&] {
        return state(first) == message_state::done && state(second) == message_state::done;
    }));
    EXPECT_EQ(many.arrived(), 1U);
    many.open();
    EXPECT_TRUE(eventually([&] { return count_messages(real).done == 42; }));
}

TEST_P(worker_limits, a_key_function_that_throws_fails_its_message_and_nobody_else)
{
    const auto good = enqueue(db(), {"mail", "good"}).id;
    const auto bad = enqueue(db(), {"mail", "bad"}).id;
    const auto last = enqueue(db(), {"mail", "last"}).id;
    const auto key = [](const delivery& which) {
        if (which.payload == "bad")
            throw std::runtime_error("no group");
        return which.payload;
    };
    worker one(db(), steady());
    one.handle("mail", [](const delivery_view&) {}, {.per_key = 1, .key = key});
    EXPECT_EQ(one.process_outbox().done, 2U);
    EXPECT_THAT(states_of({good, last}), Each(message_state::done));
    EXPECT_EQ(look(bad).last_error, "no group");
}

CONFORMANCE_SUITE(worker_limits);

class suspects : public worker_test {
protected:
    /// A message that was running when its worker died, and is due again.
    message_id add_suspect()
    {
        const auto id = add("suspect");
        EXPECT_EQ(claim().size(), 1U);
        clock().advance(31s);
        EXPECT_EQ(box().reap_expired().retrying, 1U);
        clock().advance(1h);
        return id;
    }
};

// Proves: I5
TEST_P(suspects, are_handled_with_nothing_beside_them)
{
    for (const bool in_company : {true, false}) {
        const auto id = add_suspect();
        std::vector<message_id> others;
        if (in_company)
            others = add_many(6);
        crowd inside;
        worker one(db(), steady(4));
        one.handle("orders", [&](const delivery_view&) {
            inside.enter();
            inside.leave();
        });
        one.handle("suspect", [&](const delivery_view&) {
            inside.enter();
            const auto temptation = add("orders");
            for (int i = 0; i < 50; ++i)
                EXPECT_EQ(state_of(temptation), message_state::ready);
            EXPECT_EQ(inside.inside(), 1U);
            inside.leave();
            others.push_back(temptation);
        });
        EXPECT_EQ(one.process_outbox().done, in_company ? 8U : 2U);
        EXPECT_EQ(look(id).attempts, 2);
        EXPECT_THAT(states_of(others), Each(message_state::done));
    }
}

TEST_P(suspects, are_only_those_whose_worker_died)
{
    add_many(4);
    crowd inside;
    const auto report = pass(
        [&](const delivery_view& which) {
            if (which.attempt() == 1)
                return retry_in(0s, "an error of its own");
            inside.enter();
            EXPECT_TRUE(eventually([&] { return inside.most() == 4; }));
            inside.leave();
            return done();
        },
        steady(4));
    EXPECT_EQ(report.done, 4U);
}

CONFORMANCE_SUITE(suspects);

} // namespace
} // namespace posthorn::conformance
