// Sleeping until the next time-out, the next end of a lease, or the next step of an end.
#include "runtime/deadline_watch.hpp"

#include <algorithm>
#include <utility>

namespace posthorn::runtime {
namespace {

using namespace std::chrono_literals;

// How long handlers have to end when the worker must go now.
constexpr auto last_words = 1s;

constexpr auto seldom = 10s;

} // namespace

deadline_watch::thread::thread(deadline_watch& of, const stop_request& stop, asker ask)
    : on_drain_(stop.drain, [&of] { of.begin_end(); }),
      on_now_(stop.now, [&of] { of.hurry(); }),
      thread_([&of, ask = std::move(ask)](const std::stop_token& until) { of.run(until, ask); })
{}

void deadline_watch::add(std::weak_ptr<held_messages> which)
{
    {
        const std::lock_guard lock(mutex_);
        std::erase_if(watched_, [](const auto& each) { return each.expired(); });
        watched_.push_back(std::move(which));
        look_ = true;
    }
    changed_.notify_all();
}

void deadline_watch::look() noexcept
{
    {
        const std::lock_guard lock(mutex_);
        look_ = true;
    }
    changed_.notify_all();
}

void deadline_watch::begin_end()
{
    {
        const std::lock_guard lock(mutex_);
        if (!ending_since_)
            ending_since_ = clock::now();
        look_ = true;
    }
    changed_.notify_all();
}

void deadline_watch::hurry()
{
    {
        const std::lock_guard lock(mutex_);
        const auto now = clock::now();
        ending_since_ = ending_since_.value_or(now);
        hurried_since_ = hurried_since_.value_or(now);
        look_ = true;
    }
    changed_.notify_all();
}

std::optional<deadline_watch::clock::time_point> deadline_watch::end() const
{
    const std::lock_guard lock(mutex_);
    return end_locked();
}

std::optional<deadline_watch::clock::time_point> deadline_watch::end_locked() const
{
    if (!ending_since_)
        return std::nullopt;
    // A grace of centuries must not overflow.
    const auto grace = std::min<duration>(grace_, std::chrono::hours{24 * 365});
    const auto end = *ending_since_ + grace;
    return hurried_since_ ? std::min<clock::time_point>(end, *hurried_since_ + last_words) : end;
}

// Returns: when to do so again.
deadline_watch::clock::time_point deadline_watch::fire()
{
    std::vector<std::shared_ptr<held_messages>> all;
    {
        const std::lock_guard lock(mutex_);
        for (const auto& each : watched_)
            if (auto lives = each.lock())
                all.push_back(std::move(lives));
    }
    duration next = seldom;
    for (const auto& each : all) // outside the lock: tokens call those who listen
        next = std::min(next, each->fire_deadlines().value_or(next));
    return clock::now() + next;
}

// A handler that only waits need not end before it is asked; the others are asked when a quarter of
// the grace is left, or at once if that is wanted.
void deadline_watch::run(const std::stop_token& until, const asker& ask)
{
    bool asked_waiters = false;
    bool asked_all = false;
    while (!until.stop_requested()) {
        auto next = fire();
        std::unique_lock lock(mutex_);
        const auto now = clock::now();
        const auto end = end_locked();
        if (end) {
            const auto ask_at = hurried_since_ ? now : *end - (*end - *ending_since_) / 4;
            const bool ask_all = !asked_all && now >= ask_at;
            asked_all = asked_all || ask_all;
            const bool ask_waiters = !std::exchange(asked_waiters, true);
            if (ask_all || ask_waiters) {
                lock.unlock();
                if (ask_waiters)
                    ask(held_messages::whom::who_only_waits);
                if (ask_all)
                    ask(held_messages::whom::all);
                continue;
            }
            const auto give_up_at = *end + last_settlements_;
            if (now >= give_up_at)
                patience_.give_up();
            else
                next = std::min<clock::time_point>(next, give_up_at);
            if (!asked_all)
                next = std::min<clock::time_point>(next, ask_at);
        }
        changed_.wait_until(lock, until, next, [&] { return look_; });
        look_ = false;
    }
}

} // namespace posthorn::runtime
