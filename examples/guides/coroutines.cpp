// The coroutines of docs/guides/handlers.md and docs/guides/correlation.md.
#include <posthorn/asio.hpp>
#include <posthorn/correlation.hpp>
#include <posthorn/posthorn.hpp>
#include <posthorn/testing/testing.hpp>
#include <posthorn/worker.hpp>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <atomic>
#include <cstdlib>
#include <iostream>

namespace ph = posthorn;
namespace asio = boost::asio;
using namespace std::chrono_literals;

int main()
{
    ph::testing::store_for_tests store;
    ph::worker worker(store, {.concurrency = 1'000});
    worker.handle("pushes.*", [](ph::delivery_view) -> asio::awaitable<ph::outcome> {
        asio::steady_timer answer(co_await asio::this_coro::executor, 10ms);
        co_await answer.async_wait(asio::use_awaitable);
        co_return ph::done();
    });

    asio::thread_pool pool(1);
    std::atomic<bool> followed = false;
    const auto resize = [&]() -> asio::awaitable<void> {
        followed = ph::correlation_scope::current()->id() == "image-1";
        co_return;
    };
    worker.handle("images", [&](ph::delivery_view) -> asio::awaitable<void> {
        co_await asio::co_spawn(ph::bind_context(pool.get_executor()), resize(),
                                asio::use_awaitable);
    });

    for (int i = 0; i < 500; ++i)
        ph::enqueue(store, {"pushes.phone", "x"});
    ph::enqueue(store, ph::message{"images", "x"}, {.correlation_id = "image-1"});
    const auto report = ph::testing::drain(worker);
    pool.join();
    std::cout << report.done << " done\n";
    return report.done == 501 && followed ? EXIT_SUCCESS : EXIT_FAILURE;
}
