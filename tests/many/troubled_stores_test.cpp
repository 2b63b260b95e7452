// Stores that fail, hang or vanish, among others that do not: what they cost is theirs alone.
#include "hang_limit.hpp"
#include "many/many_test.hpp"
#include "store/contract/premises.hpp"

#include <algorithm>
#include <atomic>

namespace posthorn::test {
namespace {

std::optional<store_status> status_of(const worker& one, const std::string& name)
{
    for (auto& each : one.stores())
        if (each.name == name)
            return each;
    return std::nullopt;
}

// Proves: I19
TEST(troubled_stores, one_that_fails_is_left_alone_and_taken_up_again_when_it_answers)
{
    tenants all;
    const auto well = all.add("well");
    const auto sick = all.add_broken("sick");
    const listening_world here;
    worker one(stores({sick, well}, {.open = {.environment = here.world()}}), {},
               {.failure_pause_max = 200ms});
    tally seen;
    one.handle("orders", [&](const delivery_view& view) { seen.add(view.store()); });
    background running(one);
    EXPECT_TRUE(eventually([&] {
        const auto now = status_of(one, "sick");
        return now && now->failures >= 3;
    }));
    EXPECT_EQ(status_of(one, "sick")->state, store_state::failing);
    EXPECT_NE(status_of(one, "sick")->last_error, "");
    EXPECT_EQ(here.logged("the store 'sick' fails and is left alone for a while"), 1U)
        << "the same words are not said again and again";
    for (std::size_t i = 1; i <= 20; ++i) {
        all.send("well");
        EXPECT_TRUE(eventually([&] { return seen.of("well") == i; }));
    }
    std::filesystem::remove(all.path("sick"));
    std::filesystem::copy_file(all.path("well"), all.path("sick"));
    all.send("sick");
    EXPECT_TRUE(eventually([&] { return seen.of("sick") > 0; }));
    // The handler runs before the visit is over that says so.
    EXPECT_TRUE(eventually([&] { return here.logged("the store 'sick' answers again") > 0; }));
    running.end();
    EXPECT_EQ(here.logged("the store 'sick' answers again"), 1U);
}

// Proves: I19
TEST(troubled_stores, those_that_hang_hold_up_nobody_else)
{
    tenants all;
    std::vector<named_store> list;
    std::vector<std::unique_ptr<locker>> locks;
    constexpr std::size_t hanging = 6;
    for (std::size_t i = 0; i < hanging; ++i) {
        const auto name = "hangs-" + std::to_string(i);
        list.push_back(all.add(name, "&busy_timeout=60s"));
        all.send(name);
        locks.push_back(std::make_unique<locker>(all.path(name)));
    }
    const auto live = all.add_many(10);
    list.insert(list.end(), live.begin(), live.end());
    // Fewer threads than stores that hang.
    worker one(stores(list), {}, {.visits_at_once = 2, .time_budget = 50ms, .hanging_max = 8});
    tally seen;
    one.handle("orders", [&](const delivery_view& view) { seen.add(view.store()); });
    background running(one);
    EXPECT_TRUE(eventually([&] {
        std::size_t count = 0;
        for (const auto& each : one.stores())
            count += each.state == store_state::hanging ? 1U : 0U;
        return count == hanging;
    }));
    for (std::size_t round = 1; round <= 3; ++round)
        for (const auto& each : live) {
            all.send(each.name);
            EXPECT_TRUE(eventually([&] { return seen.of(each.name) == round; }));
        }
    EXPECT_LE(one.status().threads, 2U + 8U + 1U + 10U + 1U)
        << "visits, hanging ones, a refresh, handlers, the caller";
    for (const auto& each : locks)
        each->let_go();
    for (std::size_t i = 0; i < hanging; ++i)
        EXPECT_TRUE(eventually([&] { return seen.of("hangs-" + std::to_string(i)) == 1; }));
    EXPECT_EQ(running.end().done, 30 + hanging);
}

// Proves: I19
TEST(troubled_stores, one_that_hangs_when_it_settles_holds_up_nobody_else)
{
    tenants all;
    const auto slow = all.add("slow", "&busy_timeout=60s");
    const auto well = all.add("well");
    worker one(stores({slow, well}), {.concurrency = 4},
               {.visits_at_once = 1, .time_budget = 50ms});
    tally seen;
    gate held;
    one.handle("orders", [&](const delivery_view& view) {
        seen.add(view.store());
        if (view.store() == "slow")
            held.pass();
    });
    background running(one);
    all.send("slow");
    EXPECT_TRUE(eventually([&] { return held.arrived() == 1; }));
    locker lock(all.path("slow"));
    held.open();
    EXPECT_TRUE(eventually([&] {
        const auto now = status_of(one, "slow");
        return now && now->state == store_state::hanging;
    }));
    for (std::size_t i = 1; i <= 5; ++i) {
        all.send("well");
        EXPECT_TRUE(eventually([&] { return seen.of("well") == i; }));
    }
    lock.let_go();
    EXPECT_TRUE(eventually([&] { return all.count("slow").done == 1; }));
    EXPECT_EQ(running.end().done, 6U);
    EXPECT_EQ(seen.of("slow"), 1U);
}

// Proves: I19
TEST(troubled_stores, handlers_of_one_that_hangs_take_no_more_than_its_share)
{
    tenants all;
    const auto slow = all.add("slow", "&busy_timeout=60s");
    const auto well = all.add("well");
    all.send_many("slow", 10);
    worker one(stores({slow, well}), {.concurrency = 4}, {.time_budget = 50ms});
    tally seen;
    std::atomic<std::size_t> inside = 0;
    gate locked;
    one.handle("orders", [&](transactional_delivery<>& d) {
        if (d.store() == "slow" && ++inside <= 2)
            locked.pass(); // and with it the file
        seen.add(d.store());
    });
    background running(one);
    EXPECT_TRUE(eventually([&] { return locked.arrived() >= 1; }));
    for (std::size_t i = 1; i <= 5; ++i) {
        all.send("well");
        EXPECT_TRUE(eventually([&] { return seen.of("well") == i; }));
    }
    locked.open();
    EXPECT_TRUE(eventually([&] { return seen.of("slow") == 10; }));
    EXPECT_EQ(running.end().done, 15U);
}

// Proves: I19
TEST(troubled_stores, one_whose_file_vanishes_and_comes_back_is_found_again)
{
    tenants all;
    const auto list = all.add_many(2);
    worker one(stores(list), {.look_at_least_every = 100ms}, {.failure_pause_max = 200ms});
    tally seen;
    one.handle("orders", [&](const delivery_view& view) { seen.add(view.store()); });
    background running(one);
    all.send("tenant-0");
    EXPECT_TRUE(eventually([&] { return all.count("tenant-0").done == 1; }));
    for (const auto* end : {"", "-wal", "-shm"})
        std::filesystem::remove(all.path("tenant-0") + end);
    EXPECT_TRUE(eventually([&] {
        const auto now = status_of(one, "tenant-0");
        return now && now->state == store_state::failing;
    }));
    all.send("tenant-1");
    EXPECT_TRUE(eventually([&] { return seen.of("tenant-1") == 1; }));
    (void)all.add("tenant-0");
    all.send("tenant-0");
    EXPECT_TRUE(eventually([&] { return seen.of("tenant-0") == 2; }));
    EXPECT_EQ(running.end().done, 3U);
}

// Proves: I19
TEST(troubled_stores, a_stop_does_not_wait_for_those_that_hang)
{
    tenants all;
    const auto list = std::vector{all.add("hangs", "&busy_timeout=600s"), all.add("well")};
    all.send("hangs");
    locker lock(all.path("hangs"));
    worker one(stores(list), {.grace = 10min}, {.time_budget = 50ms});
    one.handle("orders", [](const delivery_view&) {});
    background running(one);
    EXPECT_TRUE(eventually([&] {
        const auto now = status_of(one, "hangs");
        return now && now->state == store_state::hanging;
    }));
    const auto began = std::chrono::steady_clock::now();
    running.end();
    EXPECT_LT(std::chrono::steady_clock::now() - began, hang_limit);
    lock.let_go();
}

/// Schemas of a server that takes connections and never answers, beside files that are well.
class silent_server final : public contract::premises {
public:
    contract::reach way_to(const std::string& url) override
    {
        if (url != "silent")
            return {.open = [url] { return posthorn::open(url).share(); }};
        return {.open = [this]() -> std::shared_ptr<contract::backend> {
                    waiting.pass();
                    throw error(error_code::unavailable, "the server is silent");
                },
                .place = "the server"};
    }

    gate waiting;
};

// Proves: I19
TEST(troubled_stores, a_server_that_hangs_holds_up_two_threads_however_many_stores_it_has)
{
    tenants all;
    const auto server = std::make_shared<silent_server>();
    std::vector<named_store> list;
    for (int i = 0; i < 200; ++i)
        list.push_back({.name = "silent-" + std::to_string(i), .url = "silent"});
    const auto live = all.add_many(5);
    list.insert(list.end(), live.begin(), live.end());
    worker one(store_provider([&] { return list; }, 0s, server, environment::system()), {},
               {.visits_at_once = 2, .time_budget = 50ms, .hanging_max = 3});
    tally seen;
    one.handle("orders", [&](const delivery_view& view) { seen.add(view.store()); });
    background running(one);
    for (std::size_t round = 1; round <= 3; ++round)
        for (const auto& each : live) {
            all.send(each.name);
            EXPECT_TRUE(eventually([&] { return seen.of(each.name) == round; }));
        }
    EXPECT_LE(server->waiting.arrived(), 3U);
    server->waiting.open();
    EXPECT_EQ(running.end().done, 15U);
}

/// Stores that promise to ring and never do.
class silent_bells final : public contract::premises {
public:
    contract::reach way_to(const std::string& url) override
    {
        return {
            .open =
                [this, url] {
                    opened.add(url);
                    return posthorn::open(url).share();
                },
            .listen = [](const std::function<void()>&) -> std::unique_ptr<contract::subscription> {
                return std::make_unique<deaf>();
            }};
    }

    tally opened;

private:
    struct deaf final : contract::subscription {
        void rest(bool) override {}
    };
};

// Proves: MDB-07
TEST(troubled_stores, one_whose_rings_are_lost_is_looked_at_all_the_same)
{
    tenants all;
    const auto list = all.add_many(20);
    const auto bells = std::make_shared<silent_bells>();
    worker one(store_provider([&] { return list; }, 0s, bells, environment::system()),
               {.look_at_least_every = 10ms}, {.looks_per_second = 100});
    tally seen;
    one.handle("orders", [&](const delivery_view& view) { seen.add(view.store()); });
    background running(one);
    EXPECT_TRUE(eventually([&] { // again and again, each of them
        return std::ranges::all_of(
            list, [&](const named_store& each) { return bells->opened.of(each.url) >= 4; });
    }));
    for (const auto* name : {"tenant-3", "tenant-17"}) {
        all.send(name);
        EXPECT_TRUE(eventually([&] { return seen.of(name) == 1; }));
    }
    EXPECT_EQ(running.end().done, 2U);
}

// Proves: I19
TEST(troubled_stores, one_pass_leaves_out_what_fails)
{
    tenants all;
    std::vector<named_store> list{all.add_broken("broken"), all.add("well")};
    all.send_many("well", 5);
    worker one(stores(list));
    one.handle("orders", [](const delivery_view&) {});
    EXPECT_EQ(one.process_outbox().done, 5U);
}

} // namespace
} // namespace posthorn::test
