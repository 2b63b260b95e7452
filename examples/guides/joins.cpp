// The code of docs/guides/joins.md.
#include <posthorn/posthorn.hpp>
#include <posthorn/testing/testing.hpp>
#include <posthorn/worker.hpp>

#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

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

ph::join_id import_customer(ph::store& store, const std::string& customer)
{
    auto tx = store.begin();
    const auto join = ph::open_join(tx, {.expected = 3,
                                         .on_complete = ph::message{"etl.transform", customer},
                                         .on_fail = ph::message{"etl.give_up", customer},
                                         .grouping_key = customer});
    for (const auto* table : {"customers", "orders", "products"})
        ph::enqueue(tx, {"extract", table}, {.join = join});
    tx.commit();
    return join;
}

ph::join_id import_pages(ph::store& store, const std::vector<std::string>& pages)
{
    auto tx = store.begin();
    const auto join = ph::open_join(tx, {.on_complete = ph::message{"pages.done", ""}});
    for (const auto& page : pages)
        ph::enqueue(tx, {"fetch", page}, {.join = join});
    ph::seal_join(tx, join);
    tx.commit();
    return join;
}

ph::join_id ask_quorum(ph::store& store)
{
    auto tx = store.begin();
    const auto join = ph::open_join(tx, {.expected = 5,
                                         .needed = 3,
                                         .on_complete = ph::message{"quorum.reached", ""},
                                         .on_fail = ph::message{"quorum.missed", ""},
                                         .deadline = 10min});
    for (int i = 0; i < 5; ++i)
        ph::enqueue(tx, {"ask", std::to_string(i)}, {.join = join});
    tx.commit();
    return join;
}

void wait_for(ph::store& store, ph::join_id join)
{
    ph::enqueue_join_wait(store, {.join = join,
                                  .on_complete = ph::message{"report.print", ""},
                                  .on_fail = ph::message{"report.apologize", ""}});
}

void count_elsewhere(ph::store& tenant, ph::join_id join)
{
    auto tx = tenant.begin();
    const auto step = ph::enqueue(tx, {"extract", "orders"}).id;
    ph::attach(tx, ph::remote_join{.store = "head-office", .join = join}, step);
    tx.commit();
}

void work_and_report(ph::store& tenant, const ph::store_provider& all_stores)
{
    ph::worker worker(tenant);
    worker.handle(ph::join_report_topic, ph::join_reports(all_stores, {.own_name = "tenant-42"}));
    worker.handle("extract", [](const ph::delivery_view&) {});
    pt::drain(worker);
}

} // namespace

int main()
try {
    pt::store_for_tests store;
    ph::worker worker(store, {.concurrency = 1});
    worker.handle("*", [](const ph::delivery_view&) {});
    worker.handle("ask", [](const ph::delivery_view& which) {
        return which.payload() < "3" ? ph::done() : ph::fail("no");
    });

    const auto imported = import_customer(store, "acme");
    wait_for(store, imported);
    const auto pages = import_pages(store, {"one", "two"});
    const auto quorum = ask_quorum(store);
    pt::drain(worker);

    const auto found = ph::find_join(store, imported);
    expect(found->state == ph::join_state::completed && found->completed == 3);
    expect(ph::find_join(store, pages)->state == ph::join_state::completed);
    expect(ph::find_join(store, quorum)->state == ph::join_state::completed);
    expect(pt::was_enqueued(store, "etl.transform", {"acme"}));
    expect(pt::nothing_was_enqueued(store, "etl.give_up"));
    expect(pt::was_enqueued(store, "report.print", {""}));
    expect(ph::list_joins(store, {.grouping_key = "acme"}).size() == 1);

    pt::store_for_tests tenant;
    const auto across = ph::open_join(store, {.expected = 1});
    count_elsewhere(tenant, across);
    work_and_report(tenant, ph::stores({{.name = "head-office", .at = store}}));
    expect(ph::find_join(store, across)->state == ph::join_state::completed);
    expect(ph::list_remote_members(store, across).at(0).store == "tenant-42");
} catch (const std::exception& failure) {
    std::cerr << failure.what() << "\n";
    return 1;
}
