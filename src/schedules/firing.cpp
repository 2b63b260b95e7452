// Instants become executions, in the transaction that settles the tick: a worker that dies leaves
// both or nothing, and two workers cannot fire the same instant.
#include "schedules/firing.hpp"

#include "core/job.hpp"
#include "store/contract/session.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace posthorn::schedules {
namespace {

using contract::job_book;

// A machine that does not know a zone may learn it, and another may know it already.
constexpr duration without_zone_pause = std::chrono::minutes{1};

constexpr std::string_view still_running = "an earlier run has not ended";
constexpr std::string_view too_many_wait = "too many runs wait already";

job_book::new_run run_of(const core::planned_run& planned)
{
    return {.nominal_at = planned.nominal,
            .kind = execution_kind::scheduled,
            .covers_from = planned.from,
            .covers = planned.covers};
}

void fire_timer(job_book& book, const contract::job_row& timer)
{
    job_book::new_run what{
        .nominal_at = *timer.next_at, .kind = execution_kind::timer, .covers_from = *timer.next_at};
    while (!book.start(timer, what)) // an earlier timer of this name, for the same instant
        what.nominal_at += duration{1};
    book.jobs().remove(timer.number);
}

// A tick that comes before its instant does so because the clock ran ahead and was set back: what
// followed from the earlier time is worked out anew. Instants that have run do not run again.
std::optional<timestamp> next_by_the_clock(const contract::job_row& job)
{
    if (job.kind == contract::job_kind::job) {
        const auto times = schedule_of(core::options_from(job.definition), job.created_at);
        return std::min(*job.next_at, times.next(job.now).value_or(*job.next_at));
    }
    const auto ahead = job.updated_at - job.now;
    const auto wait = *job.next_at - job.updated_at;
    return ahead > duration::zero() && wait >= duration::zero() && wait < ahead ? job.now + wait
                                                                                : *job.next_at;
}

} // namespace

schedule schedule_of(const job_options& how, timestamp created_at)
{
    return how.every ? schedule::every(*how.every, how.anchor.value_or(created_at))
                     : schedule::cron(how.cron, how.zone);
}

std::optional<execution_id> run(job_book& book, const contract::job_row& job,
                                const job_options& how, const job_book::new_run& what, turn when)
{
    if (how.on_overlap == overlap::allow)
        return book.start(job, what, how.jitter);
    const auto open = book.runs().open(job.name, how.waiting_max + 1);
    if (open.empty())
        return book.start(job, what, how.jitter);
    if (how.on_overlap == overlap::skip && when == turn::at_once) {
        book.leave_out(job, what, execution_state::skipped, still_running);
        return std::nullopt;
    }
    const auto waiting = std::ranges::count_if(open, [](const contract::run_row& each) {
        return each.record.state == execution_state::waiting;
    });
    if (std::cmp_greater_equal(waiting, how.waiting_max) && when == turn::at_once) {
        book.leave_out(job, what, execution_state::skipped, too_many_wait);
        return std::nullopt;
    }
    return book.wait(job, what);
}

void fire(job_book& book, contract::job_row& job)
{
    if (!job.next_at || *job.next_at > job.now || job.paused)
        return;
    const auto how = core::options_from(job.definition);
    const auto times = schedule_of(how, job.created_at);
    const auto plan =
        core::plan_runs(how, {.next = *job.next_at, .skip_before = job.skip_before, .now = job.now},
                        [&](timestamp after) { return times.next(after); });
    // Runs that were missed are caught up with one after the other, if they must not overlap.
    const auto when =
        plan.missed && how.on_misfire == misfire::catch_up ? turn::in_line : turn::at_once;
    for (const auto& each : plan.what) {
        if (each.runs)
            (void)run(book, job, how, run_of(each), when);
        else
            book.leave_out(job, run_of(each),
                           each.coalesced ? execution_state::coalesced : execution_state::skipped,
                           each.reason);
    }
    if (job.skip_before && plan.next && *plan.next >= *job.skip_before)
        job.skip_before.reset();
    book.arm(job, plan.next);
}

outcome handle_tick(transaction& tx, message_id tick, std::string_view payload)
{
    std::int64_t number = 0;
    (void)std::from_chars(payload.data(), payload.data() + payload.size(), number);
    auto& book = tx.session().jobs();
    auto job = book.jobs().lock(number);
    if (!job || job->tick != tick)
        return done(); // it was deleted, paused or changed
    if (job->next_at && *job->next_at > job->now) {
        book.arm(*job, next_by_the_clock(*job));
        return done();
    }
    if (job->skip_before && *job->skip_before > job->now)
        job->skip_before = job->now; // the clock ran ahead when the pause ended
    if (job->kind == contract::job_kind::timer) {
        fire_timer(book, *job);
        return done();
    }
    try {
        fire(book, *job);
    } catch (const error& failure) {
        if (failure.code() != error_code::invalid_argument)
            throw;
        const auto& world = tx.session().environment();
        if (world.log)
            world.log(log_level::error,
                      fmt::format("job '{}' cannot be fired here: {}", job->name, failure.what()));
        return postpone(without_zone_pause);
    }
    return done();
}

} // namespace posthorn::schedules
