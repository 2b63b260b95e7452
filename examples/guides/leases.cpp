// The code of docs/guides/leases.md.
#include <posthorn/posthorn.hpp>
#include <posthorn/testing/testing.hpp>

#include <functional>
#include <iostream>
#include <stdexcept>
#include <string>

namespace ph = posthorn;
namespace pt = posthorn::testing;
using namespace std::chrono_literals;

namespace {

void expect(bool given)
{
    if (!given)
        throw std::runtime_error("not as expected");
}

int reindexed = 0;

bool next_shard()
{
    return ++reindexed % 3 != 0;
}

void reindex(ph::store& store)
{
    auto lease = ph::try_lease(store, "reindex", {.length = 30s, .holder = "node-1"});
    if (!lease)
        return; // somebody else does it: an answer, not an error
    while (next_shard())
        lease->throw_if_lost();
}

// The counter-example: it asks whether it holds the lease, and then acts. In between it may stand
// still.
void relabel(std::string& shelf, const ph::lease& lease, const std::string& label,
             const std::function<void()>& something_that_takes_long)
{
    lease.throw_if_lost();
    something_that_takes_long();
    shelf = label;
}

// A shelf that remembers the largest fence that has come.
struct fenced_shelf {
    std::string label;
    ph::fence fence{};
};

bool relabel(fenced_shelf& shelf, const ph::lease& lease, const std::string& label,
             const std::function<void()>& something_that_takes_long)
{
    lease.throw_if_lost();
    something_that_takes_long();
    if (lease.fence() < shelf.fence)
        return false; // somebody who had the lease later has been here
    shelf.fence = lease.fence();
    shelf.label = label;
    return true;
}

void publish_price(ph::store& store, const ph::lease& lease, const std::string& price)
{
    ph::write_fenced(store, lease, [&](ph::transaction& tx) {
        ph::enqueue(tx, {"price.published", price}); // or any statement on this transaction
    });
}

bool publish_elsewhere(ph::store& elsewhere, ph::fence fence, const std::string& price)
{
    auto tx = elsewhere.begin();
    if (!ph::pass_fence(tx, "prices", fence))
        return false; // rolls back
    ph::enqueue(tx, {"price.published", price});
    tx.commit();
    return true;
}

void settle_the_day(ph::store& store)
{
    if (auto lease = ph::acquire_lease(store, "settlement", 10s))
        publish_price(store, *lease, "9.99");
    else
        std::cout << "somebody else is at it for longer than ten seconds\n";
}

std::size_t run_scheduler(ph::store& store, const std::stop_token& until,
                          const std::function<bool()>& tick)
{
    return ph::lead(store, "scheduler",
                    [&](ph::lease& term, const std::stop_token& stop) {
                        while (!stop.stop_requested() && tick())
                            publish_price(store, term, "10.00");
                    },
                    until, {.length = 15s, .holder = "node-1"});
}

void any_store_will_do(const ph::store_provider& tenants)
{
    ph::lease_router leases(tenants);
    if (auto got = leases.try_in_any("import-slot"))
        std::cout << "importing into " << got->store << '\n';
    const auto one = leases.in("acme").try_acquire("reindex");
    expect(one.has_value());
}

// ------------------------------------------------------------------- all of it, and what comes

void show_the_counter_example()
{
    pt::store_for_tests store;
    std::string shelf;
    const auto first = *ph::try_lease(store, "labels", {.length = 30s, .renew = false});
    relabel(shelf, first, "old price", [&] {
        // The first holder is stopped here for a minute: a debugger, a full disk, a virtual machine
        // that moves. Its lease is over, and another process takes it and does the work.
        store.clock().advance(1min);
        const auto second = *ph::try_lease(store, "labels");
        relabel(shelf, second, "new price", [] {});
        expect(shelf == "new price");
    });
    expect(shelf == "old price"); // wrong, and nobody noticed
}

void show_the_fence()
{
    pt::store_for_tests store;
    fenced_shelf shelf;
    const auto first = *ph::try_lease(store, "labels", {.length = 30s, .renew = false});
    const bool written = relabel(shelf, first, "old price", [&] {
        store.clock().advance(1min);
        const auto second = *ph::try_lease(store, "labels");
        expect(second.fence() > first.fence());
        expect(relabel(shelf, second, "new price", [] {}));
    });
    expect(!written);
    expect(shelf.label == "new price");
}

void show_fenced_writes()
{
    pt::store_for_tests store;
    const auto first = *ph::try_lease(store, "labels", {.length = 30s, .renew = false});
    publish_price(store, first, "1.00");
    store.clock().advance(1min);
    const auto second = *ph::try_lease(store, "labels");
    publish_price(store, second, "2.00");
    try {
        publish_price(store, first, "1.01");
        expect(false);
    } catch (const ph::error& refused) {
        expect(refused.code() == ph::error_code::lease_lost);
    }
    expect(bool(pt::was_enqueued(store, "price.published", {"1.00", "2.00"})));

    pt::store_for_tests elsewhere;
    expect(publish_elsewhere(elsewhere, second.fence(), "2.00"));
    expect(!publish_elsewhere(elsewhere, first.fence(), "1.01"));
}

void test_with_a_manual_clock()
{
    pt::store_for_tests store;
    const auto lease = *ph::try_lease(store, "labels", {.length = 100ms});
    pt::let_time_pass(store.clock(), 10s, {&lease}); // renews more than a hundred times
    expect(lease.is_held());
    store.clock().advance(1min); // nobody could renew: as if this process had stood still
    expect(!lease.is_held());
}

} // namespace

int main()
{
    try {
        pt::store_for_tests store;
        reindex(store);
        show_the_counter_example();
        show_the_fence();
        show_fenced_writes();
        settle_the_day(store);
        std::stop_source stop;
        int ticks = 0;
        const auto tick = [&] {
            if (++ticks == 3)
                stop.request_stop();
            return true;
        };
        expect(run_scheduler(store, stop.get_token(), tick) == 1);
        any_store_will_do(ph::stores({{.name = "acme", .at = pt::store_for_tests()}}));
        test_with_a_manual_clock();
        std::cout << "everything as the guide says\n";
        return 0;
    } catch (const std::exception& failure) {
        std::cerr << failure.what() << '\n';
        return 1;
    }
}
