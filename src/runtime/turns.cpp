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

using positions = std::map<std::string, std::uint64_t, std::less<>>;

// Of those that are still listed, the one whose turn came before that place: the store behind
// it is next.
std::optional<std::string> neighbour_before(const positions& old, std::uint64_t place,
                                            const positions& listed)
{
    const std::pair<const std::string, std::uint64_t>* nearest = nullptr;
    for (const auto& each : old)
        if (each.second < place && listed.contains(each.first) &&
            (nearest == nullptr || each.second > nearest->second))
            nearest = &each;
    return nearest == nullptr ? std::nullopt : std::optional(nearest->first);
}

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
        accept(with_.provider.list());
    } catch (const std::exception& failure) {
        if (!listed_)
            throw;
        world.log(
            log_level::warning,
            fmt::format("stores cannot be listed, those known are served: {}", failure.what()));
    }
}

void turns::accept(std::vector<named_store> listed)
{
    std::map<std::string, std::uint64_t, std::less<>> kept;
    for (const auto& each : listed) {
        const auto known = positions_.find(each.name);
        kept.emplace(each.name, known == positions_.end() ? next_position_++ : known->second);
    }
    const bool replaced = listed_ && kept != positions_;
    if (last_ && !kept.contains(*last_)) {
        last_ = neighbour_before(positions_, positions_.at(*last_), kept);
        last_count_ = 0;
    }
    stores_ = std::move(listed);
    positions_ = std::move(kept);
    listed_ = true;
    const auto is_gone = [&](const auto& each) { return !positions_.contains(each.first); };
    std::erase_if(breakers_, is_gone);
    std::erase_if(looks_, is_gone);
    if (replaced)
        with_.serving.strategy.reset();
}

// Those that may have a turn. A store that was never served may have waited as long as any.
std::vector<store_view> turns::views(monotonic_time now) const
{
    std::vector<store_view> result;
    duration longest{};
    for (const auto& [name, look] : looks_)
        longest = std::max(longest, look.left + (now - look.at));
    for (const auto& each : stores_) {
        const auto breaker = breakers_.find(each.name);
        if (breaker != breakers_.end() && now < breaker->second.closed_until)
            continue;
        const auto look = looks_.find(each.name);
        const auto lag =
            look == looks_.end() ? longest : look->second.left + (now - look->second.at);
        result.push_back({.name = each.name, .position = positions_.at(each.name), .lag = lag});
    }
    return result;
}

std::size_t turns::run_once(std::size_t batch, const stop_request& stop)
{
    if (stop.requested())
        return 0;
    refresh();
    const auto among = views(with_.provider.environment().clock->monotonic());
    const auto chosen = with_.serving.strategy.select_next(
        among, last_ ? std::optional<std::string_view>(*last_) : std::nullopt, last_count_);
    if (!chosen || *chosen >= among.size())
        return 0;
    const auto& which = *std::ranges::find(stores_, among[*chosen].name, &named_store::name);
    last_ = which.name;
    last_count_ = 0;
    try {
        last_count_ = serve(which, batch, stop);
        breakers_.erase(which.name);
    } catch (const std::exception& failure) {
        note_failure(which.name, failure);
    }
    return last_count_;
}

void turns::note_failure(const std::string& name, const std::exception& why)
{
    const auto& world = with_.provider.environment();
    auto& open = breakers_[name];
    const auto pause =
        std::min<duration>(first_pause_of_turns * (1 << std::min(open.failures++, 16)),
                           with_.serving.failure_pause_max);
    const auto now = world.clock->monotonic();
    open.closed_until = now + pause;
    looks_[name] = {.at = now, .left = {}};
    world.log(
        log_level::error,
        fmt::format("the store '{}' fails and is left alone for a while: {}", name, why.what()));
}

std::size_t turns::serve(const named_store& which, std::size_t batch, const stop_request& stop)
{
    const store opened{with_.provider.way_to(which).open()};
    const auto with =
        std::make_shared<engine>(with_.claim_from(opened), with_.table, with_.options, with_.who);
    with->store_name = which.name;
    dispatcher one(with);
    const auto report = one.run(stop, {.until_empty = true, .limit = batch});
    // What was left is not older than what was claimed before it.
    const bool may_be_more = report.handled() >= batch || stop.requested();
    looks_[which.name] = {.at = with_.provider.environment().clock->monotonic(),
                          .left = may_be_more ? one.oldest() : duration::zero()};
    return report.handled();
}

} // namespace posthorn::runtime
