// A report that is made every night, and mailed: the job's handler publishes messages, and all of
// them belong to the execution, without a word about it in the handler.
//
//     example_scheduled_report [URL]      a store, whose tables exist; in memory unless given
//
// Nobody waits for the night: the clock is moved by hand. One of the nights is the one on which
// clocks in Vienna go forward, and there is no half past two.
#include <posthorn/posthorn.hpp>
#include <posthorn/testing/testing.hpp>
#include <posthorn/worker.hpp>

#include <cstdlib>
#include <iostream>
#include <string>

namespace ph = posthorn;
namespace pt = posthorn::testing;
using namespace std::chrono_literals;
using std::chrono::sys_days;
using std::chrono::year;

namespace {

constexpr auto nightly = "nightly-report";

ph::worker make_worker(const ph::store& store)
{
    ph::worker worker(store, {.name = "reports", .concurrency = 1});
    worker.handle("report.make", [publisher = ph::outbox_publisher(store)](
                                     const ph::delivery_view& which) mutable {
        std::cout << "making the report of " << which.headers().at("posthorn-job-nominal") << "\n";
        for (const auto* reader : {"ada", "bob"})
            publisher.publish(ph::message{"report.mail", reader});
    });
    worker.handle("report.mail", [](const ph::delivery_view& which) {
        std::cout << "  mail to " << which.payload() << ", number "
                  << which.headers().at("posthorn-corr-seq") << "\n";
    });
    return worker;
}

void show(ph::store& store)
{
    for (const auto& each : ph::list_executions(store, {.job = nightly})) {
        std::cout << each.job << ": " << to_string(each.state) << "\n";
        const auto found = ph::trace_messages(store, to_string(each.id));
        for (const auto& message : found.messages)
            std::cout << std::string(2 * message.depth + 2, ' ') << message.record.topic << " "
                      << to_string(message.record.state) << "\n";
    }
}

} // namespace

int main(int argc, char** argv)
try {
    pt::test_store_options where;
    if (argc > 1) {
        where.url = argv[1];
        where.open = &ph::open;
    }
    pt::store_for_tests store(where);
    store.clock().set(sys_days{year{2027} / 3 / 26} + 12h);

    ph::put_job(store, nightly,
                {.run = {"report.make", ""}, .cron = "30 2 * * *", .zone = "Europe/Vienna"});
    for (const auto& each :
         ph::preview(ph::schedule::cron("30 2 * * *", "Europe/Vienna"), store.clock().now(), 3))
        std::cout << "will run at " << each.local << (each.moved ? ", for want of 02:30" : "")
                  << "\n";

    auto worker = make_worker(store);
    pt::drain_for(worker, store, 72h);
    show(store);
    return ph::list_executions(store, {.state = ph::execution_state::done}).size() == 3
               ? EXIT_SUCCESS
               : EXIT_FAILURE;
} catch (const std::exception& failure) {
    std::cerr << failure.what() << "\n";
    return EXIT_FAILURE;
}
