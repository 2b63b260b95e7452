// A lease that is held. Its holder believes in it from before it asked until a little before the
// database would give it to others; whatever is not heard of the database in time ends the belief.
#include "core/lease.hpp"

#include "core/planted.hpp"
#include "leases/lease_state.hpp"
#include "store/contract/backend.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace posthorn {
namespace {

using namespace std::chrono_literals;

constexpr duration look_at_manual_clock_every = 2ms;

// Threads wait on a clock that stands still while the machine sleeps; afterwards they should
// notice soon.
constexpr duration look_at_least_every = 1s;

} // namespace

duration real_wait(const environment& world, duration wanted)
{
    return world.clock->database_time() ? std::min(wanted, look_at_manual_clock_every)
                                        : std::min(wanted, look_at_least_every);
}

lease::state::state(store where, grant what, lease_options how)
    : where_(std::move(where)), what_(std::move(what)), how_(std::move(how))
{
    believe_from(what_.asked_at);
    if (how_.renew)
        renewer_ = std::jthread([this](const std::stop_token& stop) { keep_renewing(stop); });
    watch_ = std::jthread([this](const std::stop_token& stop) { watch_the_time(stop); });
}

lease::state::~state()
{
    renewer_.request_stop();
    watch_.request_stop();
    try {
        (void)release();
    } catch (const std::exception& failure) {
        warn("could not be released, and will be over by itself", failure.what());
    }
}

void lease::state::believe_from(monotonic_time asked_at)
{
    believed_until_ = asked_at + core::believed_for(how_);
    renew_at_ = asked_at + core::renewed_after(how_, where_.environment().random->fraction());
}

bool lease::state::is_held()
{
    if (condition_ == condition::held && now() >= believed_until_ && !core::believes_for_ever)
        lose();
    return condition_ == condition::held;
}

// Whoever listens to the token is told by the thread that watches: a caller may hold locks that
// listeners want.
void lease::state::lose()
{
    condition_ = condition::lost;
    changed_.notify_all();
}

duration lease::state::left()
{
    const lock guard(mutex_);
    return is_held() ? std::max(believed_until_ - now(), duration{1}) : duration::zero();
}

std::optional<duration> lease::state::renews_in()
{
    const lock guard(mutex_);
    if (!how_.renew || !is_held())
        return std::nullopt;
    return std::max(renew_at_ - now(), duration::zero());
}

bool lease::state::renew()
{
    const auto asked_at = now();
    const bool renewed = where_.backend().leases().renew(held(), how_.length);
    const lock guard(mutex_);
    // An answer that comes too late changes nothing: the holder has been told.
    if (!is_held())
        return false;
    if (renewed) {
        believe_from(asked_at);
        changed_.notify_all();
    } else {
        lose();
    }
    return renewed;
}

bool lease::state::release()
{
    {
        const lock guard(mutex_);
        if (!is_held())
            return false;
        condition_ = condition::released;
        changed_.notify_all();
    }
    return where_.backend().leases().release(held());
}

void lease::state::keep_renewing(const std::stop_token& stop)
{
    lock guard(mutex_);
    while (!stop.stop_requested() && is_held()) {
        const auto rest = renew_at_ - now();
        if (rest > duration::zero())
            changed_.wait_for(guard, stop, real_wait(where_.environment(), rest),
                              [&] { return condition_ != condition::held; });
        else
            try_to_renew(guard);
    }
}

void lease::state::try_to_renew(lock& guard)
{
    guard.unlock();
    std::string trouble;
    try {
        (void)renew();
    } catch (const std::exception& failure) {
        trouble = failure.what();
    }
    if (!trouble.empty())
        warn("could not be renewed, and will be tried again", trouble);
    guard.lock();
    if (!trouble.empty())
        renew_at_ = now() + core::tried_again_after(believed_until_ - now(),
                                                    where_.environment().random->fraction());
}

void lease::state::watch_the_time(const std::stop_token& stop)
{
    lock guard(mutex_);
    while (!stop.stop_requested() && is_held())
        changed_.wait_for(
            guard, stop,
            real_wait(where_.environment(), std::max(believed_until_ - now(), duration{1})),
            [&] { return condition_ != condition::held; });
    const bool lost = condition_ == condition::lost;
    guard.unlock();
    if (lost)
        lost_.request_stop();
}

void lease::state::warn(std::string_view what, std::string_view why) const
{
    const auto& world = where_.environment();
    if (world.log)
        world.log(log_level::warning, fmt::format("lease '{}' {}: {}", what_.name, what, why));
}

lease::lease(std::unique_ptr<state> granted) : state_(std::move(granted)) {}
lease::lease(lease&&) noexcept = default;
lease& lease::operator=(lease&&) noexcept = default;
lease::~lease() = default;

const std::string& lease::name() const noexcept
{
    return state_->what().name;
}

posthorn::fence lease::fence() const noexcept
{
    return state_->what().fence;
}

bool lease::is_held() const
{
    return left() > duration::zero();
}

void lease::throw_if_lost() const
{
    if (!is_held())
        throw error(
            error_code::lease_lost,
            fmt::format("the lease '{}' is not held any more: somebody else may have it", name()));
}

std::stop_token lease::stop_token() const noexcept
{
    return state_->stop_token();
}

duration lease::left() const
{
    return state_->left();
}

std::optional<duration> lease::renews_in() const
{
    return state_->renews_in();
}

bool lease::renew()
{
    return state_->renew();
}

bool lease::release()
{
    return state_->release();
}

} // namespace posthorn
