// The ambient correlation in coroutines: right after every co_await, on whichever thread it goes
// on, while others run in between; and no thread keeps it.
#include "runtime/worker_test.hpp"
#include <posthorn/asio.hpp>
#include <posthorn/correlation.hpp>
#include <posthorn/publisher.hpp>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/experimental/concurrent_channel.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <map>
#include <memory>
#include <set>
#include <utility>

namespace posthorn::conformance {
namespace {

namespace asio = boost::asio;
using asio::use_awaitable;
using ::testing::ElementsAre;

std::string ambient_in_coroutine()
{
    const auto now = correlation_scope::current();
    return now ? now->id() : "nothing";
}

asio::awaitable<void> nap(duration time)
{
    asio::steady_timer timer(co_await asio::this_coro::executor, time);
    co_await timer.async_wait(use_awaitable);
}

/// Behind this many awaitables, each awaiting the next.
asio::awaitable<std::string> deep(int levels)
{
    if (levels > 0)
        co_return co_await deep(levels - 1);
    co_await nap(1ms);
    co_return ambient_in_coroutine();
}

/// An operation of somebody who starts a thread and knows nothing of work that is outstanding: it
/// only completes where its handler wants it to.
template <typename Token>
auto async_on_own_thread(std::vector<std::jthread>& threads, Token&& token)
{
    return asio::async_initiate<Token, void()>(
        [&threads](auto handler) {
            threads.emplace_back([handler = std::move(handler)]() mutable {
                const auto noise = correlation_scope::begin("somebody else's");
                const auto where = asio::get_associated_executor(handler);
                asio::post(where, std::move(handler));
            });
        },
        token);
}

class coroutine_context : public worker_test {
protected:
    /// Handles all that is due with a coroutine.
    template <typename Function>
    run_report run(Function handler, std::size_t concurrency = 64)
    {
        worker one(db(), steady(concurrency));
        one.handle("orders", std::move(handler));
        return one.process_outbox();
    }

    void add_order(const std::string& correlation)
    {
        (void)add("orders", {.correlation_id = correlation});
    }
};

// Proves: COR-02, COR-05
TEST_P(coroutine_context, follows_each_of_many_handlers_across_threads_while_others_interleave)
{
    constexpr std::size_t many = 40;
    for (std::size_t i = 0; i < many; ++i)
        add_order("order-" + std::to_string(i));
    asio::thread_pool elsewhere(2);
    std::atomic<int> wrong = 0;
    std::atomic<int> moved = 0; // to another thread, by a co_await
    std::atomic<std::size_t> inside = 0;
    const auto report = run([&](delivery_view which) -> asio::awaitable<void> {
        const auto& mine = which.message().correlation_id;
        const auto check = [&](std::thread::id before) {
            wrong += ambient_in_coroutine() == mine ? 0 : 1;
            moved += std::this_thread::get_id() == before ? 0 : 1;
        };
        check(std::this_thread::get_id());
        // Nobody ends before all have begun and one has moved: they do interleave.
        ++inside;
        for (int i = 0; i < 20 || ((inside < many || moved == 0) && i < 10'000); ++i) {
            auto before = std::this_thread::get_id();
            co_await nap(duration{i % 3 * 200});
            check(before);
            before = std::this_thread::get_id();
            co_await asio::post(elsewhere, use_awaitable);
            check(before);
            before = std::this_thread::get_id();
            co_await asio::post(use_awaitable);
            check(before);
        }
    });
    elsewhere.join();
    EXPECT_EQ(report.done, many);
    EXPECT_EQ(wrong, 0);
    EXPECT_GT(moved, 0);
    EXPECT_EQ(inside, many);
}

// Proves: COR-05, COR-06
TEST_P(coroutine_context, what_a_coroutine_publishes_belongs_to_its_message)
{
    const auto id = add("orders", {.correlation_id = "order-7"});
    outbox_publisher publisher(db());
    run([&](delivery_view) -> asio::awaitable<void> {
        publisher.publish(message{"first", ""}, {.delay = 1h});
        co_await nap(1ms);
        enqueue(db(), message{"second", ""}, {.delay = 1h});
        co_await nap(1ms);
        publisher.publish(message{"third", ""}, {.delay = 1h});
    });
    for (const auto* topic : {"first", "second", "third"}) {
        const auto found = list_messages(db(), {.topic = topic}).at(0);
        EXPECT_EQ(found.correlation_id, "order-7");
        EXPECT_EQ(found.causation_id, to_string(id));
    }
    EXPECT_EQ(list_messages(db(), {.topic = "third"}).at(0).headers.at("posthorn-corr-seq"), "2");
}

// Proves: COR-02
TEST_P(coroutine_context, reaches_nested_awaitables_and_comes_back)
{
    add_order("order-7");
    notes seen;
    run([&](delivery_view) -> asio::awaitable<void> {
        seen.add(co_await deep(5));
        seen.add(ambient_in_coroutine());
    });
    EXPECT_THAT(seen.all(), ElementsAre("order-7", "order-7"));
}

// Proves: COR-01, COR-02
TEST_P(coroutine_context, a_scope_inside_of_a_coroutine_lives_across_its_suspensions)
{
    add_order("order-7");
    add_order("order-8");
    std::atomic<int> wrong = 0;
    run([&](delivery_view which) -> asio::awaitable<void> {
        const auto& mine = which.message().correlation_id;
        const auto expect = [&](const std::string& id) {
            wrong += ambient_in_coroutine() == id ? 0 : 1;
        };
        for (int i = 0; i < 20; ++i) {
            {
                const auto inner = correlation_scope::begin("inside " + mine);
                co_await nap(200us);
                expect("inside " + mine);
                {
                    const auto innermost = correlation_scope::begin("deep inside " + mine);
                    co_await asio::post(use_awaitable);
                    expect("deep inside " + mine);
                }
                expect("inside " + mine);
            }
            expect(mine);
            co_await nap(200us);
            expect(mine);
        }
    });
    EXPECT_EQ(wrong, 0);
}

// Proves: COR-02
TEST_P(coroutine_context, branches_that_run_side_by_side_keep_their_own)
{
    using namespace asio::experimental::awaitable_operators;
    add_order("order-7");
    std::atomic<int> wrong = 0;
    const auto branch = [&](std::string name) -> asio::awaitable<void> {
        wrong += ambient_in_coroutine() == "order-7" ? 0 : 1;
        const auto scope = correlation_scope::begin(name);
        for (int i = 0; i < 20; ++i) {
            co_await nap(200us);
            wrong += ambient_in_coroutine() == name ? 0 : 1;
            co_await asio::post(use_awaitable);
            wrong += ambient_in_coroutine() == name ? 0 : 1;
        }
    };
    std::string after;
    run([&](delivery_view) -> asio::awaitable<void> {
        co_await (branch("left") && branch("right"));
        after = ambient_in_coroutine();
    });
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(after, "order-7");
}

// Proves: COR-02
TEST_P(coroutine_context, goes_to_other_executors_if_they_are_bound_and_comes_back)
{
    add_order("order-7");
    asio::thread_pool elsewhere(2);
    std::map<std::string, std::string> seen;
    std::thread::id there;
    run([&](delivery_view) -> asio::awaitable<void> {
        const auto look = [&]() -> asio::awaitable<std::string> {
            co_await nap(1ms);
            co_return ambient_in_coroutine();
        };
        const auto bound = bind_context(elsewhere.get_executor());
        seen["spawned"] = co_await asio::co_spawn(elsewhere, look, use_awaitable);
        seen["after that"] = ambient_in_coroutine();
        seen["spawned bound"] = co_await asio::co_spawn(bound, look, use_awaitable);
        seen["after that too"] = ambient_in_coroutine();
        const auto home = co_await asio::this_coro::executor;
        co_await asio::post(asio::bind_executor(bound, use_awaitable));
        there = std::this_thread::get_id();
        seen["moved"] = ambient_in_coroutine();
        co_await asio::post(asio::bind_executor(home, use_awaitable));
        seen["home again"] = ambient_in_coroutine();
    });
    std::set<std::thread::id> threads;
    std::mutex mutex;
    for (int i = 0; i < 100; ++i)
        asio::post(elsewhere, [&] {
            const std::lock_guard lock(mutex);
            threads.insert(std::this_thread::get_id());
            seen["left behind"] += ambient_in_coroutine() == "nothing" ? "" : "something";
        });
    elsewhere.join();
    EXPECT_EQ(seen, (std::map<std::string, std::string>{{"spawned", "nothing"},
                                                        {"after that", "order-7"},
                                                        {"spawned bound", "order-7"},
                                                        {"after that too", "order-7"},
                                                        {"moved", "order-7"},
                                                        {"home again", "order-7"},
                                                        {"left behind", ""}}));
    EXPECT_NE(there, std::thread::id{});
}

// Proves: COR-02
TEST_P(coroutine_context, survives_operations_that_announce_nothing_and_end_on_strange_threads)
{
    add_order("order-7");
    std::vector<std::jthread> threads;
    notes seen;
    run([&](delivery_view) -> asio::awaitable<void> {
        co_await async_on_own_thread(threads, use_awaitable);
        seen.add(ambient_in_coroutine());
        const auto inner = correlation_scope::begin("inner");
        co_await async_on_own_thread(threads, use_awaitable);
        seen.add(ambient_in_coroutine());
    });
    EXPECT_THAT(seen.all(), ElementsAre("order-7", "inner"));
}

/// Part of the context that coroutines run in: it goes with it.
struct lodger : asio::execution_context::service {
    static inline asio::execution_context::id id;

    lodger(asio::execution_context& of, std::shared_ptr<int> with)
        : service(of), luggage(std::move(with))
    {}
    void shutdown() override {}

    std::shared_ptr<int> luggage;
};

// Proves: COR-02, I21
TEST_P(coroutine_context, what_its_executor_needs_stays_for_as_long_as_somebody_holds_it)
{
    add_order("order-7");
    asio::any_io_executor held;
    auto luggage = std::make_shared<int>();
    const std::weak_ptr<int> there = luggage;
    run([&held, mine = std::exchange(luggage, {})](delivery_view) -> asio::awaitable<void> {
        held = co_await asio::this_coro::executor;
        asio::make_service<lodger>(asio::query(held, asio::execution::context), mine);
    });
    // The worker is gone, and its threads. Whoever is still inside of its executor is safe.
    EXPECT_FALSE(there.expired());
    std::atomic<bool> ran = false;
    asio::post(held, [&] { ran = true; });
    held = {};
    EXPECT_TRUE(eventually([&] { return there.expired(); }));
    EXPECT_FALSE(ran) << "nobody is there to run it";
}

// Proves: COR-02, I21
TEST_P(coroutine_context, what_handlers_have_spawned_goes_with_its_threads)
{
    add_order("order-7");
    auto luggage = std::make_shared<int>();
    const std::weak_ptr<int> there = luggage;
    run([mine = std::exchange(luggage, {})](delivery_view) -> asio::awaitable<void> {
        const auto home = co_await asio::this_coro::executor;
        asio::co_spawn(
            home,
            [](std::shared_ptr<int> carried) -> asio::awaitable<void> {
                co_await nap(1h);
                carried.reset();
            }(mine),
            asio::detached);
    });
    EXPECT_TRUE(eventually([&] { return there.expired(); }));
}

// Proves: COR-02, I21
TEST_P(coroutine_context, a_worker_can_go_while_somebody_is_about_to_leave_its_executor)
{
    std::vector<std::jthread> threads;
    for (int i = 0; i < 50; ++i) {
        add_order("order-7");
        EXPECT_EQ(run([&](delivery_view) -> asio::awaitable<void> {
                      co_await async_on_own_thread(threads, use_awaitable);
                  }).done,
                  1U);
    }
}

// Proves: COR-02
TEST_P(coroutine_context, a_handler_that_wakes_another_does_not_lend_it_its_own)
{
    add_order("waits");
    add_order("wakes");
    using pipe = asio::experimental::concurrent_channel<void(boost::system::error_code, int)>;
    asio::thread_pool home(1);
    pipe between(home.get_executor(), 0);
    notes seen;
    run([&](delivery_view which) -> asio::awaitable<void> {
        const bool waits = which.message().correlation_id == "waits";
        if (waits)
            (void)co_await between.async_receive(use_awaitable);
        else
            co_await between.async_send(boost::system::error_code{}, 1, use_awaitable);
        seen.add(which.message().correlation_id + " sees " + ambient_in_coroutine());
    });
    home.join();
    EXPECT_THAT(seen.all(),
                ::testing::UnorderedElementsAre("waits sees waits", "wakes sees wakes"));
}

// Proves: COR-02, COR-05
TEST_P(coroutine_context, ends_with_a_coroutine_that_throws_or_is_cancelled)
{
    add_order("throws");
    add_order("stays");
    notes seen;
    auto options = steady();
    options.on.ended = [&](const delivery_view& which, const outcome&, duration) {
        seen.add(which.message().correlation_id + " ended in " + ambient_in_coroutine());
    };
    worker one(db(), options);
    one.handle("orders", [&](delivery_view which) -> asio::awaitable<void> {
        const auto inner = correlation_scope::begin("inner");
        co_await nap(1ms);
        if (which.message().correlation_id == "throws")
            throw permanent_failure("oh");
        co_await nap(5ms);
        seen.add("stays sees " + ambient_in_coroutine());
    });
    const auto report = one.process_outbox();
    EXPECT_EQ(report.dead, 1U);
    EXPECT_EQ(report.done, 1U);
    EXPECT_THAT(seen.all(),
                ::testing::UnorderedElementsAre("throws ended in throws", "stays sees inner",
                                                "stays ended in stays"));
}

// Proves: COR-02, COR-05, COR-06
TEST_P(coroutine_context, every_hook_runs_inside_of_the_scope_and_enqueues_in_it)
{
    const auto id = add("orders", {.correlation_id = "cart"});
    notes seen;
    const auto note = [&](const std::string& hook) {
        seen.add(hook + " in " + ambient_in_coroutine());
        enqueue(db(), message{hook, ""}, {.delay = 1h});
    };
    auto options = steady();
    options.on.starting = [&](const delivery_view&) { note("starting"); };
    options.on.ended = [&](const delivery_view&, const outcome&, duration) { note("ended"); };
    options.on.settled = [&](const delivery_view&, settled_as) { note("settled"); };
    options.classify = [&](const std::exception_ptr&) {
        note("classify");
        return posthorn::fail("classified");
    };
    worker one(db(), options);
    one.handle("orders", [](delivery_view) -> asio::awaitable<void> {
        const auto inner = correlation_scope::begin("inner");
        co_await nap(1ms);
        throw std::runtime_error("oh");
    });
    EXPECT_EQ(one.process_outbox().dead, 1U);
    EXPECT_THAT(seen.all(), ElementsAre("starting in cart", "classify in cart", "ended in cart",
                                        "settled in cart"));
    for (const auto* hook : {"starting", "classify", "ended", "settled"}) {
        const auto found = list_messages(db(), {.topic = hook});
        ASSERT_EQ(found.size(), 1U) << hook;
        EXPECT_EQ(found.front().correlation_id, "cart");
        EXPECT_EQ(found.front().causation_id, to_string(id));
    }
}

CONFORMANCE_SUITE(coroutine_context);

// Proves: COR-02
TEST(context_executor, leaves_its_threads_as_they_were_whenever_a_coroutine_is_suspended)
{
    asio::io_context io(1);
    notes seen;
    const auto look_in = [&] { seen.add(ambient_in_coroutine()); };
    {
        const auto scope = correlation_scope::begin("x");
        asio::co_spawn(
            bind_context(io.get_executor()),
            [&]() -> asio::awaitable<void> {
                const auto inner = correlation_scope::begin("inner");
                asio::post(io, look_in); // runs while this one sleeps
                co_await nap(1ms);
                asio::post(io, look_in);
                seen.add(ambient_in_coroutine());
            },
            asio::detached);
    }
    io.run();
    EXPECT_THAT(seen.all(), ElementsAre("nothing", "inner", "nothing"));
    EXPECT_EQ(correlation_scope::current(), nullptr);
}

} // namespace
} // namespace posthorn::conformance
