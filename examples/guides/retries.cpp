// The code of docs/guides/retries.md.
#include <posthorn/posthorn.hpp>
#include <posthorn/testing/testing.hpp>
#include <posthorn/worker.hpp>

#include <cstdlib>
#include <iostream>

namespace ph = posthorn;
using namespace std::chrono_literals;

namespace {

ph::worker_options options()
{
    ph::worker_options options;
    options.outbox.retries = {
        .fallback = ph::exponential_retry{.first = 2s, .cap = 6h, .attempts_max = 25},
        .by_topic = {
            {"mail.welcome", ph::persistent_retry{.first = 2s, .then_every = 24h}},
            {"stock.reserve", ph::custom_retry{[](int starts) -> std::optional<ph::duration> {
                 if (starts >= 3)
                     return std::nullopt;
                 return 5s;
             }}}}};
    options.outbox.on_dead = ph::dead_key::skips;
    return options;
}

ph::outcome charge(const ph::delivery_view& d)
{
    const int status = std::stoi(d.payload());
    if (status == 429)
        return ph::retry_in(1min, "told to slow down");
    if (status == 503)
        return ph::postpone(30s);
    if (status == 400)
        return ph::fail("the order has no address");
    if (status == 402)
        throw ph::permanent_failure("the card was refused");
    return ph::done();
}

ph::outcome send_mail(const ph::delivery_view& /*mail*/)
{
    return ph::retry("the mail server is being moved");
}

std::size_t try_the_dead_again(ph::store& store)
{
    return ph::redrive(store, {.topic = "payments.*", .error_contains = "card"},
                       {.per_second = 10.0});
}

} // namespace

int main()
{
    ph::testing::store_for_tests store;
    ph::worker worker(store, options());
    worker.handle("payments.charge", charge);
    worker.handle("mail.*", &send_mail,
                  {.failures = {.retry = ph::persistent_retry{}, .on_dead = ph::dead_key::skips}});
    worker.handle("stock.reserve", [](const ph::delivery_view&) { return ph::retry("none left"); });

    for (const auto* status : {"200", "400", "402"})
        ph::enqueue(store, {"payments.charge", status});
    ph::enqueue(store, {"stock.reserve", "x"});
    const auto report = ph::testing::drain_for(worker, store, 1h);
    const auto again = try_the_dead_again(store);
    std::cout << report.done << " done, " << report.dead << " dead, " << again << " redriven\n";
    return report.done == 1 && report.retrying == 2 && report.dead == 3 && again == 1
               ? EXIT_SUCCESS
               : EXIT_FAILURE;
}
