// Jobs on MariaDB: whoever changes one has locked its row.
#include "store/mariadb/jobs.hpp"

#include "store/contract/json_lists.hpp"
#include "store/contract/row_readers.hpp"
#include "store/mariadb/statements.hpp"

#include <string>

namespace posthorn::mariadb {
namespace {

std::optional<timestamp> time_for(connection& db)
{
    return db.environment().clock->database_time();
}

contract::job_row read_job(const query& row)
{
    contract::job_row result;
    result.number = row.integer(0);
    result.kind = static_cast<contract::job_kind>(row.integer(1));
    result.name = row.text(2);
    result.paused = row.integer(3) != 0;
    result.next_at = row.time_or_none(4);
    result.skip_before = row.time_or_none(5);
    result.tick_seq = row.is_null(6) ? 0 : row.integer(6);
    if (!row.is_null(7))
        result.tick = row.id(7);
    result.created_at = row.time(8);
    result.updated_at = row.time(9);
    result.topic = row.text(10);
    result.definition = row.text(11);
    result.payload = row.text(12);
    result.now = row.time(13);
    return result;
}

std::vector<contract::job_row> read_jobs(query& row)
{
    std::vector<contract::job_row> result;
    while (row.step())
        result.push_back(read_job(row));
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

template <typename Statement>
std::optional<contract::job_row> job_named(connection& db, contract::job_kind kind,
                                           std::string_view name)
{
    auto row = db.use(Statement::text);
    row.bind(Statement::kind, static_cast<std::int64_t>(kind))
        .bind_bytes(Statement::name, name)
        .bind(Statement::now, time_for(db));
    return row.step() ? std::optional{read_job(row)} : std::nullopt;
}

// No number where there is no message, so that the index has none of them.
void bind_seq(query& row, int parameter, std::int64_t seq)
{
    if (seq != 0)
        row.bind(parameter, seq);
}

} // namespace

timestamp jobs::now()
{
    auto row = db_.use(sql::job_clock::text);
    row.bind(sql::job_clock::now, time_for(db_));
    (void)row.step();
    return row.time(0);
}

std::optional<contract::job_row> jobs::find(contract::job_kind kind, std::string_view name)
{
    return job_named<sql::find_job>(db_, kind, name);
}

std::optional<contract::job_row> jobs::lock(contract::job_kind kind, std::string_view name)
{
    return job_named<sql::lock_job>(db_, kind, name);
}

std::optional<contract::job_row> jobs::lock(std::int64_t number)
{
    using statement = sql::lock_job_of_number;
    auto row = db_.use(statement::text);
    row.bind(statement::number, number).bind(statement::now, time_for(db_));
    return row.step() ? std::optional{read_job(row)} : std::nullopt;
}

std::optional<std::int64_t> jobs::insert(const contract::job_row& what)
{
    using statement = sql::insert_job;
    auto row = db_.use(statement::text);
    row.bind(statement::kind, static_cast<std::int64_t>(what.kind))
        .bind_bytes(statement::name, what.name)
        .bind(statement::next_at, what.next_at)
        .bind(statement::skip_before, what.skip_before)
        .bind(statement::created_at, what.now)
        .bind_bytes(statement::topic, what.topic)
        .bind_bytes(statement::definition, what.definition)
        .bind_bytes(statement::payload, what.payload);
    return row.step() ? std::optional{row.integer(0)} : std::nullopt;
}

void jobs::save(const contract::job_row& what)
{
    using statement = sql::save_job;
    auto row = db_.use(statement::text);
    row.bind(statement::number, what.number)
        .bind(statement::paused, std::int64_t{what.paused})
        .bind(statement::next_at, what.next_at)
        .bind(statement::skip_before, what.skip_before)
        .bind(statement::updated_at, what.updated_at)
        .bind_bytes(statement::topic, what.topic)
        .bind_bytes(statement::definition, what.definition)
        .bind_bytes(statement::payload, what.payload);
    bind_seq(row, statement::tick_seq, what.tick_seq);
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
        .bind(statement::limit, static_cast<std::int64_t>(limit))
        .bind(statement::now, time_for(db_));
    return read_jobs(row);
}

std::vector<contract::job_row> jobs::of_ticks(std::span<const std::int64_t> seqs)
{
    const auto list = contract::json_of(seqs);
    auto row = db_.use(sql::jobs_of_ticks::text);
    row.bind_ascii(sql::jobs_of_ticks::list, list).bind(sql::jobs_of_ticks::now, time_for(db_));
    return read_jobs(row);
}

void jobs::forget(std::span<const std::int64_t> seqs, contract::join_role as)
{
    const auto list = contract::json_of(seqs);
    using statement = sql::forget_followed;
    db_.use(statement::text)
        .bind(statement::role, static_cast<std::int64_t>(as))
        .bind_ascii(statement::list, list)
        .run();
}

std::optional<std::int64_t> runs::add(const contract::run_row& what)
{
    using statement = sql::add_run;
    const auto& record = what.record;
    const message_id id{record.id.value()};
    auto row = db_.use(statement::text);
    row.bind(statement::id, id)
        .bind_bytes(statement::job, record.job)
        .bind(statement::nominal_at, record.nominal_at)
        .bind(statement::kind, static_cast<std::int64_t>(record.kind))
        .bind(statement::state, static_cast<std::int64_t>(record.state))
        .bind(statement::covers_from, record.covers_from)
        .bind(statement::covers, record.covers)
        .bind(statement::created_at, record.created_at)
        .bind(statement::ended_at, record.ended_at)
        .bind_bytes_or_null(statement::reason, record.reason);
    return row.step() ? std::optional{row.integer(0)} : std::nullopt;
}

void runs::save(const contract::run_row& what)
{
    using statement = sql::save_run;
    const auto& record = what.record;
    auto row = db_.use(statement::text);
    row.bind(statement::number, record.position)
        .bind(statement::state, static_cast<std::int64_t>(record.state))
        .bind(statement::started_at, record.started_at)
        .bind(statement::ended_at, record.ended_at)
        .bind(statement::attempts, std::int64_t{record.attempts})
        .bind_bytes_or_null(statement::reason, record.reason);
    bind_seq(row, statement::seq, what.seq);
    if (record.message)
        row.bind(statement::message, *record.message);
    row.run();
}

std::vector<contract::run_row> runs::open(std::string_view job, std::size_t limit)
{
    using statement = sql::open_runs;
    auto row = db_.use(statement::text);
    row.bind_bytes(statement::job, job).bind(statement::limit, static_cast<std::int64_t>(limit));
    return contract::read_all(row, contract::read_run<query>);
}

std::vector<contract::run_row> runs::of_messages(std::span<const std::int64_t> seqs)
{
    const auto list = contract::json_of(seqs);
    auto row = db_.use(sql::runs_of_messages::text);
    row.bind_ascii(sql::runs_of_messages::list, list);
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
    row.bind_bytes(sql::list_runs_of_job::job, filter.job);
    return page_of_runs<sql::list_runs_of_job>(row, filter);
}

std::size_t runs::remove_ended(duration older_than, std::size_t limit)
{
    std::vector<std::int64_t> numbers;
    std::vector<std::int64_t> seqs;
    {
        using statement = sql::ended_runs;
        auto row = db_.use(statement::text);
        row.bind(statement::now, time_for(db_))
            .bind(statement::age, std::int64_t{older_than.count()})
            .bind(statement::limit, static_cast<std::int64_t>(limit));
        while (row.step()) {
            numbers.push_back(row.integer(0));
            seqs.push_back(row.integer(1));
        }
    }
    if (numbers.empty())
        return 0;
    jobs(db_).forget(seqs, contract::join_role::run); // those of failed ones
    const auto list = contract::json_of(std::span<const std::int64_t>(numbers));
    db_.use(sql::delete_runs::text).bind_ascii(sql::delete_runs::list, list).run();
    return numbers.size();
}

} // namespace posthorn::mariadb
