// The code of docs/guides/schedules.md.
#include <posthorn/posthorn.hpp>
#include <posthorn/testing/testing.hpp>
#include <posthorn/worker.hpp>

#include <iostream>
#include <stdexcept>
#include <string>

namespace ph = posthorn;
namespace pt = posthorn::testing;
using namespace std::chrono_literals;

namespace {

void expect(const pt::verdict& given)
{
    if (!given)
        throw std::runtime_error(given.why());
}

void expect(bool given)
{
    if (!given)
        throw std::runtime_error("not as expected");
}

void make_jobs(ph::store& store)
{
    ph::put_job(store, "nightly-report",
                {.run = {"report.nightly", ""}, .cron = "30 2 * * *", .zone = "Europe/Vienna"});
    ph::put_job(
        store, "poll",
        {.run = {"poll", ""}, .every = 90s, .on_misfire = ph::misfire::skip, .jitter = 10s});
}

void handle_runs(ph::worker& worker, ph::store& store)
{
    worker.handle("report.nightly", [&store](const ph::delivery_view& which) {
        const auto run = ph::job_run_of(which.headers());
        std::cout << "run " << to_string(run->execution) << " of " << run->job << "\n";
        ph::enqueue(store, {"mail.report", ""}); // belongs to this execution
    });
}

void order_placed(ph::transaction& tx, const std::string& order)
{
    ph::set_timer(tx, "unpaid-" + order, 24h, {"order.unpaid", order});
}

void order_paid(ph::transaction& tx, const std::string& order)
{
    ph::cancel_timer(tx, "unpaid-" + order);
}

void look(ph::store& store)
{
    for (const auto& each : ph::list_executions(store, {.job = "nightly-report"}))
        std::cout << to_string(each.id) << " " << to_string(each.state) << " " << each.reason
                  << "\n";
}

} // namespace

int main()
try {
    pt::store_for_tests store;
    make_jobs(store);
    ph::worker worker(store, {.concurrency = 1});
    handle_runs(worker, store);
    worker.handle("*", [](const ph::delivery_view&) {});
    {
        auto tx = store.begin();
        order_placed(tx, "7");
        order_placed(tx, "8");
        order_paid(tx, "7");
        tx.commit();
    }
    pt::drain_for(worker, store, 25h);
    look(store);
    expect(pt::was_enqueued(store, "order.unpaid", {"8"}));
    expect(pt::was_enqueued(store, "mail.report", {""}));
    const auto runs = ph::list_executions(store, {.job = "nightly-report"});
    expect(runs.size() == 1 && runs.front().state == ph::execution_state::done);
    expect(pt::messages_of(store, "mail.report").front().correlation_id ==
           to_string(runs.front().id));
} catch (const std::exception& failure) {
    std::cerr << failure.what() << "\n";
    return 1;
}
