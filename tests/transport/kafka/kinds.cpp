// Kafka under the suite that all transports pass.
#include "transport/kafka/cluster.hpp"
#include "transport/transport_under_test.hpp"
#include <posthorn/kafka.hpp>

#include <chrono>
#include <stdexcept>
#include <thread>

namespace posthorn::transports {
namespace {

using namespace std::chrono_literals;

class kafka_under_test final : public transport_under_test {
public:
    kafka_under_test()
    {
        for (const auto& each : topics_)
            cluster_.create(each);
        cluster_.forget("nowhere");
    }

    std::shared_ptr<transport> open() override
    {
        // Each message in a request of its own, so that a rejection is for one of them.
        return open_kafka({.url = cluster_.url(),
                           .settings = {{"batch.num.messages", "1"},
                                        {"topic.metadata.propagation.max.ms", "200"}}});
    }

    void listen(std::string_view /*pattern*/) override {} // what is in the log has arrived

    std::vector<transport_message> arrived(std::size_t at_least) override
    {
        const auto until = std::chrono::steady_clock::now() + 30s;
        while (true) {
            const auto found = cluster_.log(topics_);
            if (found.size() >= at_least || std::chrono::steady_clock::now() > until)
                return messages(found);
        }
    }

    void begin(fault which) override
    {
        switch (which) {
        case fault::rejection: cluster_.answer_produce_with({unknown_server_error}); break;
        case fault::outage: cluster_.go_down(); break;
        case fault::silence: cluster_.delay_produce(1, 5s); break;
        case fault::pressure: throw std::logic_error("Kafka does not have it");
        }
    }

    void end(fault which) override
    {
        if (which == fault::outage)
            cluster_.come_up();
    }

private:
    static constexpr int unknown_server_error = -1;

    static std::vector<transport_message> messages(const std::vector<record>& found)
    {
        std::vector<transport_message> result;
        for (const auto& each : found)
            result.push_back({.id = message_id::parse(each.named.at("posthorn-msg-id")).value(),
                              .topic = each.named.at("posthorn-topic"),
                              .key = each.key,
                              .headers = each.named,
                              .payload = each.payload});
        return result;
    }

    std::vector<std::string> topics_{"orders", "orders.placed", "orders.paid"};
    cluster cluster_;
};

} // namespace

std::vector<transport_kind> transport_kinds()
{
    return {{.name = "kafka",
             .make = [] { return std::make_unique<kafka_under_test>(); },
             .without = {{fault::pressure, "brokers slow clients down by answering later"}}}};
}

} // namespace posthorn::transports
