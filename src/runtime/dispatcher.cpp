// Claiming and resting.
#include "runtime/dispatcher.hpp"

#include "core/settlement.hpp"
#include "runtime/invocation.hpp"
#include "runtime/patience.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

namespace posthorn::runtime {
namespace {

using namespace std::chrono_literals;

// Pauses and parked messages are looked at this often while there is work.
constexpr duration look_when_busy_every = 1s;

// Places that become free together make one claim instead of many.
constexpr duration patience_for_room = 1ms;

// A message over its limit per key comes back after about this long.
constexpr duration over_limit_pause = 100ms;

// Something is due, but somebody else has it in hand: ask again after this long.
constexpr duration when_due_elsewhere = 10ms;
constexpr duration pause_when_due = 500ms;

// How many messages may be handed to a worker that sleeps before it offers places again. A worker
// that is stopped or cut off keeps so many of them until their lease runs out.
constexpr std::size_t offers_max = 4;

// How often a worker goes back to claiming singly before it stops suspecting.
constexpr int quiet_claims_max = 32;

// Who asked for one pass would rather hear of a store that is away than wait for it.
constexpr int tries_of_one_pass = 3;

// For how long a suspect message waits until it can be alone. Some handlers never end.
constexpr std::chrono::seconds quiet_patience{5};

// How long handlers have to end when the worker must go now.
constexpr duration last_words = 1s;

// What no waiting will cure.
bool is_fatal(const std::exception& why)
{
    const auto* known = dynamic_cast<const error*>(&why);
    if (known == nullptr)
        return true;
    switch (known->code()) {
    case error_code::invalid_argument:
    case error_code::not_found:
    case error_code::schema_missing:
    case error_code::schema_newer:
    case error_code::schema_foreign:
    case error_code::schema_outdated:
    case error_code::corrupt:
    case error_code::unsupported:
    case error_code::internal: return true;
    default: return false;
    }
}

} // namespace

struct dispatcher::turn {
    const stop_request& stop;
    const run_options& how;
    std::size_t claimed = 0; ///< of `how.limit`
    bool over = false;       ///< nothing is left to do
    bool idle = false;       ///< nothing was in hand when the last claim was made
    bool armed = false;
    haul last = haul::none;
    int busy = 0;      ///< claims in a row that brought all they asked for
    int fruitless = 0; ///< claims in a row that found nothing although it was due
    int failures = 0;  ///< of the store, in a row
    int quiet = 0;     ///< claims to make singly, with nothing else running

    /// Since when that has not come about; on the real clock, as handlers are.
    std::optional<std::chrono::steady_clock::time_point> loud_since = {};
    monotonic_time looked_at{};
    std::size_t largest_payload = 0;
    duration claim_took{};
    std::size_t begun = 0;   ///< by the last claim
    duration oldest{};       ///< in the last claim
    bool others_run = false; ///< of other stores
    bool hurried = false;    ///< they have run for too long

    [[nodiscard]] bool out_of_patience() const
    {
        return hurried ||
               (loud_since && std::chrono::steady_clock::now() - *loud_since >= quiet_patience);
    }

    [[nodiscard]] bool stopping() const
    {
        return stop.drain.stop_requested() || stop.now.stop_requested();
    }
};

dispatcher::dispatcher(std::shared_ptr<engine> with, stop_request stop)
    : with_(std::move(with)), stop_(std::move(stop))
{}
dispatcher::~dispatcher() = default;

dispatcher::visited dispatcher::visit(const visit_order& order)
{
    if (!visiting_)
        visiting_.reset(new turn{.stop = stop_, .how = always_});
    auto& now = *visiting_;
    now.others_run = order.others_run;
    now.hurried = order.out_of_patience;
    now.begun = 0;
    now.oldest = {};
    const auto before = now.claimed;
    const auto room = now.quiet > 0 ? std::min<std::size_t>(order.room, 1) : order.room;
    visited result{.brought = claim_and_dispatch(now, room)};
    result.claimed = now.claimed - before;
    result.begun = now.begun;
    result.oldest = now.oldest;
    result.wants_quiet = now.quiet > 0;
    return result;
}

dispatcher::sight dispatcher::look_around()
{
    if (!visiting_)
        (void)visit({}); // which claims nothing
    sight result{.ahead = look(*visiting_)};
    std::size_t limit = 1;
    result.everything_paused = is_paused(pauses_, {});
    result.wants_parked = !result.everything_paused && !wanted_parked(limit).empty();
    result.at_limit = !result.wants_parked && std::ranges::any_of(parked_, [&](const auto& topic) {
        return with_->table->find(topic) != nullptr && !is_paused(pauses_, topic);
    });
    return result;
}

run_report dispatcher::run(const stop_request& stop, const run_options& how)
{
    bell_ = with_->source->make_bell();
    auto handled = with_->table->handled();
    offer_ = {.owner = with_->who.token,
              .worker = with_->who.worker,
              .lease = with_->options->lease,
              .topics = std::move(handled.exact),
              .prefixes = std::move(handled.prefixes)};
    with_->listen(bell_.get());
    std::jthread settling([this] { with_->settling.run(); });
    turn now{.stop = stop, .how = how};
    std::exception_ptr fatal;
    {
        const auto wake = [this] {
            bell_->wake();
            with_->held.wake();
        };
        const std::stop_callback on_drain(stop.drain, wake);
        const std::stop_callback on_now(stop.now, wake);
        try {
            work(now);
            // Nobody has asked it to stop, so nobody is in a hurry.
            while (!now.stopping() && !with_->settling.failure() &&
                   !with_->held.wait_until_empty(1s)) {}
        } catch (...) {
            fatal = std::current_exception();
        }
        now.over = true;
        bell_->disarm();
        (void)take_what_was_handed(now); // and gives it back
        drain(stop);
    }
    with_->held.close();
    settling.join();
    with_->listen(nullptr);
    auto report = with_->settling.so_far();
    report.left_running = with_->held.running();
    if (!fatal)
        fatal = with_->settling.failure();
    if (fatal)
        std::rethrow_exception(fatal);
    return report;
}

void dispatcher::work(turn& now)
{
    // One pass is too short for the settler to get round to it.
    bool reap_first = now.how.until_empty;
    while (!now.stopping() && !now.over && now.claimed < now.how.limit) {
        if (const auto why = with_->settling.failure())
            std::rethrow_exception(why);
        try {
            if (reap_first)
                (void)with_->source->reap();
            reap_first = false;
            if (with_->source->environment().clock->monotonic() >=
                now.looked_at + look_when_busy_every) {
                (void)look(now);
                (void)take_what_was_handed(now);
            }
            now.last = claim_and_dispatch(now, room_now(now));
            now.failures = 0;
            if (now.last != haul::full) {
                if (!now.stopping() && now.claimed < now.how.limit)
                    rest(now);
                now.busy = 0;
            } else if (++now.busy == 1) {
                bell_->ring_others(); // there may be more than this worker can take
            } else if (std::exchange(now.armed, false)) {
                bell_->disarm(); // whoever enqueues now need not ring
                (void)take_what_was_handed(now);
            }
        } catch (const std::exception& why) {
            if (is_fatal(why) || (now.how.until_empty && now.failures + 1 >= tries_of_one_pass))
                throw;
            endure(now, why);
        }
    }
}

// How many to claim; 0: none now.
std::size_t dispatcher::room_now(turn& now)
{
    const auto& options = *with_->options;
    // One at a time means that the one before is settled, too: else it would be handled again if
    // this one took the process down.
    if (one_at_a_time(now))
        return room_for_one(now);
    now.loud_since.reset(); // the next suspect has a right to the same patience
    const auto enough = std::min(options.concurrency, with_->source->batch_max());
    auto room = with_->held.wait_for_room(enough, worth_waiting(patience_for_room, now.claim_took));
    room = std::min({room, with_->source->batch_max(), now.how.limit - now.claimed});
    if (now.largest_payload > 0) {
        const auto held = std::min(with_->held.payload_bytes(), options.payload_bytes_max);
        const auto fit = (options.payload_bytes_max - held) / now.largest_payload;
        room = std::min(room, std::max<std::size_t>(fit, held == 0 ? 1 : 0));
        if (fit == 0 && held > 0)
            with_->held.wait_until_empty(5ms);
    }
    return room;
}

// Room for one message with nothing beside it; if others take too long, with them.
std::size_t dispatcher::room_for_one(turn& now)
{
    if (with_->held.wait_until_quiet(1s)) {
        now.loud_since.reset();
        return 1;
    }
    if (!now.loud_since)
        now.loud_since = std::chrono::steady_clock::now();
    return now.out_of_patience() && with_->held.wait_for_room(1, patience_for_room) > 0 ? 1 : 0;
}

// Parked topics that this worker can take now. One with a limit of its own is claimed alone and no
// further than the limit, or it would be parked again at once.
std::vector<std::string> dispatcher::wanted_parked(std::size_t& limit) const
{
    std::vector<std::string> wanted;
    for (const auto& topic : parked_) {
        const auto* to = with_->table->find(topic);
        if (to == nullptr || is_paused(pauses_, topic))
            continue;
        if (!to->has_limit()) {
            wanted.push_back(topic);
        } else if (const auto room = with_->held.room_for(*to); room > 0) {
            limit = std::min(limit, room);
            return {topic};
        }
    }
    return wanted;
}

dispatcher::haul dispatcher::claim_and_dispatch(turn& now, std::size_t limit)
{
    if (limit == 0)
        return haul::full;
    now.idle = with_->held.is_empty();
    if (is_paused(pauses_, {})) // everything is
        return haul::none;
    const auto wanted = wanted_parked(limit);
    const bool parking = with_->held.is_parking(); // what is on its way, this claim may not find
    const auto asked_at = with_->source->environment().clock->monotonic();
    const auto really_asked_at = std::chrono::steady_clock::now();
    auto claimed = with_->source->claim(
        with_->who, {.lease = with_->options->lease, .limit = limit, .unpark = wanted});
    now.claim_took = since(really_asked_at);
    if (claimed.size() < limit && !parking)
        for (const auto& topic : wanted)
            parked_.erase(topic); // all of them have been taken
    if (claimed.empty()) {
        now.quiet = 0;
        return haul::none;
    }
    const auto brought = claimed.size() == limit ? haul::full : haul::some;
    now.begun = begin(now, std::move(claimed), asked_at);
    return now.stopping() ? haul::none : brought;
}

// Takes a batch in. Returns: how many have begun.
std::size_t dispatcher::begin(turn& now, batch&& claimed, monotonic_time since)
{
    std::size_t largest = 0;
    for (const auto& each : claimed.deliveries) {
        largest = std::max(largest, each.payload.size());
        now.oldest = std::max(now.oldest, claimed.claimed_at - each.due_at);
    }
    now.largest_payload = std::max(largest, now.largest_payload / 2);
    now.claimed += claimed.size();
    auto members = with_->held.take(std::move(claimed), since);
    for (const auto& each : members)
        each->store = with_->store_name;
    // It was asked to stop meanwhile: nothing new begins.
    if (!now.stopping())
        return dispatch(now, std::move(members));
    for (const auto& each : members)
        with_->held.returned(each, {.verdict = outcome::kind::postpone});
    return 0;
}

// Returns: how many have begun.
std::size_t dispatcher::dispatch(turn& now, std::vector<running_ptr> members)
{
    std::vector<running_ptr> plain;
    std::vector<running_ptr> asynchronous;
    const bool alone =
        members.size() == 1 &&
        (now.out_of_patience() ||
         (!now.others_run && with_->held.is_alone(members.front()->message.receipt.fence)));
    for (auto& each : members) {
        try {
            if (!may_run(now, each, alone))
                continue;
        } catch (const error&) {
            with_->held.returned(each, postpone(without_store_pause));
            continue;
        } catch (...) { // a predicate or a function that says the key
            with_->held.returned(each, outcome_of_exception(std::current_exception()));
            continue;
        }
        if (std::holds_alternative<any_handler::asynchronous>(each->to->handler.run))
            asynchronous.push_back(std::move(each));
        else
            plain.push_back(std::move(each));
    }
    if (now.quiet > 0)
        --now.quiet;
    const auto begun = plain.size() + asynchronous.size();
    std::exception_ptr no_thread;
    try {
        hand_to_threads(plain);
    } catch (const error&) {
        no_thread = std::current_exception();
    }
    for (const auto& each : asynchronous)
        invoke(with_, each);
    if (no_thread)
        std::rethrow_exception(no_thread);
    return begun;
}

// Whether a message that was claimed can begin, and counts as running. If not, it is given back.
bool dispatcher::may_run(turn& now, const running_ptr& which, bool alone)
{
    const auto& topic = which->message.topic;
    which->to = with_->table->find(topic);
    if (which->to == nullptr) {
        warn_once(topic);
        with_->held.returned(which, park(park_reason::no_handler));
        return false;
    }
    if (is_paused(pauses_, topic)) {
        parked_.insert(topic);
        with_->held.returned(which, park(park_reason::paused));
        return false;
    }
    if (is_suspect(*which)) {
        // Until it has ended nothing else is claimed; or, if it is not alone, until it is.
        now.quiet = alone ? std::max(now.quiet, 2) : quiet_claims_max;
        if (!alone) {
            --now.claimed;
            with_->held.returned(which, postpone(duration::zero()));
            return false;
        }
    }
    if (with_->held.may_begin(which))
        return true;
    --now.claimed;
    if (with_->held.room_for(*which->to) == 0) {
        parked_.insert(topic);
        with_->held.returned(which, park(park_reason::at_limit));
    } else {
        with_->held.returned(which, postpone(over_limit_pause));
    }
    return false;
}

// A message that was running when its worker died may have been the reason. It is handled with
// nothing beside it, so that it takes nobody along a second time.
bool dispatcher::is_suspect(const running_delivery& which) const
{
    if (which.message.attempt <= 1 || with_->options->concurrency == 1)
        return false;
    const auto record = with_->source->find(which.message.receipt.id);
    return record && core::is_error_of_absent(record->last_error);
}

// Learns what a claim does not say.
contract::outlook dispatcher::look(turn& now)
{
    now.looked_at = with_->source->environment().clock->monotonic();
    auto seen = with_->source->outlook();
    pauses_ = seen.pauses;
    for (const auto& each : seen.parked)
        parked_.insert(each.topic);
    return seen;
}

void dispatcher::rest(turn& now)
{
    // What is running may make the next message of its key due, or want to be tried again. So it is
    // over when a claim found nothing while nothing was running.
    if (now.how.until_empty) {
        // A claim takes what was parked of one topic only, if that has a limit: others may be left.
        std::size_t limit = 1;
        if (now.idle && now.last == haul::none)
            now.over = is_paused(pauses_, {}) || wanted_parked(limit).empty();
        else
            with_->held.wait_until_empty(1s);
        return;
    }
    // While it rests, its looks tell when there is something to reap.
    struct whoever_wakes_up {
        settler& watching;
        ~whoever_wakes_up() { watching.reap_regularly(true); }
    } const reaps_again{with_->settling};
    bell_->arm();
    now.armed = true;
    if (with_->for_others.exchange(false))
        bell_->ring_others();
    while (!now.stopping()) {
        const auto seen = look(now);
        const bool everything_paused = is_paused(pauses_, {});
        std::size_t limit = 1;
        if (!everything_paused && !wanted_parked(limit).empty())
            return;
        duration at_most = with_->options->look_at_least_every;
        if (!pauses_.empty()) // nobody rings when a pause is over
            at_most = std::min(at_most, look_when_busy_every);
        if (everything_paused) {
            // Whatever is due, stays.
        } else if (seen.due) {
            if (now.last != haul::none)
                return;
            // The claim before this found nothing: somebody else has it in hand, or has died with
            // it in hand.
            with_->settling.reap_soon();
            (void)bell_->wait(
                std::min(when_due_elsewhere * (1 << std::min(now.fruitless++, 6)), pause_when_due));
            return;
        } else if (seen.next) {
            at_most = std::clamp<duration>(*seen.next, 1ms, at_most);
        }
        if (with_->source->environment().clock->database_time())
            at_most = std::min<duration>(at_most, 2ms);
        now.fruitless = 0;
        with_->settling.reap_regularly(everything_paused);
        if (sleep(now, at_most))
            return;
    }
}

// True: claim. What is handed over begins without one.
bool dispatcher::sleep(turn& now, duration at_most)
{
    const auto& clock = *with_->source->environment().clock;
    const auto until = clock.monotonic() + at_most;
    for (;;) {
        offer_places(now);
        const bool rung = bell_->wait(until - clock.monotonic());
        if (one_at_a_time(now)) // what it claims now has that place
            bell_->withdraw();
        const auto begun = take_what_was_handed(now);
        if (rung)
            return true;
        if (begun == 0)
            return false;
        if (clock.monotonic() >= now.looked_at + look_when_busy_every)
            return true; // for what no bell tells of
    }
}

void dispatcher::offer_places(const turn& now)
{
    const auto& options = *with_->options;
    const auto running = with_->held.running();
    // Those who want so many deliveries and no more, and those with a clock of their own, ask.
    if (now.how.limit != SIZE_MAX || with_->source->environment().clock->database_time() ||
        is_paused(pauses_, {}) || running >= options.concurrency ||
        with_->held.payload_bytes() >= options.payload_bytes_max / 2)
        return;
    if (!one_at_a_time(now))
        bell_->offer(offer_, std::min(options.concurrency - running, offers_max));
    else if (with_->held.is_empty())
        bell_->offer(offer_, 1);
}

// Returns: how many messages have begun.
std::size_t dispatcher::take_what_was_handed(turn& now)
{
    std::size_t begun = 0;
    for (auto& each : bell_->handed_over([this] { return with_->held.fences(); })) {
        const auto lease_end = each.since + with_->options->lease;
        const bool in_time = with_->source->environment().clock->monotonic() < lease_end;
        if (in_time && has_room_for(now, each.messages.fence)) {
            begun += begin(now, std::move(each.messages), each.since);
            continue;
        }
        // The place was taken meanwhile, or nothing is to begin any more, or it came too late.
        for (const auto& member : with_->held.take(std::move(each.messages), each.since))
            with_->held.returned(member, postpone(duration::zero()));
    }
    return begun;
}

bool dispatcher::has_room_for(const turn& now, fence which) const
{
    if (now.over)
        return false;
    return one_at_a_time(now) ? with_->held.is_alone(which)
                              : with_->held.running() < with_->options->concurrency;
}

bool dispatcher::one_at_a_time(const turn& now) const
{
    return now.quiet > 0 || with_->options->concurrency == 1;
}

// The store is away, or refuses for now: wait, longer each time, and try again.
void dispatcher::endure(turn& now, const std::exception& why)
{
    const auto& world = with_->source->environment();
    const auto pause = std::min<duration>(100ms * (1 << std::min(now.failures++, 5)), 2s);
    if (world.log)
        world.log(log_level::warning, fmt::format("cannot claim, will try again: {}", why.what()));
    const auto jittered =
        std::chrono::duration_cast<duration>(pause * (0.5 + world.random->fraction() / 2));
    (void)bell_->wait(jittered);
}

// Lets handlers end; those that only wait need not. When a quarter of the grace is left, or at once
// if that is wanted, they are asked to; after it nobody is waited for.
void dispatcher::drain(const stop_request& stop)
{
    using clock = std::chrono::steady_clock;
    const auto grace = with_->options->grace;
    const auto ask_at = clock::now() + grace / 4 * 3;
    auto end = clock::now() + grace;
    bool asked = false;
    bool hurried = false;
    with_->held.ask_to_stop(held_messages::whom::who_only_waits);
    for (;;) {
        if (!hurried && stop.now.stop_requested()) {
            end = std::min(end, clock::now() + last_words);
            hurried = true;
        }
        if (!asked && (hurried || clock::now() >= ask_at)) {
            with_->held.ask_to_stop(held_messages::whom::all);
            asked = true;
        }
        const auto left = std::chrono::duration_cast<duration>(end - clock::now());
        if (with_->held.wait_until_empty(std::clamp<duration>(left, 0us, 50ms)) || left <= 0us ||
            with_->settling.failure())
            return;
    }
}

void dispatcher::warn_once(const std::string& topic)
{
    const auto& world = with_->source->environment();
    if (warned_.insert(topic).second && world.log)
        world.log(log_level::warning,
                  fmt::format("nobody handles topic '{}' here: its messages are parked until a "
                              "worker with a handler for it comes",
                              topic));
}

} // namespace posthorn::runtime
