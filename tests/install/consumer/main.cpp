// An application with everything: it enqueues, and a worker handles.
#include <posthorn/posthorn.hpp>
#include <posthorn/testing/testing.hpp>
#include <posthorn/worker.hpp>

#include <iostream>

int main()
{
    posthorn::testing::store_for_tests store;
    posthorn::worker worker(store);
    worker.handle("greeting", [](const posthorn::delivery_view& what) {
        if (what.attempt() == 1)
            return posthorn::retry("not yet");
        std::cout << what.topic() << ": " << what.payload() << "\n";
        return posthorn::done();
    });
    posthorn::enqueue(store, {"greeting", "hello"});

    const auto report = posthorn::testing::drain_to_the_end(worker, store);
    const auto all = posthorn::testing::everything_is_done(store);
    if (!all)
        std::cerr << all << "\n";
    return all && report.retrying == 1 ? 0 : 1;
}
