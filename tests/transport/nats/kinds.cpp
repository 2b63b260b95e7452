// The suite on NATS JetStream: a stream for each test, behind a gate for what networks do.
#include "gate/tcp_gate.hpp"
#include "transport/nats/jetstream.hpp"
#include "transport/transport_under_test.hpp"
#include <posthorn/nats.hpp>

#include <fmt/format.h>

#include <chrono>
#include <stdexcept>
#include <thread>

namespace posthorn::transports {
namespace {

class nats_under_test final : public transport_under_test {
public:
    std::shared_ptr<transport> open() override
    {
        way_ = open_nats(
            {.url = fmt::format("nats://127.0.0.1:{}", gate_.port()), .prefix = name_ + "."});
        return way_;
    }

    void listen(std::string_view pattern) override
    {
        subjects_.push_back(name_ + "." + std::string(pattern));
        server_.set_stream(name_, subjects_);
    }

    std::vector<transport_message> arrived(std::size_t at_least) override
    {
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds{30};
        while (server_.messages_in(name_) < at_least && std::chrono::steady_clock::now() < until)
            std::this_thread::yield(); // each look is a question to the server
        return server_.contents(name_);
    }

    void begin(fault which) override
    {
        switch (which) {
        case fault::rejection: // room for small messages, and none for a large one
            server_.set_stream(name_, subjects_, {.bytes_max = server_.bytes_in(name_) + 5'000});
            break;
        case fault::outage:
            gate_.refuse(true);
            gate_.cut();
            break;
        case fault::silence:
            (void)way_->wait_until_ready({}); // else nothing would be sent at all
            gate_.stall(true);
            break;
        case fault::pressure: throw std::logic_error("there is no such fault");
        }
    }

    void end(fault which) override
    {
        if (which == fault::rejection)
            server_.set_stream(name_, subjects_);
        else if (which == fault::outage)
            gate_.refuse(false);
        else
            gate_.stall(false);
    }

    bool move_away(std::chrono::milliseconds each_way) override
    {
        for (const auto which :
             {test::tcp_gate::direction::to_server, test::tcp_gate::direction::to_client})
            gate_.delay(which, each_way);
        gate_.cut();
        return true;
    }

private:
    std::string name_ = unique_name();
    std::vector<std::string> subjects_;
    jetstream server_{shared_nats_port()};
    test::tcp_gate gate_{"127.0.0.1", shared_nats_port()};
    std::shared_ptr<transport> way_; // shared with the test
};

} // namespace

std::vector<transport_kind> transport_kinds()
{
    return {{.name = "nats",
             .make = [] { return std::make_unique<nats_under_test>(); },
             .without = {{fault::pressure, "JetStream has no way to ask for less"}}}};
}

} // namespace posthorn::transports
