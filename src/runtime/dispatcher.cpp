// Claiming and resting.
#include "runtime/dispatcher.hpp"

#include "core/settlement.hpp"
#include "core/validation.hpp"
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

// How long everything else waits, the first time, for the handlers beside a suspect message to end.
// If they take longer the worker goes on, and the suspect waits; then all wait twice as long.
constexpr std::chrono::seconds quiet_patience_first{5};
constexpr std::chrono::hours quiet_patience_max{24};
constexpr int loud_times = 3;              ///< as long as was waited
constexpr duration suspect_pause_max = 5s; ///< then one that must wait comes back

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

    /// Since when it has waited for that, and for how long it does; on the real clock, as handlers
    /// are. Until then suspects wait, and all others go on.
    std::optional<std::chrono::steady_clock::time_point> noisy_since = {};
    std::chrono::steady_clock::duration quiet_patience = quiet_patience_first;
    std::chrono::steady_clock::time_point loud_until{};
    monotonic_time looked_at{};
    std::size_t largest_payload = 0;
    duration claim_took{};
    std::size_t begun = 0;   ///< by the last claim
    duration oldest{};       ///< in the last claim
    bool others_run = false; ///< of other stores

    /// For how long suspects have to wait; 0: until it is quiet.
    [[nodiscard]] duration suspects_wait() const
    {
        const auto left =
            std::chrono::ceil<duration>(loud_until - std::chrono::steady_clock::now());
        return std::clamp<duration>(left, 0us, suspect_pause_max);
    }

    [[nodiscard]] bool stopping() const { return stop.requested(); }
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
    now.loud_until = order.suspects_wait_until;
    now.begun = 0;
    now.oldest = {};
    const auto before = now.claimed;
    const auto room = now.quiet > 0 ? std::min<std::size_t>(order.room, 1) : order.room;
    visited result;
    try {
        result.brought = claim_and_dispatch(now, room);
    } catch (const error& why) {
        if (now.claimed == before)
            throw;
        result.failure = why.what(); // what was claimed counts all the same
    }
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
    result.wants_parked = !result.everything_paused && !wanted_parked(limit).topics.empty();
    result.at_limit = !result.wants_parked && std::ranges::any_of(parked_, [&](const auto& topic) {
        return !turns_.has(topic) && with_->table->find(topic) != nullptr &&
               !is_paused(pauses_, topic);
    });
    if (!result.wants_parked)
        result.next_turn = turns_.until_next(with_->source->environment().clock->monotonic());
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
    auto& watch = *with_->watch;
    watch.add(with_->bookkeeping);
    const deadline_watch::thread watching(
        watch, stop, [this](held_messages::whom which) { with_->held.ask_to_stop(which); });
    const contract::patience_scope patient(watch.patience(), contract::patience_scope::of::worker);
    std::jthread settling([this, &watch] {
        const contract::patience_scope also(watch.patience(), contract::patience_scope::of::worker);
        with_->settling.run();
    });
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
        watch.begin_end();
        oldest_ = now.oldest;
        bell_->disarm();
        (void)take_what_was_handed(now); // and gives it back
        drain();
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

// Room for one message with nothing beside it. What runs beside a suspect that waits may take too
// long; what is to begin waits for a suspect that runs, however long that takes.
std::size_t dispatcher::room_for_one(turn& now)
{
    if (now.quiet > 0) { // what was handed over and cannot begin would lose its lease meanwhile
        bell_->withdraw();
        (void)take_what_was_handed(now);
    }
    if (with_->held.wait_until_quiet(1s)) {
        now.noisy_since.reset();
        now.quiet_patience = quiet_patience_first;
        return 1;
    }
    if (now.quiet == 0 || with_->held.suspect_runs())
        return 0;
    const auto time = std::chrono::steady_clock::now();
    now.noisy_since = now.noisy_since.value_or(time);
    if (time - *now.noisy_since >= now.quiet_patience) {
        now.noisy_since.reset();
        now.quiet = 0;
        now.loud_until = time + loud_times * now.quiet_patience;
        now.quiet_patience = std::min<std::chrono::steady_clock::duration>(now.quiet_patience * 2,
                                                                           quiet_patience_max);
    }
    return 0;
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
    const auto asked_at = with_->source->environment().clock->since_boot();
    const auto really_asked_at = std::chrono::steady_clock::now();
    auto claimed = with_->source->claim(with_->who, {.lease = with_->options->lease,
                                                     .limit = limit,
                                                     .unpark = wanted.topics,
                                                     .unpark_after = wanted.after});
    now.claim_took = since(really_asked_at);
    note_taken_back(wanted, claimed, claimed.size() < limit && !parking);
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
    // It was asked to stop meanwhile, or the answer took longer than the lease: nothing begins.
    const bool in_time =
        with_->source->environment().clock->since_boot() - since < with_->options->lease;
    if (!now.stopping() && in_time)
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
    const bool alone = members.size() == 1 && !now.others_run &&
                       with_->held.is_alone(members.front()->message.receipt.fence);
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
    if (no_thread) {
        now.begun = begun; // those that got no thread have left their places again
        std::rethrow_exception(no_thread);
    }
    return begun;
}

// Whether a message that was claimed can begin, and counts as running. If not, it is given back.
bool dispatcher::may_run(turn& now, const running_ptr& which, bool alone)
{
    const auto& topic = which->message.topic;
    // A claim has looked already; what was handed over comes from the enqueue itself.
    if (auto why = core::why_not_handled(topic, which->message.headers); !why.empty()) {
        with_->held.returned(which, fail(std::move(why)));
        return false;
    }
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
        if (!alone) {
            const auto pause = now.suspects_wait();
            now.quiet = pause > duration::zero() ? now.quiet : quiet_claims_max;
            --now.claimed;
            with_->held.returned(which, postpone(pause));
            return false;
        }
        now.quiet = std::max(now.quiet, 2);
        with_->held.suspect_begins(which->message.receipt.fence);
    }
    if (with_->held.may_begin(which))
        return true;
    --now.claimed;
    parked_.insert(topic);
    if (with_->held.room_for(*which->to) > 0) // it is its group that is full
        turns_.put_aside(topic, which->message.receipt.position,
                         with_->source->environment().clock->monotonic());
    with_->held.returned(which, park(park_reason::at_limit));
    return false;
}

// A message that was running when its worker died may have been the reason. It is handled with
// nothing beside it, so that it takes no other along a second time.
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
            now.over = is_paused(pauses_, {}) || wanted_parked(limit).topics.empty();
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
        if (!everything_paused && !wanted_parked(limit).topics.empty())
            return;
        duration at_most = with_->options->look_at_least_every;
        if (const auto turn = turns_.until_next(with_->source->environment().clock->monotonic()))
            at_most = std::clamp<duration>(*turn, 1ms, at_most);
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
        const bool in_time = with_->source->environment().clock->since_boot() < lease_end;
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

// Lets handlers end; the watch asks them to. After the grace period they are not waited for.
void dispatcher::drain()
{
    using clock = std::chrono::steady_clock;
    // The watch asks when the stop comes, and some may have begun at that moment.
    with_->held.ask_to_stop(held_messages::whom::who_only_waits);
    for (;;) {
        const auto end = with_->watch->end().value_or(clock::now()); // a second stop moves it
        const auto left = std::chrono::duration_cast<duration>(end - clock::now());
        if (with_->held.wait_until_empty(std::clamp<duration>(left, 0us, 50ms)) || left <= 0us ||
            with_->settling.failure())
            return;
    }
}

} // namespace posthorn::runtime
