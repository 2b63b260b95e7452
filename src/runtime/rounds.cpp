// Visits: who is next, and what came of it.
#include "runtime/rounds.hpp"

#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace posthorn::runtime {
namespace {

using namespace std::chrono_literals;

// Places that become free together make one claim instead of many: it is worth waiting for as long
// as a visit takes.
constexpr duration places_patience_min = 1ms;
constexpr duration places_patience_max = 20ms;

// A claim that takes longer than this leaves the places that it asked for to others.
constexpr duration places_kept_max = 50ms;

// Something is due, but somebody else has it in hand: ask again after this long, and longer.
constexpr duration pause_elsewhere = 10ms;

// Stores for which nobody rings are asked, quickly after something has happened, and ever more
// seldom: all of them together about a thousand times a second.
constexpr duration first_idle_pause = 5ms;
constexpr duration idle_pause_max = 500ms;
constexpr duration idle_pause_per_store = 1ms;

// A store is busy for long, and need not ring, when so many visits in a row brought something.
constexpr int busy_for_long = 2;

// When more stores are busy than can be open, one that is open gives so many messages before it
// makes room for another: opening takes as long as a few dozen of them. If a turn is cut short, the
// next one is longer: in the long run all of them give as many.
constexpr std::int64_t messages_per_turn = 50;

// Stores that share a server wait for it together: this many visits.
constexpr std::size_t hanging_per_place_max = 2;

constexpr duration look_at_pauses_every = 1s;
constexpr double seconds_of_a_day = 86'400;

// To look at a file that is closed takes as long as to look at so many schemas.
constexpr double looks_of_a_file = 10;
constexpr duration failure_pause_first = 100ms;

// All the places that a store may have are taken: another look after this long.
constexpr auto share_pause = 5ms;

// How long all others wait, the first time, until a suspect message can be alone. If what runs
// takes longer they go on, and the suspect waits; then they wait twice as long.
constexpr std::chrono::steady_clock::duration quiet_patience_first = 5s;
constexpr std::chrono::steady_clock::duration quiet_patience_max = 24h;
constexpr int loud_times = 3; ///< as long as was waited

} // namespace

rounds::rounds(parts with)
    : with_(std::move(with)),
      shared_(std::make_shared<const worker_parts>(with_.worker)),
      visits_(std::make_shared<thread_pool>(with_.serving.visits_at_once +
                                            with_.serving.hanging_max + 1))
{}

rounds::~rounds()
{
    mail_->close();
}

// ------------------------------------------------------------------------------------ plans

// Puts a store where it belongs: among those that may have work, among those with chores, and among
// the timers. Requires: it is not in hand.
void rounds::plan(const entry_ptr& which)
{
    const auto now = clock::now();
    auto& e = *which;
    if (e.timer != time::max())
        timers_.erase({e.timer, e.position});
    e.timer = time::max();
    const bool open = now >= e.closed_until;
    if (open && e.chores_at <= now)
        e.chores = true;
    if (open && e.look_at <= now)
        e.rung = true;
    const bool may_claim = open && e.rung && !e.leaving && !ending_.no_claims;
    if (may_claim && ready_.emplace(e.position, which).second)
        e.ready_since = now;
    else if (!may_claim)
        ready_.erase(e.position);
    if (open && e.chores && !e.in_chore_line) {
        e.in_chore_line = true;
        chore_line_.push_back(which);
    }
    auto next = time::max();
    if (!open)
        next = e.closed_until;
    else {
        if (!e.chores)
            next = std::min(next, e.chores_at);
        if (!e.rung && !ending_.no_claims)
            next = std::min(next, e.look_at);
    }
    if (next != time::max()) {
        e.timer = next;
        timers_.emplace(next, e.position);
    }
}

void rounds::fire_timers(time now)
{
    while (!timers_.empty() && timers_.begin()->first <= now) {
        const auto which = entries_.at(timers_.begin()->second);
        timers_.erase(timers_.begin());
        which->timer = time::max();
        if (!which->in_hand)
            plan(which);
    }
}

rounds::time rounds::next_time(time now) const
{
    auto next = now + 1s;
    if (!timers_.empty())
        next = std::min(next, timers_.begin()->first);
    next = std::min(next, refresh_at_);
    for (const auto& each : in_flight_) // when it begins to hang, another can be sent
        for (const duration limit : {places_kept_max, with_.serving.time_budget})
            if (each->visit_began + limit > now)
                next = std::min<time>(next, each->visit_began + limit);
    if (visits_->threads() < in_flight_.size() || with_.worker.means.threads->has_waiting())
        next = std::min<time>(next, now + 300us);
    if (short_since_ != time{})
        next = std::min<time>(next, short_since_ + patience_for_places());
    return next;
}

// ------------------------------------------------------------------------------------ choice

std::size_t rounds::free_places() const
{
    const auto all = static_cast<std::int64_t>(with_.worker.options->concurrency);
    return static_cast<std::size_t>(all - std::clamp<std::int64_t>(busy_places_, 0, all));
}

std::size_t rounds::left_of_limit() const
{
    const auto claimed = static_cast<std::size_t>(std::max<std::int64_t>(claimed_, 0));
    return how_->limit - std::min(how_->limit, claimed);
}

// The places that a visit had for what it would bring.
void rounds::give_back_places(entry& which)
{
    busy_places_ -= static_cast<std::int64_t>(std::exchange(which.reserved, 0));
}

void rounds::give_back(entry& which)
{
    give_back_places(which);
    claimed_ -= static_cast<std::int64_t>(std::exchange(which.promised, 0));
}

bool rounds::hangs(const entry& which, time now) const
{
    return which.in_hand && now - which.visit_began >= with_.serving.time_budget;
}

// Hanging visits have threads of their own, but not without end; and no places, which even a slow
// one does not keep for long. If it brings something after all, it is a little more than fits, and
// waits for a thread.
bool rounds::may_send(time now)
{
    std::size_t hanging = 0;
    hanging_at_.clear();
    for (const auto& each : in_flight_) {
        if (now - each->visit_began >= places_kept_max && with_.worker.options->concurrency > 1)
            give_back_places(*each);
        if (!hangs(*each, now))
            continue;
        ++hanging;
        if (!each->place.empty())
            ++hanging_at_[each->place];
        give_back(*each);
    }
    return in_flight_.size() - std::min(hanging, with_.serving.hanging_max) <
           with_.serving.visits_at_once;
}

// A thousand schemas of a server that hangs are not a thousand reasons to wait for it.
bool rounds::is_out_of_reach(const entry& which) const
{
    const auto found = which.place.empty() ? hanging_at_.end() : hanging_at_.find(which.place);
    return found != hanging_at_.end() && found->second >= hanging_per_place_max;
}

rounds::entry_ptr rounds::next_with_chores()
{
    for (auto left = chore_line_.size(); left > 0; --left) {
        auto which = chore_line_.front();
        chore_line_.pop_front();
        if (which->chores && !which->in_hand && is_out_of_reach(*which)) {
            chore_line_.push_back(which);
            continue;
        }
        which->in_chore_line = false;
        if (!which->in_hand && which->chores)
            return which;
    }
    return nullptr;
}

// Whether nothing at all is in hand, nor about to be.
bool rounds::quiet_enough() const
{
    const auto& limits = *with_.worker.means.limits;
    return limits.messages <= limits.lost && // what is lost may never end
           std::ranges::none_of(in_flight_, [](const auto& each) { return each->promised > 0; });
}

// A busy store stays open between visits, unless so many are busy that others need the room.
bool rounds::keeps_open(const entry& which) const
{
    return which.open_max == 0 || busy_stores_ * 2 <= which.open_max;
}

bool rounds::stays_with(const entry& which) const
{
    return !keeps_open(which) && which.busy > 0 && which.credit > 0;
}

void rounds::set_busy(entry& which, int visits)
{
    if (which.open_max > 0) {
        busy_stores_ += visits > 0 ? 1 : 0;
        busy_stores_ -= which.busy > 0 ? 1 : 0;
    }
    which.busy = visits;
}

duration rounds::patience_for_places() const
{
    return std::clamp(visit_takes_, places_patience_min, places_patience_max);
}

// How many messages may be claimed now, from whatever store.
std::size_t rounds::room() const
{
    const auto& options = *with_.worker.options;
    auto room = std::min(free_places(), left_of_limit());
    if (options.concurrency == 1 || quiet_for_)
        return std::min<std::size_t>(room, 1);
    const auto& limits = *with_.worker.means.limits;
    const std::size_t messages = limits.messages;
    if (const std::size_t bytes = limits.payload_bytes; messages > 0 && bytes > 0) {
        const auto left = options.payload_bytes_max - std::min(bytes, options.payload_bytes_max);
        room = std::min(room, left / std::max<std::size_t>(bytes / messages, 1));
    }
    return room;
}

std::size_t rounds::room_for(const entry& which) const
{
    const auto all = with_.worker.options->concurrency;
    const auto usual = entries_.size() == 1 ? all : std::max<std::size_t>(all / 2, 1);
    const auto given = with_.serving.concurrency_per_store;
    const auto share = which.slow ? 1 : given > 0 ? given : usual;
    return std::min(room(), share - std::min(which.at->running(), share));
}

// One store alone, until it has no suspect message any more.
rounds::entry_ptr rounds::next_in_quiet()
{
    if (quiet_for_->at->suspect_runs()) // however long that takes
        return nullptr;
    const auto found = ready_.find(quiet_for_->position);
    if (found == ready_.end()) { // it has nothing more, or fails
        if (!quiet_for_->in_hand)
            quiet_for_.reset();
        return nullptr;
    }
    if (quiet_enough()) {
        quiet_patience_ = quiet_patience_first;
        return found->second;
    }
    if (const auto now = clock::now(); now - quiet_since_ >= quiet_patience_) {
        loud_until_ = now + loud_times * quiet_patience_;
        quiet_patience_ = std::min(quiet_patience_ * 2, quiet_patience_max);
        quiet_for_.reset();
    }
    return nullptr;
}

rounds::entry_ptr rounds::next_to_claim()
{
    if (quiet_for_)
        return next_in_quiet();
    if (ready_.empty() || room() == 0)
        return nullptr;
    const auto all = with_.worker.options->concurrency;
    if (all == 1 && !quiet_enough())
        return nullptr;
    // A few places wait a moment for others.
    const auto now = clock::now();
    if (free_places() * 4 < all) {
        if (short_since_ == time{})
            short_since_ = now;
        if (now - short_since_ < patience_for_places())
            return nullptr;
    }
    short_since_ = {};
    while (!unfinished_.empty()) { // there was no place for them a moment ago
        const auto which = unfinished_.front();
        unfinished_.pop_front();
        if (stays_with(*which) && ready_.contains(which->position) && room_for(*which) > 0)
            return which;
    }
    std::vector<store_view> views;
    std::vector<entry_ptr> behind;
    views.reserve(ready_.size() + 1);
    behind.reserve(ready_.size() + 1);
    for (const auto& [position, each] : ready_) {
        if (is_out_of_reach(*each))
            continue;
        const auto waited = std::chrono::duration_cast<duration>(now - each->ready_since);
        views.push_back({.name = each->what.name,
                         .position = position,
                         .lag = each->busy > 0 ? each->lag + waited : waited});
        behind.push_back(each);
    }
    if (const auto last = last_in_hand(now)) {
        const auto place =
            std::ranges::lower_bound(views, last->position, {}, &store_view::position);
        behind.insert(behind.begin() + (place - views.begin()), last);
        views.insert(place, {.name = last->what.name, .position = last->position, .lag = {}});
    }
    return choose_of(std::move(views), std::move(behind));
}

// A strategy may want to stay with the store that was chosen last: what it gives this time is known
// in a moment. Nothing: it is not visited now, or takes its time.
rounds::entry_ptr rounds::last_in_hand(time now) const
{
    const auto found = last_ ? by_name_.find(*last_) : by_name_.end();
    const auto which = found == by_name_.end() ? nullptr : entries_.at(found->second);
    const bool soon =
        which && which->in_hand && now - which->visit_began < with_.serving.time_budget / 4;
    return soon && !is_out_of_reach(*which) ? which : nullptr;
}

// The strategy's choice among those that have a free place; the one in hand is waited for.
rounds::entry_ptr rounds::choose_of(std::vector<store_view> views, std::vector<entry_ptr> behind)
{
    while (!views.empty()) {
        auto strategy = with_.serving.strategy; // which must not count a turn that is not taken
        const auto chosen = strategy.select_next(
            views, last_ ? std::optional<std::string_view>(*last_) : std::nullopt, last_count_);
        if (!chosen || *chosen >= views.size() || behind[*chosen]->in_hand)
            return nullptr;
        with_.serving.strategy = std::move(strategy);
        const auto which = behind[*chosen];
        if (room_for(*which) > 0) {
            which->credit = messages_per_turn +
                            std::clamp(which->credit, -messages_per_turn, messages_per_turn);
            last_ = which->what.name;
            last_count_ = 1; // it has been hoped for, and will be counted
            return which;
        }
        // Its share of the places is in use.
        which->look_at = clock::now() + share_pause;
        which->rung = false;
        plan(which);
        views.erase(views.begin() + static_cast<std::ptrdiff_t>(*chosen));
        behind.erase(behind.begin() + static_cast<std::ptrdiff_t>(*chosen));
    }
    return nullptr;
}

bool rounds::send_visits()
{
    bool sent = false;
    while (may_send(clock::now())) {
        if (const auto which = next_with_chores()) {
            // Claims are for the strategy to give; unless there is nobody else, or opening this
            // store once more would cost more than the others' turn is worth.
            const bool also = (ready_.size() == 1 || stays_with(*which)) &&
                              ready_.contains(which->position) && !quiet_for_ &&
                              with_.worker.options->concurrency > 1;
            const auto places = also ? room_for(*which) : 0;
            send(which, {.claim = places > 0,
                         .room = places,
                         .others_run = true,
                         .suspects_wait_until = loud_until_,
                         .closing = ending_.closing});
        } else if (const auto next = next_to_claim()) {
            // Only in quiet does nothing else begin while it is visited.
            send(next, {.claim = true,
                        .room = room_for(*next),
                        .others_run = quiet_for_ != next,
                        .suspects_wait_until = loud_until_});
        } else {
            break;
        }
        sent = true;
    }
    return sent;
}

void rounds::send(const entry_ptr& which, const station::errand& what)
{
    auto& e = *which;
    e.in_hand = true;
    e.chores = false;
    e.rung_again = false;
    e.visit_began = clock::now();
    if (what.claim)
        e.rung = false;
    ready_.erase(e.position); // one visit at a time
    in_flight_.insert(which);
    e.reserved = e.promised = what.room; // what is not taken is given back
    busy_places_ += static_cast<std::int64_t>(what.room);
    claimed_ += static_cast<std::int64_t>(what.room);
    auto errand = what;
    errand.keep_open = keeps_open(e);
    visits_->submit({[to = mail_, at = e.at, position = e.position, what = errand] {
        to->post(mailbox::visited{.position = position, .errand = what, .answer = at->visit(what)});
    }});
}

// ------------------------------------------------------------------------------ what came of it

void rounds::read(const mailbox::visited& what)
{
    const auto which = at(what.position);
    if (!which)
        return;
    const auto& said = what.answer;
    auto& e = *which;
    if (!fatal_)
        fatal_ = said.fatal;
    const auto took = std::chrono::duration_cast<duration>(clock::now() - e.visit_began);
    e.in_hand = false;
    in_flight_.erase(which);
    give_back(e);
    busy_places_ += static_cast<std::int64_t>(said.begun);
    claimed_ += static_cast<std::int64_t>(said.claimed);
    e.credit -= static_cast<std::int64_t>(said.claimed);
    e.slow = took > with_.serving.time_budget;
    visit_takes_ = (visit_takes_ * 7 + std::min(took, places_patience_max)) / 8;
    e.chores_at = said.chores ? clock::now() + *said.chores : time::max();
    if (said.failure)
        note_failure(e, *said.failure);
    else
        note_success(e, took);
    if (what.errand.claim)
        note_haul(which, what.errand, said);
    else if (how_->until_empty)
        e.rung = true; // what was in hand may have been the last: look
    if (said.for_others && e.line)
        e.line->ring_others();
    e.rung = e.rung || e.rung_again;
    plan(which);
    if (!what.errand.claim && stays_with(e))
        unfinished_.push_back(which);
}

void rounds::note_haul(const entry_ptr& which, const station::errand& what,
                       const station::answer& said)
{
    auto& e = *which;
    if (last_ == e.what.name)
        last_count_ = said.claimed;
    if (said.failure) {
        e.rung = true; // when its breaker closes
        set_busy(e, 0);
        return;
    }
    if (said.claimed > 0 || said.empty) // else somebody looked only, and the last claim still holds
        e.lag = said.lag;
    set_busy(e, said.more ? std::min(e.busy + 1, busy_for_long + 1) : 0);
    if (!said.more)
        e.credit = 0; // for what it did not have
    e.seen_empty = said.empty && !said.more && !e.rung_again;
    e.look_at = time::max();
    if (said.more && what.room > 0) {
        e.rung = true;
        e.idle_pause = {};
        if (e.line && e.busy == busy_for_long)
            e.line->rest(false);
    } else {
        e.look_at = clock::now() + look_again_in(e, said);
        if (e.line)
            e.line->rest(true);
    }
    if (said.wants_quiet && !quiet_for_) {
        quiet_for_ = which;
        quiet_since_ = clock::now();
        quiet_patience_ = std::max(quiet_patience_, quiet_patience_first);
    } else if (!said.wants_quiet && quiet_for_ == which) {
        quiet_for_.reset();
    }
}

duration rounds::look_again_in(entry& e, const station::answer& said) const
{
    const auto count = static_cast<std::int64_t>(entries_.size());
    const auto rate = with_.serving.looks_per_second / (e.open_max > 0 ? looks_of_a_file : 1);
    const std::chrono::duration<double> all_once{
        std::min(static_cast<double>(count) / rate, seconds_of_a_day)};
    duration pause = std::max(with_.worker.options->look_at_least_every,
                              std::chrono::duration_cast<duration>(all_once));
    // Stores that were looked at together are not looked at together again.
    const auto least = std::exchange(e.looked_at, true) ? 0.75 : 0.0;
    pause = std::chrono::duration_cast<duration>(
        pause * (least + (1 - least) * with_.world.random->fraction()));
    if (!e.line) {
        const auto cap = std::max(idle_pause_max, idle_pause_per_store * count);
        e.idle_pause = std::clamp(e.idle_pause * 2, first_idle_pause, cap);
        pause = e.idle_pause;
    }
    if (said.elsewhere) {
        e.idle_pause = std::clamp(e.idle_pause * 2, pause_elsewhere, idle_pause_max);
        pause = e.idle_pause;
    }
    if (said.has_pauses)
        pause = std::min(pause, look_at_pauses_every);
    if (said.next && !said.elsewhere)
        pause = std::min(pause, std::max<duration>(*said.next, 1ms));
    if (with_.world.clock->database_time()) // under a manual clock nobody knows when time moves
        pause = std::min<duration>(pause, 5ms);
    return pause;
}

void rounds::note_failure(entry& e, const std::string& why)
{
    const auto pause = std::min<duration>(failure_pause_first * (1 << std::min(e.failures, 16)),
                                          with_.serving.failure_pause_max);
    const auto jittered =
        std::chrono::duration_cast<duration>(pause * (0.5 + with_.world.random->fraction() / 2));
    e.closed_until = clock::now() + jittered;
    if (e.failures++ == 0 || e.last_error != why)
        say(log_level::warning,
            fmt::format("the store '{}' fails and is left alone for a while: {}", e.what.name,
                        why));
    e.last_error = why;
}

// A store that is slow gets at most half of a thread.
void rounds::note_success(entry& e, duration took)
{
    if (e.failures > 0)
        say(log_level::info, fmt::format("the store '{}' answers again", e.what.name));
    e.failures = 0;
    e.last_error.clear();
    e.closed_until = {};
    if (took > with_.serving.time_budget)
        e.closed_until = clock::now() + std::min(took, with_.serving.failure_pause_max);
}

void rounds::say(log_level level, const std::string& line) const
{
    if (with_.world.log)
        with_.world.log(level, line);
}

} // namespace posthorn::runtime
