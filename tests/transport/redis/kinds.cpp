// The suite on Redis Streams, behind a gate for what networks do; once with streams that make
// themselves, and once with streams that must be there.
#include "gate/tcp_gate.hpp"
#include "transport/private_broker.hpp"
#include "transport/redis/client.hpp"
#include "transport/transport_under_test.hpp"
#include <posthorn/redis.hpp>

#include <fmt/format.h>

#include <chrono>
#include <stdexcept>
#include <thread>

namespace posthorn::transports {
namespace {

class redis_under_test final : public transport_under_test {
public:
    explicit redis_under_test(bool creates) : creates_(creates) {}

    ~redis_under_test() override
    {
        for (const auto& each : streams_)
            server_.ask({"DEL", name_ + "." + each});
    }

    std::shared_ptr<transport> open() override
    {
        way_ = open_redis({.url = fmt::format("redis://127.0.0.1:{}", gate_.port()),
                           .prefix = name_ + ".",
                           .create_streams = creates_});
        return way_;
    }

    void listen(std::string_view pattern) override
    {
        // Redis knows no patterns: the suite sends to these.
        if (pattern.ends_with(".*"))
            for (const auto* each : {"placed", "paid"})
                streams_.push_back(std::string(pattern.substr(0, pattern.size() - 1)) + each);
        else
            streams_.emplace_back(pattern);
        if (!creates_)
            for (const auto& each : streams_)
                server_.ask({"XGROUP", "CREATE", name_ + "." + each, "readers", "0", "MKSTREAM"});
    }

    std::vector<transport_message> arrived(std::size_t at_least) override
    {
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds{30};
        const auto count = [&] {
            std::size_t result = 0;
            for (const auto& each : streams_)
                result += server_.length(name_ + "." + each);
            return result;
        };
        while (count() < at_least && std::chrono::steady_clock::now() < until)
            std::this_thread::yield(); // each look is a question to the server
        std::vector<transport_message> result;
        for (const auto& each : streams_)
            for (auto& message : server_.contents(name_ + "." + each))
                result.push_back(std::move(message));
        return result;
    }

    void begin(fault which) override
    {
        switch (which) {
        case fault::outage:
            gate_.refuse(true);
            gate_.cut();
            break;
        case fault::silence:
            (void)way_->wait_until_ready({}); // else nothing would be sent at all
            gate_.stall(true);
            break;
        case fault::pressure: server_.ask({"CONFIG", "SET", "maxmemory", "1"}); break;
        case fault::rejection: throw std::logic_error("there is no such fault");
        }
    }

    void end(fault which) override
    {
        if (which == fault::outage)
            gate_.refuse(false);
        else if (which == fault::silence)
            gate_.stall(false);
        else
            server_.ask({"CONFIG", "SET", "maxmemory", "0"});
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
    bool creates_;
    std::string name_ = unique_stream();
    std::vector<std::string> streams_;
    private_broker broker_{"redis"}; // its own: its memory has an end
    redis_client server_{broker_.port()};
    test::tcp_gate gate_{"127.0.0.1", broker_.port()};
    std::shared_ptr<transport> way_; // shared with the test
};

} // namespace

std::vector<transport_kind> transport_kinds()
{
    const std::vector<std::pair<fault, std::string>> without{
        {fault::rejection, "Redis takes all messages of a stream, or none"}};
    return {{.name = "redis",
             .make = [] { return std::make_unique<redis_under_test>(true); },
             .without = without},
            {.name = "redis_with_given_streams",
             .make = [] { return std::make_unique<redis_under_test>(false); },
             .without = without}};
}

} // namespace posthorn::transports
