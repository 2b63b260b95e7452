// The rounds from their beginning to their end: listing stores, working, draining, reading mail.
#include "runtime/rounds.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace posthorn {

std::string_view to_string(store_state state) noexcept
{
    switch (state) {
    case store_state::idle: return "idle";
    case store_state::ready: return "ready";
    case store_state::busy: return "busy";
    case store_state::hanging: return "hanging";
    case store_state::failing: return "failing";
    case store_state::leaving: return "leaving";
    }
    return "unknown";
}

namespace runtime {
namespace {

using namespace std::chrono_literals;

constexpr auto ask_again_pause = 5s;

// When one pass is asked for, a store that fails so often is passed over.
constexpr int tries_per_store = 3;

// How long handlers have to end when the worker must go now.
constexpr auto last_words_of_all = 1s;

} // namespace

run_report rounds::run(const run_options& how)
{
    how_ = &how;
    const auto wake = [to = mail_] { to->wake(); };
    const std::stop_callback on_drain(with_.worker.stop.drain, wake);
    const std::stop_callback on_now(with_.worker.stop.now, wake);
    auto& watch = *with_.worker.means.watch;
    // Whom to ask to stop, the rounds decide themselves: they never wait for a store.
    const deadline_watch::thread watching(watch, with_.worker.stop, [](held_messages::whom) {});
    {
        lock guard(mutex_);
        list_first(guard);
        work(guard);
        ending_.no_claims = true;
        ready_.clear();
        drain(guard);
        close(guard);
    }
    if (!in_flight_.empty())
        watch.patience().give_up(); // visits that hang are left behind, and end
    mail_->close();
    if (fatal_)
        std::rethrow_exception(fatal_);
    return so_far();
}

bool rounds::stopping() const
{
    return with_.worker.stop.requested() || fatal_;
}

bool rounds::nothing_in_hand() const
{
    return with_.worker.means.limits->messages == 0 && in_flight_.empty();
}

bool rounds::is_over() const
{
    if (left_of_limit() == 0 && in_flight_.empty())
        return true;
    if (!how_->until_empty || !nothing_in_hand())
        return false;
    return std::ranges::all_of(entries_, [](const auto& each) {
        const auto& e = *each.second;
        return e.seen_empty || e.leaving || e.failures >= tries_per_store;
    });
}

// Sends who can be sent, or waits for something to happen. True: it sent somebody.
bool rounds::step(lock& guard, duration at_most)
{
    const auto now = clock::now();
    forget_gone();
    fire_timers(now);
    if (send_visits())
        return true;
    if (visits_->threads() < in_flight_.size() + (refreshing_ ? 1 : 0))
        visits_->grow();
    with_.worker.means.threads->grow();
    wait(guard, std::min<time>(next_time(now), now + at_most));
    return false;
}

void rounds::work(lock& guard)
{
    while (!stopping() && !is_over()) {
        if (clock::now() >= refresh_at_)
            refresh_in_background();
        step(guard, 1s);
    }
    // Nobody has asked it to stop, so nobody is in a hurry.
    ending_.no_claims = true;
    ready_.clear();
    while (!stopping() && !nothing_in_hand())
        step(guard, 50ms);
}

void rounds::ask_to_stop(lock& guard, held_messages::whom which)
{
    std::vector<std::shared_ptr<station>> all;
    for (const auto& [position, each] : entries_)
        all.push_back(each->at);
    guard.unlock(); // whoever listens to the token may call us
    for (const auto& each : all)
        each->ask_to_stop(which);
    guard.lock();
}

// Lets handlers end; those that only wait need not. When a quarter of the grace is left, or at once
// if that is wanted, all are asked to; after it nobody is waited for.
void rounds::drain(lock& guard)
{
    const auto grace = with_.worker.options->grace;
    const auto ask_at = clock::now() + grace / 4 * 3;
    auto end = clock::now() + grace;
    bool asked = false;
    bool hurried = false;
    for (;;) {
        if (!hurried && with_.worker.stop.now.stop_requested()) {
            end = std::min<time>(end, clock::now() + last_words_of_all);
            hurried = true;
        }
        if (!asked && (hurried || clock::now() >= ask_at)) {
            ask_to_stop(guard, held_messages::whom::all);
            asked = true;
        } else if (!asked) { // each time: a visit may have begun some meanwhile
            ask_to_stop(guard, held_messages::whom::who_only_waits);
        }
        const auto now = clock::now();
        const bool empty =
            with_.worker.means.limits->messages == 0 &&
            std::ranges::all_of(in_flight_, [&](const auto& each) { return hangs(*each, now); });
        if (empty || now >= end || fatal_)
            return;
        step(guard, 50ms);
    }
}

// One more visit for each store that has results to write, whatever its breaker says.
void rounds::close(lock& guard)
{
    ending_.closing = true;
    const auto end = clock::now() + closing_patience;
    for (const auto& [position, each] : entries_) {
        if (!each->at->has_messages())
            continue;
        each->at->close();
        each->closed_until = {};
        each->chores = true;
        if (!each->in_hand)
            plan(each);
    }
    for (;;) {
        const auto now = clock::now();
        const bool left = std::ranges::any_of(entries_, [&](const auto& each) {
            return each.second->chores || (each.second->in_hand && !hangs(*each.second, now));
        });
        if (!left || now >= end)
            return;
        step(guard, 10ms);
    }
}

// ----------------------------------------------------------------------------------- stores

void rounds::refresh(const std::vector<named_store>& listed)
{
    if (const auto every = with_.provider.refresh_every(); every > duration::zero())
        refresh_at_ = clock::now() + every;
    std::set<std::string_view> names;
    std::map<std::string, std::string> left_out;
    const auto newest = next_position_;
    const auto leaving = leaving_;
    const bool is_first = entries_.empty();
    for (const auto& each : listed) {
        names.insert(each.name);
        const auto known = by_name_.find(each.name);
        if (known != by_name_.end()) {
            const auto which = entries_.at(known->second);
            if (which->what.url == each.url)
                continue; // unchanged
            leave(which); // moved: what is in hand there is finished there
        }
        try {
            add_store(each);
        } catch (const error& failure) {
            left_out.emplace(each.name, failure.what());
            if (const auto told = left_out_.find(each.name);
                told == left_out_.end() || told->second != failure.what())
                say(log_level::warning,
                    fmt::format("the store '{}' is left out: {}", each.name, failure.what()));
        }
    }
    left_out_ = std::move(left_out);
    std::vector<entry_ptr> gone;
    for (const auto& [name, position] : by_name_)
        if (!names.contains(name))
            gone.push_back(entries_.at(position));
    for (const auto& each : gone)
        leave(each);
    if (!is_first && (next_position_ != newest || leaving_ != leaving))
        with_.serving.strategy.reset();
}

void rounds::leave(const entry_ptr& which)
{
    // The store behind it is still next.
    if (last_ == which->what.name) {
        last_.reset();
        last_count_ = 0;
        for (const auto& [position, each] : entries_)
            if (position < which->position && !each->leaving)
                last_ = each->what.name;
    }
    which->leaving = true;
    ++leaving_;
    which->line.reset();
    ready_.erase(which->position);
    by_name_.erase(which->what.name);
}

void rounds::add_store(const named_store& which)
{
    auto way = with_.provider.way_to(which);
    auto made = std::make_shared<entry>();
    const auto position = next_position_++;
    made->position = position;
    made->what = which;
    made->place = way.place;
    made->open_max = way.open_max;
    const auto ring = [to = mail_, position] { to->post(mailbox::rung{position}); };
    made->at = std::make_shared<station>(
        which.name,
        [open = way.open, claim_from = with_.claim_from] { return claim_from(store{open()}); },
        shared_,
        station_calls{.ring = ring,
                      .chores = [to = mail_, position] { to->post(mailbox::has_chores{position}); },
                      .left = [to = mail_] { to->place_left(); }});
    if (way.listen)
        made->line = way.listen(ring);
    entries_.emplace(position, made);
    by_name_.insert_or_assign(which.name, position);
    plan(made);
}

// There is nothing to do before it, but whoever is told to stop must not wait for it.
void rounds::list_first(lock& guard)
{
    list_in_background();
    while (!listed_ && !first_failure_ && !stopping())
        step(guard, 1s);
    if (first_failure_)
        std::rethrow_exception(first_failure_);
}

// The function that lists may ask a database, which may not answer.
void rounds::list_in_background()
{
    if (std::exchange(refreshing_, true))
        return; // the last time has not ended yet
    visits_->submit({[to = mail_, from = with_.provider] {
        try {
            to->post(mailbox::listed{.stores = from.list(), .failure = {}});
        } catch (...) {
            to->post(mailbox::listed{.stores = {}, .failure = std::current_exception()});
        }
    }});
}

void rounds::refresh_in_background()
{
    refresh_at_ = clock::now() + with_.provider.refresh_every();
    list_in_background();
}

void rounds::read(const mailbox::listed& what)
{
    refreshing_ = false;
    if (!what.failure) {
        listed_ = true;
        refresh(what.stores);
        return;
    }
    if (!listed_) {
        first_failure_ = what.failure;
        return;
    }
    refresh_at_ = std::min<time>(refresh_at_, clock::now() + ask_again_pause);
    say(log_level::warning, fmt::format("stores cannot be listed, those known are served: {}",
                                        outcome_of_exception(what.failure).error));
}

void rounds::forget_gone()
{
    if (leaving_ == 0)
        return;
    for (auto at = entries_.begin(); at != entries_.end();) {
        auto& e = *at->second;
        if (!e.leaving || e.in_hand || e.at->has_messages()) {
            ++at;
            continue;
        }
        past_ += e.at->so_far();
        set_busy(e, 0);
        if (e.timer != time::max())
            timers_.erase({e.timer, e.position});
        e.chores = false;
        ready_.erase(e.position);
        --leaving_;
        at = entries_.erase(at);
    }
}

// ------------------------------------------------------------------------------------- mail

rounds::entry_ptr rounds::at(std::uint64_t position) const
{
    const auto found = entries_.find(position);
    return found == entries_.end() ? nullptr : found->second;
}

void rounds::wait(lock& guard, time until)
{
    const bool left_matters = !ready_.empty() && short_since_ == time{};
    guard.unlock();
    auto arrived = mail_->wait_until(until, left_matters);
    guard.lock();
    busy_places_ -= static_cast<std::int64_t>(arrived.left);
    for (const auto& each : arrived.items)
        std::visit([this](const auto& what) { read(what); }, each);
}

void rounds::read(const mailbox::rung& what)
{
    const auto which = at(what.position);
    if (!which)
        return;
    if (!fatal_) // it rings for that, too: what failed may keep its place, so no visit need follow
        fatal_ = which->at->failure();
    which->seen_empty = false;
    which->idle_pause = {};
    which->rung_again = which->in_hand;
    which->rung = true;
    if (!which->in_hand)
        plan(which);
}

void rounds::read(const mailbox::has_chores& what)
{
    const auto which = at(what.position);
    if (!which)
        return;
    which->chores = true;
    if (!which->in_hand)
        plan(which);
}

// ----------------------------------------------------------------------------------- status

run_report rounds::so_far() const
{
    const std::lock_guard guard(mutex_);
    auto sum = past_;
    for (const auto& [position, each] : entries_)
        sum += each->at->so_far();
    return sum;
}

std::size_t rounds::running() const
{
    const std::lock_guard guard(mutex_);
    std::size_t sum = 0;
    for (const auto& [position, each] : entries_)
        sum += each->at->running();
    return sum;
}

std::size_t rounds::threads() const
{
    return visits_->threads() + with_.worker.means.threads->threads() + 1;
}

std::vector<store_status> rounds::stores() const
{
    const std::lock_guard guard(mutex_);
    const auto now = clock::now();
    std::vector<store_status> all;
    all.reserve(entries_.size());
    for (const auto& [position, each] : entries_) {
        const auto& e = *each;
        store_status one{.name = e.what.name,
                         .failures = e.failures,
                         .last_error = e.last_error,
                         .running = e.at->running(),
                         .handled = e.at->so_far().handled(),
                         .lag = e.lag};
        if (e.leaving)
            one.state = store_state::leaving;
        else if (hangs(e, now))
            one.state = store_state::hanging;
        else if (e.failures > 0)
            one.state = store_state::failing;
        else if (e.in_hand || one.running > 0)
            one.state = store_state::busy;
        else if (e.rung)
            one.state = store_state::ready;
        all.push_back(std::move(one));
    }
    return all;
}

} // namespace runtime
} // namespace posthorn
