// One lock, one condition, and a log of what arrived.
#include "transport/broker_model.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>

namespace posthorn::transports {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

constexpr std::size_t model_payload_bytes_max = 100'000;

struct broker {
    std::mutex mutex;
    std::condition_variable_any changed;
    std::vector<std::string> patterns;
    std::vector<transport_message> log;
    std::set<message_id> known;
    std::set<fault> faults;

    [[nodiscard]] bool has(fault which) const { return faults.contains(which); }

    [[nodiscard]] bool routes(std::string_view topic) const
    {
        return std::ranges::any_of(patterns, [&](std::string_view pattern) {
            return pattern.ends_with('*') ? topic.starts_with(pattern.substr(0, pattern.size() - 1))
                                          : topic == pattern;
        });
    }

    publish_answer take(const transport_message& what)
    {
        if (!routes(what.topic))
            return publish_answer::no(refusal::unroutable, "no queue is bound to " + what.topic);
        if (faults.erase(fault::rejection) > 0)
            return publish_answer::no(refusal::rejected, "basic.nack");
        auto answer = publish_answer::yes();
        answer.duplicate = !known.insert(what.id).second;
        if (!answer.duplicate)
            log.push_back(what);
        changed.notify_all();
        return answer;
    }
};

class model_transport final : public transport {
public:
    explicit model_transport(std::shared_ptr<broker> to) : broker_(std::move(to)) {}

    using transport::close;
    using transport::publish;

    std::vector<publish_answer> publish(std::span<const transport_message> what,
                                        const time_limit& how_long) override
    {
        std::unique_lock lock(broker_->mutex);
        std::set<std::string_view> stuck;
        std::vector<publish_answer> result;
        for (const auto& each : what) {
            result.push_back(stuck.contains(each.key) ? publish_answer::no(refusal::held_back)
                                                      : send(each, how_long, lock));
            if (!each.key.empty() && !result.back().accepted())
                stuck.insert(each.key);
        }
        if (broker_->has(fault::silence)) // every answer is lost that would have been one
            for (auto& each : result)
                if (each.accepted())
                    each = publish_answer::no_answer("the connection was lost");
        return result;
    }

    bool wait_until_ready(const time_limit& how_long) override
    {
        std::unique_lock lock(broker_->mutex);
        wait(lock, how_long, [&] { return closed_ || is_ready(); });
        return !closed_ && is_ready();
    }

    void close(const time_limit& /*how_long*/) override
    {
        const std::lock_guard lock(broker_->mutex);
        closed_ = true;
        broker_->changed.notify_all();
    }

    transport_capabilities capabilities() const override
    {
        return {.payload_bytes_max = model_payload_bytes_max,
                .batch_max = 100,
                .confirms = true,
                .reports_unroutable = true,
                .keeps_order = true,
                .suppresses_duplicates = true};
    }

    std::string name() const override { return "model"; }

private:
    [[nodiscard]] bool is_ready() const
    {
        return !broker_->has(fault::outage) && !broker_->has(fault::pressure);
    }

    publish_answer send(const transport_message& what, const time_limit& how_long,
                        std::unique_lock<std::mutex>& lock)
    {
        if (what.payload.size() > model_payload_bytes_max)
            return publish_answer::no(refusal::too_large, "more than the broker takes");
        wait(lock, how_long, [&] { return closed_ || is_ready(); });
        if (closed_)
            return publish_answer::no(refusal::closed);
        if (broker_->has(fault::outage))
            return publish_answer::no(refusal::unavailable, "connection refused");
        if (broker_->has(fault::pressure))
            return publish_answer::no(refusal::busy, "connection.blocked");
        return broker_->take(what);
    }

    template <typename Condition>
    void wait(std::unique_lock<std::mutex>& lock, const time_limit& how_long, Condition condition)
    {
        const auto until =
            how_long.until ? steady_clock::time_point(*how_long.until) : steady_clock::now() + 30s;
        (void)broker_->changed.wait_until(lock, how_long.stop, until, condition);
    }

    std::shared_ptr<broker> broker_; // shared with the test
    bool closed_ = false;
};

class broker_model final : public transport_under_test {
public:
    std::shared_ptr<transport> open() override
    {
        return std::make_shared<model_transport>(broker_);
    }

    void listen(std::string_view pattern) override
    {
        const std::lock_guard lock(broker_->mutex);
        broker_->patterns.emplace_back(pattern);
    }

    std::vector<transport_message> arrived(std::size_t at_least) override
    {
        std::unique_lock lock(broker_->mutex);
        broker_->changed.wait_for(lock, 30s, [&] { return broker_->log.size() >= at_least; });
        return broker_->log;
    }

    void begin(fault which) override
    {
        const std::lock_guard lock(broker_->mutex);
        broker_->faults.insert(which);
    }

    void end(fault which) override
    {
        const std::lock_guard lock(broker_->mutex);
        broker_->faults.erase(which);
        broker_->changed.notify_all();
    }

private:
    std::shared_ptr<broker> broker_ = std::make_shared<broker>(); // shared with its transports
};

} // namespace

std::unique_ptr<transport_under_test> make_broker_model()
{
    return std::make_unique<broker_model>();
}

} // namespace posthorn::transports
