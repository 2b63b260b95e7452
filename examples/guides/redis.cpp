// The code of docs/guides/redis.md, on the server that POSTHORN_TEST_REDIS names.
#include <posthorn/posthorn.hpp>
#include <posthorn/redis.hpp>
#include <posthorn/relay.hpp>
#include <posthorn/worker.hpp>

#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <thread>
#include <unistd.h>

namespace ph = posthorn;

namespace {

std::shared_ptr<ph::transport> open_server(const std::string& url, const std::string& prefix)
{
    return ph::open_redis({.url = url, .prefix = prefix, .entries_max = 1'000'000});
}

void relay_to_server(ph::store store, std::shared_ptr<ph::transport> server, std::stop_token stop)
{
    ph::worker relay(std::move(store), {.concurrency = 2'000});
    relay.handle("orders.*", ph::relay_to(server, {.destination = "orders"}));
    relay.handle("mail.*", ph::relay_to(server));
    relay.run(stop);
}

std::unique_ptr<ph::feed> open_stream(const std::string& url, const std::string& stream)
{
    return ph::open_redis_feed(
        {.url = url, .stream = stream, .group = "billing", .consumer = "billing-1"});
}

void feed_from_stream(ph::store store, ph::feed& stream, std::stop_token stop)
{
    const auto fed = ph::feed_inbox(std::move(store), stream, {.source = "shop"}, stop);
    std::cout << fed.stored << " stored, " << fed.repeated << " known already\n";
}

} // namespace

int main()
try {
    const char* url = std::getenv("POSTHORN_TEST_REDIS");
    if (url == nullptr)
        throw std::runtime_error("POSTHORN_TEST_REDIS is not set: run ./dev servers, and then this "
                                 "program with the variables that it prints");
    const auto prefix = "guide-" + std::to_string(getpid()) + ".";
    auto store = ph::open("sqlite::memory:");
    const auto stream = open_stream(url, prefix + "orders");
    std::jthread relaying([&](const std::stop_token& stop) {
        relay_to_server(store, open_server(url, prefix), stop);
    });

    ph::enqueue(store, {"orders.placed", "1"});
    ph::enqueue(store, {"mail.welcome", "hello"}); // to a stream that nobody reads here
    ph::enqueue(store, {"orders.paid", "1"});
    std::size_t stored = 0;
    ph::feed_inbox(store, *stream,
                   {.source = "shop",
                    .progress =
                        [&](const ph::feed_report& now) {
                            stored += now.stored;
                            if (stored >= 2)
                                relaying.request_stop();
                        }},
                   relaying.get_stop_token());
    feed_from_stream(store, *stream, relaying.get_stop_token()); // which is over already
    return stored == 2 ? EXIT_SUCCESS : EXIT_FAILURE;
} catch (const std::exception& failure) {
    std::cerr << failure.what() << "\n";
    return EXIT_FAILURE;
}
