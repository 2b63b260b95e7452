// Coroutine handlers: many wait at once on a few threads, and they end in all the ways that others
// do.
#include "runtime/worker_test.hpp"
#include <posthorn/asio.hpp>
#include <posthorn/json.hpp>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <atomic>
#include <fstream>
#include <memory>

namespace posthorn::conformance {
namespace {

struct order_placed {
    int order_id = 0;
};

void from_json(const nlohmann::json& from, order_placed& into)
{
    from.at("order_id").get_to(into.order_id);
}

} // namespace
} // namespace posthorn::conformance

template <>
struct posthorn::message_type<posthorn::conformance::order_placed> {
    static constexpr std::string_view topic = "orders.placed";
};

namespace posthorn::conformance {
namespace {

using boost::asio::awaitable;
using ::testing::Each;
using ::testing::HasSubstr;

/// How many threads this process has.
int threads_now()
{
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("Threads:"))
            return std::stoi(line.substr(8));
    throw std::runtime_error("this system does not say how many threads there are");
}

awaitable<void> rest_for(std::chrono::milliseconds time)
{
    boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor, time);
    co_await timer.async_wait(boost::asio::use_awaitable);
}

// The thread sanitizer starts one of its own when it pleases.
#ifdef __SANITIZE_THREAD__
constexpr int threads_of_sanitizer = 1;
constexpr std::size_t many = 2'000;
#else
constexpr int threads_of_sanitizer = 0;
constexpr std::size_t many = 10'000;
#endif

class coroutines : public worker_test {};

// Proves: OUT-10
TEST_P(coroutines, thousands_wait_at_once_on_a_few_threads)
{
    add_many(many);
    crowd inside;
    std::atomic<int> threads = 0;
    const int before = threads_now();
    worker one(db(), steady(many));
    one.handle("orders", [&](delivery_view) -> awaitable<outcome> {
        inside.enter();
        for (int i = 0; i < 3'000 && inside.most() < many; ++i)
            co_await rest_for(10ms);
        if (threads == 0)
            threads = threads_now();
        inside.leave();
        co_return done();
    });
    EXPECT_EQ(one.process_outbox(many).done, many);
    EXPECT_EQ(inside.most(), many);
    // One settles, one watches the time, two are for the coroutines.
    EXPECT_LE(threads - before, 4 + threads_of_sanitizer);
}

// Proves: OUT-11
TEST_P(coroutines, end_in_all_the_ways_that_handlers_do)
{
    worker one(db(), steady());
    one.handle("nothing", [](delivery_view) -> awaitable<void> { co_await rest_for(1ms); });
    one.handle("done", [](delivery_view) -> awaitable<outcome> { co_return done(); });
    one.handle("retry", [](const delivery_view&) -> awaitable<outcome> {
        co_await rest_for(1ms);
        co_return retry("not now");
    });
    one.handle("fail",
               [](delivery_view) -> awaitable<outcome> { co_return posthorn::fail("never"); });
    one.handle("throws", [](delivery_view) -> awaitable<void> {
        co_await rest_for(1ms);
        throw std::runtime_error("no network");
    });
    one.handle("permanent", [](delivery_view) -> awaitable<void> {
        co_await rest_for(1ms);
        throw permanent_failure("no address");
    });
    std::map<std::string, message_id> ids;
    for (const auto* topic : {"nothing", "done", "retry", "fail", "throws", "permanent"})
        ids[topic] = add(topic);
    const auto report = one.process_outbox();
    EXPECT_EQ(report.done, 2U);
    EXPECT_EQ(report.retrying, 2U);
    EXPECT_EQ(report.dead, 2U);
    EXPECT_EQ(look(ids["retry"]).last_error, "not now");
    EXPECT_EQ(look(ids["fail"]).last_error, "never");
    EXPECT_EQ(look(ids["throws"]).last_error, "no network");
    EXPECT_EQ(look(ids["permanent"]).last_error, "no address");
}

// Proves: OUT-11
TEST_P(coroutines, throw_what_the_application_says_it_means)
{
    auto options = steady();
    options.classify = [](const std::exception_ptr&) { return posthorn::fail("classified"); };
    const auto id = add();
    const auto report = pass(
        [](delivery_view) -> awaitable<void> {
            co_await rest_for(1ms);
            throw std::runtime_error("no network");
        },
        options);
    EXPECT_EQ(report.dead, 1U);
    EXPECT_EQ(look(id).last_error, "classified");
}

// Proves: OUT-10
TEST_P(coroutines, are_cancelled_when_their_time_is_up)
{
    const auto id = add();
    std::atomic<bool> begun = false;
    worker one(db(), steady());
    one.handle("orders",
               [&](delivery_view) -> awaitable<void> {
                   begun = true;
                   co_await rest_for(std::chrono::hours{1});
               },
               {.timeout = 5s});
    background running(one);
    ASSERT_TRUE(eventually([&] { return begun.load(); }));
    clock().advance(5s);
    EXPECT_TRUE(eventually([&] { return one.status().so_far.retrying == 1; }));
    EXPECT_THAT(look(id).last_error, HasSubstr("ancel"));
}

// Proves: OUT-18
TEST_P(coroutines, take_typed_messages)
{
    const auto good = enqueue(db(), message{"orders.placed", R"({"order_id": 17})"}).id;
    const auto bad = enqueue(db(), message{"orders.placed", "secret"}).id;
    notes met;
    worker one(db(), steady());
    one.handle<order_placed>([&](const order_placed& order) -> awaitable<outcome> {
        co_await rest_for(1ms);
        met.add(std::to_string(order.order_id));
        co_return done();
    });
    EXPECT_EQ(one.process_outbox().done, 1U);
    EXPECT_THAT(met.all(), ::testing::ElementsAre("17"));
    EXPECT_EQ(state_of(good), message_state::done);
    EXPECT_EQ(state_of(bad), message_state::dead);
    EXPECT_THAT(look(bad).last_error, ::testing::Not(HasSubstr("secret")));
}

// Proves: I21
TEST_P(coroutines, that_outlive_their_worker_end_in_peace)
{
    add();
    const auto begun = std::make_shared<std::atomic<bool>>(false);
    const auto door = std::make_shared<std::atomic<bool>>(false);
    const auto ended = std::make_shared<std::atomic<bool>>(false);
    {
        auto options = steady();
        options.grace = 0s;
        worker one(db(), options);
        one.handle("orders", [begun, door, ended](delivery_view) -> awaitable<void> {
            *begun = true;
            while (!*door) {
                try {
                    co_await rest_for(1ms);
                } catch (const std::exception&) {
                    std::this_thread::yield(); // it ignores that it is asked to stop
                }
            }
            *ended = true;
        });
        background running(one);
        ASSERT_TRUE(eventually([&] { return begun->load(); }));
        EXPECT_EQ(running.end().left_running, 1U);
    }
    *door = true;
    EXPECT_TRUE(eventually([&] { return ended->load(); }));
}

// The last coroutine may still hold its worker's parts when the worker goes.
TEST_P(coroutines, a_worker_can_go_the_moment_its_last_coroutine_ends)
{
    for (int i = 0; i < 50; ++i) {
        add();
        worker one(db(), steady());
        one.handle("orders", [](delivery_view) -> awaitable<void> { co_return; });
        EXPECT_EQ(one.process_outbox().done, 1U);
    }
}

CONFORMANCE_SUITE(coroutines);

} // namespace
} // namespace posthorn::conformance
