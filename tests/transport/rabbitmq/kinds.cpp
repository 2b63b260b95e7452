// The suite on RabbitMQ: the shared broker, with a gate before it for the faults of a network.
#include "transport/rabbitmq/broker_scene.hpp"
#include "transport/transport_under_test.hpp"

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <utility>

namespace posthorn::transports {
namespace {

using namespace std::chrono_literals;

/// Passes on, and lets one message be rejected.
class rejecting final : public transport {
public:
    rejecting(std::shared_ptr<transport> to, test::broker_scene& scene, std::atomic<bool>& next)
        : to_(std::move(to)), scene_(scene), next_(next)
    {}

    std::vector<publish_answer> publish(std::span<const transport_message> what,
                                        const time_limit& how_long) override
    {
        if (!next_.exchange(false))
            return to_->publish(what, how_long);
        const auto id = to_string(what.front().id);
        scene_.reject(id);
        auto answers = to_->publish(what, how_long);
        scene_.reject_nothing_more(id);
        return answers;
    }
    bool wait_until_ready(const time_limit& how_long) override
    {
        return to_->wait_until_ready(how_long);
    }
    void close(const time_limit& how_long) override { to_->close(how_long); }
    transport_capabilities capabilities() const override { return to_->capabilities(); }
    std::string name() const override { return to_->name(); }

private:
    std::shared_ptr<transport> to_; // the one under test
    test::broker_scene& scene_;
    std::atomic<bool>& next_;
};

class rabbitmq_under_test final : public transport_under_test {
public:
    std::shared_ptr<transport> open() override
    {
        opened_ =
            std::make_shared<rejecting>(open_rabbitmq(scene_.options()), scene_, reject_next_);
        return opened_;
    }

    void listen(std::string_view pattern) override { scene_.listen(pattern); }

    std::vector<transport_message> arrived(std::size_t at_least) override
    {
        const auto until = std::chrono::steady_clock::now() + 30s;
        do {
            while (const auto got = scene_.client.get(scene_.queue))
                arrived_.push_back({.id = message_id::parse(got->message_id).value(),
                                    .topic = got->type,
                                    .key = value_or_none(got->headers, "posthorn-key"),
                                    .headers = got->headers,
                                    .payload = got->body});
        } while (arrived_.size() < at_least && std::chrono::steady_clock::now() < until);
        return arrived_;
    }

    void begin(fault which) override
    {
        switch (which) {
        case fault::rejection: reject_next_ = true; return;
        case fault::outage:
            scene_.gate.refuse(true);
            scene_.gate.cut();
            return;
        case fault::silence: // for who has said hello; others could not even begin
            if (!opened_->wait_until_ready({}))
                throw std::runtime_error("the transport does not connect");
            scene_.gate.delay(test::tcp_gate::direction::to_client, 1h);
            return;
        case fault::pressure: throw std::logic_error("see kinds");
        }
    }

    void end(fault which) override
    {
        scene_.gate.refuse(false);
        scene_.gate.delay(test::tcp_gate::direction::to_client, 0ms);
        if (which == fault::silence) // what was held back is lost with its connection
            scene_.gate.cut();
    }

    bool move_away(std::chrono::milliseconds each_way) override
    {
        for (const auto which :
             {test::tcp_gate::direction::to_server, test::tcp_gate::direction::to_client})
            scene_.gate.delay(which, each_way);
        scene_.gate.cut();
        return true;
    }

private:
    static std::string value_or_none(const headers& in, std::string_view name)
    {
        const auto found = in.find(name);
        return found == in.end() ? "" : found->second;
    }

    test::broker_scene scene_;
    std::atomic<bool> reject_next_ = false;
    std::vector<transport_message> arrived_;
    std::shared_ptr<transport> opened_; // shared with the test
};

} // namespace

std::vector<transport_kind> transport_kinds()
{
    return {
        {.name = "rabbitmq",
         .make = [] { return std::make_unique<rabbitmq_under_test>(); },
         .without = {{fault::pressure, "an alarm would block all who publish to the shared broker; "
                                       "rabbitmq_alarm_test has one of its own"}}}};
}

} // namespace posthorn::transports
