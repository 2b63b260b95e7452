// Connecting, again and again.
#include "transport/rabbitmq/link.hpp"

#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace posthorn::rabbitmq {
namespace {

// A connection that has lasted so long was not one that fails at once, again and again.
constexpr duration long_enough = std::chrono::seconds{5};

} // namespace

void check_connection(const rabbitmq_connection& how)
{
    const auto refuse = [](const std::string& why) {
        throw error(error_code::invalid_argument, "RabbitMQ: " + why);
    };
    if (how.heartbeat.count() < 0 || how.heartbeat.count() > 65'535)
        refuse("the heartbeat is from 0 to 65535 seconds");
    if (how.connect_within <= duration::zero())
        refuse("connect_within is more than nothing");
    if (how.reconnect_min <= duration::zero() || how.reconnect_max < how.reconnect_min)
        refuse("reconnect_min is more than nothing, and reconnect_max at least as much");
    if (how.tls.certificate.empty() != how.tls.key.empty())
        refuse("a certificate needs its key, and a key its certificate");
}

link::link(std::vector<address> where, rabbitmq_connection how, environment around)
    : where_(std::move(where)), how_(std::move(how)), around_(std::move(around))
{}

void link::start(user who)
{
    thread_ = std::thread([this, who = std::move(who)] { run(who); });
}

void link::stop()
{
    over_ = true;
    alarm_.ring();
    const std::lock_guard lock(ending_);
    if (thread_.joinable())
        thread_.join();
}

void link::run(const user& who)
{
    while (!over_) {
        auto connected_at = monotonic_time::max();
        try {
            wire connection(here(), how_, alarm_, over_, around_.clock);
            connected_at = around_.clock->monotonic();
            who.serve(connection);
            connection.leave();
        } catch (const std::exception& failed) {
            if (over_)
                return;
            const auto why = fmt::format("RabbitMQ at {}: {}", here().place(), failed.what());
            // One line when it is gone, and one when it is back: more would say nothing new.
            if (!std::exchange(away_, true) && around_.log)
                around_.log(log_level::warning, why);
            if (connected_at < around_.clock->monotonic() - long_enough)
                failures_ = 0;
            ++failures_;
            ++turn_;
            who.lost(why);
            rest();
        }
    }
}

void link::works()
{
    if (std::exchange(away_, false) && around_.log)
        around_.log(log_level::info, fmt::format("RabbitMQ at {} is back", here().place()));
}

// Others in the list are asked first, without a pause.
void link::rest()
{
    if (failures_ < where_.size())
        return;
    const auto round = std::min<std::size_t>(failures_ / where_.size() - 1, 20);
    const auto most = std::min(how_.reconnect_min * (std::int64_t{1} << round), how_.reconnect_max);
    const auto share = 0.5 + around_.random->fraction() / 2;
    const duration pause{static_cast<std::int64_t>(static_cast<double>(most.count()) * share)};
    const auto until = around_.clock->monotonic() + pause;
    for (auto now = around_.clock->monotonic(); !over_ && now < until;
         now = around_.clock->monotonic())
        alarm_.wait(-1, false, until - now);
}

} // namespace posthorn::rabbitmq
