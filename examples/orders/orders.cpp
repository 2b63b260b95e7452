// An order and the message about it, saved together or not at all.
//
// The usual bug: the program saves an order, then tells a broker about it, and crashes in between.
// The order exists and nobody hears of it. Here the message is written into the *same database* in
// the *same transaction* as the order. Later a worker claims it, delivers it, and acknowledges it.
#include <posthorn/posthorn.hpp>
#include <posthorn/sqlite.hpp>

#include <sqlite3.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>

namespace {

using database = std::unique_ptr<sqlite3, int (*)(sqlite3*)>;

// Your application's own connection. Posthorn neither opens nor configures it.
database connect(const std::string& path)
{
    sqlite3* opened = nullptr;
    if (sqlite3_open(path.c_str(), &opened) != SQLITE_OK)
        throw std::runtime_error("cannot open " + path);
    sqlite3_busy_timeout(opened, 5'000);
    return {opened, &sqlite3_close};
}

void run(const database& db, const std::string& sql)
{
    if (sqlite3_exec(db.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
        throw std::runtime_error(sql + ": " + sqlite3_errmsg(db.get()));
}

// Saves an order and enqueues a message about it. Neither exists before the caller commits.
void place_order(const database& db, posthorn::transaction& tx, int number)
{
    sqlite3_stmt* insert = nullptr;
    sqlite3_prepare_v2(db.get(), "INSERT INTO orders (id) VALUES (?1)", -1, &insert, nullptr);
    sqlite3_bind_int(insert, 1, number);
    const bool inserted = sqlite3_step(insert) == SQLITE_DONE;
    sqlite3_finalize(insert);
    if (!inserted)
        throw std::runtime_error(sqlite3_errmsg(db.get()));
    // Messages with the same ordering key are delivered one after the other, in this order.
    posthorn::enqueue(tx, {"order.placed", "order " + std::to_string(number)},
                      {.ordering_key = "customer ada"});
}

// What a worker does all day: claim what is due, handle it, acknowledge it.
void deliver_everything(posthorn::store& store)
{
    posthorn::outbox outbox(store);
    const auto me = posthorn::owner::create("example", *store.environment().random);
    for (auto batch = outbox.claim(me); !batch.empty(); batch = outbox.claim(me)) {
        for (const auto& each : batch.deliveries)
            std::cout << "delivering " << each.payload << " (" << each.topic << ", attempt "
                      << each.attempt << ")\n";
        // If the program dies before this line, the lease runs out and the message is delivered
        // again.
        outbox.acknowledge(me, batch.receipts());
    }
}

void demonstrate(const std::string& path)
{
    // Once per database, usually with `posthorn init`: makes Posthorn's tables.
    posthorn::migrate("sqlite:" + path);

    const auto db = connect(path);
    run(db, "CREATE TABLE orders (id INTEGER PRIMARY KEY)");
    posthorn::sqlite::borrowed_transaction tx(db.get()); // Posthorn joins what is open on `db`

    run(db, "BEGIN IMMEDIATE");
    place_order(db, tx, 1);
    run(db, "COMMIT");
    std::cout << "order 1 was paid and committed, and its message with it\n";

    run(db, "BEGIN IMMEDIATE");
    place_order(db, tx, 2);
    run(db, "ROLLBACK");
    std::cout << "order 2 was rolled back, and its message with it\n";

    auto store = posthorn::open("sqlite:" + path);
    deliver_everything(store);
    const auto stats = posthorn::count_messages(store);
    std::cout << stats.ready + stats.waiting << " messages wait, " << stats.done << " is done\n";
}

} // namespace

int main()
{
    auto folder = (std::filesystem::temp_directory_path() / "orders-XXXXXX").string();
    if (mkdtemp(folder.data()) == nullptr)
        return 1;
    demonstrate(folder + "/orders.db");
    std::filesystem::remove_all(folder);
}
