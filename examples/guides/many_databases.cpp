// The code of docs/guides/many-databases.md.
#include <posthorn/polling.hpp>
#include <posthorn/posthorn.hpp>
#include <posthorn/worker.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <thread>
#include <unistd.h>

namespace ph = posthorn;
using namespace std::chrono_literals;

namespace {

std::vector<ph::named_store> list_tenants()
{
    std::vector<ph::named_store> all;
    for (const auto& each : std::filesystem::directory_iterator("tenants"))
        if (each.path().extension() == ".db")
            all.push_back({.name = each.path().stem(), .url = "sqlite:" + each.path().string()});
    return all;
}

void ship(const ph::delivery_view& d)
{
    std::cout << "order " << d.payload() << " of " << d.store() << "\n";
}

void serve(const ph::stop_request& stop)
{
    ph::worker worker(ph::discover(list_tenants, {.every = 5min}), {.concurrency = 16});
    worker.handle("order.*", ship);
    worker.run(stop);
}

void serve_a_list()
{
    ph::worker worker(ph::stores({
        {.name = "anna", .url = "sqlite:tenants/anna.db"},
        {.name = "bert", .url = "sqlite:tenants/bert.db"},
    }));
    worker.handle("order.*", ship);
    worker.process_outbox();
}

void send()
{
    ph::router router(ph::discover(list_tenants));
    auto store = router.store("anna");
    ph::enqueue(store, {"order.placed", "7"});
}

// Always the store whose name is the first in the alphabet.
struct alphabetical {
    std::optional<std::size_t> select_next(std::span<const ph::store_view> stores,
                                           std::optional<std::string_view> /*last*/,
                                           std::size_t /*last_count*/)
    {
        if (stores.empty())
            return std::nullopt;
        const auto first = std::ranges::min_element(stores, {}, &ph::store_view::name);
        return static_cast<std::size_t>(first - stores.begin());
    }
    void reset() {}
};

void choose()
{
    ph::worker worker(ph::discover(list_tenants), {.concurrency = 16},
                      {.strategy = ph::drain_first{5}, .concurrency_per_store = 4});
    ph::worker own(ph::discover(list_tenants), {}, {.strategy = alphabetical{}});
    for (auto* each : {&worker, &own}) {
        each->handle("order.*", ship);
        each->process_outbox();
    }
}

void look(const ph::worker& worker)
{
    for (const auto& each : worker.stores())
        if (each.failures > 0)
            std::cerr << each.name << ": " << to_string(each.state) << ", " << each.last_error
                      << "\n";
}

void serve_on_a_timer(const ph::stop_request& stop)
{
    ph::worker worker(ph::discover(list_tenants));
    worker.handle("order.*", ship);
    ph::poll(worker, stop, {.every = 500ms, .batch = 100});
}

} // namespace

int main()
{
    const auto folder =
        std::filesystem::temp_directory_path() / ("posthorn-guide-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder / "tenants");
    std::filesystem::current_path(folder);
    for (const auto* name : {"anna", "bert"})
        ph::migrate(std::string("sqlite:tenants/") + name + ".db");
    send();
    serve_a_list();
    choose();
    for (const auto& run : {&serve, &serve_on_a_timer}) {
        std::stop_source stop;
        std::thread running([&] { run(stop.get_token()); });
        send();
        ph::router router(ph::discover(list_tenants));
        auto anna = router.store("anna");
        while (ph::count_messages(anna).ready + ph::count_messages(anna).claimed > 0)
            ph::environment::system().clock->pause(5ms);
        stop.request_stop();
        running.join();
    }
    look(ph::worker(ph::discover(list_tenants)));
    std::filesystem::current_path("/");
    std::filesystem::remove_all(folder);
    return EXIT_SUCCESS;
}
