// The threads behind handlers that block: as few as will do, as many as are needed.
#include "runtime/thread_pool.hpp"
#include "runtime/worker_test.hpp"

#include <atomic>
#include <memory>

namespace posthorn::conformance {
namespace {

TEST(thread_pool, has_no_threads_until_there_is_something_to_do)
{
    runtime::thread_pool pool(4);
    EXPECT_EQ(pool.threads(), 0U);
    pool.submit({});
    EXPECT_EQ(pool.threads(), 0U);
    EXPECT_FALSE(pool.has_waiting());
}

TEST(thread_pool, quick_tasks_share_a_thread)
{
    std::atomic<int> done = 0;
    runtime::thread_pool pool(4);
    pool.submit(std::vector<std::function<void()>>(100, [&] { ++done; }));
    EXPECT_TRUE(eventually([&] { return done == 100; }));
    EXPECT_EQ(pool.threads(), 1U);
}

TEST(thread_pool, many_quick_tasks_do_not_call_for_many_threads)
{
    std::atomic<int> done = 0;
    gate door;
    runtime::thread_pool pool(10'000);
    std::vector<std::function<void()>> tasks(10'000, [&] { ++done; });
    tasks.emplace_back([&] { door.pass(); });
    tasks.emplace_back([&] { ++done; });
    pool.submit(std::move(tasks));
    EXPECT_TRUE(eventually([&] {
        pool.grow();
        return done == 10'001; // a thread more when one is in the way, and soon
    }));
    EXPECT_LT(pool.threads(), 1'000U);
    door.open();
}

TEST(thread_pool, slow_tasks_get_a_thread_each_up_to_the_limit)
{
    gate door;
    std::atomic<int> done = 0;
    runtime::thread_pool pool(4);
    pool.submit(std::vector<std::function<void()>>(6, [&] {
        door.pass();
        ++done;
    }));
    EXPECT_TRUE(eventually([&] {
        pool.grow();
        return door.arrived() == 4;
    }));
    EXPECT_EQ(pool.threads(), 4U);
    EXPECT_TRUE(pool.has_waiting());
    pool.grow();
    EXPECT_EQ(pool.threads(), 4U);
    door.open();
    EXPECT_TRUE(eventually([&] { return done == 6; }));
}

// Proves: I21
TEST(thread_pool, does_not_wait_for_a_task_that_never_ends)
{
    const auto door = std::make_shared<gate>(); // with the task, which outlives its pool
    {
        runtime::thread_pool pool(1);
        pool.submit({[door] { door->pass(); }});
        ASSERT_TRUE(eventually([&] { return door->arrived() == 1; }));
    }
    door->open();
    EXPECT_TRUE(eventually([&] { return door.use_count() == 1; }));
}

} // namespace
} // namespace posthorn::conformance
