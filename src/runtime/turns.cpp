// A turn is one pass of an ordinary worker over one store.
#include "runtime/turns.hpp"

#include "runtime/dispatcher.hpp"
#include "store/contract/premises.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace posthorn::runtime {
namespace {

using namespace std::chrono_literals;

constexpr duration first_pause_of_turns = 100ms;

} // namespace

turns::turns(parts with) : with_(std::move(with)) {}

std::size_t turns::size()
{
    refresh();
    return stores_.size();
}

// Positions stay with the names, whatever else comes and goes.
void turns::refresh()
{
    const auto& world = with_.provider.environment();
    const auto now = world.clock->monotonic();
    const auto every = with_.provider.refresh_every();
    if (listed_ && (every == duration::zero() || now < refresh_at_))
        return;
    refresh_at_ = now + every;
    try {
        stores_ = with_.provider.list();
    } catch (const std::exception& failure) {
        if (!listed_)
            throw;
        if (world.log)
            world.log(
                log_level::warning,
                fmt::format("stores cannot be listed, those known are served: {}", failure.what()));
        return;
    }
    listed_ = true;
    std::map<std::string, std::uint64_t, std::less<>> kept;
    for (const auto& each : stores_) {
        const auto known = positions_.find(each.name);
        kept.emplace(each.name, known == positions_.end() ? next_position_++ : known->second);
    }
    positions_ = std::move(kept);
    std::erase_if(breakers_, [&](const auto& each) { return !positions_.contains(each.first); });
}

std::size_t turns::run_once(std::size_t batch, const stop_request& stop)
{
    if (stop.requested())
        return 0;
    refresh();
    const auto& world = with_.provider.environment();
    const auto now = world.clock->monotonic();
    std::vector<store_view> views;
    std::vector<const named_store*> behind;
    for (const auto& each : stores_) {
        const auto known = breakers_.find(each.name);
        if (known != breakers_.end() && now < known->second.closed_until)
            continue;
        views.push_back({.name = each.name, .position = positions_.at(each.name)});
        behind.push_back(&each);
    }
    const auto chosen = with_.serving.strategy.select_next(
        views, last_ ? std::optional<std::string_view>(*last_) : std::nullopt, last_count_);
    if (!chosen || *chosen >= views.size())
        return 0;
    const auto& which = *behind[*chosen];
    last_ = which.name;
    last_count_ = 0;
    try {
        last_count_ = serve(which, batch, stop);
        breakers_.erase(which.name);
    } catch (const std::exception& failure) {
        auto& open = breakers_[which.name];
        const auto pause =
            std::min<duration>(first_pause_of_turns * (1 << std::min(open.failures++, 16)),
                               with_.serving.failure_pause_max);
        open.closed_until = world.clock->monotonic() + pause;
        if (world.log)
            world.log(log_level::warning,
                      fmt::format("the store '{}' fails and is left alone for a while: {}",
                                  which.name, failure.what()));
    }
    return last_count_;
}

std::size_t turns::serve(const named_store& which, std::size_t batch, const stop_request& stop)
{
    const store opened{with_.provider.way_to(which).open()};
    const auto with =
        std::make_shared<engine>(with_.claim_from(opened), with_.table, with_.options, with_.who);
    with->store_name = which.name;
    return dispatcher(with).run(stop, {.until_empty = true, .limit = batch}).handled();
}

} // namespace posthorn::runtime
