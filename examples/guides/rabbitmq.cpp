// The code of docs/guides/rabbitmq.md, on the broker that POSTHORN_TEST_RABBITMQ names.
#include <posthorn/posthorn.hpp>
#include <posthorn/rabbitmq.hpp>
#include <posthorn/relay.hpp>
#include <posthorn/worker.hpp>

#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <thread>
#include <unistd.h>

namespace ph = posthorn;

namespace {

std::shared_ptr<ph::transport> open_broker(const std::string& url, const std::string& exchange)
{
    return ph::open_rabbitmq({.url = url, .exchange = exchange, .source = "shop"});
}

void relay_to_broker(ph::store store, const std::string& url, std::stop_token stop)
{
    ph::worker relay(std::move(store), {.concurrency = 2'000});
    relay.handle("orders.*", ph::relay_to(open_broker(url, "amq.topic")));
    relay.handle("mail.*", ph::relay_to(open_broker(url, ""), {.destination = "/{header.queue}"}));
    relay.run(stop);
}

std::shared_ptr<ph::transport> open_shop(const std::string& url)
{
    return ph::open_rabbitmq({.url = url,
                              .exchange = "shop",
                              .declare = ph::rabbitmq_declaration{.exchange_type = "topic",
                                                                  .queue = "shop.orders",
                                                                  .binding = "orders.#"}});
}

std::unique_ptr<ph::feed> open_queue(const std::string& url, const std::string& queue)
{
    return ph::open_rabbitmq_feed(
        {.url = url, .queue = queue, .declare = true, .dead_letter_exchange = "amq.fanout"});
}

void feed_from_broker(ph::store store, ph::feed& queue, std::stop_token stop)
{
    const auto fed = ph::feed_inbox(std::move(store), queue, {.source = "shop"}, stop);
    std::cout << fed.stored << " stored, " << fed.repeated << " known already\n";
}

} // namespace

int main()
{
    (void)&open_shop; // calling it would leave an exchange behind
    const char* url = std::getenv("POSTHORN_TEST_RABBITMQ");
    if (url == nullptr)
        throw std::runtime_error("POSTHORN_TEST_RABBITMQ is not set: run ./dev servers, and then "
                                 "this program with the variables that it prints");
    const auto name = "guide-" + std::to_string(getpid());
    auto store = ph::open("sqlite::memory:");
    const auto queue = open_queue(url, name);
    std::stop_source told;
    std::jthread relaying([&] { relay_to_broker(store, url, told.get_token()); });

    // A queue that is not there yet would cost the message an attempt: so wait for it.
    const auto way = open_broker(url, "");
    ph::direct_publisher direct(way);
    while (!direct.publish({"ready", "x"}, {.destination = "/" + name}).accepted())
        std::this_thread::yield();

    ph::enqueue(store, {"mail.welcome", "hello"}, {.headers = {{"queue", name}}});
    std::size_t stored = 0;
    ph::feed_inbox(store, *queue,
                   {.source = "shop",
                    .progress =
                        [&](const ph::feed_report& now) {
                            stored += now.stored;
                            if (stored >= 2)
                                told.request_stop();
                        }},
                   told.get_token());
    feed_from_broker(store, *queue, told.get_token()); // which is over already
    return stored == 2 ? EXIT_SUCCESS : EXIT_FAILURE;
}
