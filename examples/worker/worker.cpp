// The smallest worker: handlers by topic, until nothing is due any more or somebody says stop.
//
// usage: example_worker URL [--stay]
//
// Every message is handled by printing it; those of the topic "alarm" find nobody who listens and
// fail for good, so that there is a dead letter to look at. With --stay it goes on until Ctrl-C.
#include <posthorn/posthorn.hpp>
#include <posthorn/worker.hpp>

#include <exception>
#include <iostream>
#include <string_view>

namespace {

void print(const posthorn::delivery_view& what)
{
    std::cout << "  " << what.topic() << ", attempt " << what.attempt() << ": " << what.payload()
              << "\n";
}

void work(const posthorn::store& store, bool stay)
{
    const posthorn::stop_on_signals stop;

    // One at a time, so that the output is in order; ten at once unless you say so.
    posthorn::worker worker(store, {.name = "example-worker", .concurrency = 1});
    worker.handle("*", [](const posthorn::delivery_view& what) { print(what); });
    worker.handle("alarm", [](const posthorn::delivery_view& what) {
        print(what);
        return posthorn::fail("nobody listens to alarms");
    });

    const auto report = worker.run(stop, {.until_empty = !stay});
    std::cout << report.done << " done, " << report.retrying << " to be tried again, "
              << report.dead << " dead\n";
}

} // namespace

int main(int argc, char** argv)
try {
    const bool stay = argc == 3 && std::string_view(argv[2]) == "--stay";
    if (argc != 2 && !stay) {
        std::cerr << "usage: example_worker URL [--stay]\n";
        return 2;
    }
    work(posthorn::open(argv[1]), stay);
    return 0;
} catch (const std::exception& failure) {
    std::cerr << "example_worker: " << failure.what() << "\n";
    return 1;
}
