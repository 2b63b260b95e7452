// One store at a time, when somebody calls; and the service that calls at a steady pace.
#include "many/many_test.hpp"
#include <posthorn/polling.hpp>
#include <posthorn/testing/manual_clock.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

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

/// A strategy of the application's own, which notes when it is asked and told to forget.
struct noting {
    struct memory {
        std::atomic<int> asked = 0;
        std::atomic<int> resets = 0;
    };

    std::optional<std::size_t> select_next(std::span<const store_view> stores,
                                           std::optional<std::string_view> last,
                                           std::size_t last_count)
    {
        ++to->asked;
        return by.select_next(stores, last, last_count);
    }
    void reset()
    {
        ++to->resets;
        by.reset();
    }

    std::shared_ptr<memory> to = std::make_shared<memory>();
    round_robin by = {};
};

/// A clock that a test moves, and a log of which every line is kept after its level.
struct steered_world {
    std::shared_ptr<testing::manual_clock> clock = std::make_shared<testing::manual_clock>();
    std::shared_ptr<notes> lines = std::make_shared<notes>();
    environment world = environment::system();

    steered_world()
    {
        world.clock = clock;
        world.log = [lines = lines](log_level level, std::string_view line) {
            constexpr std::array names{"debug ", "info ", "warning ", "error "};
            lines->add(names.at(static_cast<std::size_t>(level)) + std::string(line));
        };
    }

    void send(const named_store& to, std::size_t count = 1) const
    {
        auto where = posthorn::open(to.url, {.environment = world});
        for (std::size_t i = 0; i < count; ++i)
            enqueue(where, {"orders", ""});
    }
    [[nodiscard]] std::size_t logged(const std::string& part) const
    {
        const auto all = lines->all();
        return static_cast<std::size_t>(std::ranges::count_if(
            all, [&](const auto& each) { return each.find(part) != std::string::npos; }));
    }
};

// Proves: MDB-03
TEST(turns, polling_keeps_its_pace_while_nothing_comes)
{
    tenants all;
    const steered_world here;
    const noting strategy;
    worker one(stores({all.add("only")}, {.open = {.environment = here.world}}), {},
               {.strategy = strategy});
    const auto& asked = strategy.to->asked;
    std::stop_source stop;
    const std::jthread service([&] { poll(one, stop.get_token(), {.every = 10s}); });
    for (int iteration = 1; iteration <= 5; ++iteration) {
        EXPECT_TRUE(eventually([&] { return asked == iteration; }));
        here.clock->advance(10s);
    }
    EXPECT_TRUE(eventually([&] { return asked == 6; }));
    stop.request_stop();
    EXPECT_EQ(here.logged("info polling begins, every 10000 ms"), 1U);
    EXPECT_EQ(here.logged("were handled"), 0U) << "iterations that did nothing";
}

// Proves: MDB-03
TEST(turns, polling_backs_off_if_that_is_wanted)
{
    tenants all;
    const steered_world here;
    const noting strategy;
    worker one(stores({all.add("only")}, {.open = {.environment = here.world}}), {},
               {.strategy = strategy});
    const auto& asked = strategy.to->asked;
    std::stop_source stop;
    const auto began = here.clock->monotonic();
    const std::jthread service(
        [&] { poll(one, stop.get_token(), {.every = 10s, .idle_max = 40s}); });
    const auto iteration_comes_at = [&](int number, duration since_begin) {
        EXPECT_TRUE(eventually([&] { return asked == number; }));
        EXPECT_EQ(here.clock->monotonic() - began, since_begin);
    };
    iteration_comes_at(1, 0s);
    here.clock->advance(20s);
    iteration_comes_at(2, 20s);
    here.clock->advance(20s);
    for (int i = 0; i < 50; ++i)
        std::this_thread::yield();
    EXPECT_EQ(asked, 2);
    here.clock->advance(20s);
    iteration_comes_at(3, 60s);
    here.clock->advance(40s);
    iteration_comes_at(4, 100s);
    stop.request_stop();
}

// Proves: MDB-03, OPS-04
TEST(turns, polling_logs_what_it_handled_and_what_failed)
{
    tenants all;
    const steered_world here;
    const auto list = std::vector{all.add("only")};
    here.send(list.front(), 2);
    std::atomic<bool> works = false;
    worker one(discover(
        [&] {
            if (!works)
                throw std::runtime_error("no list today");
            return list;
        },
        {.with = {.open = {.environment = here.world}}}));
    one.handle("*", [](const delivery_view&) {});
    std::stop_source stop;
    {
        const std::jthread service([&] { poll(one, stop.get_token(), {.every = 10s}); });
        EXPECT_TRUE(eventually([&] {
            return here.logged("error an iteration of polling failed: no list today") == 1;
        }));
        works = true;
        here.clock->advance(10s);
        EXPECT_TRUE(
            eventually([&] { return here.logged("debug polling: 2 messages were handled") == 1; }));
        stop.request_stop();
    }
    EXPECT_EQ(here.logged("info polling has ended: 2 messages were handled"), 1U);
    EXPECT_EQ(here.logged("worker"), 0U) << "turns are no starts and ends of a worker";
}

// Proves: MDB-03
TEST(turns, the_store_that_is_furthest_behind_is_next)
{
    for (const bool polls : {false, true}) {
        tenants all;
        const steered_world here;
        const auto list = all.add_many(3);
        here.send(list[1], 3);
        here.clock->advance(10h);
        here.send(list[0], 3);
        here.send(list[2], 3);
        // Its lease outlasts the clock, which runs ahead of a slow machine.
        worker one(stores(list, {.open = {.environment = here.world}}), {.lease = 24h},
                   {.strategy = lag_aware{}});
        notes seen;
        std::stop_source stop;
        one.handle("*", [&](const delivery_view& view) {
            seen.add(view.store());
            if (seen.size() == 5)
                stop.request_stop();
        });
        if (polls) {
            const std::jthread service(
                [&] { poll(one, stop.get_token(), {.every = 1s, .batch = 1}); });
            EXPECT_TRUE(eventually([&] {
                here.clock->advance(1s);
                return stop.stop_requested();
            }));
        } else {
            for (int i = 0; i < 5; ++i)
                EXPECT_EQ(one.run_once(1), 1U);
        }
        EXPECT_EQ(seen.all(), (std::vector<std::string>{"tenant-0", "tenant-1", "tenant-2",
                                                        "tenant-1", "tenant-1"}))
            << "once all have been looked at";
    }
}

// Proves: MDB-01, MDB-03
TEST(turns, a_strategy_is_told_when_the_list_is_replaced)
{
    tenants all;
    const steered_world here;
    auto list = all.add_many(2);
    const noting strategy;
    worker one(discover([&] { return list; },
                        {.every = 5min, .with = {.open = {.environment = here.world}}}),
               {}, {.strategy = strategy});
    const auto& resets = strategy.to->resets;
    (void)one.run_once();
    EXPECT_EQ(resets, 0);
    here.clock->advance(5min);
    (void)one.run_once();
    EXPECT_EQ(resets, 0) << "it is the same list";
    list = {list.back(), all.add("new")};
    here.clock->advance(5min);
    (void)one.run_once();
    EXPECT_EQ(resets, 1);
    list.pop_back();
    here.clock->advance(5min);
    (void)one.run_once();
    EXPECT_EQ(resets, 2);
}

// Proves: MDB-01, MDB-02
TEST(rounds, a_strategy_is_told_when_the_list_is_replaced)
{
    tenants all;
    std::mutex mutex;
    auto list = all.add_many(2);
    std::atomic<int> listed = 0;
    const noting strategy;
    worker one(discover(
                   [&] {
                       const std::lock_guard lock(mutex);
                       ++listed;
                       return list;
                   },
                   {.every = 5ms}),
               {}, {.strategy = strategy});
    background running(one);
    ASSERT_TRUE(eventually([&] { return listed >= 5; }));
    EXPECT_EQ(strategy.to->resets, 0) << "it is the same list";
    {
        const std::lock_guard lock(mutex);
        list = {list.front(), all.add("new")};
    }
    EXPECT_TRUE(eventually([&] { return strategy.to->resets == 1; }));
}

} // namespace
} // namespace posthorn::test
