// Settling, renewing, reaping.
#include "runtime/settler.hpp"

#include "runtime/work_log.hpp"
#include "store/contract/held_elsewhere.hpp"
#include <posthorn/correlation.hpp>
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <iterator>
#include <map>
#include <optional>
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

// What waits for a limit of its handler is ready all the while, so it counts as given back.
settled_as as_told(const result& each, settled_as answer)
{
    const bool waits_for_limit = answer == settled_as::parked &&
                                 each.said.verdict == outcome::kind::park &&
                                 each.said.reason == park_reason::at_limit;
    return waits_for_limit ? settled_as::released : answer;
}

// A settlement that is refused this often is refused for good.
constexpr int tries_max = 6;

enum class trouble {
    of_the_store, ///< it is away or overloaded, whatever is to be settled
    held,         ///< another transaction holds what one of them needs
    refused,      ///< one of them cannot be settled, or a settlement hook failed
};

trouble trouble_of(const std::exception_ptr& thrown)
{
    try {
        std::rethrow_exception(thrown);
    } catch (const contract::held_elsewhere&) {
        return trouble::held;
    } catch (const error& failure) {
        return failure.retryable() || failure.in_doubt() ? trouble::of_the_store : trouble::refused;
    } catch (...) {
        return trouble::refused;
    }
}

duration pause_after(int failures)
{
    return std::min<duration>(50ms * (1 << std::min(failures, 6)), pause_max);
}

} // namespace

settler::settler(parts with) : with_(std::move(with)) {}

void settler::run()
{
    try {
        for (;;) {
            // Tasks that wait for a thread need a look at the pool before long.
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

void settler::tend() noexcept
{
    try {
        (void)do_chores(with_.held.wait_for_chores(duration::zero(), linger_min));
    } catch (...) {
        fail(std::current_exception());
    }
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
            count(what[i].of, what[i].said, as_told(what[i], answers[i]));
        const bool news = std::ranges::any_of(what, makes_news);
        with_.held.settled(what);
        if (news)
            with_.news(std::ranges::any_of(what, is_for_others));
    } catch (...) {
        const auto thrown = std::current_exception();
        const auto why = outcome_of_exception(thrown).error;
        const auto kind = trouble_of(thrown);
        const bool concerns_one = kind != trouble::of_the_store;
        if (concerns_one && what.size() > 1) {
            settle_halves(std::move(what), closing);
        } else if (concerns_one && !closing) {
            if (kind == trouble::refused && ++what.front().tries >= tries_max) {
                give_up(std::move(what.front()), why);
                return;
            }
            warn("cannot settle a message, will try again", why);
            set_aside(std::move(what.front()), kind == trouble::held);
        } else {
            // Settling again is safe even after an unknown outcome: what was settled answers
            // `lost`.
            warn("cannot settle, will try again", why);
            settle_later(std::move(what), closing);
        }
    }
}

// Until it is known which of them it is: the others must not wait for it.
void settler::settle_halves(std::vector<result> what, bool closing)
{
    const auto middle = what.begin() + static_cast<std::ptrdiff_t>(what.size() / 2);
    std::vector<result> rest(std::make_move_iterator(middle), std::make_move_iterator(what.end()));
    what.erase(middle, what.end());
    settle_together(std::move(what), closing);
    settle_together(std::move(rest), closing);
}

// What another transaction holds is tried for as long as that lasts, and its lease is renewed.
void settler::set_aside(result which, bool is_held)
{
    const auto pause = pause_after(is_held ? which.holds++ : which.tries);
    with_.held.set_aside(std::move(which), pause);
}

// It will never be settled as its handler said. Dead it can be looked at; if it cannot even be
// that, its lease runs out, and a later delivery may fare better until its attempts are used up.
void settler::give_up(result which, std::string_view why)
{
    const settlement last{.receipt = which.of->message.receipt,
                          .outcome = posthorn::fail(fmt::format("cannot be settled: {}", why))};
    const auto id = to_string(last.receipt.id);
    std::optional<settled_as> answer;
    try {
        answer = with_.source.settle(with_.who, {&last, 1}).answers.front();
    } catch (...) { // hooks throw what they like
        complain(fmt::format("message {} cannot be settled and is left to its lease: {}", id,
                             outcome_of_exception(std::current_exception()).error));
    }
    if (answer) {
        // Its death is told with the reason; hooks, which may tell it instead, are given none.
        if (answer == settled_as::dead && !with_.options.log_activity)
            warn(fmt::format("message {} cannot be settled, so it is dead now", id), why);
        count(which.of, last.outcome, *answer);
    }
    with_.held.settled({std::move(which)});
}

void settler::settle_later(std::vector<result> what, bool closing)
{
    if (closing) {
        with_.held.settled(what); // their leases will run out
        return;
    }
    with_.held.try_again(std::move(what), pause_after(failures_++));
}

void settler::reap_soon()
{
    reap_soon_ = true;
    with_.held.poke();
}

void settler::renew(fence which)
{
    const auto asked_at = with_.source.environment().clock->since_boot();
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
    } catch (...) { // hooks throw what they like
        warn("cannot look for leases that ran out",
             outcome_of_exception(std::current_exception()).error);
    }
}

void settler::count(const running_ptr& of, const outcome& said, settled_as answer)
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
    work_log(with_.source.environment().log, with_.options).settled(*of, said, answer);
    if (!with_.options.on.settled)
        return;
    // What never reached its handler has no scope yet. This thread settles for all messages.
    const auto scope = of->scope ? correlation_scope::resume(of->scope)
                                 : correlation_scope::begin_from(correlation_of(of->message));
    with_.options.on.settled(delivery_view(of), answer);
}

run_report settler::so_far() const
{
    const std::lock_guard lock(mutex_);
    return report_;
}

void settler::complain(std::string_view what) const
{
    if (const auto& log = with_.source.environment().log)
        log(log_level::error, what);
}

void settler::warn(std::string_view what, std::string_view why) const
{
    if (const auto& log = with_.source.environment().log)
        log(log_level::warning, fmt::format("{}: {}", what, why));
}

} // namespace posthorn::runtime
