// The code of docs/guides/shutdown.md and docs/guides/waking-up.md.
#include <posthorn/posthorn.hpp>
#include <posthorn/worker.hpp>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <thread>
#include <unistd.h>

namespace ph = posthorn;
using namespace std::chrono_literals;

namespace {

void handle(const ph::delivery_view& d)
{
    if (d.payload() == "last")
        kill(getpid(), SIGTERM); // as systemd or a container runtime would
}

// A service.
int serve(ph::store store)
{
    const ph::stop_on_signals stop; // first of all: before any thread is started

    ph::worker worker(std::move(store), {.lease = 30s, .grace = 20s});
    worker.handle("mail.*", handle);

    const auto report = worker.run(stop);
    std::cout << report.done << " done, " << report.left_running << " left running\n";
    return report.left_running == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

// Part of a larger program.
void serve_within(ph::store store)
{
    ph::worker worker(std::move(store), {.look_at_least_every = 30s});
    worker.handle("mail.*", handle);

    std::stop_source gently;
    std::stop_source at_once;
    std::thread running([&] { worker.run({gently.get_token(), at_once.get_token()}); });

    gently.request_stop();  // begin nothing new, let handlers end
    at_once.request_stop(); // or: ask them to end now
    running.join();
}

// Called by somebody's timer.
void on_timer(ph::worker& worker, const ph::stop_request& stop)
{
    const auto report = worker.process_outbox(1'000, stop);
    std::cout << report.done << " done in this pass\n";
}

} // namespace

int main()
{
    auto store = ph::open("sqlite::memory:");
    for (int i = 0; i < 20; ++i)
        ph::enqueue(store, {"mail.welcome", i == 19 ? "last" : "x"});
    const int status = serve(store);
    serve_within(store);
    ph::worker worker(store);
    worker.handle("mail.*", [](const ph::delivery_view&) {});
    on_timer(worker, {});
    return ph::count_messages(store).ready == 0 ? status : EXIT_FAILURE;
}
