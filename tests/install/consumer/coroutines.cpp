// An application whose handlers are coroutines.
#include <posthorn/asio.hpp>
#include <posthorn/posthorn.hpp>
#include <posthorn/worker.hpp>

#include <iostream>

int main()
{
    auto store = posthorn::open("sqlite::memory:");
    posthorn::worker worker(store);
    worker.handle("greeting", [](posthorn::delivery_view what) -> boost::asio::awaitable<void> {
        std::cout << what.topic() << ": " << what.payload() << "\n";
        co_return;
    });
    posthorn::enqueue(store, {"greeting", "hello"});
    return worker.process_outbox().done == 1 ? 0 : 1;
}
