// One store at a time, when somebody calls; and the service that calls at a steady pace.
#include "many/many_test.hpp"
#include <posthorn/polling.hpp>
#include <posthorn/testing/manual_clock.hpp>

namespace posthorn::test {
namespace {

std::string handled_by(worker& which, notes& seen, std::size_t turns, std::size_t batch)
{
    std::string counts;
    for (std::size_t i = 0; i < turns; ++i)
        counts += std::to_string(which.run_once(batch));
    (void)seen;
    return counts;
}

// Proves: MDB-03
TEST(turns, messages_of_several_stores_are_handled)
{
    tenants all;
    const auto list = all.add_many(3);
    for (const auto& each : list)
        all.send_many(each.name, 2);
    worker one(stores(list), {.name = "carol"});
    notes seen;
    one.handle("orders", [&](const delivery_view& view) { seen.add(view.store()); });
    EXPECT_EQ(handled_by(one, seen, 4, 10), "2220");
    EXPECT_EQ(seen.all(), (std::vector<std::string>{"tenant-0", "tenant-0", "tenant-1", "tenant-1",
                                                    "tenant-2", "tenant-2"}));
    for (const auto& each : list)
        EXPECT_EQ(all.count(each.name).done, 2);
}

// Proves: MDB-03
TEST(turns, with_drain_first_one_store_is_drained_before_the_next)
{
    tenants all;
    const auto list = all.add_many(2);
    all.send_many("tenant-0", 3);
    all.send_many("tenant-1", 1);
    worker one(stores(list), {}, {.strategy = drain_first{}});
    notes seen;
    one.handle("*", [&](const delivery_view& view) { seen.add(view.store()); });
    EXPECT_EQ(handled_by(one, seen, 6, 1), "111010");
    EXPECT_EQ(seen.all(),
              (std::vector<std::string>{"tenant-0", "tenant-0", "tenant-0", "tenant-1"}));
}

// Proves: MDB-02, MDB-03, I19
TEST(turns, a_store_that_fails_is_logged_and_never_blocks_the_next)
{
    tenants all;
    std::vector<named_store> list{
        all.add_broken("broken"), all.add("well"), {.name = "gone", .url = all.url("gone")}};
    all.send_many("well", 3);
    const listening_world here;
    auto world = here.world();
    world.clock = std::make_shared<testing::manual_clock>(); // no pause ends
    worker one(stores(list, {.open = {.environment = world}}));
    one.handle("*", [](const delivery_view&) {});
    notes seen;
    EXPECT_EQ(handled_by(one, seen, 6, 1), "010110") << "those that fail have no turn for a while";
    EXPECT_EQ(here.logged("the store 'broken' fails"), 1U);
    EXPECT_EQ(here.logged("the store 'gone' fails"), 1U);
}

// Proves: MDB-01, MDB-02
TEST(turns, stores_come_and_go_between_turns)
{
    tenants all;
    auto list = all.add_many(3);
    for (const auto& each : list)
        all.send_many(each.name, 9);
    const auto clock = std::make_shared<testing::manual_clock>();
    auto world = environment::system();
    world.clock = clock;
    worker one(
        discover([&] { return list; }, {.every = 5min, .with = {.open = {.environment = world}}}));
    notes seen;
    one.handle("*", [&](const delivery_view& view) { seen.add(view.store()); });
    (void)handled_by(one, seen, 2, 1);
    list = {list[0], all.add("new")};
    all.send_many("new", 9);
    (void)handled_by(one, seen, 1, 1);
    clock->advance(5min);
    (void)handled_by(one, seen, 3, 1);
    EXPECT_EQ(seen.all(), (std::vector<std::string>{"tenant-0", "tenant-1", "tenant-2", "new",
                                                    "tenant-0", "new"}));
}

// Proves: MDB-03
TEST(turns, polling_is_on_a_clock_that_never_jumps_and_ends_when_told)
{
    tenants all;
    const auto list = all.add_many(2);
    const auto clock = std::make_shared<testing::manual_clock>();
    auto world = environment::system();
    world.clock = clock;
    worker one(stores(list, {.open = {.environment = world}}));
    std::atomic<int> handled = 0;
    one.handle("*", [&](const delivery_view&) { ++handled; });
    const auto add = [&] {
        auto where = posthorn::open(list[1].url, {.environment = world});
        enqueue(where, {"orders", ""});
    };
    add();
    std::stop_source stop;
    std::size_t total = 0;
    {
        const std::jthread service([&] {
            total = poll(one, stop.get_token(), {.every = 10s, .idle_max = 1min, .batch = 1});
        });
        EXPECT_TRUE(eventually([&] { return handled == 1; }));
        add();
        for (int i = 0; i < 50; ++i)
            std::this_thread::yield();
        EXPECT_EQ(handled, 1) << "the interval is not over";
        EXPECT_TRUE(eventually([&] {
            clock->advance(1s);
            return handled == 2;
        }));
        stop.request_stop();
    }
    EXPECT_EQ(total, 2U);
}

} // namespace
} // namespace posthorn::test
