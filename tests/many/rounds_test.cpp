// One worker for many stores does what a worker does for one: outcomes, limits, order, stopping.
#include "many/many_test.hpp"
#include "many/process_cost.hpp"
#include <posthorn/dead_letters.hpp>
#include <posthorn/pauses.hpp>

#include <atomic>

namespace posthorn::test {
namespace {

// Proves: MDB-02, MDB-07
TEST(rounds, every_message_of_every_store_is_handled_once)
{
    tenants all;
    const auto list = all.add_many(20);
    for (const auto& each : list)
        all.send_many(each.name, 25);
    worker one(stores(list, {.open_files_max = 4}), {.concurrency = 8});
    tally seen;
    one.handle("orders", [&](const delivery_view& view) {
        EXPECT_EQ(view.store(), view.payload());
        seen.add(view.store());
    });
    EXPECT_EQ(one.run({}, {.until_empty = true}).done, 500U);
    for (const auto& each : list) {
        EXPECT_EQ(seen.of(each.name), 25U);
        EXPECT_EQ(all.count(each.name).done, 25);
    }
}

// Proves: I5, MDB-02
TEST(rounds, a_message_that_may_have_killed_its_worker_has_nothing_of_any_store_beside_it)
{
    tenants all;
    const auto list = all.add_many(3);
    const auto suspect = all.send("tenant-0", "suspect");
    auto first = posthorn::open(list[0].url);
    outbox_options quickly;
    quickly.retries.fallback = exponential_retry{.first = 1ms, .cap = 1ms};
    outbox box(first, quickly);
    const auto dead = owner::create("dead", *first.environment().random);
    ASSERT_EQ(box.claim(dead, {.lease = 1ms}).size(), 1U);
    ASSERT_TRUE(eventually([&] { return box.reap_expired().retrying == 1; }));
    for (const auto& each : list)
        all.send_many(each.name, 20);
    worker one(stores(list), {.concurrency = 4});
    conformance::crowd inside;
    const auto visit = [&](const auto& meanwhile) {
        inside.enter();
        meanwhile();
        inside.leave();
    };
    one.handle("orders", [&](const delivery_view&) { visit([] {}); });
    one.handle("suspect", [&](const delivery_view&) {
        visit([&] {
            all.send_many("tenant-1", 1);
            for (int i = 0; i < 50; ++i)
                EXPECT_GE(all.count("tenant-1").ready, 1);
            EXPECT_EQ(inside.inside(), 1U);
        });
    });
    EXPECT_EQ(one.run({}, {.until_empty = true}).done, 62U);
    EXPECT_EQ(find_message(first, suspect)->attempts, 2);
}

// Proves: MDB-02
TEST(rounds, outcomes_are_those_of_a_worker_with_one_store)
{
    tenants all;
    const auto list = all.add_many(2);
    const auto failing = all.send("tenant-0", "fails");
    const auto trying = all.send("tenant-0", "again");
    const auto unknown = all.send("tenant-1", "nobody's");
    const auto inside = all.send("tenant-1", "inside");
    worker one(stores(list));
    one.handle("fails", [](const delivery_view&) { return fail("no such customer"); });
    one.handle("again", [](const delivery_view&) { return retry_in(1h, "not yet"); });
    one.handle("inside", [](transactional_delivery<>& d) {
        enqueue(d.tx(), {"later", ""}, {.delay = 1h});
    });
    const auto report = one.process_outbox();
    EXPECT_EQ(report.done, 1U);
    EXPECT_EQ(report.dead, 1U);
    EXPECT_EQ(report.retrying, 1U);
    EXPECT_EQ(report.parked, 1U);
    auto first = posthorn::open(list[0].url);
    auto second = posthorn::open(list[1].url);
    EXPECT_EQ(find_message(first, failing)->state, message_state::dead);
    EXPECT_EQ(find_message(first, trying)->last_error, "not yet");
    EXPECT_EQ(find_message(second, unknown)->state, message_state::parked);
    EXPECT_EQ(find_message(second, inside)->state, message_state::done);
    EXPECT_EQ(count_messages(second).delayed, 1) << "in the store of the message it was handling";
}

// Proves: MDB-07
TEST(rounds, a_message_wakes_a_store_that_is_closed)
{
    tenants all;
    const auto list = all.add_many(10);
    worker one(stores(list, {.open_files_max = 1}), {.look_at_least_every = 1h});
    tally seen;
    one.handle("orders", [&](const delivery_view& view) { seen.add(view.store()); });
    background running(one);
    for (int round = 1; round <= 2; ++round)
        for (const auto& each : list) {
            all.send(each.name);
            EXPECT_TRUE(
                eventually([&] { return seen.of(each.name) == static_cast<std::size_t>(round); }));
        }
    EXPECT_EQ(running.end().done, 20U);
}

// Proves: MDB-07
TEST(rounds, a_delayed_message_starts_when_it_is_due)
{
    tenants all;
    const auto list = all.add_many(3);
    worker one(stores(list), {.look_at_least_every = 1h});
    std::atomic<int> handled = 0;
    one.handle("orders", [&](const delivery_view&) { ++handled; });
    background running(one);
    const auto id = all.send("tenant-1", "orders", {.delay = 300ms});
    EXPECT_TRUE(eventually([&] { return handled == 1; }));
    running.end();
    auto where = posthorn::open(list[1].url);
    const auto seen = find_message(where, id).value();
    EXPECT_GE(seen.started_at, seen.due_at);
}

// Proves: MDB-02
TEST(rounds, limits_hold_for_all_stores_together)
{
    tenants all;
    const auto list = all.add_many(6);
    for (const auto& each : list)
        all.send_many(each.name, 10);
    worker one(stores(list), {.concurrency = 4}, {.concurrency_per_store = 2});
    conformance::crowd everybody;
    std::map<std::string, conformance::crowd> by_store;
    for (const auto& each : list)
        by_store[each.name];
    one.handle("orders",
               [&](const delivery_view& view) {
                   everybody.enter();
                   by_store.at(view.store()).enter();
                   std::this_thread::yield();
                   by_store.at(view.store()).leave();
                   everybody.leave();
               },
               {.concurrency = 3});
    EXPECT_EQ(one.process_outbox().done, 60U);
    EXPECT_LE(everybody.most(), 3U);
    for (const auto& [name, each] : by_store)
        EXPECT_LE(each.most(), 2U) << name;
}

// Proves: MDB-02
TEST(rounds, a_worker_that_does_one_at_a_time_does_so_over_all_stores)
{
    tenants all;
    const auto list = all.add_many(4);
    for (const auto& each : list)
        all.send_many(each.name, 3);
    worker one(stores(list), {.concurrency = 1});
    conformance::crowd everybody;
    one.handle("orders", [&](const delivery_view&) {
        everybody.enter();
        std::this_thread::yield();
        everybody.leave();
    });
    EXPECT_EQ(one.process_outbox().done, 12U);
    EXPECT_EQ(everybody.most(), 1U);
}

// Proves: MDB-02
TEST(rounds, messages_of_a_key_keep_their_order_in_each_store)
{
    tenants all;
    const auto list = all.add_many(3);
    for (const auto& each : list) {
        auto where = posthorn::open(each.url);
        for (int i = 0; i < 8; ++i)
            enqueue(where, {"orders", std::to_string(i)}, {.ordering_key = "anna"});
    }
    worker one(stores(list), {.concurrency = 8});
    std::map<std::string, notes> seen;
    for (const auto& each : list)
        seen[each.name];
    one.handle("orders",
               [&](const delivery_view& view) { seen.at(view.store()).add(view.payload()); });
    EXPECT_EQ(one.process_outbox().done, 24U);
    const std::vector<std::string> in_order{"0", "1", "2", "3", "4", "5", "6", "7"};
    for (const auto& [name, each] : seen)
        EXPECT_EQ(each.all(), in_order) << name;
}

// Proves: MDB-02, MDB-03
TEST(rounds, drain_first_stays_with_a_store_but_not_so_long_that_another_starves)
{
    tenants all;
    const auto list = all.add_many(3);
    for (const auto& each : list)
        all.send_many(each.name, 12);
    worker one(stores(list), {.concurrency = 1},
               {.strategy = drain_first{4}, .time_budget = 60s}); // however slow the machine is
    notes seen;
    one.handle("orders", [&](const delivery_view& view) { seen.add(view.store()); });
    EXPECT_EQ(one.process_outbox().done, 36U);
    std::vector<std::size_t> stays; // how often in a row, while all of them had messages
    const auto order = seen.all();
    for (std::size_t i = 0; i < 24; ++i) {
        if (i == 0 || order[i] != order[i - 1])
            stays.push_back(0);
        ++stays.back();
    }
    EXPECT_EQ(stays, (std::vector<std::size_t>{4, 4, 4, 4, 4, 4}));
}

// Proves: MDB-02
TEST(rounds, a_limit_of_messages_is_kept)
{
    tenants all;
    const auto list = all.add_many(5);
    for (const auto& each : list)
        all.send_many(each.name, 4);
    worker one(stores(list));
    one.handle("orders", [](const delivery_view&) {});
    EXPECT_EQ(one.process_outbox(7).done, 7U);
    EXPECT_EQ(one.process_outbox().done, 13U);
}

// Proves: MDB-03
TEST(rounds, a_stop_lets_handlers_end_and_begins_nothing_new)
{
    tenants all;
    const auto list = all.add_many(3);
    worker one(stores(list), {.concurrency = 2});
    gate held;
    one.handle("orders", [&](const delivery_view&) { held.pass(); });
    background running(one);
    for (const auto& each : list)
        for (int i = 0; i < 20; ++i)
            all.send(each.name);
    EXPECT_TRUE(eventually([&] { return held.arrived() >= 2; }));
    running.stop();
    held.open();
    const auto report = running.wait();
    // A visit that took long has lost its place, and what it brings is more than fits.
    EXPECT_GE(report.done, 2U);
    EXPECT_LE(report.done, 2U + list.size());
    std::int64_t ready = 0;
    for (const auto& each : list)
        ready += all.count(each.name).ready;
    EXPECT_EQ(ready, 60 - static_cast<std::int64_t>(report.done));
}

// Proves: MDB-03
TEST(rounds, a_handler_that_does_not_end_is_left_behind_when_the_grace_is_over)
{
    tenants all;
    const auto list = all.add_many(2);
    const auto held = std::make_shared<gate>();
    {
        worker one(stores(list), {.grace = 100ms});
        one.handle("orders", [held](const delivery_view&) { held->pass(); });
        background running(one);
        all.send("tenant-1");
        EXPECT_TRUE(eventually([&] { return held->arrived() == 1; }));
        EXPECT_EQ(running.end().left_running, 1U);
    }
    held->open();
}

// Proves: MDB-03, I20
TEST(rounds, what_fails_on_the_thread_of_a_handler_ends_the_worker)
{
    tenants all;
    const auto list = all.add_many(2);
    all.send("tenant-1");
    for (const std::size_t concurrency : {1U, 4U}) {
        worker one(stores(list),
                   {.concurrency = concurrency,
                    .lease = 200ms,
                    .outbox = {.retries = {.fallback = exponential_retry{.first = 1ms}}},
                    .on = {.ended = [](const delivery_view&, const outcome&, duration) {
                        throw std::runtime_error("a hook that must not throw");
                    }}});
        one.handle("orders", [](const delivery_view&) {});
        background running(one);
        EXPECT_TRUE(eventually([&] { return running.ended(); }));
        running.stop_now();
        EXPECT_THROW(running.wait(), std::runtime_error);
    }
    worker other(stores(list));
    std::atomic<int> handled = 0;
    other.handle("orders", [&](const delivery_view&) { ++handled; });
    background running(other);
    EXPECT_TRUE(eventually([&] { return handled == 1; })) << "its lease has run out";
    EXPECT_EQ(running.end().done, 1U);
}

// Proves: MDB-02
TEST(rounds, a_paused_store_rests_while_the_others_go_on)
{
    tenants all;
    const auto list = all.add_many(2);
    auto first = posthorn::open(list[0].url);
    pause(first);
    worker one(stores(list));
    tally seen;
    one.handle("orders", [&](const delivery_view& view) { seen.add(view.store()); });
    background running(one);
    all.send("tenant-0");
    all.send("tenant-1");
    EXPECT_TRUE(eventually([&] { return seen.of("tenant-1") == 1; }));
    EXPECT_EQ(seen.of("tenant-0"), 0U);
    resume(first);
    EXPECT_TRUE(eventually([&] { return seen.of("tenant-0") == 1; }));
    EXPECT_EQ(running.end().done, 2U);
}

// Proves: MDB-02
TEST(rounds, what_another_worker_has_left_behind_is_taken_over)
{
    tenants all;
    const auto list = all.add_many(3);
    const auto id = all.send("tenant-2");
    auto where = posthorn::open(list[2].url);
    outbox box(where);
    ASSERT_EQ(
        box.claim({.token = "the token of the dead", .worker = "dave"}, {.lease = 200ms}).size(),
        1U);
    worker one(stores(list),
               {.look_at_least_every = 1h,
                .outbox = {.retries = {.fallback = exponential_retry{.first = 1ms}}}});
    std::atomic<int> handled = 0;
    one.handle("orders", [&](const delivery_view& view) {
        EXPECT_EQ(view.attempt(), 2);
        ++handled;
    });
    background running(one);
    EXPECT_TRUE(eventually([&] { return handled == 1; }));
    EXPECT_EQ(running.end().done, 1U);
    EXPECT_EQ(find_message(where, id)->state, message_state::done);
}

// Proves: MDB-02
TEST(rounds, leases_are_renewed_while_handlers_run)
{
    tenants all;
    const auto list = all.add_many(2);
    worker one(stores(list), {.lease = 1s});
    gate held;
    one.handle("orders", [&](const delivery_view& view) {
        held.pass();
        EXPECT_FALSE(view.is_lost());
    });
    background running(one);
    const auto id = all.send("tenant-1");
    EXPECT_TRUE(eventually([&] { return held.arrived() == 1; }));
    auto where = posthorn::open(list[1].url);
    const auto lease = [&] { return find_message(where, id)->lease_until.value(); };
    for (int renewals = 0; renewals < 3; ++renewals)
        EXPECT_TRUE(eventually([&, before = lease()] { return lease() > before; }));
    held.open();
    EXPECT_EQ(running.end().done, 1U);
}

// Proves: MDB-07
TEST(rounds, no_more_files_are_open_than_may_be_however_many_are_busy)
{
    constexpr std::size_t count = 40;
    constexpr std::size_t each = 120;
    tenants all;
    const auto list = all.add_many(count);
    for (const auto& one : list)
        all.send_many(one.name, each);
    const auto before = open_descriptors();
    worker one(stores(list, {.open_files_max = 4}), {.concurrency = 4}, {.visits_at_once = 2});
    std::mutex mutex;
    std::size_t most = 0;
    std::size_t turns = 0; // of a store, until another one has its turn
    std::map<std::string, std::size_t> last_seen;
    std::size_t handled = 0;
    one.handle("orders", [&](const delivery_view& view) {
        const std::lock_guard lock(mutex);
        most = std::max(most, open_descriptors());
        // Others were at it for long enough to have closed it meanwhile.
        if (const auto at = last_seen.find(view.store());
            at == last_seen.end() || handled - at->second > 200)
            ++turns;
        last_seen[view.store()] = ++handled;
    });
    EXPECT_EQ(one.run({}, {.until_empty = true}).done, count * each);
    // Those that are kept, those that are visited or have messages in hand, and a few that were
    // kept until it became clear how many are busy; six descriptors each.
    EXPECT_LE(most - before, (4 + 2 + 4 + 4 + 2) * 6U) << "of " << count * 6;
    EXPECT_LE(turns, count * each / 10) << "a store does much while it is open";
    EXPECT_GE(turns, count * 2) << "but not all at once";
}

} // namespace
} // namespace posthorn::test
