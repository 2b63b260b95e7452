// The code of docs/guides/correlation.md.
#include <posthorn/in_process.hpp>
#include <posthorn/posthorn.hpp>
#include <posthorn/publisher.hpp>
#include <posthorn/testing/testing.hpp>
#include <posthorn/trace.hpp>
#include <posthorn/worker.hpp>

#include <iostream>
#include <memory>
#include <string>
#include <thread>

namespace ph = posthorn;

namespace {

void handlers(ph::worker& worker)
{
    worker.handle("orders.placed", [](ph::transactional_delivery<>& d) {
        ph::enqueue(d.tx(), ph::message{"mail.confirm", d.payload()});
        ph::enqueue(d.tx(), ph::message{"stock.reserve", d.payload()});
    });
    worker.handle("mail.*", [](const ph::delivery_view&) {});
    worker.handle("stock.*", [](const ph::delivery_view&) {});
}

void begin_one(ph::store& store)
{
    const auto scope = ph::correlation_scope::begin("order-7");
    ph::enqueue(store, ph::message{"orders.placed", "7"});
}

std::string id_here()
{
    const auto now = ph::correlation_scope::current();
    return now ? now->id() : "nothing";
}

std::string other_threads()
{
    std::string seen;
    const auto scope = ph::correlation_scope::begin("order-7");
    std::thread thread(ph::bind_context([&] { seen = id_here(); }));
    thread.join();
    return seen;
}

void publishers(ph::store& store)
{
    const auto scope = ph::correlation_scope::begin("order-8");
    ph::outbox_publisher publisher(store);
    publisher.publish(ph::message{"orders.seen", "8"});                                // number 1
    publisher.publish(ph::message{"orders.seen", "8"});                                // number 2
    publisher.publish(ph::message{"orders.seen", "9"}, {.correlation_id = "order-9"}); // none
}

bool directly()
{
    const auto bus = std::make_shared<ph::in_process_transport>();
    const auto listening = bus->subscribe("cache.*", [](const ph::transport_message& m) {
        std::cout << m.topic << " belongs to " << m.headers.at("posthorn-corr-id") << "\n";
    });
    ph::direct_publisher publisher(bus);
    const auto answer = publisher.publish(ph::message{"cache.flush", ""});
    if (!answer.accepted())
        std::cerr << to_string(answer.why) << ": " << answer.detail << "\n";
    return answer.accepted();
}

std::size_t trace(ph::store& store)
{
    const auto found = ph::trace_messages(store, "order-7");
    for (const auto& each : found.messages)
        std::cout << std::string(2 * each.depth, ' ') << each.record.topic << "\n";
    return found.messages.size();
}

} // namespace

int main()
{
    ph::testing::store_for_tests store;
    ph::worker worker(store);
    handlers(worker);
    begin_one(store);
    ph::testing::drain(worker);
    publishers(store);
    return trace(store) == 3 && other_threads() == "order-7" && directly() ? 0 : 1;
}
