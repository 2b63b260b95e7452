// The code of docs/guides/webhooks.md.
#include <posthorn/inbox_endpoint.hpp>
#include <posthorn/posthorn.hpp>
#include <posthorn/relay.hpp>
#include <posthorn/testing/testing.hpp>
#include <posthorn/webhook.hpp>
#include <posthorn/webhook_signature.hpp>
#include <posthorn/worker.hpp>

#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace ph = posthorn;
namespace pt = posthorn::testing;
using namespace std::chrono_literals;

namespace {

void expect(bool given)
{
    if (!given)
        throw std::runtime_error("not as expected");
}

void send_orders(ph::worker& worker, const std::string& secret)
{
    const auto hooks = ph::open_webhook({.url = "https://partner.example/hooks/orders",
                                         .secrets = {secret},
                                         .source = "https://shop.example"});
    worker.handle("orders.*", ph::relay_to(hooks));
}

void send_to_subscribers(ph::worker& worker, const std::string& secret)
{
    const auto hooks = ph::open_webhook({.secrets = {secret}, .answer_within = 5s});
    worker.handle("notify.*", ph::relay_to(hooks, {.destination = "{header.callback}"}));
}

std::shared_ptr<ph::transport> inside(const std::string& url, const std::string& secret)
{
    return ph::open_webhook({.url = url, .secrets = {secret}, .allow_private = {"127.0.0.0/8"}});
}

std::unique_ptr<ph::inbox_endpoint> receive(ph::store store, const std::string& secret)
{
    auto hooks = std::make_unique<ph::inbox_endpoint>(
        store, ph::inbox_endpoint_options{
                   .paths = {{.path = "/hooks/shop", .source = "shop", .secrets = {secret}}},
               });
    std::cout << "listening on port " << hooks->start() << "\n";
    return hooks;
}

void register_handlers(ph::worker& worker)
{
    worker.handle(ph::inbox_topic("orders.placed"), [](ph::transactional_delivery<>& d) {
        ph::enqueue(d.tx(), {"receipts", d.payload()});
    });
}

struct request {
    std::string id;
    std::string timestamp;
    std::string signature;
    std::string body;
};

int receive_in_your_own_server(ph::store& store, const request& request,
                               const std::vector<std::string>& secrets)
{
    const auto verdict = ph::verify_webhook({.id = request.id,
                                             .timestamp = request.timestamp,
                                             .signature = request.signature,
                                             .body = request.body},
                                            secrets, store.environment().clock->now());
    if (verdict != ph::webhook_verdict::genuine)
        return 401;
    ph::enqueue_inbound(store, {.source = "shop", .id = request.id},
                        {"orders.placed", request.body});
    return 202; // only now: it is stored
}

} // namespace

int main()
try {
    const std::string secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    pt::store_for_tests store;
    {
        ph::worker worker(store, {.concurrency = 1});
        send_orders(worker, secret);
        send_to_subscribers(worker, secret);
    }
    ph::inbox_endpoint hooks(
        store, {.paths = {{.path = "/hooks/shop", .source = "shop", .secrets = {secret}}}});
    const auto url = "http://127.0.0.1:" + std::to_string(hooks.start()) + "/hooks/shop";
    expect(receive(store, secret) != nullptr);

    ph::worker worker(store, {.concurrency = 1});
    const auto out = ph::open_webhook(
        {.url = url, .secrets = {secret}, .allow_private = {"127.0.0.0/8"}}, store.environment());
    expect(inside(url, secret)->name() == out->name());
    worker.handle("orders.*", ph::relay_to(out));
    register_handlers(worker);
    worker.handle("receipts", [](const ph::delivery_view&) {});
    ph::enqueue(store, {"orders.placed", "a book"});
    pt::drain_for(worker, store, 1min);
    expect(static_cast<bool>(pt::was_enqueued(store, "receipts", {"a book"})));

    const auto seconds =
        std::chrono::floor<std::chrono::seconds>(store.clock().now()).time_since_epoch().count();
    request given{"msg_1", std::to_string(seconds), "", "a pen"};
    expect(receive_in_your_own_server(store, given, {secret}) == 401);
    given.signature = ph::sign_webhook(given.id, seconds, given.body, std::vector{secret});
    expect(receive_in_your_own_server(store, given, {secret}) == 202);
} catch (const std::exception& failure) {
    std::cerr << failure.what() << "\n";
    return 1;
}
