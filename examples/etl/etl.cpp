// Extract, transform, load, with a join: three tables of a customer are extracted at the same time,
// and the transformation begins when the last of them is there.
//
//     example_etl [URL]        a store, which is created; in memory unless given
//
// The first customer's run succeeds. In the second one a table cannot be read: its extract is tried
// again, dies, and the run ends in its failure continuation instead. Handlers know nothing of
// joins.
#include <posthorn/posthorn.hpp>
#include <posthorn/worker.hpp>

#include <cstdlib>
#include <iostream>
#include <mutex>
#include <string>
#include <vector>

namespace ph = posthorn;
using namespace std::chrono_literals;

namespace {

const std::vector<std::string> tables{"customers", "orders", "products"};

void say(const std::string& line)
{
    static std::mutex one_at_a_time;
    const std::lock_guard lock(one_at_a_time);
    std::cout << line << "\n";
}

// The join, its members and what follows: all of it is there, or nothing.
ph::join_id import(ph::store& store, const std::string& customer)
{
    auto tx = store.begin();
    const auto join = ph::open_join(
        tx, {.expected = static_cast<std::int64_t>(tables.size()),
             .on_complete = ph::message{.topic = "etl.transform", .payload = customer},
             .on_fail = ph::message{.topic = "etl.give_up", .payload = customer},
             .deadline = 1h,
             .grouping_key = customer,
             .metadata = R"({"type": "etl", "phase": "extract"})"});
    for (const auto& table : tables)
        ph::enqueue(tx, {.topic = "extract." + table, .payload = customer}, {.join = join});
    tx.commit();
    return join;
}

ph::worker make_worker(const ph::store& store)
{
    ph::worker_options options{.name = "etl", .concurrency = 3};
    options.outbox.retries.fallback =
        ph::exponential_retry{.first = 1ms, .cap = 1ms, .attempts_max = 2};
    ph::worker worker(store, options);
    worker.handle("extract.*", [](const ph::delivery_view& which) {
        if (which.payload() == "umbrella" && which.topic() == "extract.orders")
            return ph::retry("the table is locked");
        say("  " + which.topic() + " of " + which.payload());
        return ph::done();
    });
    worker.handle("etl.transform", [](const ph::delivery_view& which) {
        say("  transforming what was extracted of " + which.payload());
    });
    worker.handle("etl.give_up", [](const ph::delivery_view& which) {
        say("  giving up on " + which.payload() + ": its extracts are removed");
    });
    return worker;
}

// Until it has ended, one way or the other, and what follows is handled.
void run(ph::store& store, ph::worker& worker, const std::string& customer)
{
    say("importing " + customer);
    const auto join = import(store, customer);
    for (auto found = ph::find_join(store, join); found->state == ph::join_state::pending;
         found = ph::find_join(store, join))
        worker.process_outbox();
    worker.process_outbox();
    const auto ended = ph::find_join(store, join);
    say("  " + std::string(ph::to_string(ended->state)) + ": " + std::to_string(ended->completed) +
        " extracted, " + std::to_string(ended->failed) + " failed");
}

} // namespace

int main(int argc, char** argv)
try {
    const std::string url = argc > 1 ? argv[1] : "sqlite::memory:";
    if (url != "sqlite::memory:")
        ph::migrate(url);
    auto store = ph::open(url);
    auto worker = make_worker(store);
    run(store, worker, "acme");
    run(store, worker, "umbrella");
    for (const auto& each : ph::list_joins(store))
        say(each.grouping_key + ": " + std::string(ph::to_string(each.state)));
    return 0;
} catch (const std::exception& failure) {
    std::cerr << "example_etl: " << failure.what() << "\n";
    return 1;
}
