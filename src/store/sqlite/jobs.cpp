// Jobs on SQLite: one writer at a time, so that nothing has to be locked.
#include "store/sqlite/jobs.hpp"

#include "store/contract/json_lists.hpp"
#include "store/contract/row_readers.hpp"
#include "store/sqlite/statements.hpp"

#include <string>

namespace posthorn::sqlite {
namespace {

contract::job_row read_job(const query& row, timestamp now)
{
    contract::job_row result;
    result.number = row.integer(0);
    result.kind = static_cast<contract::job_kind>(row.integer(1));
    result.name = row.text(2);
    result.paused = row.integer(3) != 0;
    result.next_at = row.time_or_none(4);
    result.skip_before = row.time_or_none(5);
    result.tick_seq = row.integer(6);
    if (!row.is_null(7))
        result.tick = row.id(7);
    result.created_at = row.time(8);
    result.updated_at = row.time(9);
    result.topic = row.text(10);
    result.definition = row.text(11);
    result.payload = row.text(12);
    result.now = now;
    return result;
}

std::vector<contract::job_row> read_jobs(query& row, timestamp now)
{
    std::vector<contract::job_row> result;
    while (row.step())
        result.push_back(read_job(row, now));
    return result;
}

template <typename Statement>
std::vector<contract::run_row> page_of_runs(query& row, const execution_filter& filter)
{
    if (filter.state)
        row.bind(Statement::state, static_cast<std::int64_t>(*filter.state));
    row.bind(Statement::before, filter.before_position.value_or(INT64_MAX))
        .bind(Statement::limit, static_cast<std::int64_t>(filter.limit));
    return contract::read_all(row, contract::read_run<query>);
}

} // namespace

timestamp jobs::now()
{
    return world_.clock->now();
}

std::optional<contract::job_row> jobs::find(contract::job_kind kind, std::string_view name)
{
    using statement = sql::find_job;
    auto row = db_.use(statement::text);
    row.bind(statement::kind, static_cast<std::int64_t>(kind)).bind_text(statement::name, name);
    return row.step() ? std::optional{read_job(row, now())} : std::nullopt;
}

std::optional<contract::job_row> jobs::lock(contract::job_kind kind, std::string_view name)
{
    return find(kind, name);
}

std::optional<contract::job_row> jobs::lock(std::int64_t number)
{
    using statement = sql::job_of_number;
    auto row = db_.use(statement::text);
    row.bind(statement::number, number);
    return row.step() ? std::optional{read_job(row, now())} : std::nullopt;
}

std::optional<std::int64_t> jobs::insert(const contract::job_row& what)
{
    using statement = sql::insert_job;
    auto row = db_.use(statement::text);
    row.bind(statement::kind, static_cast<std::int64_t>(what.kind))
        .bind_text(statement::name, what.name)
        .bind(statement::next_at, what.next_at)
        .bind(statement::skip_before, what.skip_before)
        .bind(statement::now, what.now)
        .bind_text(statement::topic, what.topic)
        .bind_text(statement::definition, what.definition)
        .bind_blob(statement::payload, what.payload);
    if (!row.step())
        return std::nullopt;
    const auto number = row.integer(0);
    row.run();
    return number;
}

void jobs::save(const contract::job_row& what)
{
    using statement = sql::save_job;
    auto row = db_.use(statement::text);
    row.bind(statement::number, what.number)
        .bind(statement::paused, std::int64_t{what.paused})
        .bind(statement::next_at, what.next_at)
        .bind(statement::skip_before, what.skip_before)
        .bind(statement::tick_seq, what.tick_seq)
        .bind(statement::updated_at, what.updated_at)
        .bind_text(statement::topic, what.topic)
        .bind_text(statement::definition, what.definition)
        .bind_blob(statement::payload, what.payload);
    if (what.tick)
        row.bind(statement::tick, *what.tick);
    row.run();
}

void jobs::remove(std::int64_t number)
{
    db_.use(sql::delete_job::text).bind(sql::delete_job::number, number).run();
}

std::vector<contract::job_row> jobs::list(contract::job_kind kind, std::int64_t after,
                                          std::size_t limit)
{
    using statement = sql::list_jobs;
    auto row = db_.use(statement::text);
    row.bind(statement::kind, static_cast<std::int64_t>(kind))
        .bind(statement::after, after)
        .bind(statement::limit, static_cast<std::int64_t>(limit));
    return read_jobs(row, now());
}

std::vector<contract::job_row> jobs::of_ticks(std::span<const std::int64_t> seqs)
{
    const auto list = contract::json_of(seqs);
    auto row = db_.use(sql::jobs_of_ticks::text);
    row.bind_text(sql::jobs_of_ticks::list, list);
    return read_jobs(row, now());
}

void jobs::forget(std::span<const std::int64_t> seqs, contract::join_role as)
{
    const auto list = contract::json_of(seqs);
    using statement = sql::forget_followed;
    db_.use(statement::text)
        .bind(statement::role, static_cast<std::int64_t>(as))
        .bind_text(statement::list, list)
        .run();
}

std::optional<std::int64_t> runs::add(const contract::run_row& what)
{
    using statement = sql::add_run;
    const auto& record = what.record;
    const message_id id{record.id.value()};
    auto row = db_.use(statement::text);
    row.bind(statement::id, id)
        .bind_text(statement::job, record.job)
        .bind(statement::nominal_at, record.nominal_at)
        .bind(statement::kind, static_cast<std::int64_t>(record.kind))
        .bind(statement::state, static_cast<std::int64_t>(record.state))
        .bind(statement::covers_from, record.covers_from)
        .bind(statement::covers, record.covers)
        .bind(statement::created_at, record.created_at)
        .bind(statement::ended_at, record.ended_at)
        .bind_text_or_null(statement::reason, record.reason);
    if (!row.step())
        return std::nullopt;
    const auto number = row.integer(0);
    row.run();
    return number;
}

void runs::save(const contract::run_row& what)
{
    using statement = sql::save_run;
    const auto& record = what.record;
    auto row = db_.use(statement::text);
    row.bind(statement::number, record.position)
        .bind(statement::state, static_cast<std::int64_t>(record.state))
        .bind(statement::seq, what.seq)
        .bind(statement::started_at, record.started_at)
        .bind(statement::ended_at, record.ended_at)
        .bind(statement::attempts, std::int64_t{record.attempts})
        .bind_text_or_null(statement::reason, record.reason);
    if (record.message)
        row.bind(statement::message, *record.message);
    row.run();
}

std::vector<contract::run_row> runs::open(std::string_view job, std::size_t limit)
{
    using statement = sql::open_runs;
    auto row = db_.use(statement::text);
    row.bind_text(statement::job, job).bind(statement::limit, static_cast<std::int64_t>(limit));
    return contract::read_all(row, contract::read_run<query>);
}

std::vector<contract::run_row> runs::of_messages(std::span<const std::int64_t> seqs)
{
    const auto list = contract::json_of(seqs);
    auto row = db_.use(sql::runs_of_messages::text);
    row.bind_text(sql::runs_of_messages::list, list);
    return contract::read_all(row, contract::read_run<query>);
}

std::optional<contract::run_row> runs::find(execution_id id)
{
    const message_id key{id.value()};
    auto row = db_.use(sql::find_run::text);
    row.bind(sql::find_run::id, key);
    return row.step() ? std::optional{contract::read_run(row)} : std::nullopt;
}

std::vector<contract::run_row> runs::list(const execution_filter& filter)
{
    if (filter.job.empty()) {
        auto row = db_.use(sql::list_runs::text);
        return page_of_runs<sql::list_runs>(row, filter);
    }
    auto row = db_.use(sql::list_runs_of_job::text);
    row.bind_text(sql::list_runs_of_job::job, filter.job);
    return page_of_runs<sql::list_runs_of_job>(row, filter);
}

std::size_t runs::remove_ended(duration older_than, std::size_t limit)
{
    std::vector<std::int64_t> numbers;
    std::vector<std::int64_t> seqs;
    {
        using statement = sql::ended_runs;
        auto row = db_.use(statement::text);
        row.bind(statement::until, world_.clock->now() - older_than)
            .bind(statement::limit, static_cast<std::int64_t>(limit));
        while (row.step()) {
            numbers.push_back(row.integer(0));
            seqs.push_back(row.integer(1));
        }
    }
    if (numbers.empty())
        return 0;
    jobs(db_, world_).forget(seqs, contract::join_role::run); // those of failed ones
    const auto list = contract::json_of(std::span<const std::int64_t>(numbers));
    db_.use(sql::delete_runs::text).bind_text(sql::delete_runs::list, list).run();
    return numbers.size();
}

} // namespace posthorn::sqlite
