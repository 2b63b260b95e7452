// A visit: settle and renew first, then claim, then look ahead.
#include "runtime/station.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace posthorn::runtime {
namespace {

// A store that always gives all that is asked for is looked at this often all the same.
constexpr std::chrono::seconds look_at_busy_store_every{1};

// A message that waits for a handler's limit is offered again this often.
constexpr duration at_limit_pause = std::chrono::milliseconds{20};

} // namespace

/// What the parts of an engine take for the bell of its worker.
class station::caller final : public contract::bell {
public:
    explicit caller(std::function<void()> ring) : ring_(std::move(ring)) {}

    void arm() override {}
    void disarm() noexcept override {}
    bool wait(duration) noexcept override { return true; }
    void wake() noexcept override { ring_(); }

private:
    std::function<void()> ring_;
};

station::station(std::string name, opener open, std::shared_ptr<const worker_parts> with,
                 station_calls calls)
    : name_(std::move(name)),
      open_(std::move(open)),
      with_(std::move(with)),
      calls_(std::move(calls)),
      bell_(std::make_unique<caller>(calls_.ring))
{}

station::~station()
{
    if (engine_) // a handler that was left behind may still hold it
        engine_->listen(nullptr);
}

std::shared_ptr<engine> station::current() const
{
    const std::lock_guard lock(mutex_);
    return engine_;
}

void station::open()
{
    if (current())
        return;
    auto made = std::make_shared<engine>(
        open_(), with_->table, with_->options, with_->who, with_->means,
        with_->options->concurrency, held_listener{.chores = calls_.chores, .left = calls_.left});
    made->store_name = name_;
    made->watch->add(made->bookkeeping);
    made->listen(bell_.get());
    auto desk = std::make_unique<dispatcher>(made, with_->stop);
    desk->go_on(std::move(turns_));
    const std::lock_guard lock(mutex_);
    engine_ = std::move(made);
    desk_ = std::move(desk);
}

// A store in which nothing is in hand need not be open.
void station::let_go()
{
    turns_ = desk_->leave_turns();
    desk_.reset();
    eager_ = false;
    std::shared_ptr<engine> old;
    const std::lock_guard lock(mutex_);
    old.swap(engine_);
    old->listen(nullptr);
    past_ += old->settling.so_far();
}

station::answer station::visit(const errand& what) noexcept
{
    answer result;
    const contract::patience_scope patient(with_->means.watch->patience(),
                                           contract::patience_scope::of::worker);
    try {
        if (what.claim || current()) {
            open();
            const auto with = current();
            if (!with->held.is_empty() || what.closing)
                with->settling.tend();
            if (with->settling.in_trouble())
                result.failure = "what handlers said cannot be written";
            else if (what.claim)
                result = claim(what);
        }
    } catch (const std::exception& failure) {
        result = {.failure = failure.what()};
    } catch (...) {
        result = {.failure = "something that is not a std::exception was thrown"};
    }
    if (const auto with = current()) {
        result.chores = with->held.until_chores();
        result.for_others = with->for_others.exchange(false);
        result.fatal = with->settling.failure();
        if (with->held.is_empty() && !(result.more && what.keep_open))
            let_go();
    }
    return result;
}

station::answer station::claim(const errand& what)
{
    const auto with = current();
    answer result;
    // Looking first is cheaper when there is nothing, and a store that was closed may have pauses.
    const auto now = std::chrono::steady_clock::now();
    if (!eager_ || now - looked_at_ >= look_at_busy_store_every) {
        looked_at_ = now;
        const auto seen = desk_->look_around();
        result.has_pauses = !seen.ahead.pauses.empty();
        result.next = seen.ahead.next;
        if (seen.at_limit) // handlers of other stores may be at it, and nobody tells
            result.next = std::min(result.next.value_or(at_limit_pause), at_limit_pause);
        if (seen.next_turn)
            result.next = std::min(result.next.value_or(*seen.next_turn), *seen.next_turn);
        if (seen.everything_paused || (!seen.ahead.due && !seen.wants_parked)) {
            result.empty = with->held.is_empty() && !seen.at_limit && !seen.next_turn;
            return result;
        }
    }
    const auto got = desk_->visit({.room = std::min(what.room, with->source->batch_max()),
                                   .others_run = what.others_run,
                                   .suspects_wait_until = what.suspects_wait_until});
    result.claimed = got.claimed;
    result.begun = got.begun;
    result.wants_quiet = got.wants_quiet;
    result.lag = got.oldest;
    result.failure = got.failure;
    if (result.failure)
        return result;
    result.more = got.brought != dispatcher::haul::none;
    eager_ = got.brought == dispatcher::haul::full;
    if (!result.more) { // somebody else has it in hand, or has died with it
        with->settling.reap_soon();
        with->settling.tend();
        result.elsewhere = true;
        result.empty = with->held.is_empty();
    }
    return result;
}

std::size_t station::running() const
{
    const auto with = current();
    return with ? with->held.running() : 0;
}

bool station::has_messages() const
{
    const auto with = current();
    return with && !with->held.is_empty();
}

bool station::suspect_runs() const
{
    const auto with = current();
    return with && with->held.suspect_runs();
}

std::exception_ptr station::failure() const
{
    const auto with = current();
    return with ? with->settling.failure() : nullptr;
}

run_report station::so_far() const
{
    const std::lock_guard lock(mutex_);
    auto sum = past_;
    if (engine_) {
        sum += engine_->settling.so_far();
        sum.left_running += engine_->held.running();
    }
    return sum;
}

void station::ask_to_stop(held_messages::whom which)
{
    if (const auto with = current())
        with->held.ask_to_stop(which);
}

void station::close()
{
    if (const auto with = current())
        with->held.close();
}

} // namespace posthorn::runtime
