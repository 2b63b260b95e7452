// Many schemas of one PostgreSQL database over a few connections: they stay apart, are heard, and a
// server that goes silent costs the others nothing.
#include "gate/tcp_gate.hpp"
#include "hang_limit.hpp"
#include "many/schema_tenants.hpp"
#include "store/contract/premises.hpp"

#include <algorithm>
#include <atomic>

namespace posthorn::test {
namespace {

// Proves: MDB-07, I19
TEST(schemas, are_drained_over_shared_connections_and_outcomes_stay_apart)
{
    schema_tenants all(5);
    for (std::size_t i = 0; i < 5; ++i) {
        auto where = posthorn::open(all.url(i));
        for (std::size_t n = 0; n < 20; ++n)
            enqueue(where, {"orders", std::to_string(i)}, {.ordering_key = n % 2 ? "odd" : ""});
    }
    router to(stores(all.list(), {.connections_max = 2}));
    worker one(stores(all.list(), {.connections_max = 2}), {.concurrency = 6});
    tally seen;
    one.handle("orders", [&](transactional_delivery<>& d) {
        EXPECT_EQ(d.store(), "tenant-" + d.payload());
        seen.add(d.store());
        enqueue(d.tx(), {"later", ""}, {.delay = 1h});
    });
    EXPECT_EQ(one.process_outbox().done, 100U);
    for (const auto& each : all.list()) {
        auto where = to.store(each.name);
        EXPECT_EQ(seen.of(each.name), 20U);
        EXPECT_EQ(count_messages(where).delayed, 20) << each.name;
    }
}

// Proves: MDB-07
TEST(schemas, are_heard_again_after_all_connections_were_cut)
{
    schema_tenants all(4);
    worker one(stores(all.list()), {.look_at_least_every = 1h});
    tally seen;
    one.handle("orders", [&](const delivery_view& view) { seen.add(view.store()); });
    background running(one);
    ASSERT_TRUE(eventually_all_idle(one));
    for (std::size_t round = 1; round <= 2; ++round) {
        all.cut();
        for (std::size_t i = 0; i < 4; ++i) {
            all.send(i);
            EXPECT_TRUE(eventually([&] { return seen.of(all.list()[i].name) == round; }));
        }
    }
    EXPECT_EQ(running.end().done, 8U);
}

// Proves: MDB-07
TEST(schemas, a_subscriber_can_wake_the_others_of_its_schema_and_not_itself)
{
    schema_tenants all(1);
    // Two programs: each with a connection that listens.
    const auto here = stores(all.list());
    const auto there = stores(all.list());
    std::atomic<int> own = 0;
    std::atomic<int> neighbour = 0;
    std::atomic<int> other = 0;
    const auto listen = [](const store_provider& at, const named_store& to,
                           std::atomic<int>& count) {
        return at.way_to(to).listen([&count] { ++count; });
    };
    const auto first = listen(here, all.list()[0], own);
    const auto second = listen(here, all.list()[0], neighbour);
    const auto third = listen(there, all.list()[0], other);
    ASSERT_TRUE(eventually([&] { // each is rung once when it has begun to listen
        return own > 0 && neighbour > 0 && other > 0;
    }));
    // Transactions of others that end now ring, too, but not as often as this.
    constexpr int rounds = 50;
    const int own_before = own;
    for (int i = 0; i < rounds; ++i) {
        const int neighbour_before = neighbour;
        const int other_before = other;
        first->ring_others();
        ASSERT_TRUE(
            eventually([&] { return neighbour > neighbour_before && other > other_before; }));
    }
    EXPECT_LT(own - own_before, rounds);
}

// Proves: MDB-07
TEST(schemas, a_subscriber_may_leave_while_its_line_is_being_let_go)
{
    schema_tenants all(1);
    const auto here = stores(all.list());
    const auto world = environment::system();
    for (int i = 0; i < 200; ++i) {
        std::atomic<int> rung = 0;
        auto one = here.way_to(all.list()[0]).listen([&rung] { ++rung; });
        // It is rung when its line begins to listen; not if the line of the last one still does.
        for (int wait = 0; wait < 20 && rung == 0; ++wait)
            world.clock->pause(1ms);
        one->rest(false);
        world.clock->pause(std::chrono::microseconds{i * 10});
        one.reset();
    }
}

// Proves: OUT-15, MDB-07
TEST(schemas, what_nobody_here_handles_wakes_a_worker_that_does)
{
    schema_tenants all(3);
    worker everywhere(stores(all.list()), {.look_at_least_every = 1h});
    everywhere.handle("orders", [](const delivery_view&) {});
    auto where = posthorn::open(all.other_url(1));
    worker specialist(where, {.look_at_least_every = 1h});
    std::atomic<std::size_t> handled = 0;
    specialist.handle("mail", [&](const delivery_view&) { ++handled; });
    background one(everywhere);
    background other(specialist);
    ASSERT_TRUE(eventually_all_idle(everywhere));
    // Whoever is quicker gets it; the one without a handler puts it aside and must say so.
    for (std::size_t i = 1; i <= 30; ++i) {
        all.send(1, "mail");
        ASSERT_TRUE(eventually([&] { return handled == i; }))
            << i << " parked: " << everywhere.status().so_far.parked;
    }
    one.end();
    EXPECT_EQ(other.end().done, 30U);
}

std::uint16_t port_of_postgres()
{
    const auto url = conformance::server_url("POSTHORN_TEST_POSTGRESQL");
    return static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
}

class behind_a_wire : public ::testing::Test {
protected:
    /// Files and schemas, served by one worker.
    [[nodiscard]] std::vector<named_store> all() const
    {
        auto list = files_;
        list.insert(list.end(), schemas_.list().begin(), schemas_.list().end());
        return list;
    }
    [[nodiscard]] bool is_served(const std::string& file, std::size_t times)
    {
        folder_.send(file);
        return eventually([&] { return seen_.of(file) == times; });
    }
    [[nodiscard]] std::ptrdiff_t count(const worker& one, store_state state) const
    {
        return std::ranges::count(one.stores(), state, &store_status::state);
    }

    tcp_gate gate_{"127.0.0.1", port_of_postgres()};
    schema_tenants schemas_{6, gate_.port()};
    tenants folder_;
    std::vector<named_store> files_ = folder_.add_many(4, "file-");
    tally seen_;
};

// Proves: I19, MDB-07
TEST_F(behind_a_wire, schemas_that_go_silent_hold_up_no_file_and_are_served_when_they_answer)
{
    worker one(stores(all()), {.look_at_least_every = 200ms},
               {.visits_at_once = 2, .time_budget = 100ms, .failure_pause_max = 500ms});
    one.handle("orders", [&](const delivery_view& view) { seen_.add(view.store()); });
    background running(one);
    for (std::size_t i = 0; i < 6; ++i) {
        schemas_.send(i);
        ASSERT_TRUE(eventually([&] { return seen_.of(schemas_.list()[i].name) == 1; }));
    }
    gate_.stall(true);
    ASSERT_TRUE(eventually([&] { return count(one, store_state::hanging) >= 2; }));
    for (std::size_t round = 1; round <= 5; ++round)
        for (const auto& each : files_)
            EXPECT_TRUE(is_served(each.name, round)) << each.name;
    EXPECT_LE(count(one, store_state::hanging), 3)
        << "one server: two that wait for it, and one that was on its way there";
    for (std::size_t i = 0; i < 6; ++i)
        schemas_.send(i);
    gate_.stall(false);
    for (std::size_t i = 0; i < 6; ++i)
        EXPECT_TRUE(eventually([&] { return seen_.of(schemas_.list()[i].name) == 2; })) << i;
    EXPECT_EQ(running.end().done, 20U + 12U);
}

// Proves: I19, MDB-07
TEST_F(behind_a_wire, schemas_whose_wire_is_cut_hold_up_no_file_and_are_served_when_it_is_mended)
{
    worker one(stores(all()), {.look_at_least_every = 200ms},
               {.visits_at_once = 2, .failure_pause_max = 500ms});
    one.handle("orders", [&](const delivery_view& view) { seen_.add(view.store()); });
    background running(one);
    ASSERT_TRUE(eventually_all_idle(one));
    gate_.refuse(true);
    gate_.cut();
    ASSERT_TRUE(eventually([&] { return count(one, store_state::failing) == 6; }));
    for (std::size_t round = 1; round <= 5; ++round)
        for (const auto& each : files_)
            EXPECT_TRUE(is_served(each.name, round)) << each.name;
    for (std::size_t i = 0; i < 6; ++i)
        schemas_.send(i);
    gate_.refuse(false);
    for (std::size_t i = 0; i < 6; ++i)
        EXPECT_TRUE(eventually([&] { return seen_.of(schemas_.list()[i].name) == 1; })) << i;
    EXPECT_EQ(running.end().done, 20U + 6U);
}

// Proves: I19, I21
TEST_F(behind_a_wire, a_worker_can_go_while_a_server_does_not_answer)
{
    const auto began = [&] {
        worker one(stores(all()), {.grace = 10min, .look_at_least_every = 200ms},
                   {.time_budget = 100ms});
        one.handle("orders", [&](const delivery_view& view) { seen_.add(view.store()); });
        background running(one);
        EXPECT_TRUE(eventually_all_idle(one));
        gate_.stall(true);
        EXPECT_TRUE(eventually([&] { return count(one, store_state::hanging) >= 2; }));
        const auto asked = std::chrono::steady_clock::now();
        running.end();
        return asked;
    }();
    EXPECT_LT(std::chrono::steady_clock::now() - began, hang_limit);
    gate_.stall(false);
}

} // namespace
} // namespace posthorn::test
