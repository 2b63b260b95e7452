// The transport: who may publish, which producer works now, and when it makes sense to try.
#include "transport/kafka/refusals.hpp"
#include "transport/kafka/shipment.hpp"
#include <posthorn/error.hpp>
#include <posthorn/kafka.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <utility>

namespace posthorn {
namespace kafka {
namespace {

using namespace std::chrono_literals;

// Whether the producer that is waited for has been replaced.
constexpr auto look_again_within = 1s;

void check(const kafka_options& options)
{
    const auto refuse = [](const std::string& why) {
        throw error(error_code::invalid_argument, why);
    };
    if (!options.topic.empty() && !is_topic(options.topic))
        refuse(fmt::format("'{}' is no topic of Kafka: those have 1 to 249 letters, digits, dots, "
                           "underscores and hyphens",
                           options.topic));
    if (options.source.empty())
        refuse("source is empty: say who sends the messages, such as 'posthorn'");
    constexpr std::size_t payload_least = 1'000;
    constexpr std::size_t payload_most = 900'000'000;
    if (options.payload_bytes_max < payload_least || options.payload_bytes_max > payload_most)
        refuse(fmt::format("payload_bytes_max is {}: it can be {} to {}", options.payload_bytes_max,
                           payload_least, payload_most));
    if (options.linger < duration{} || options.linger > 60s)
        refuse("linger can be 0 to 60 seconds");
    if (options.publish_within <= duration{})
        refuse("publish_within is more than nothing");
}

class kafka_transport final : public transport {
public:
    kafka_transport(kafka_options options, environment surroundings)
        : options_(std::move(options)),
          surroundings_(std::make_shared<const environment>(std::move(surroundings))),
          name_("kafka " + brokers_of(options_.url)),
          many_(make(producer::company::many))
    {}

    using transport::close;
    using transport::publish;

    std::vector<publish_answer> publish(std::span<const transport_message> what,
                                        const time_limit& how_long) override
    {
        {
            const std::lock_guard lock(mutex_);
            if (closed_)
                return std::vector(what.size(), publish_answer::no(refusal::closed));
            ++publishing_;
        }
        struct leaving {
            kafka_transport& from;
            ~leaving()
            {
                const std::lock_guard lock(from.mutex_);
                --from.publishing_;
                from.changed_.notify_all();
            }
        } const at_end{*this};
        auto limit = how_long;
        if (!limit.until) // whoever closes us waits for this call, too
            limit.until = std::chrono::time_point_cast<duration>(std::chrono::steady_clock::now()) +
                          options_.publish_within;
        return shipment(
                   options_, [this](producer::company how) { return working(how); }, what, limit)
            .run();
    }

    bool wait_until_ready(const time_limit& how_long) override
    {
        while (!closed_) {
            const auto now =
                std::chrono::time_point_cast<duration>(std::chrono::steady_clock::now());
            const auto soon = now + look_again_within;
            const auto by = working(producer::company::many);
            if (by->wait_until_connected(
                    {.until = std::min(how_long.until.value_or(soon), soon), .stop = how_long.stop},
                    closed_))
                return true;
            if (how_long.stop.stop_requested() || (how_long.until && now >= *how_long.until))
                return false;
        }
        return false;
    }

    void close(const time_limit& how_long) override
    {
        std::unique_lock lock(mutex_);
        closed_ = true;
        many_->wake();
        const auto enough = [&] { return publishing_ == 0; };
        if (how_long.until)
            changed_.wait_until(lock, how_long.stop, *how_long.until, enough);
        else
            changed_.wait(lock, how_long.stop, enough);
    }

    transport_capabilities capabilities() const override
    {
        return {.payload_bytes_max = options_.payload_bytes_max,
                .headers_bytes_max = std::size_t{64} << 10U,
                .confirms = true,
                .reports_unroutable = true,
                .keeps_order = true};
    }

    std::string name() const override { return name_; }

private:
    std::shared_ptr<producer> make(producer::company how) const
    {
        return std::make_shared<producer>(options_, surroundings_, how);
    }

    // One that broke is replaced, and ends when the last call has let go of it.
    std::shared_ptr<producer> working(producer::company how)
    {
        std::shared_ptr<producer> old; // ends after the lock
        const std::lock_guard lock(mutex_);
        auto& now = how == producer::company::many ? many_ : alone_;
        if (!now || now->is_broken())
            old = std::exchange(now, make(how));
        return now;
    }

    kafka_options options_;
    std::shared_ptr<const environment> surroundings_; // shared with its producers
    std::string name_;
    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::size_t publishing_ = 0;
    std::atomic<bool> closed_ = false;
    std::shared_ptr<producer> many_;  // shared with calls in progress
    std::shared_ptr<producer> alone_; // made when something has to be found out
};

} // namespace
} // namespace kafka

void check_kafka(const kafka_options& options)
{
    kafka::check(options);
    kafka::producer::check(options);
}

std::shared_ptr<transport> open_kafka(kafka_options options, environment surroundings)
{
    kafka::check(options);
    return std::make_shared<kafka::kafka_transport>(std::move(options), std::move(surroundings));
}

} // namespace posthorn
