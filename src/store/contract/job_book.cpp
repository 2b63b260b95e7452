// Ticks and runs are messages of the queue whose ends are followed, as those of joins are.
#include "store/contract/job_book.hpp"

#include "core/job.hpp"
#include "core/validation.hpp"
#include <posthorn/correlation.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace posthorn::contract {
namespace {

headers headers_of(const job_row& job, const job_options& how, const execution_record& run)
{
    auto result = how.headers;
    const auto set = [&](std::string_view name, std::string value) {
        result.insert_or_assign(std::string(name), std::move(value));
    };
    set(header::correlation_sequence, "0");
    set(header::job, job.name);
    set(header::job_kind, std::string(to_string(run.kind)));
    set(header::job_nominal, core::iso_text(run.nominal_at));
    set(header::execution, to_string(run.id));
    if (run.covers > 1)
        set(header::job_covers, fmt::format("{}", run.covers));
    return result;
}

execution_state state_after(message_state ended)
{
    switch (ended) {
    case message_state::done: return execution_state::done;
    case message_state::dead: return execution_state::failed;
    default: return execution_state::cancelled;
    }
}

std::vector<std::int64_t> seqs_of(std::span<const join_row> rows, join_role role)
{
    std::set<std::int64_t> result;
    for (const auto& row : rows)
        if (row.role == role)
            result.insert(row.seq);
    return {result.begin(), result.end()};
}

} // namespace

void job_book::follow(const locator& which, join_role as)
{
    const std::int64_t seq = which.position;
    const new_member row{.seq = seq, .id = which.id, .role = as};
    followed_.follow({&seq, 1});
    followed_.add(0, {&row, 1});
    has_enqueued_ = true;
}

void job_book::arm(job_row& job, std::optional<timestamp> at)
{
    job.next_at = at;
    job.tick.reset();
    job.tick_seq = 0;
    if (at && !job.paused) {
        const auto payload = fmt::format("{}", job.number);
        const auto text = core::headers_to_json({{std::string(header::job), job.name}});
        const new_message tick{.id = {},
                               .topic = job_tick_topic,
                               .payload = payload,
                               .ordering_key = {},
                               .correlation_id = {},
                               .causation_id = {},
                               .headers_json = text,
                               .due = *at,
                               .expiry = {},
                               .dedup_key = {},
                               .join = {}};
        const auto added = writer_.insert({&tick, 1}).front();
        follow(added, join_role::tick);
        job.tick = added.id;
        job.tick_seq = added.position;
    }
    jobs_.save(job);
}

// The row first: whoever follows the end of the tick must not take it for the job's.
void job_book::disarm(job_row& job)
{
    const auto tick = std::exchange(job.tick, std::nullopt);
    job.tick_seq = 0;
    jobs_.save(job);
    if (tick)
        (void)writer_.cancel(*tick); // whoever has it finds itself replaced
}

run_row job_book::fresh(const job_row& job, const new_run& what) const
{
    run_row run;
    run.record.id = execution_id{uuid::version_7(job.now, *world_.random)};
    run.record.job = job.name;
    run.record.nominal_at = what.nominal_at;
    run.record.kind = what.kind;
    run.record.covers_from = what.covers_from;
    run.record.covers = what.covers;
    run.record.created_at = job.now;
    return run;
}

std::optional<execution_id> job_book::start(const job_row& job, const new_run& what,
                                            duration spread)
{
    auto run = fresh(job, what);
    run.record.state = execution_state::enqueued;
    const auto number = runs_.add(run);
    if (!number)
        return std::nullopt;
    run.record.position = *number;
    std::optional<timestamp> due;
    if (spread > duration::zero())
        due = what.nominal_at +
              std::chrono::duration_cast<duration>(spread * world_.random->fraction());
    enqueue_run(job, run, due);
    return run.record.id;
}

std::optional<execution_id> job_book::wait(const job_row& job, const new_run& what)
{
    auto run = fresh(job, what);
    run.record.state = execution_state::waiting;
    return runs_.add(run) ? std::optional{run.record.id} : std::nullopt;
}

void job_book::leave_out(const job_row& job, const new_run& what, execution_state as,
                         std::string_view reason)
{
    auto run = fresh(job, what);
    run.record.state = as;
    run.record.reason = reason;
    run.record.ended_at = job.now;
    (void)runs_.add(run); // an instant that has an execution keeps it
}

void job_book::enqueue_run(const job_row& job, run_row& run, std::optional<timestamp> due)
{
    const auto how = job.kind == job_kind::job ? core::options_from(job.definition) : job_options{};
    const auto execution = to_string(run.record.id);
    const auto text = core::headers_to_json(headers_of(job, how, run.record));
    new_message message{.id = {},
                        .topic = job.topic,
                        .payload = job.payload,
                        .ordering_key = how.ordering_key,
                        .correlation_id = execution,
                        .causation_id = execution,
                        .headers_json = text,
                        .priority = how.priority,
                        .due = {},
                        .expiry = {},
                        .dedup_key = {},
                        .join = {}};
    if (due)
        message.due = *due;
    const auto added = writer_.insert({&message, 1}).front();
    follow(added, join_role::run);
    run.record.state = execution_state::enqueued;
    run.record.message = added.id;
    run.seq = added.position;
    runs_.save(run);
}

void job_book::cancel_waiting(const job_row& job, std::string_view reason)
{
    constexpr std::size_t all = 1'000'000;
    for (auto& run : runs_.open(job.name, all)) {
        if (run.record.state != execution_state::waiting)
            continue;
        run.record.state = execution_state::cancelled;
        run.record.reason = reason;
        run.record.ended_at = job.now;
        runs_.save(run);
    }
}

void job_book::ended(std::span<const join_row> rows, std::span<const ended_message> which)
{
    if (const auto runs = seqs_of(rows, join_role::run); !runs.empty())
        end_runs(runs, which);
    const auto ticks = seqs_of(rows, join_role::tick);
    if (ticks.empty())
        return;
    jobs_.forget(ticks, join_role::tick);
    std::vector<std::int64_t> unhandled;
    for (const auto& each : which)
        if (each.as != message_state::done && std::ranges::binary_search(ticks, each.position))
            unhandled.push_back(each.position);
    if (!unhandled.empty())
        arm_again(unhandled);
}

// What its message tells is kept beside the execution, which outlives it.
void job_book::end_runs(std::span<const std::int64_t> seqs, std::span<const ended_message> which)
{
    const auto now = jobs_.now();
    std::set<std::string> jobs;
    std::vector<std::int64_t> no_more;
    for (auto& run : runs_.of_messages(seqs)) {
        const auto how = std::ranges::find(which, run.seq, &ended_message::position);
        if (how == which.end())
            continue;
        run.record.state = state_after(how->as);
        run.record.ended_at = now;
        if (run.record.message)
            if (const auto message = reader_.find(*run.record.message)) {
                run.record.started_at = message->started_at;
                run.record.attempts = message->attempts;
                run.record.reason = message->last_error;
            }
        if (how->as == message_state::expired)
            run.record.reason = "it expired";
        runs_.save(run);
        jobs.insert(run.record.job);
        if (run.record.state != execution_state::failed) // which may be redriven
            no_more.push_back(run.seq);
    }
    if (!no_more.empty())
        jobs_.forget(no_more, join_role::run);
    for (const auto& job : jobs)
        next_turn(job);
}

// Under the lock of the job: whoever lets a run wait has seen that there is another.
void job_book::next_turn(const std::string& name)
{
    auto job = jobs_.find(job_kind::job, name);
    if (!job || core::options_from(job->definition).on_overlap == overlap::allow)
        return;
    job = jobs_.lock(job_kind::job, name);
    if (!job)
        return; // and with it what waited
    auto open = runs_.open(name, 1);
    if (!open.empty() && open.front().record.state == execution_state::waiting)
        enqueue_run(*job, open.front(), std::nullopt);
}

// A tick that nobody handled to its end: an operator has cancelled it, or it killed its workers.
void job_book::arm_again(std::span<const std::int64_t> seqs)
{
    for (auto& job : jobs_.of_ticks(seqs)) {
        if (world_.log)
            world_.log(
                log_level::warning,
                fmt::format("the tick of job '{}' was lost, and is enqueued anew", job.name));
        constexpr auto pause = std::chrono::minutes{1};
        const auto next = job.next_at;
        arm(job, next ? std::optional{std::max(*next, job.now + pause)} : std::nullopt);
        job.next_at = next; // later, but with the same instants to account for
        jobs_.save(job);
    }
}

void job_book::came_back(std::span<const join_row> rows)
{
    const auto seqs = seqs_of(rows, join_role::run);
    if (seqs.empty())
        return;
    for (auto& run : runs_.of_messages(seqs)) {
        run.record.state = execution_state::enqueued;
        run.record.ended_at.reset();
        runs_.save(run);
    }
}

} // namespace posthorn::contract
