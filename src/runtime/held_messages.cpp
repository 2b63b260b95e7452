// The bookkeeping of a worker, under one lock that is never held while anything else happens.
#include "runtime/held_messages.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace posthorn::runtime {
namespace {

using namespace std::chrono_literals;

// Under a manual clock nobody knows when time moves: look often.
constexpr duration look_at_manual_clock_every = 2ms;

// Outside the lock: whoever listens to the token may call us.
void request_stop_of(const std::vector<running_ptr>& which)
{
    for (const auto& each : which)
        each->stop.request_stop();
}

} // namespace

held_messages::held_messages(std::size_t concurrency, duration lease, environment world,
                             std::shared_ptr<places> limits, held_listener tell)
    : concurrency_(concurrency),
      lease_(lease),
      world_(std::move(world)),
      limits_(std::move(limits)),
      tell_(std::move(tell))
{}

duration held_messages::real_wait(duration wanted) const
{
    return world_.clock->database_time() ? std::min(wanted, look_at_manual_clock_every) : wanted;
}

std::size_t held_messages::wait_for_room(std::size_t enough, duration patience)
{
    lock guard(mutex_);
    const auto free = [&] { return concurrency_ - std::min(running_, concurrency_); };
    room_wanted_ = enough;
    if (!changed_.wait_for(guard, patience, [&] { return woken_ || free() >= enough; })) {
        room_wanted_ = 1;
        changed_.wait_for(guard, 100ms, [&] { return woken_ || free() > 0; });
    }
    room_wanted_ = 0;
    return std::exchange(woken_, false) ? 0 : free();
}

std::vector<running_ptr> held_messages::take(batch&& claimed, monotonic_time asked_at)
{
    std::vector<running_ptr> members;
    members.reserve(claimed.size());
    const lock guard(mutex_);
    for (auto& each : claimed.deliveries) {
        auto next = std::make_shared<running_delivery>();
        next->message = std::move(each);
        next->place = members.size();
        payload_bytes_ += next->message.payload.size();
        limits_->payload_bytes += next->message.payload.size();
        ++limits_->messages;
        members.push_back(std::move(next));
    }
    batches_[claimed.fence] = {
        .lease_end = asked_at + lease_, .renew_at = asked_at + lease_ / 2, .open = members};
    expect(asked_at + lease_ - world_.clock->since_boot());
    return members;
}

std::size_t held_messages::room_for(const route& which) const
{
    return limits_->room_for(which);
}

bool held_messages::may_begin(const running_ptr& which)
{
    const auto& options = which->to->options;
    if (options.key)
        which->group = options.key(which->message);
    const auto now = world_.clock->monotonic();
    const lock guard(mutex_);
    if (!limits_->enter(*which))
        return false;
    ++running_;
    which->has_begun = true;
    which->began = now;
    if (options.timeout) {
        which->deadline = now + *options.timeout;
        deadlines_.emplace(deadline{*which->deadline, which.get()}, which);
        expect(*options.timeout);
        if (options.abandon_after)
            which->held_until = *which->deadline + *options.abandon_after;
    }
    return true;
}

bool held_messages::wait_until_empty(duration at_most)
{
    lock guard(mutex_);
    changed_.wait_for(guard, at_most, [&] { return woken_ || batches_.empty(); });
    woken_ = false;
    return batches_.empty();
}

bool held_messages::nothing_beside(std::optional<fence> which) const
{
    return std::ranges::all_of(batches_, [&](const auto& each) {
        const auto is_lost = [](const running_ptr& member) { return member->lost.load(); };
        return each.first == which || std::ranges::all_of(each.second.open, is_lost);
    });
}

bool held_messages::wait_until_quiet(duration at_most)
{
    const auto quiet = [&] { return running_ < concurrency_ && nothing_beside(std::nullopt); };
    lock guard(mutex_);
    changed_.wait_for(guard, at_most, [&] { return woken_ || quiet(); });
    woken_ = false;
    return quiet();
}

bool held_messages::is_alone(fence which) const
{
    const lock guard(mutex_);
    return nothing_beside(which);
}

void held_messages::suspect_begins(fence which)
{
    const lock guard(mutex_);
    suspect_ = which;
}

bool held_messages::suspect_runs() const
{
    const lock guard(mutex_);
    const auto at = suspect_ ? batches_.find(*suspect_) : batches_.end();
    return at != batches_.end() &&
           !std::ranges::all_of(at->second.open,
                                [](const running_ptr& each) { return each->lost.load(); });
}

bool held_messages::is_empty() const
{
    const lock guard(mutex_);
    return batches_.empty();
}

std::vector<fence> held_messages::fences() const
{
    const lock guard(mutex_);
    std::vector<fence> result;
    for (const auto& [number, each] : batches_)
        result.push_back(number);
    return result;
}

std::size_t held_messages::running() const
{
    const lock guard(mutex_);
    return running_;
}

std::size_t held_messages::payload_bytes() const
{
    const lock guard(mutex_);
    return payload_bytes_;
}

void held_messages::leave_place(const running_delivery& which)
{
    --running_;
    if (which.deadline) // or a quick handler would be remembered for as long as it might have taken
        deadlines_.erase({*which.deadline, &which});
    limits_->leave(which);
    if (tell_.left)
        tell_.left();
    // Waking somebody for each place costs more than a quick handler.
    if (room_wanted_ > 0 && concurrency_ - running_ >= room_wanted_)
        changed_.notify_all();
}

void held_messages::ended(const running_ptr& which, outcome said)
{
    const lock guard(mutex_);
    leave_place(*which);
    which->held_until.reset(); // its outcome may take long to settle, and the lease is needed
    add_result(which, std::move(said));
}

void held_messages::returned(const running_ptr& which, outcome said)
{
    const lock guard(mutex_);
    add_result(which, std::move(said));
}

void held_messages::add_result(const running_ptr& which, outcome said)
{
    if (said.verdict == outcome::kind::park)
        ++parking_;
    results_.push_back({which, std::move(said)});
    // A batch of which nothing runs any more need not wait for the rest of it.
    const auto at = batches_.find(which->message.receipt.fence);
    const bool complete = at == batches_.end() || results_.size() >= at->second.open.size();
    const bool news = !oldest_result_ || (complete && !batch_complete_);
    if (!oldest_result_)
        oldest_result_ = std::chrono::steady_clock::now();
    batch_complete_ = batch_complete_ || complete;
    if (news)
        announce_chores();
}

void held_messages::announce_chores()
{
    chores_.notify_one();
    if (tell_.chores)
        tell_.chores();
}

void held_messages::ended_and_settled(const running_ptr& which)
{
    {
        const lock guard(mutex_);
        leave_place(*which);
        forget(*which);
    }
    changed_.notify_all();
}

void held_messages::forget(const running_delivery& which)
{
    const auto at = batches_.find(which.message.receipt.fence);
    if (at == batches_.end())
        return;
    auto& open = at->second.open;
    if (which.place >= open.size() || open[which.place].get() != &which)
        return;
    payload_bytes_ -= which.message.payload.size();
    limits_->payload_bytes -= which.message.payload.size();
    --limits_->messages;
    if (which.lost)
        --limits_->lost;
    open.back()->place = which.place;
    std::swap(open[which.place], open.back());
    open.pop_back();
    if (open.empty())
        batches_.erase(at);
}

// Under the lock. True: it was not before.
bool held_messages::mark_lost(running_delivery& which)
{
    if (which.lost.exchange(true))
        return false;
    ++limits_->lost;
    return true;
}

bool held_messages::settle_now(duration linger) const
{
    const auto now = std::chrono::steady_clock::now();
    if (results_.empty() || (now < not_before_ && !closing_)) // at the end, one more try
        return false;
    return closing_ || batch_complete_ || now >= *oldest_result_ + linger;
}

void held_messages::poke()
{
    {
        const lock guard(mutex_);
        poked_ = true;
    }
    chores_.notify_one();
}

held_messages::chores held_messages::wait_for_chores(duration at_most, duration linger)
{
    lock guard(mutex_);
    const auto end = world_.clock->monotonic() + at_most;
    const auto real_end = std::chrono::steady_clock::now() + at_most;
    for (;;) {
        const auto now = world_.clock->monotonic();
        chores due;
        std::vector<running_ptr> to_stop;
        watch_deadlines(to_stop);
        watch_leases(to_stop);
        watch_renewals(due);
        bring_back();
        if (settle_now(linger)) {
            due.to_settle = std::move(results_);
            results_.clear();
            oldest_result_.reset();
            batch_complete_ = false;
        }
        due.closing = closing_;
        if (!to_stop.empty()) {
            guard.unlock();
            request_stop_of(to_stop);
            guard.lock();
        }
        if (!due.to_settle.empty() || !due.to_renew.empty() || due.closing ||
            std::exchange(poked_, false) || now >= end ||
            std::chrono::steady_clock::now() >= real_end)
            return due;

        duration rest = end - now;
        const auto boot_now = world_.clock->since_boot();
        for (const auto& [number, each] : batches_)
            if (each.renew_at != monotonic_time::max())
                rest = std::min<duration>(rest, each.renew_at - boot_now);
        if (!deadlines_.empty())
            rest = std::min<duration>(rest, deadlines_.begin()->first.first - now);
        rest = real_wait(rest);
        if (oldest_result_)
            rest = std::min(rest, std::chrono::duration_cast<duration>(
                                      std::max(*oldest_result_ + linger, not_before_) -
                                      std::chrono::steady_clock::now()));
        if (!aside_.empty())
            rest = std::min(rest, std::chrono::ceil<duration>(aside_.begin()->first -
                                                              std::chrono::steady_clock::now()));
        chores_.wait_for(guard, std::max<duration>(rest, 50us));
    }
}

std::optional<duration> held_messages::until_chores() const
{
    const auto now = world_.clock->monotonic();
    const auto boot_now = world_.clock->since_boot();
    const lock guard(mutex_);
    std::optional<duration> result;
    const auto sooner = [&](duration other) {
        result = std::max<duration>(std::min(result.value_or(other), other), 0us);
    };
    for (const auto& [number, each] : batches_)
        if (each.renew_at != monotonic_time::max())
            sooner(each.renew_at - boot_now);
    if (!deadlines_.empty())
        sooner(deadlines_.begin()->first.first - now);
    if (oldest_result_) {
        const auto settle_at =
            batch_complete_ ? not_before_ : std::max(*oldest_result_ + linger_min, not_before_);
        sooner(std::chrono::ceil<duration>(settle_at - std::chrono::steady_clock::now()));
    }
    if (!aside_.empty())
        sooner(
            std::chrono::ceil<duration>(aside_.begin()->first - std::chrono::steady_clock::now()));
    return result ? std::optional{real_wait(*result)} : std::nullopt;
}

// Under the lock. The watch is told only if this is sooner than it thinks: most messages come and
// go in between.
void held_messages::expect(duration in)
{
    const auto at = std::chrono::steady_clock::now() + real_wait(std::max<duration>(in, 0us));
    if (at >= fire_at_)
        return;
    fire_at_ = at;
    if (tell_.sooner)
        tell_.sooner();
}

std::optional<duration> held_messages::fire_deadlines()
{
    std::vector<running_ptr> to_stop;
    std::optional<duration> next;
    {
        const lock guard(mutex_);
        watch_deadlines(to_stop);
        watch_leases(to_stop);
        const auto sooner = [&](duration other) { next = std::min(next.value_or(other), other); };
        const auto now = world_.clock->since_boot();
        for (const auto& [number, each] : batches_)
            if (each.lease_end != monotonic_time::max() && each.lease_end > now)
                sooner(each.lease_end - now);
        if (!deadlines_.empty())
            sooner(deadlines_.begin()->first.first - world_.clock->monotonic());
        if (next)
            next = real_wait(std::max<duration>(*next, 50us));
        fire_at_ = next ? std::chrono::steady_clock::now() + *next : real_time::max();
    }
    request_stop_of(to_stop);
    return next;
}

void held_messages::watch_deadlines(std::vector<running_ptr>& to_stop)
{
    const auto now = world_.clock->monotonic();
    while (!deadlines_.empty() && deadlines_.begin()->first.first <= now) {
        to_stop.push_back(std::move(deadlines_.begin()->second));
        deadlines_.erase(deadlines_.begin());
    }
}

// We have not been told that such a lease is lost, but by now others may have taken it.
void held_messages::watch_leases(std::vector<running_ptr>& to_stop)
{
    const auto now = world_.clock->since_boot();
    for (auto& [number, each] : batches_)
        if (now >= each.lease_end)
            for (const auto& member : each.open)
                if (mark_lost(*member))
                    to_stop.push_back(member);
}

// A batch is renewed while anybody in it is worth it: a handler that neither ends nor stops may
// have been given up.
void held_messages::watch_renewals(chores& into)
{
    const auto boot_now = world_.clock->since_boot();
    const auto now = world_.clock->monotonic();
    for (auto& [number, each] : batches_) {
        if (boot_now < each.renew_at)
            continue;
        const bool given_up = std::ranges::all_of(each.open, [&](const running_ptr& member) {
            return member->held_until && *member->held_until <= now;
        });
        each.renew_at = boot_now + lease_ / 8;
        if (!given_up)
            into.to_renew.push_back(number);
    }
}

void held_messages::settled(const std::vector<result>& what)
{
    {
        const lock guard(mutex_);
        for (const auto& each : what) {
            forget(*each.of);
            if (each.said.verdict == outcome::kind::park)
                --parking_;
        }
    }
    changed_.notify_all();
}

bool held_messages::is_parking() const
{
    const lock guard(mutex_);
    return parking_ > 0;
}

void held_messages::try_again(std::vector<result> what, duration pause)
{
    const auto now = std::chrono::steady_clock::now();
    const lock guard(mutex_);
    for (auto& each : what)
        results_.push_back(std::move(each));
    oldest_result_ = now;
    not_before_ = now + pause;
}

void held_messages::set_aside(result which, duration pause)
{
    const lock guard(mutex_);
    aside_.emplace(std::chrono::steady_clock::now() + pause, std::move(which));
}

// At the end all get one more try.
void held_messages::bring_back()
{
    const auto now = std::chrono::steady_clock::now();
    while (!aside_.empty() && (closing_ || aside_.begin()->first <= now)) {
        results_.push_back(std::move(aside_.begin()->second));
        aside_.erase(aside_.begin());
        if (!oldest_result_)
            oldest_result_ = now;
    }
}

void held_messages::renewed(fence which, monotonic_time asked_at)
{
    const lock guard(mutex_);
    const auto at = batches_.find(which);
    if (at == batches_.end())
        return;
    at->second.lease_end = asked_at + lease_;
    at->second.renew_at = asked_at + lease_ / 2;
}

void held_messages::renewal_failed(fence which)
{
    const auto now = world_.clock->since_boot();
    const lock guard(mutex_);
    if (const auto at = batches_.find(which); at != batches_.end())
        at->second.renew_at = now + lease_ / 16;
}

void held_messages::lost(fence which)
{
    std::vector<running_ptr> members;
    {
        const lock guard(mutex_);
        const auto at = batches_.find(which);
        if (at == batches_.end())
            return;
        at->second.renew_at = monotonic_time::max();
        at->second.lease_end = monotonic_time::max();
        members = at->second.open;
        for (const auto& each : members)
            mark_lost(*each);
    }
    request_stop_of(members);
}

void held_messages::ask_to_stop(whom which)
{
    std::vector<running_ptr> members;
    {
        const lock guard(mutex_);
        for (const auto& [number, batch] : batches_)
            for (const auto& each : batch.open)
                if (which == whom::all || (each->has_begun && each->to->handler.only_waits))
                    members.push_back(each);
    }
    request_stop_of(members);
}

void held_messages::close()
{
    {
        const lock guard(mutex_);
        closing_ = true;
    }
    chores_.notify_all();
}

void held_messages::wake() noexcept
{
    {
        const lock guard(mutex_);
        woken_ = true;
    }
    changed_.notify_all();
}

} // namespace posthorn::runtime
