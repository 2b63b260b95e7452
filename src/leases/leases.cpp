// Taking leases, waiting for them, and looking at them.
#include "core/lease.hpp"
#include "core/planted.hpp"
#include "leases/lease_state.hpp"
#include "leases/waiting.hpp"
#include "store/contract/backend.hpp"
#include "store/contract/run_again.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace posthorn {
namespace {

using namespace std::chrono_literals;

// One for each call: a second thread of this process is somebody else.
std::string new_token(const environment& world)
{
    if constexpr (core::shares_its_token)
        return "this process";
    return fmt::format("{:016x}{:016x}", world.random->bits(), world.random->bits());
}

struct attempt {
    std::optional<lease> got;
    duration left{}; ///< of whoever has it
};

// The token stays the same until an answer is heard: a grant whose answer was lost is found again.
attempt try_once(store& where, std::string_view name, const lease_options& how,
                 const std::string& token)
{
    const auto& world = where.environment();
    const auto asked_at = world.clock->since_boot();
    const auto answer = contract::run_again(world, [&] {
        return where.backend().leases().acquire(
            {.name = name, .token = token, .holder = how.holder, .length = how.length});
    });
    if (!answer.granted)
        return {.got = {}, .left = answer.left};
    lease::state::grant granted{
        .name = std::string(name), .token = token, .fence = *answer.granted, .asked_at = asked_at};
    return {.got = lease(std::make_unique<lease::state>(where, std::move(granted), how)),
            .left = {}};
}

} // namespace

std::optional<lease> try_lease(store& where, std::string_view name, const lease_options& how)
{
    core::check_lease(name, how);
    const auto token = new_token(where.environment());
    try {
        return try_once(where, name, how, token).got;
    } catch (const error& failure) {
        if (!failure.in_doubt())
            throw;
    }
    return try_once(where, name, how, token).got; // it may be ours, and nobody else will release it
}

std::optional<lease> acquire_lease(store& where, std::string_view name, duration at_most,
                                   const lease_options& how, const std::stop_token& stop)
{
    return wait_for_lease(where, name, std::clamp<duration>(at_most, 0s, 24h * 366), how, stop);
}

// The bell is armed before each look, so that nothing is released unheard between look and sleep.
// Should a ring get lost all the same, the holder's time is over some day, or it has been renewed:
// then there is a look, too.
std::optional<lease> wait_for_lease(store& where, std::string_view name,
                                    std::optional<duration> at_most, const lease_options& how,
                                    const std::stop_token& stop)
{
    core::check_lease(name, how);
    const auto& world = where.environment();
    const auto begun = world.clock->monotonic();
    const auto time_left = [&] {
        return at_most ? *at_most - (world.clock->monotonic() - begun) : duration{24h};
    };
    const auto token = new_token(world);
    const auto bell = where.backend().leases().make_bell(name);
    const std::stop_callback end(stop, [&] { bell->wake(); });
    duration pause{};
    for (bool first = true;; first = false) {
        if (!first)
            bell->arm(); // most leases are free, and nobody has to listen
        duration rest{};
        try {
            auto [got, left] = try_once(where, name, how, token);
            if (got)
                return std::move(got);
            rest = first ? duration::zero() : std::max<duration>(left, 1ms);
            pause = {};
        } catch (const error& trouble) {
            if (!trouble.retryable() || time_left() <= duration::zero())
                throw;
            if (pause == duration::zero() && world.log)
                world.log(log_level::warning,
                          fmt::format("waiting for the lease '{}': {}", name, trouble.what()));
            pause = std::clamp<duration>(pause * 2, 20ms, 2s);
            rest = pause;
        }
        if (stop.stop_requested() || time_left() <= duration::zero())
            return std::nullopt;
        if (rest > duration::zero())
            (void)bell->wait(std::min(world.clock->database_time() ? real_wait(world, rest) : rest,
                                      time_left()));
    }
}

std::optional<lease_record> find_lease(store& where, std::string_view name)
{
    core::check_lease_name(name);
    return where.backend().leases().find(name);
}

std::vector<lease_record> list_leases(store& where, const lease_filter& which)
{
    return where.backend().leases().list(which);
}

std::optional<fence> take_lease_away(store& where, std::string_view name, std::optional<fence> from)
{
    core::check_lease_name(name);
    return contract::run_again(where.environment(),
                               [&] { return where.backend().leases().take_away(name, from); });
}

} // namespace posthorn
