// The coroutines of docs/guides/handlers.md.
#include <posthorn/asio.hpp>
#include <posthorn/posthorn.hpp>
#include <posthorn/testing/testing.hpp>
#include <posthorn/worker.hpp>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

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

    for (int i = 0; i < 500; ++i)
        ph::enqueue(store, {"pushes.phone", "x"});
    const auto report = ph::testing::drain(worker);
    std::cout << report.done << " done\n";
    return report.done == 500 ? EXIT_SUCCESS : EXIT_FAILURE;
}
