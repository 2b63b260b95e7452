// Jobs on PostgreSQL: whoever changes one has locked its row.
#include "store/postgres/jobs.hpp"

#include "store/postgres/statements.hpp"

#include <string>

namespace posthorn::postgres {
namespace {

contract::job_row read_job(const rows& found, int row)
{
    contract::job_row result;
    result.number = found.integer(row, 0);
    result.kind = static_cast<contract::job_kind>(found.integer(row, 1));
    result.name = found.text(row, 2);
    result.paused = found.yes(row, 3);
    result.next_at = found.time_or_none(row, 4);
    result.skip_before = found.time_or_none(row, 5);
    result.tick_seq = found.integer(row, 6);
    if (!found.is_null(row, 7))
        result.tick = found.id(row, 7);
    result.created_at = found.time(row, 8);
    result.updated_at = found.time(row, 9);
    result.topic = found.text(row, 10);
    result.definition = found.text(row, 11);
    result.payload = found.text(row, 12);
    result.now = found.time(row, 13);
    return result;
}

std::vector<contract::job_row> read_jobs(const rows& found)
{
    std::vector<contract::job_row> result;
    for (int row = 0; row < found.size(); ++row)
        result.push_back(read_job(found, row));
    return result;
}

contract::run_row read_run(const rows& found, int row)
{
    contract::run_row result;
    auto& record = result.record;
    record.position = found.integer(row, 0);
    record.id = execution_id{found.id(row, 1).value()};
    record.job = found.text(row, 2);
    record.nominal_at = found.time(row, 3);
    record.kind = static_cast<execution_kind>(found.integer(row, 4));
    record.state = static_cast<execution_state>(found.integer(row, 5));
    record.covers_from = found.time(row, 6);
    record.covers = found.integer(row, 7);
    result.seq = found.integer(row, 8);
    if (!found.is_null(row, 9))
        record.message = found.id(row, 9);
    record.created_at = found.time(row, 10);
    record.started_at = found.time_or_none(row, 11);
    record.ended_at = found.time_or_none(row, 12);
    record.attempts = static_cast<int>(found.integer(row, 13));
    record.reason = found.text(row, 14);
    return result;
}

std::vector<contract::run_row> read_runs(const rows& found)
{
    std::vector<contract::run_row> result;
    for (int row = 0; row < found.size(); ++row)
        result.push_back(read_run(found, row));
    return result;
}

template <typename Statement>
arguments page_of_runs(const execution_filter& filter)
{
    arguments with;
    if (filter.state)
        with.set(Statement::state, static_cast<std::int64_t>(*filter.state));
    with.set(Statement::before, filter.before_position.value_or(INT64_MAX))
        .set(Statement::limit, static_cast<std::int64_t>(filter.limit));
    return with;
}

template <typename Statement>
std::optional<contract::job_row> job_named(conversation& talk, const environment& world,
                                           contract::job_kind kind, std::string_view name)
{
    arguments with;
    set_now(with, Statement::now, world);
    with.set(Statement::kind, static_cast<std::int64_t>(kind)).set_text(Statement::name, name);
    const auto found = talk.run(Statement::text, with);
    return found.empty() ? std::nullopt : std::optional{read_job(found, 0)};
}

} // namespace

timestamp jobs::now()
{
    arguments with;
    set_now(with, sql::job_clock::now, world_);
    return talk_.run(sql::job_clock::text, with).time(0, 0);
}

std::optional<contract::job_row> jobs::find(contract::job_kind kind, std::string_view name)
{
    return job_named<sql::find_job>(talk_, world_, kind, name);
}

std::optional<contract::job_row> jobs::lock(contract::job_kind kind, std::string_view name)
{
    return job_named<sql::lock_job>(talk_, world_, kind, name);
}

std::optional<contract::job_row> jobs::lock(std::int64_t number)
{
    using statement = sql::lock_job_of_number;
    arguments with;
    set_now(with, statement::now, world_);
    with.set(statement::number, number);
    const auto found = talk_.run(statement::text, with);
    return found.empty() ? std::nullopt : std::optional{read_job(found, 0)};
}

std::optional<std::int64_t> jobs::insert(const contract::job_row& what)
{
    using statement = sql::insert_job;
    arguments with;
    with.set(statement::kind, static_cast<std::int64_t>(what.kind))
        .set_text(statement::name, what.name)
        .set(statement::next_at, what.next_at)
        .set(statement::skip_before, what.skip_before)
        .set(statement::created_at, what.now)
        .set_text(statement::topic, what.topic)
        .set_text(statement::definition, what.definition)
        .set_text(statement::payload, what.payload);
    const auto found = talk_.run(statement::text, with);
    return found.empty() ? std::nullopt : std::optional{found.integer(0, 0)};
}

void jobs::save(const contract::job_row& what)
{
    using statement = sql::save_job;
    arguments with;
    with.set(statement::number, what.number)
        .set_flag(statement::paused, what.paused)
        .set(statement::next_at, what.next_at)
        .set(statement::skip_before, what.skip_before)
        .set(statement::tick_seq, what.tick_seq)
        .set(statement::updated_at, what.updated_at)
        .set_text(statement::topic, what.topic)
        .set_text(statement::definition, what.definition)
        .set_text(statement::payload, what.payload);
    if (what.tick)
        with.set(statement::tick, *what.tick);
    talk_.run(statement::text, with);
}

void jobs::remove(std::int64_t number)
{
    arguments with;
    with.set(sql::delete_job::number, number);
    talk_.run(sql::delete_job::text, with);
}

std::vector<contract::job_row> jobs::list(contract::job_kind kind, std::int64_t after,
                                          std::size_t limit)
{
    using statement = sql::list_jobs;
    arguments with;
    set_now(with, statement::now, world_);
    with.set(statement::kind, static_cast<std::int64_t>(kind))
        .set(statement::after, after)
        .set(statement::limit, static_cast<std::int64_t>(limit));
    return read_jobs(talk_.run(statement::text, with));
}

std::vector<contract::job_row> jobs::of_ticks(std::span<const std::int64_t> seqs)
{
    using statement = sql::jobs_of_ticks;
    arguments with;
    set_now(with, statement::now, world_);
    with.set(statement::seqs, seqs);
    return read_jobs(talk_.run(statement::text, with));
}

void jobs::forget(std::span<const std::int64_t> seqs, contract::join_role as)
{
    using statement = sql::forget_followed;
    arguments with;
    with.set(statement::role, static_cast<std::int64_t>(as)).set(statement::seqs, seqs);
    talk_.run(statement::text, with);
}

std::optional<std::int64_t> runs::add(const contract::run_row& what)
{
    using statement = sql::add_run;
    const auto& record = what.record;
    arguments with;
    with.set(statement::id, message_id{record.id.value()})
        .set_text(statement::job, record.job)
        .set(statement::nominal_at, record.nominal_at)
        .set(statement::kind, static_cast<std::int64_t>(record.kind))
        .set(statement::state, static_cast<std::int64_t>(record.state))
        .set(statement::covers_from, record.covers_from)
        .set(statement::covers, record.covers)
        .set(statement::created_at, record.created_at)
        .set(statement::ended_at, record.ended_at)
        .set_text(statement::reason, record.reason);
    const auto found = talk_.run(statement::text, with);
    return found.empty() ? std::nullopt : std::optional{found.integer(0, 0)};
}

void runs::save(const contract::run_row& what)
{
    using statement = sql::save_run;
    const auto& record = what.record;
    arguments with;
    with.set(statement::number, record.position)
        .set(statement::state, static_cast<std::int64_t>(record.state))
        .set(statement::seq, what.seq)
        .set(statement::started_at, record.started_at)
        .set(statement::ended_at, record.ended_at)
        .set(statement::attempts, std::int64_t{record.attempts})
        .set_text(statement::reason, record.reason);
    if (record.message)
        with.set(statement::message, *record.message);
    talk_.run(statement::text, with);
}

std::vector<contract::run_row> runs::open(std::string_view job, std::size_t limit)
{
    using statement = sql::open_runs;
    arguments with;
    with.set_text(statement::job, job).set(statement::limit, static_cast<std::int64_t>(limit));
    return read_runs(talk_.run(statement::text, with));
}

std::vector<contract::run_row> runs::of_messages(std::span<const std::int64_t> seqs)
{
    arguments with;
    with.set(sql::runs_of_messages::seqs, seqs);
    return read_runs(talk_.run(sql::runs_of_messages::text, with));
}

std::optional<contract::run_row> runs::find(execution_id id)
{
    arguments with;
    with.set(sql::find_run::id, message_id{id.value()});
    const auto found = talk_.run(sql::find_run::text, with);
    return found.empty() ? std::nullopt : std::optional{read_run(found, 0)};
}

std::vector<contract::run_row> runs::list(const execution_filter& filter)
{
    if (filter.job.empty())
        return read_runs(talk_.run(sql::list_runs::text, page_of_runs<sql::list_runs>(filter)));
    auto with = page_of_runs<sql::list_runs_of_job>(filter);
    with.set_text(sql::list_runs_of_job::job, filter.job);
    return read_runs(talk_.run(sql::list_runs_of_job::text, with));
}

std::size_t runs::remove_ended(duration older_than, std::size_t limit)
{
    using statement = sql::remove_ended_runs;
    arguments with;
    set_now(with, statement::now, world_);
    with.set(statement::age, older_than).set(statement::limit, static_cast<std::int64_t>(limit));
    return static_cast<std::size_t>(talk_.run(statement::text, with).integer(0, 0));
}

} // namespace posthorn::postgres
