// What users call about jobs: arguments are checked here, and each call is a transaction or part of
// one.
#include "core/job.hpp"
#include "outbox/in_transaction.hpp"
#include "schedules/firing.hpp"
#include "store/contract/job_book.hpp"
#include "store/contract/message_reader.hpp"
#include "store/contract/session.hpp"
#include <posthorn/error.hpp>
#include <posthorn/schedules.hpp>

#include <fmt/format.h>

#include <utility>

namespace posthorn {
namespace {

using contract::job_kind;
using contract::job_row;

job_record record_of(const job_row& row)
{
    job_record result{.name = row.name,
                      .position = row.number,
                      .options = core::options_from(row.definition),
                      .paused = row.paused,
                      .next_at = row.paused ? std::nullopt : row.next_at,
                      .created_at = row.created_at,
                      .updated_at = row.updated_at};
    result.options.run = {.topic = row.topic, .payload = row.payload};
    return result;
}

job_row locked_job(contract::job_book& book, std::string_view name)
{
    core::check_job_name(name);
    auto row = book.jobs().lock(job_kind::job, name);
    if (!row)
        throw error(error_code::not_found, fmt::format("there is no job '{}'", name));
    return *std::move(row);
}

bool same_times(const job_options& one, const job_options& other)
{
    return one.cron == other.cron && one.zone == other.zone && one.every == other.every &&
           one.anchor == other.anchor;
}

put_answer make_job(contract::job_book& book, job_row& row, const job_options& how)
{
    row.now = book.jobs().now();
    row.created_at = row.now;
    row.updated_at = row.now;
    const auto first = schedules::schedule_of(how, row.now).next(row.now);
    const auto number = book.jobs().insert(row);
    if (!number)
        return put_answer::unchanged; // somebody was faster
    row.number = *number;
    book.arm(row, first);
    return put_answer::created;
}

// What was due before is fired by the old times.
put_answer change_job(contract::job_book& book, job_row& row, const job_options& how)
{
    const auto definition = core::definition_of(how);
    if (row.definition == definition && row.topic == how.run.topic &&
        row.payload == how.run.payload)
        return put_answer::unchanged;
    const auto before = core::options_from(row.definition);
    const bool times_change = !same_times(before, how);
    if (times_change && row.next_at && *row.next_at <= row.now && !row.paused) {
        book.disarm(row);
        schedules::fire(book, row);
    }
    row.definition = definition;
    row.topic = how.run.topic;
    row.payload = how.run.payload;
    row.updated_at = row.now;
    if (!times_change) {
        book.jobs().save(row);
        return put_answer::changed;
    }
    book.disarm(row);
    row.skip_before.reset();
    book.arm(row, schedules::schedule_of(how, row.created_at).next(row.now));
    return put_answer::changed;
}

execution_record with_message(contract::session& session, execution_record found)
{
    if (found.state != execution_state::enqueued || !found.message)
        return found;
    if (const auto message = session.reader().find(*found.message)) {
        if (message->state == message_state::claimed)
            found.state = execution_state::running;
        found.started_at = message->started_at;
        found.attempts = message->attempts;
        found.reason = message->last_error;
    }
    return found;
}

void check_page(std::size_t limit)
{
    if (limit == 0)
        throw error(error_code::invalid_argument, "a page needs a limit of at least 1");
}

} // namespace

put_answer put_job(transaction& tx, std::string_view name, const job_options& how)
{
    core::check_job(name, how, tx.session().limits());
    (void)schedules::schedule_of(how, {}); // which says what is wrong with it
    auto& book = tx.session().jobs();
    auto known = book.jobs().lock(job_kind::job, name);
    if (!known) {
        job_row row;
        row.name = name;
        row.topic = how.run.topic;
        row.payload = how.run.payload;
        row.definition = core::definition_of(how);
        if (make_job(book, row, how) == put_answer::created)
            return put_answer::created;
        known = locked_job(book, name);
    }
    return change_job(book, *known, how);
}

put_answer put_job(store& where, std::string_view name, const job_options& how)
{
    return in_transaction(where, [&](transaction& tx) { return put_job(tx, name, how); });
}

bool delete_job(transaction& tx, std::string_view name)
{
    core::check_job_name(name);
    auto& book = tx.session().jobs();
    auto row = book.jobs().lock(job_kind::job, name);
    if (!row)
        return false;
    book.disarm(*row);
    book.cancel_waiting(*row, "its job was deleted");
    book.jobs().remove(row->number);
    return true;
}

bool delete_job(store& where, std::string_view name)
{
    return in_transaction(where, [&](transaction& tx) { return delete_job(tx, name); });
}

// What has come before the pause is dealt with first.
bool pause_job(transaction& tx, std::string_view name)
{
    core::check_job_name(name);
    auto& book = tx.session().jobs();
    auto row = book.jobs().lock(job_kind::job, name);
    if (!row || row->paused)
        return false;
    book.disarm(*row);
    schedules::fire(book, *row);
    row->paused = true;
    row->updated_at = row->now;
    book.disarm(*row);
    return true;
}

bool pause_job(store& where, std::string_view name)
{
    return in_transaction(where, [&](transaction& tx) { return pause_job(tx, name); });
}

bool resume_job(transaction& tx, std::string_view name)
{
    core::check_job_name(name);
    auto& book = tx.session().jobs();
    auto row = book.jobs().lock(job_kind::job, name);
    if (!row || !row->paused)
        return false;
    row->paused = false;
    row->updated_at = row->now;
    row->skip_before = row->now;
    book.arm(*row, row->next_at);
    return true;
}

bool resume_job(store& where, std::string_view name)
{
    return in_transaction(where, [&](transaction& tx) { return resume_job(tx, name); });
}

execution_id trigger_job(transaction& tx, std::string_view name)
{
    auto& book = tx.session().jobs();
    const auto row = locked_job(book, name);
    for (auto nominal = row.now;; nominal += duration{1}) {
        const auto started = book.start(
            row,
            {.nominal_at = nominal, .kind = execution_kind::triggered, .covers_from = nominal});
        if (started)
            return *started;
    }
}

execution_id trigger_job(store& where, std::string_view name)
{
    return in_transaction(where, [&](transaction& tx) { return trigger_job(tx, name); });
}

backfill_report backfill_job(transaction& tx, std::string_view name, timestamp from, timestamp to,
                             std::size_t limit)
{
    auto& book = tx.session().jobs();
    const auto row = locked_job(book, name);
    if (from >= to || to > row.now)
        throw error(error_code::invalid_argument,
                    "backfill: the range must not be empty, and must lie in the past");
    check_page(limit);
    auto how = core::options_from(row.definition);
    how.jitter = {};
    const auto times = schedules::schedule_of(how, row.created_at);
    backfill_report report;
    std::size_t looked = 0;
    for (auto each = times.next(from - duration{1}); each && *each < to; each = times.next(*each)) {
        if (looked++ == limit) {
            report.next = each;
            break;
        }
        const auto added = schedules::run(
            book, row, how,
            {.nominal_at = *each, .kind = execution_kind::backfilled, .covers_from = *each},
            schedules::turn::in_line);
        ++(added ? report.added : report.known);
    }
    return report;
}

backfill_report backfill_job(store& where, std::string_view name, timestamp from, timestamp to,
                             std::size_t limit)
{
    return in_transaction(where,
                          [&](transaction& tx) { return backfill_job(tx, name, from, to, limit); });
}

std::optional<job_record> find_job(transaction& tx, std::string_view name)
{
    core::check_job_name(name);
    const auto row = tx.session().jobs().jobs().find(job_kind::job, name);
    return row ? std::optional{record_of(*row)} : std::nullopt;
}

std::optional<job_record> find_job(store& where, std::string_view name)
{
    auto tx = where.read();
    return find_job(tx, name);
}

std::vector<job_record> list_jobs(store& where, std::int64_t after_position, std::size_t limit)
{
    check_page(limit);
    auto tx = where.read();
    std::vector<job_record> result;
    for (const auto& row : tx.session().jobs().jobs().list(job_kind::job, after_position, limit))
        result.push_back(record_of(row));
    return result;
}

std::optional<execution_record> find_execution(store& where, execution_id which)
{
    auto tx = where.read();
    auto found = tx.session().jobs().runs().find(which);
    return found ? std::optional{with_message(tx.session(), std::move(found->record))}
                 : std::nullopt;
}

std::vector<execution_record> list_executions(store& where, const execution_filter& filter)
{
    check_page(filter.limit);
    auto wanted = filter;
    if (wanted.state == execution_state::running)
        wanted.state = execution_state::enqueued;
    auto tx = where.read();
    std::vector<execution_record> result;
    for (auto& each : tx.session().jobs().runs().list(wanted))
        result.push_back(with_message(tx.session(), std::move(each.record)));
    return result;
}

} // namespace posthorn
