// A tenant, a store: one program serves them all, each with its own file, or with its own schema of
// one PostgreSQL database.
//
//     example_tenants sqlite:FOLDER
//     example_tenants postgresql://user@host/database
//
// Orders are placed for five tenants. One worker ships them, and shows that nobody waits for a
// tenant whose store is broken; a tenant that moves in later is found.
#include <posthorn/posthorn.hpp>
#include <posthorn/worker.hpp>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace ph = posthorn;
using namespace std::chrono_literals;

namespace {

// Who there is, and where. A real application would ask its directory of customers.
class directory {
public:
    explicit directory(std::string base) : base_(std::move(base)) {}

    [[nodiscard]] ph::named_store store_of(const std::string& tenant) const
    {
        if (base_.starts_with("sqlite:"))
            return {.name = tenant, .url = base_ + "/" + tenant + ".db"};
        const char* separator = base_.find('?') == std::string::npos ? "?" : "&";
        return {.name = tenant, .url = base_ + separator + "schema=tenant_" + tenant};
    }

    void move_in(const std::string& tenant)
    {
        ph::migrate(store_of(tenant).url);
        const std::lock_guard lock(mutex_);
        tenants_.insert(tenant);
    }

    // Somebody whose store is not there.
    void list_without_store(const std::string& tenant)
    {
        const std::lock_guard lock(mutex_);
        tenants_.insert(tenant);
    }

    [[nodiscard]] std::vector<ph::named_store> all() const
    {
        const std::lock_guard lock(mutex_);
        std::vector<ph::named_store> result;
        for (const auto& each : tenants_)
            result.push_back(store_of(each));
        return result;
    }

private:
    std::string base_;
    mutable std::mutex mutex_;
    std::set<std::string> tenants_;
};

} // namespace

int main(int argc, char** argv)
{
    const std::string base = argc > 1 ? argv[1] : "sqlite:tenants";
    if (base.starts_with("sqlite:"))
        std::filesystem::create_directories(base.substr(7));
    directory tenants(base);
    for (const auto* name : {"anna", "bert", "carl", "dora", "emil"})
        tenants.move_in(name);
    tenants.list_without_store("nobody");

    // For both: one list, and what it opens.
    const auto provider = ph::discover([&] { return tenants.all(); }, {.every = 200ms});

    ph::router router(provider);
    for (const auto* name : {"anna", "bert", "carl", "dora", "emil"}) {
        auto store = router.store(name);
        for (int order = 1; order <= 3; ++order)
            ph::enqueue(store, {"order.placed", std::to_string(order)});
    }

    std::atomic<int> shipped = 0;
    std::mutex console;
    ph::worker worker(provider, {.concurrency = 8}, {.strategy = ph::drain_first{}});
    worker.handle("order.*", [&](const ph::delivery_view& d) {
        const std::lock_guard lock(console);
        std::cout << "order " << d.payload() << " of " << d.store() << " is shipped\n";
        ++shipped;
    });

    std::stop_source stop;
    std::thread running([&] { worker.run(stop.get_token()); });
    const auto wait_for = [&](int count) {
        while (shipped < count)
            ph::environment::system().clock->pause(5ms);
    };
    wait_for(15);
    tenants.move_in("fred");
    auto fred = router.store("fred");
    ph::enqueue(fred, {"order.placed", "1"});
    wait_for(16);
    for (const auto& each : worker.stores())
        if (each.state == ph::store_state::failing)
            std::cout << each.name << " fails: " << each.last_error << "\n";
    stop.request_stop();
    running.join();
    std::cout << shipped << " orders of 6 tenants are shipped\n";
    return EXIT_SUCCESS;
}
