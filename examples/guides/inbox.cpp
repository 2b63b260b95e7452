// The code of docs/guides/inbox.md.
#include "run.hpp"
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

void expect(bool given)
{
    if (!given)
        throw std::runtime_error("not as expected");
}

struct request {
    std::string id;
    std::string body;
};

int receive_webhook(ph::store& store, const request& request)
{
    const auto receipt = ph::enqueue_inbound(store, {.source = "shop", .id = request.id},
                                             {"orders.placed", request.body});
    std::cout << request.id << ": " << ph::to_string(receipt.answer) << "\n";
    return 204; // only now: it is stored
}

void register_handlers(ph::worker& worker)
{
    worker.handle(ph::inbox_topic("orders.placed"), [](ph::transactional_delivery<>& d) {
        run(d.tx(), "INSERT INTO orders (body) VALUES (?1)", {d.payload()});
        ph::enqueue(d.tx(), {"receipts", d.payload()});
    });
}

bool book_payment(ph::store& store, const std::string& id, int cents)
{
    return ph::once(store, "bank", id, [&](ph::transaction& tx) {
        run(tx, "UPDATE account SET cents = cents + ?1", {std::to_string(cents)});
        ph::enqueue(tx, {"payments.booked", id});
    });
}

bool book_in(ph::transaction& tx, const std::string& id, int cents)
{
    return ph::once(tx, "bank", id, [&] {
        run(tx, "UPDATE account SET cents = cents + ?1", {std::to_string(cents)});
    });
}

void call_partner(ph::store& store, const ph::inbound& from)
{
    if (ph::already_processed(store, from))
        return;
    ph::mark_processing(store, from);
    // … something that cannot take part in a transaction …
    ph::mark_processed(store, from);
}

std::size_t revive_all(ph::store& store, const std::string& source)
{
    std::size_t revived = 0;
    for (const auto& each :
         ph::list_inbound(store, {.state = ph::inbox_state::dead, .source = source}))
        revived += ph::revive(store, each.from, 10s) ? 1 : 0;
    return revived;
}

} // namespace

int main()
try {
    pt::store_for_tests store;
    {
        auto tx = store.begin();
        run(tx, "CREATE TABLE orders (body TEXT)");
        run(tx, "CREATE TABLE account (cents INTEGER)");
        run(tx, "INSERT INTO account VALUES (0)");
        tx.commit();
    }
    ph::worker worker(store, {.concurrency = 1});
    register_handlers(worker);
    worker.handle("*", [](const ph::delivery_view&) {});
    for (int i = 0; i < 3; ++i)
        expect(receive_webhook(store, {"4711", "Ada's book"}) == 204);
    pt::drain(worker);
    receive_webhook(store, {"4711", "Ada's book"});
    pt::drain(worker);
    expect(static_cast<bool>(pt::was_enqueued(store, "receipts", {"Ada's book"})));

    expect(book_payment(store, "p1", 100) && !book_payment(store, "p1", 100));
    {
        auto tx = store.begin();
        expect(book_in(tx, "p2", 100) && !book_in(tx, "p1", 100));
        tx.commit();
    }
    call_partner(store, {.source = "partner", .id = "1"});
    expect(ph::already_processed(store, {.source = "partner", .id = "1"}));
    ph::mark_dead(store, {.source = "partner", .id = "2"});
    expect(revive_all(store, "partner") == 1);
} catch (const std::exception& failure) {
    std::cerr << failure.what() << "\n";
    return 1;
}
