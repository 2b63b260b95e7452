// The inboxes of many stores: the same provider, strategies, worker and router as for everything
// else that can be claimed.
#include "many/many_test.hpp"
#include <posthorn/inbox.hpp>
#include <posthorn/testing/manual_clock.hpp>

#include <vector>

namespace posthorn::test {
namespace {

class inboxes : public ::testing::Test {
protected:
    /// As a sender would, who does not know what has arrived: twice.
    void receive(const std::string& name, int id)
    {
        auto where = posthorn::open(all.url(name));
        for (int i = 0; i < 2; ++i)
            enqueue_inbound(where, {.source = "shop", .id = std::to_string(id)}, {"orders", name});
    }
    void receive_many(const std::string& name, int count)
    {
        for (int i = 0; i < count; ++i)
            receive(name, i);
    }

    [[nodiscard]] std::size_t done(const std::string& name) const
    {
        auto where = posthorn::open(all.url(name));
        return list_inbound(where, {.state = inbox_state::done}).size();
    }

    void note_stores(worker& by)
    {
        by.handle(inbox_topic("orders"),
                  [this](const delivery_view& view) { seen.add(view.store()); });
    }

    tenants all;
    notes seen;
};

} // namespace

// Proves: INB-03, MDB-03
TEST_F(inboxes, messages_of_several_stores_are_handled)
{
    const auto list = all.add_many(3);
    for (const auto& each : list)
        receive_many(each.name, 2);
    worker one(stores(list), {.name = "carol"});
    note_stores(one);
    std::vector<std::size_t> counts;
    for (int i = 0; i < 4; ++i)
        counts.push_back(one.run_once(10));
    EXPECT_EQ(counts, (std::vector<std::size_t>{2, 2, 2, 0}));
    for (const auto& each : list)
        EXPECT_EQ(done(each.name), 2U);
}

// Proves: INB-03, MDB-02, MDB-03
TEST_F(inboxes, with_drain_first_one_store_is_drained_before_the_next)
{
    const auto list = all.add_many(2);
    receive_many("tenant-0", 3);
    receive_many("tenant-1", 1);
    worker one(stores(list), {}, {.strategy = drain_first{}});
    note_stores(one);
    for (int i = 0; i < 6; ++i)
        (void)one.run_once(1);
    EXPECT_EQ(seen.all(),
              (std::vector<std::string>{"tenant-0", "tenant-0", "tenant-0", "tenant-1"}));
}

// Proves: INB-03, MDB-02, MDB-03, I19
TEST_F(inboxes, a_store_that_fails_never_blocks_the_next)
{
    const std::vector<named_store> list{
        all.add_broken("broken"), all.add("well"), {.name = "gone", .url = all.url("gone")}};
    receive_many("well", 3);
    const listening_world here;
    auto world = here.world();
    world.clock = std::make_shared<testing::manual_clock>(); // no pause ends
    worker one(stores(list, {.open = {.environment = world}}));
    note_stores(one);
    for (int i = 0; i < 6; ++i)
        (void)one.run_once(1);
    EXPECT_EQ(done("well"), 3U);
    EXPECT_EQ(here.logged("the store 'broken' fails"), 1U);
}

// Proves: INB-03, MDB-03, I7
TEST_F(inboxes, of_stores_that_are_served_all_the_time_have_one_effect_each)
{
    const auto list = all.add_many(4);
    worker one(stores(list), {.concurrency = 4});
    note_stores(one);
    const background running(one);
    for (const auto& each : list)
        receive_many(each.name, 5);
    for (const auto& each : list)
        EXPECT_TRUE(eventually([&] { return done(each.name) == 5; })) << each.name;
    EXPECT_EQ(seen.all().size(), 20U);
}

// Proves: INB-01, MDB-04
TEST_F(inboxes, are_reached_by_the_name_of_their_store)
{
    router to(stores({all.add("anna"), all.add("bert")}));
    auto anna = to.store("anna");
    auto bert = to.store("bert");
    const inbound order{.source = "shop", .id = "1"};
    EXPECT_TRUE(once(anna, "shop", "1", [] {}));
    EXPECT_FALSE(once(anna, "shop", "1", [] {}));
    EXPECT_FALSE(find_inbound(bert, order)) << "each store has an inbox of its own";
    EXPECT_TRUE(once(bert, "shop", "1", [] {}));
    EXPECT_EQ(find_inbound(anna, order)->state, inbox_state::done);
}

} // namespace posthorn::test
