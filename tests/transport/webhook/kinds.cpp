// The suite on webhooks, with an HTTP server behind a gate: one request at a time, so that the
// order in which they arrive is the order in which they are sent; and many at once.
#include "gate/tcp_gate.hpp"
#include "transport/transport_under_test.hpp"
#include "transport/webhook/webhook_under_test.hpp"
#include <posthorn/webhook.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

namespace posthorn::transports {
namespace {

class webhook_under_test final : public transport_under_test {
public:
    explicit webhook_under_test(std::size_t parallel) : parallel_(parallel) {}

    std::shared_ptr<transport> open() override
    {
        return open_webhook({.url = "http://127.0.0.1:" + std::to_string(gate_.port()) + "/hook",
                             .secrets = {"a secret of many bytes"},
                             .allow_private = {"127.0.0.0/8"},
                             .parallel_per_endpoint = parallel_});
    }

    void listen(std::string_view pattern) override
    {
        const std::lock_guard lock(mutex_);
        patterns_.emplace_back(pattern);
    }

    std::vector<transport_message> arrived(std::size_t at_least) override
    {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, std::chrono::seconds{60}, [&] { return log_.size() >= at_least; });
        return log_;
    }

    void begin(fault which) override
    {
        if (which == fault::outage) {
            gate_.refuse(true);
            gate_.cut();
        }
        const std::lock_guard lock(mutex_);
        rejects_ |= which == fault::rejection;
        is_silent_ |= which == fault::silence;
    }

    void end(fault which) override
    {
        if (which == fault::outage)
            gate_.refuse(false);
        const std::lock_guard lock(mutex_);
        rejects_ = rejects_ && which != fault::rejection;
        is_silent_ = is_silent_ && which != fault::silence;
    }

private:
    test::http_reply take(const test::http_request& got)
    {
        const auto what = test::message_in(got);
        const std::lock_guard lock(mutex_);
        const bool is_wanted = std::ranges::any_of(patterns_, [&](std::string_view pattern) {
            return pattern.ends_with('*')
                       ? what.topic.starts_with(pattern.substr(0, pattern.size() - 1))
                       : what.topic == pattern;
        });
        if (!is_wanted)
            return test::reply(410, "nobody wants " + what.payload);
        if (std::exchange(rejects_, false))
            return test::reply(500, "not today");
        log_.push_back(what);
        changed_.notify_all();
        return is_silent_ ? test::http_reply{.then = test::http_reply::ending::silence}
                          : test::reply(204);
    }

    const std::size_t parallel_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::string> patterns_;
    std::vector<transport_message> log_;
    bool rejects_ = false;
    bool is_silent_ = false;
    test::http_sink sink_{[this](const auto& got) { return take(got); }};
    test::tcp_gate gate_{"127.0.0.1", sink_.port()};
};

} // namespace

std::vector<transport_kind> transport_kinds()
{
    constexpr auto no_pressure = "who asks us to slow down says for how long, and the outbox waits";
    return {{.name = "webhook_one_by_one",
             .make = [] { return std::make_unique<webhook_under_test>(1); },
             .without = {{fault::pressure, no_pressure}}},
            {.name = "webhook",
             .make = [] { return std::make_unique<webhook_under_test>(8); },
             .without = {{fault::pressure, no_pressure},
                         {fault::rejection, "who comes next is chance if many come at once"}}}};
}

} // namespace posthorn::transports
