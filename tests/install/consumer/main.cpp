// An application with everything: it enqueues, claims and acknowledges.
#include <posthorn/posthorn.hpp>
#include <posthorn/testing/manual_clock.hpp>

#include <iostream>

int main()
{
    posthorn::store_options options;
    options.environment.clock = std::make_shared<posthorn::testing::manual_clock>();
    auto store = posthorn::open("sqlite::memory:", options);
    posthorn::enqueue(store, {"greeting", "hello"});

    posthorn::outbox outbox(store);
    const auto me = posthorn::owner::create("consumer", *store.environment().random);
    const auto batch = outbox.claim(me);
    for (const auto& each : batch.deliveries)
        std::cout << each.topic << ": " << each.payload << "\n";
    return outbox.acknowledge(me, batch.receipts()).settled() == 1 ? 0 : 1;
}
