// The code of docs/guides/relays.md.
#include <posthorn/posthorn.hpp>
#include <posthorn/relay.hpp>
#include <posthorn/worker.hpp>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <unistd.h>

namespace ph = posthorn;

namespace {

void relay_orders(ph::store store, std::shared_ptr<ph::transport> broker)
{
    const ph::stop_on_signals stop; // first of all: before any thread is started

    ph::worker relay(std::move(store), {.concurrency = 2'000});
    relay.handle("orders.*", ph::relay_to(broker, {.destination = "shop.{topic}"}));
    relay.handle("mail.*", ph::relay_to(broker, {.key = "{header.customer}"}));
    relay.run(stop);
}

void feed_orders(ph::store store, ph::feed& from, std::stop_token stop)
{
    const auto fed = ph::feed_inbox(std::move(store), from, {.source = "shop"}, stop);
    std::cout << fed.stored << " stored, " << fed.repeated << " known already\n";
}

// Brings one message twice, as brokers do.
class stutterer final : public ph::feed {
public:
    std::vector<ph::fed_message> receive(std::size_t, const ph::time_limit&) override
    {
        if (++times_ > 2)
            return {};
        return {{.ticket = times_, .id = "4711", .topic = "orders.paid", .payload = "7"}};
    }
    void acknowledge(std::span<const std::uint64_t> tickets) override { taken += tickets.size(); }
    void give_back(std::span<const std::uint64_t>, ph::duration) override {}
    void refuse(std::span<const std::uint64_t>, const std::string&) override {}
    void close() override {}
    [[nodiscard]] std::string name() const override { return "stutterer"; }

    std::size_t taken = 0;

private:
    std::uint64_t times_ = 0;
};

} // namespace

int main()
{
    auto store = ph::open("sqlite::memory:");
    auto broker = std::make_shared<ph::in_process_transport>();
    std::size_t arrived = 0;
    const auto listening = broker->subscribe("*", [&](const ph::transport_message& what) {
        std::cout << what.topic << " -> " << what.destination << '\n';
        if (++arrived == 20)
            kill(getpid(), SIGTERM); // as systemd or a container runtime would
    });
    for (int i = 0; i < 20; ++i)
        ph::enqueue(store, {"orders.placed", "{}"});
    relay_orders(store, broker);

    stutterer from;
    feed_orders(store, from, {});
    return arrived == 20 && from.taken == 2 ? EXIT_SUCCESS : EXIT_FAILURE;
}
