// The tables of jobs and their executions, as an engine keeps them. What is done with them is
// written once, in job_book and in src/schedules.
#pragma once

#include "store/contract/join_table.hpp"
#include <posthorn/schedules.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::contract {

/// Jobs and timers share a table; each kind has names of its own.
enum class job_kind : std::int64_t { job = 0, timer = 1 };

struct job_row {
    std::int64_t number = 0;
    job_kind kind = job_kind::job;
    std::string name;
    std::string topic;
    std::string payload;
    std::string definition; ///< everything else of its options, as JSON
    bool paused = false;
    std::optional<timestamp> next_at;     ///< the next instant to be fired
    std::optional<timestamp> skip_before; ///< instants before were in a pause
    std::optional<message_id> tick;       ///< the message that waits for it
    std::int64_t tick_seq = 0;
    timestamp created_at;
    timestamp updated_at;
    timestamp now; ///< the database's time when the row was read
};

/// A row of the table of executions. States are stored by their number.
struct run_row {
    execution_record record;
    std::int64_t seq = 0; ///< of its message
};

class job_table {
public:
    virtual ~job_table() = default;

    /// The database's time.
    virtual timestamp now() = 0;

    /// Nothing: there is none. `lock` holds whatever else would change the job.
    virtual std::optional<job_row> find(job_kind kind, std::string_view name) = 0;
    virtual std::optional<job_row> lock(job_kind kind, std::string_view name) = 0;
    virtual std::optional<job_row> lock(std::int64_t number) = 0;

    /// Returns: its number; nothing if somebody else has made one of this name.
    virtual std::optional<std::int64_t> insert(const job_row& what) = 0;

    /// Writes everything but kind, name and creation.
    virtual void save(const job_row& what) = 0;
    virtual void remove(std::int64_t number) = 0;
    virtual std::vector<job_row> list(job_kind kind, std::int64_t after, std::size_t limit) = 0;

    /// Those whose ticks these messages are, which have ended; locked.
    virtual std::vector<job_row> of_ticks(std::span<const std::int64_t> seqs) = 0;

    /// The ends of these messages are followed no more.
    virtual void forget(std::span<const std::int64_t> seqs, join_role as) = 0;
};

class run_table {
public:
    virtual ~run_table() = default;

    /// Returns: its number; nothing if there is one of this job and instant.
    virtual std::optional<std::int64_t> add(const run_row& what) = 0;

    /// Writes state, message, start, end, attempts and reason.
    virtual void save(const run_row& what) = 0;

    /// Executions of a job that have not ended: those that are enqueued, then those that wait, each
    /// in the order of their instants.
    virtual std::vector<run_row> open(std::string_view job, std::size_t limit) = 0;

    /// Those of these messages; locked.
    virtual std::vector<run_row> of_messages(std::span<const std::int64_t> seqs) = 0;

    virtual std::optional<run_row> find(execution_id id) = 0;
    virtual std::vector<run_row> list(const execution_filter& filter) = 0;

    /// Removes up to `limit` that ended so long ago.
    virtual std::size_t remove_ended(duration older_than, std::size_t limit) = 0;
};

} // namespace posthorn::contract
