// Lists of stores that change, and the way to one store by its name.
#include "many/many_test.hpp"
#include <posthorn/error.hpp>
#include <posthorn/testing/manual_clock.hpp>

#include <atomic>
#include <thread>

namespace posthorn::test {
namespace {

error thrown_by(const std::function<void()>& what)
{
    try {
        what();
    } catch (const error& failure) {
        return failure;
    }
    ADD_FAILURE() << "nothing was thrown";
    return error(error_code::internal, "");
}

// Proves: MDB-04
TEST(routers, lead_to_the_store_of_a_name_or_a_uuid)
{
    tenants all;
    const auto id = uuid::parse("01890a5d-ac96-774b-bcce-b302099a8057").value();
    router to(stores({all.add("anna"), all.add(to_string(id))}));
    auto anna = to.store("anna");
    enqueue(anna, {"orders", "for anna"});
    auto other = to.store(id);
    EXPECT_EQ(count_messages(anna).ready, 1);
    EXPECT_EQ(count_messages(other).ready, 0);
    EXPECT_EQ(all.count("anna").ready, 1);
    EXPECT_TRUE(to.knows("anna"));
    EXPECT_FALSE(to.knows("bert"));
}

// Proves: MDB-04
TEST(routers, say_that_a_name_is_unknown)
{
    tenants all;
    router to(stores({all.add("anna")}));
    const auto failure = thrown_by([&] { (void)to.store("bert"); });
    EXPECT_EQ(failure.code(), error_code::not_found);
    EXPECT_STREQ(failure.what(), "there is no store called 'bert'; 1 are known");
}

// Proves: MDB-01, MDB-04
TEST(routers, look_for_a_new_name_in_a_fresh_list)
{
    tenants all;
    std::vector<named_store> list{all.add("anna")};
    int asked = 0;
    router to(discover([&] {
        ++asked;
        return list;
    }));
    (void)to.store("anna");
    (void)to.store("anna");
    EXPECT_EQ(asked, 1);
    list.push_back(all.add("bert"));
    (void)to.store("bert");
    EXPECT_EQ(asked, 2);
}

class changing_routes : public ::testing::Test {
protected:
    void SetUp() override { world_.clock = clock_; }

    [[nodiscard]] store_provider provider()
    {
        return discover(
            [this] {
                if (fails_)
                    throw std::runtime_error("the directory of tenants is away");
                return list_;
            },
            {.every = 1min, .with = {.open = {.environment = world_}}});
    }
    static std::int64_t ready_in(store where) { return count_messages(where).ready; }

    tenants all_;
    std::shared_ptr<testing::manual_clock> clock_ = std::make_shared<testing::manual_clock>();
    environment world_ = environment::system();
    std::vector<named_store> list_;
    bool fails_ = false;
};

// Proves: MDB-01, MDB-04
TEST_F(changing_routes, lead_to_where_a_store_is_now_and_not_to_one_that_has_left)
{
    const auto there = all_.add("there");
    list_ = {all_.add("anna"), all_.add("bert")};
    all_.send("there");
    router to(provider());
    EXPECT_EQ(ready_in(to.store("anna")), 0);
    list_ = {{.name = "anna", .url = there.url}};
    clock_->advance(59s);
    EXPECT_EQ(ready_in(to.store("anna")), 0) << "the list is as good as new";
    clock_->advance(1s);
    EXPECT_EQ(ready_in(to.store("anna")), 1);
    EXPECT_FALSE(to.knows("bert"));
    EXPECT_STREQ(thrown_by([&] { (void)to.store("bert"); }).what(),
                 "there is no store called 'bert'; 1 are known");
}

// Proves: MDB-01, MDB-04
TEST_F(changing_routes, stay_as_they_are_while_there_is_no_list)
{
    list_ = {all_.add("anna")};
    router to(provider());
    EXPECT_TRUE(to.knows("anna"));
    fails_ = true;
    clock_->advance(1h);
    EXPECT_TRUE(to.knows("anna"));
    EXPECT_THROW((void)to.knows("bert"), std::runtime_error);
    list_.clear();
    fails_ = false;
    clock_->advance(59s);
    EXPECT_TRUE(to.knows("anna")) << "a list that failed is not asked for at every turn";
    clock_->advance(1s);
    EXPECT_FALSE(to.knows("anna"));
}

// Proves: MDB-04
TEST_F(changing_routes, lead_on_while_somebody_else_waits_for_a_list)
{
    const auto slow = std::make_shared<gate>();
    const auto anna = all_.add("anna");
    std::atomic<int> asked = 0;
    router to(discover(
        [&] {
            if (++asked > 1)
                slow->pass();
            return std::vector{anna};
        },
        {.every = 1min, .with = {.open = {.environment = world_}}}));
    EXPECT_TRUE(to.knows("anna"));
    clock_->advance(1h);
    std::jthread other([&] { EXPECT_TRUE(to.knows("anna")); });
    EXPECT_TRUE(eventually([&] { return slow->arrived() == 1; }));
    EXPECT_TRUE(to.knows("anna"));
    EXPECT_EQ(asked, 2);
    slow->open();
}

// Proves: MDB-01
TEST(providers, refuse_names_that_are_missing_or_there_twice)
{
    tenants all;
    const auto anna = all.add("anna");
    EXPECT_EQ(thrown_by([&] {
                  (void)stores({anna, anna}).list();
              }).code(),
              error_code::invalid_argument);
    EXPECT_EQ(thrown_by([&] { (void)stores({{.name = "", .url = anna.url}}).list(); }).code(),
              error_code::invalid_argument);
    EXPECT_EQ(discover([] { return std::vector<named_store>{}; }).refresh_every(), 5min);
}

// Proves: MDB-06
TEST(providers, one_call_makes_a_worker_for_a_store_a_list_or_whatever_is_found)
{
    tenants all;
    const auto anna = all.add("anna");
    auto handle = posthorn::open(anna.url);
    const auto serves = [&](worker&& one) {
        all.send("anna");
        one.handle("orders", [](const delivery_view&) {});
        return one.process_outbox().done;
    };
    EXPECT_EQ(serves(worker(handle)), 1U);
    EXPECT_EQ(serves(worker(store_provider(handle))), 1U);
    EXPECT_EQ(serves(worker(stores({anna}))), 1U);
    EXPECT_EQ(serves(worker(stores({{.name = "by its handle", .at = handle}}))), 1U);
    EXPECT_EQ(serves(worker(discover([&] { return std::vector{anna}; }))), 1U);
    EXPECT_EQ(serves(worker(stores({anna}), {.concurrency = 2}, {.strategy = lag_aware{}})), 1U);
}

class discovering : public ::testing::Test {
protected:
    [[nodiscard]] store_provider provider()
    {
        return discover(
            [this] {
                const std::lock_guard lock(mutex_);
                ++asked_;
                if (fails_)
                    throw std::runtime_error("the directory of tenants is away");
                return list_;
            },
            {.every = 20ms, .with = {.open = {.environment = here_.world()}}});
    }
    void set(std::vector<named_store> list, bool fails = false)
    {
        const std::lock_guard lock(mutex_);
        list_ = std::move(list);
        fails_ = fails;
    }

    tenants all_;
    listening_world here_;
    std::mutex mutex_;
    std::vector<named_store> list_;
    bool fails_ = false;
    std::atomic<int> asked_ = 0;
};

// Proves: MDB-01
TEST_F(discovering, a_store_that_appears_is_served_and_one_that_disappears_is_drained)
{
    const auto anna = all_.add("anna");
    const auto bert = all_.add("bert");
    set({anna});
    worker one(provider());
    tally seen;
    gate slow;
    one.handle("slow", [&](const delivery_view&) { slow.pass(); });
    one.handle("orders", [&](const delivery_view& view) { seen.add(view.store()); });
    background running(one);
    all_.send("anna");
    EXPECT_TRUE(eventually([&] { return seen.of("anna") == 1; }));
    all_.send("bert");
    const auto in_hand = all_.send("anna", "slow");
    EXPECT_TRUE(eventually([&] { return slow.arrived() == 1; }));
    set({bert});
    EXPECT_TRUE(eventually([&] { return seen.of("bert") == 1; }));
    const auto state_of_anna = [&] {
        for (const auto& each : one.stores())
            if (each.name == "anna")
                return std::string(to_string(each.state));
        return std::string("gone");
    };
    EXPECT_TRUE(eventually([&] { return state_of_anna() == "leaving"; }));
    all_.send("anna"); // nobody's business any more
    slow.open();
    EXPECT_TRUE(eventually([&] { return state_of_anna() == "gone"; }));
    EXPECT_EQ(running.end().done, 3U);
    EXPECT_EQ(all_.count("anna").done, 2) << to_string(in_hand);
    EXPECT_EQ(all_.count("anna").ready, 1);
}

// Proves: MDB-01
TEST_F(discovering, stores_that_are_listed_again_are_kept_and_a_list_that_fails_changes_nothing)
{
    const auto anna = all_.add("anna");
    set({anna});
    worker one(provider());
    gate held;
    one.handle("orders", [&](const delivery_view&) { held.pass(); });
    background running(one);
    all_.send("anna");
    EXPECT_TRUE(eventually([&] { return held.arrived() == 1; }));
    const int before = asked_;
    set({{.name = "anna", .url = anna.url}}); // another object of the same name
    EXPECT_TRUE(eventually([&] { return asked_ >= before + 3; }));
    set({}, true);
    EXPECT_TRUE(eventually(
        [&] { return here_.logged("stores cannot be listed, those known are served") > 0; }));
    ASSERT_EQ(one.stores().size(), 1U);
    EXPECT_EQ(one.stores().front().state, store_state::busy);
    held.open();
    all_.send("anna");
    EXPECT_TRUE(eventually([&] { return held.arrived() == 2; }));
    EXPECT_EQ(running.end().done, 2U);
}

// Proves: MDB-01
TEST(first_lists, are_not_waited_for_by_a_worker_that_is_told_to_stop)
{
    // Shared with the thread that waits there, which outlives the worker.
    const auto closed = std::make_shared<gate>();
    worker one(discover([closed] {
        closed->pass();
        return std::vector<named_store>{};
    }));
    background running(one);
    EXPECT_TRUE(eventually([&] { return closed->arrived() == 1; }));
    EXPECT_FALSE(running.ended());
    EXPECT_TRUE(one.stores().empty()) << "whoever asks is answered meanwhile";
    running.stop();
    EXPECT_TRUE(eventually([&] { return running.ended(); }));
    closed->open();
    EXPECT_EQ(running.wait().done, 0U);
}

// Proves: MDB-01
TEST(first_lists, that_fail_end_the_worker)
{
    worker one(discover([]() -> std::vector<named_store> {
        throw error(error_code::unavailable, "the directory of tenants is away");
    }));
    EXPECT_STREQ(thrown_by([&] { (void)one.run({}); }).what(), "the directory of tenants is away");
}

// Proves: MDB-01
TEST_F(discovering, a_store_that_has_no_place_is_left_out_and_told_once)
{
    const auto anna = all_.add("anna");
    set({anna, {.name = "nowhere", .url = "nothing:at-all"}});
    worker one(provider());
    tally seen;
    one.handle("orders", [&](const delivery_view& view) { seen.add(view.store()); });
    background running(one);
    const int before = asked_;
    EXPECT_TRUE(eventually([&] { return asked_ >= before + 5; }));
    all_.send("anna");
    EXPECT_TRUE(eventually([&] { return seen.of("anna") == 1; }));
    EXPECT_EQ(here_.logged("the store 'nowhere' is left out"), 1U);
    EXPECT_EQ(running.end().done, 1U);
}

// Proves: MDB-01
TEST_F(discovering, a_store_that_has_moved_is_served_where_it_is_now)
{
    auto anna = all_.add("anna");
    const auto elsewhere = all_.add("elsewhere");
    set({anna});
    worker one(provider());
    std::atomic<int> handled = 0;
    one.handle("orders", [&](const delivery_view& view) {
        EXPECT_EQ(view.store(), "anna");
        ++handled;
    });
    background running(one);
    all_.send("anna");
    EXPECT_TRUE(eventually([&] { return handled == 1; }));
    set({{.name = "anna", .url = elsewhere.url}});
    all_.send("elsewhere");
    EXPECT_TRUE(eventually([&] { return handled == 2; }));
    EXPECT_EQ(running.end().done, 2U);
}

} // namespace
} // namespace posthorn::test
