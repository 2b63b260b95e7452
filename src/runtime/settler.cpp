// Settling, renewing, reaping.
#include "runtime/settler.hpp"

#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <utility>

namespace posthorn::runtime {
namespace {

using namespace std::chrono_literals;

constexpr duration pause_max = 2s;

bool is_done(const result& each)
{
    return each.said.verdict == outcome::kind::done;
}

// Whether another message may be handled by this: the next of a key, itself at once, or one that
// was put aside because as many of its topic as may were running.
bool makes_news(const result& each)
{
    return !each.of->message.ordering_key.empty() || !is_done(each) || each.of->to->has_limit();
}

bool is_for_others(const result& each)
{
    return each.said.verdict == outcome::kind::park && each.said.reason == park_reason::no_handler;
}

// Whether it is the store that is in trouble, whoever is to be settled.
bool passes(const std::exception_ptr& thrown)
{
    try {
        std::rethrow_exception(thrown);
    } catch (const error& failure) {
        return failure.retryable() || failure.in_doubt();
    } catch (...) {
        return false;
    }
}

} // namespace

settler::settler(parts with) : with_(std::move(with)) {}

void settler::run()
{
    try {
        for (;;) {
            // While tasks wait for a thread somebody has to see to it.
            const duration at_most = with_.threads.has_waiting() ? duration{500us} : duration{20ms};
            if (!do_chores(with_.held.wait_for_chores(at_most, worth_waiting(linger_min, took_))))
                return;
        }
    } catch (...) {
        fail(std::current_exception());
    }
}

void settler::fail(std::exception_ptr why) noexcept
{
    {
        const std::lock_guard lock(mutex_);
        if (!failure_)
            failure_ = std::move(why);
    }
    with_.held.wake();
    try {
        with_.news(false);
    } catch (...) { // The worker looks by itself soon.
    }
}

std::exception_ptr settler::failure() const
{
    const std::lock_guard lock(mutex_);
    return failure_;
}

void settler::tend()
{
    (void)do_chores(with_.held.wait_for_chores(duration::zero(), linger_min));
}

// False: it is over.
bool settler::do_chores(held_messages::chores due)
{
    with_.threads.grow();
    for (const auto which : due.to_renew)
        renew(which);
    if (!due.to_settle.empty())
        settle(std::move(due.to_settle), due.closing);
    else if (due.closing)
        return false;
    const bool reaping = reap_soon_.exchange(false) ||
                         (regularly_ && with_.source.environment().clock->monotonic() >= reap_at_);
    if (reaping && !due.closing)
        reap();
    return true;
}

// Batches of which all is done take the short way, one by one; the rest shares a transaction.
void settler::settle(std::vector<result> what, bool closing)
{
    std::map<fence, std::vector<result>> by_batch;
    for (auto& each : what)
        by_batch[each.of->message.receipt.fence].push_back(std::move(each));
    std::vector<result> others;
    for (auto& [number, members] : by_batch) {
        // Handlers end in any order; stores settle a stretch of messages faster than single ones.
        std::ranges::sort(members, {},
                          [](const result& each) { return each.of->message.receipt.position; });
        if (std::ranges::all_of(members, is_done))
            settle_together(std::move(members), closing);
        else
            std::ranges::move(members, std::back_inserter(others));
    }
    if (!others.empty())
        settle_together(std::move(others), closing);
}

void settler::settle_together(std::vector<result> what, bool closing)
{
    std::vector<settlement> all;
    all.reserve(what.size());
    for (const auto& each : what)
        all.push_back({.receipt = each.of->message.receipt, .outcome = each.said});
    try {
        const auto asked_at = std::chrono::steady_clock::now();
        const auto answers = with_.source.settle(with_.who, all).answers;
        took_ = since(asked_at);
        failures_ = 0;
        for (std::size_t i = 0; i < what.size(); ++i)
            count(what[i].of, answers[i]);
        const bool news = std::ranges::any_of(what, makes_news);
        with_.held.settled(what);
        if (news)
            with_.news(std::ranges::any_of(what, is_for_others));
    } catch (...) {
        const auto thrown = std::current_exception();
        // One of them is refused, or a settlement hook failed: the others must not wait for it.
        if (what.size() > 1 && !passes(thrown)) {
            for (auto& each : what)
                settle_together({std::move(each)}, closing);
            return;
        }
        // Settling again is safe even after an unknown outcome: what was settled answers `lost`.
        warn("cannot settle, will try again", outcome_of_exception(thrown).error);
        settle_later(std::move(what), closing);
    }
}

void settler::settle_later(std::vector<result> what, bool closing)
{
    if (closing) {
        with_.held.settled(what); // their leases will run out
        return;
    }
    const auto pause = std::min<duration>(50ms * (1 << std::min(failures_++, 6)), pause_max);
    with_.held.try_again(std::move(what), pause);
}

void settler::reap_soon()
{
    reap_soon_ = true;
    with_.held.poke();
}

void settler::renew(fence which)
{
    const auto asked_at = with_.source.environment().clock->monotonic();
    try {
        if (with_.source.renew(with_.who, which, with_.options.lease))
            with_.held.renewed(which, asked_at);
        else
            with_.held.lost(which);
    } catch (const std::exception& failure) {
        warn("cannot renew a lease, will try again", failure.what());
        with_.held.renewal_failed(which);
    }
}

void settler::reap()
{
    const auto& clock = *with_.source.environment().clock;
    reap_at_ = clock.monotonic() + std::min<duration>(with_.options.lease / 2, 10s);
    try {
        const auto report = with_.source.reap();
        if (report.released + report.retrying + report.dead > 0)
            with_.news(false);
    } catch (const std::exception& failure) {
        warn("cannot look for leases that ran out", failure.what());
    }
}

void settler::count(const running_ptr& of, settled_as answer)
{
    {
        const std::lock_guard lock(mutex_);
        switch (answer) {
        case settled_as::done: ++report_.done; break;
        case settled_as::retrying: ++report_.retrying; break;
        case settled_as::dead: ++report_.dead; break;
        case settled_as::released: ++report_.released; break;
        case settled_as::parked: ++report_.parked; break;
        case settled_as::lost: ++report_.lost; break;
        }
    }
    if (with_.options.on.settled)
        with_.options.on.settled(delivery_view(of), answer);
}

run_report settler::so_far() const
{
    const std::lock_guard lock(mutex_);
    return report_;
}

void settler::warn(std::string_view what, std::string_view why) const
{
    if (const auto& log = with_.source.environment().log)
        log(log_level::warning, fmt::format("{}: {}", what, why));
}

} // namespace posthorn::runtime
