// The code of docs/guides/nats.md, on the server that POSTHORN_TEST_NATS names.
#include <posthorn/nats.hpp>
#include <posthorn/posthorn.hpp>
#include <posthorn/relay.hpp>
#include <posthorn/worker.hpp>

#include <nats/nats.h>

#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <thread>
#include <unistd.h>

namespace ph = posthorn;

namespace {

std::shared_ptr<ph::transport> open_broker(const std::string& url, const std::string& prefix)
{
    return ph::open_nats({.url = url, .prefix = prefix, .source = "shop"});
}

void relay_to_broker(ph::store store, std::shared_ptr<ph::transport> broker, std::stop_token stop)
{
    ph::worker relay(std::move(store), {.concurrency = 2'000});
    relay.handle("orders.*", ph::relay_to(broker));
    relay.handle("mail.*", ph::relay_to(broker, {.destination = "letters.{header.lang}"}));
    relay.run(stop);
}

std::shared_ptr<ph::transport> open_with_stream(const std::string& url)
{
    return ph::open_nats(
        {.url = url,
         .declare = ph::nats_declaration{.stream = "ORDERS", .subjects = {"orders.>"}}});
}

std::unique_ptr<ph::feed> open_stream(const std::string& url, const std::string& stream)
{
    return ph::open_nats_feed({.url = url, .stream = stream, .consumer = "billing"});
}

void feed_from_stream(ph::store store, ph::feed& stream, std::stop_token stop)
{
    const auto fed = ph::feed_inbox(std::move(store), stream, {.source = "shop"}, stop);
    std::cout << fed.stored << " stored, " << fed.repeated << " known already\n";
}

void must(natsStatus status)
{
    if (status != NATS_OK)
        throw std::runtime_error(natsStatus_GetText(status));
}

// Streams belong to whoever runs the server, which is us here.
void make_stream(const std::string& url, const std::string& name, const std::string& subjects)
{
    natsConnection* connection = nullptr;
    must(natsConnection_ConnectTo(&connection, url.c_str()));
    jsCtx* context = nullptr;
    must(natsConnection_JetStream(&context, connection, nullptr));
    jsStreamConfig config;
    must(jsStreamConfig_Init(&config));
    const char* all[] = {subjects.c_str()};
    config.Name = name.c_str();
    config.Subjects = all;
    config.SubjectsLen = 1;
    must(js_AddStream(nullptr, context, &config, nullptr, nullptr));
    jsCtx_Destroy(context);
    natsConnection_Destroy(connection);
}

} // namespace

int main()
try {
    (void)&open_with_stream; // calling it would leave a stream behind
    const char* url = std::getenv("POSTHORN_TEST_NATS");
    if (url == nullptr)
        throw std::runtime_error("POSTHORN_TEST_NATS is not set: run ./dev servers, and then this "
                                 "program with the variables that it prints");
    const auto name = "guide-" + std::to_string(getpid());
    make_stream(url, name, name + ".>");
    auto store = ph::open("sqlite::memory:");
    const auto stream = open_stream(url, name);
    std::jthread relaying([&](const std::stop_token& stop) {
        relay_to_broker(store, open_broker(url, name + "."), stop);
    });

    ph::enqueue(store, {"orders.placed", "1"});
    ph::enqueue(store, {"mail.welcome", "hello"}, {.headers = {{"lang", "de"}}});
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
