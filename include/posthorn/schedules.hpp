// Scheduled jobs and timers: messages that are enqueued at their times, by whichever worker is
// there.
//
//     ph::put_job(store, "nightly-report",
//                 {.run = {"report.nightly", ""}, .cron = "30 2 * * *", .zone = "Europe/Vienna"});
//     worker.handle("report.nightly", [](const ph::delivery_view& run) { … });
//
// Each instant of a job has one execution at most, however many workers there are: it is a row, and
// a message that is enqueued in the same transaction. What its handler publishes carries the
// execution's id as correlation id. See docs/guides/schedules.md.
#pragma once

#include <posthorn/id.hpp>
#include <posthorn/message.hpp>
#include <posthorn/schedule.hpp>
#include <posthorn/store.hpp>
#include <posthorn/stores.hpp>
#include <posthorn/time.hpp>
#include <posthorn/transaction.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn {

/// What happens to instants that nobody was there for.
enum class misfire {
    skip,      ///< they are left out
    fire_once, ///< one run for all of them
    catch_up,  ///< a run for each, up to a limit; the oldest are left out
};

/// What happens when a run is due while an earlier one has not ended.
enum class overlap {
    skip,  ///< it is left out
    queue, ///< it waits for its turn
    allow, ///< both run
};

[[nodiscard]] std::string_view to_string(misfire policy) noexcept;
[[nodiscard]] std::string_view to_string(overlap policy) noexcept;
[[nodiscard]] std::optional<misfire> parse_misfire(std::string_view text) noexcept;
[[nodiscard]] std::optional<overlap> parse_overlap(std::string_view text) noexcept;

struct job_options {
    /// What is enqueued for each run.
    message run;

    /// When: an expression in a zone, or an interval. Exactly one of `cron` and `every` is given.
    std::string cron = {};
    std::string zone = "UTC";
    std::optional<duration> every = {};
    std::optional<timestamp> anchor = {}; ///< of the interval; unless given, when the job was made

    misfire on_misfire = misfire::fire_once;
    duration late_after = std::chrono::minutes{1}; ///< from when on an instant counts as missed
    std::size_t catch_up_max = 100;

    overlap on_overlap = overlap::skip;
    std::size_t waiting_max = 100; ///< of `overlap::queue`; what comes on top is left out

    /// A run begins up to so much later than its instant, by chance.
    duration jitter{};

    int priority = 0;
    std::string ordering_key = {};
    posthorn::headers headers = {};
};

/// Makes a job, or changes it. If its times change, the first of them is after now; what was due
/// before is fired by the old ones.
enum class put_answer { created, changed, unchanged };

[[nodiscard]] std::string_view to_string(put_answer answer) noexcept;

/// `name` is 1 to 200 bytes of text. Throws: `error` with `invalid_argument`.
put_answer put_job(transaction& tx, std::string_view name, const job_options& how);
put_answer put_job(store& where, std::string_view name, const job_options& how);

/// What runs, runs to its end; what waits for its turn is cancelled. False: there is no such job.
bool delete_job(transaction& tx, std::string_view name);
bool delete_job(store& where, std::string_view name);

/// Instants of a paused job are left out. False: it was so already, or there is no such job.
bool pause_job(transaction& tx, std::string_view name);
bool pause_job(store& where, std::string_view name);
bool resume_job(transaction& tx, std::string_view name);
bool resume_job(store& where, std::string_view name);

/// Runs a job now, whether or not it is paused and another run has ended.
/// Throws: `error` with `not_found`.
execution_id trigger_job(transaction& tx, std::string_view name);
execution_id trigger_job(store& where, std::string_view name);

struct backfill_report {
    std::size_t added = 0;              ///< executions
    std::size_t known = 0;              ///< instants that have one already
    std::optional<timestamp> next = {}; ///< where to go on, if there were more than `limit`
};

/// Runs a job for instants of the past, from `from` up to but without `to`, one after the other
/// if its runs must not overlap. Throws: `error` with `not_found`, or `invalid_argument` for a
/// range that ends in the future.
backfill_report backfill_job(transaction& tx, std::string_view name, timestamp from, timestamp to,
                             std::size_t limit = 1'000);
backfill_report backfill_job(store& where, std::string_view name, timestamp from, timestamp to,
                             std::size_t limit = 1'000);

struct job_record {
    std::string name;
    std::int64_t position = 0; ///< the store's own number for it
    job_options options;
    bool paused = false;
    std::optional<timestamp> next_at; ///< the next instant; none: there is none, or it is paused
    timestamp created_at;
    timestamp updated_at;
};

[[nodiscard]] std::optional<job_record> find_job(transaction& tx, std::string_view name);
[[nodiscard]] std::optional<job_record> find_job(store& where, std::string_view name);

/// A page of jobs, in the order of their making.
[[nodiscard]] std::vector<job_record> list_jobs(store& where, std::int64_t after_position = 0,
                                                std::size_t limit = 50);

// ----------------------------------------------------------------------------------- executions

enum class execution_state {
    waiting,  ///< for an earlier run of its job
    enqueued, ///< its message is there; `running` if a worker has it
    running,
    done,
    failed,    ///< its message is dead
    cancelled, ///< or expired
    skipped,   ///< never ran; `reason` says why
    coalesced, ///< never ran: a later one stands for it
};

[[nodiscard]] std::string_view to_string(execution_state state) noexcept;

/// How an execution came about.
enum class execution_kind { scheduled, triggered, backfilled, timer };

[[nodiscard]] std::string_view to_string(execution_kind kind) noexcept;

struct execution_record {
    execution_id id;
    std::int64_t position = 0;
    std::string job;
    timestamp nominal_at; ///< the instant it is for
    execution_kind kind = execution_kind::scheduled;
    execution_state state = execution_state::enqueued;

    /// It stands for so many instants of its job, of which this is the first. More than one where
    /// instants were missed: each instant has a row, or is covered by one.
    timestamp covers_from;
    std::int64_t covers = 1;

    std::optional<message_id> message;
    timestamp created_at;
    std::optional<timestamp> started_at;
    std::optional<timestamp> ended_at;
    int attempts = 0;
    std::string reason; ///< the last error, or why it never ran
};

struct execution_filter {
    std::string job = {};
    std::optional<execution_state> state = {};        ///< `running` and `enqueued` are one here
    std::optional<std::int64_t> before_position = {}; ///< where the next page starts
    std::size_t limit = 50;
};

[[nodiscard]] std::optional<execution_record> find_execution(store& where, execution_id which);

/// A page of executions, the newest first. Also of jobs that have been deleted.
[[nodiscard]] std::vector<execution_record> list_executions(store& where,
                                                            const execution_filter& filter = {});

// --------------------------------------------------------------------------------------- timers

/// Enqueues a message once, at an instant or after a while. A timer of the same name that has not
/// fired is replaced. Throws: `error` with `invalid_argument`.
put_answer set_timer(transaction& tx, std::string_view name, timestamp at, const message& what);
put_answer set_timer(store& where, std::string_view name, timestamp at, const message& what);
put_answer set_timer(transaction& tx, std::string_view name, duration after, const message& what);
put_answer set_timer(store& where, std::string_view name, duration after, const message& what);

/// True: it will not fire. False: it has, or there is no such timer.
bool cancel_timer(transaction& tx, std::string_view name);
bool cancel_timer(store& where, std::string_view name);

struct timer_record {
    std::string name;
    std::int64_t position = 0;
    timestamp at;
    message what;
    timestamp created_at;
};

[[nodiscard]] std::optional<timer_record> find_timer(store& where, std::string_view name);
[[nodiscard]] std::vector<timer_record> list_timers(store& where, std::int64_t after_position = 0,
                                                    std::size_t limit = 50);

// -------------------------------------------------------------------------- for those who handle

struct job_run {
    std::string job;
    execution_id execution;
    timestamp nominal_at;
    execution_kind kind = execution_kind::scheduled;
    std::int64_t covers = 1;
};

/// What a handler is running for, from the headers of its message; nothing: no job.
[[nodiscard]] std::optional<job_run> job_run_of(const headers& of);

/// The topic of the messages that wait for a job's next instant. Every worker handles it.
inline constexpr std::string_view job_tick_topic = "job.tick";

/// Jobs and timers in many stores: which store is decided by a key, as for messages.
/// Threads: safe to use from any.
class job_router {
public:
    explicit job_router(store_provider among) : router_(std::move(among)) {}

    put_answer put(std::string_view key, std::string_view name, const job_options& how);
    bool remove(std::string_view key, std::string_view name);
    execution_id trigger(std::string_view key, std::string_view name);
    put_answer set_timer(std::string_view key, std::string_view name, timestamp at,
                         const message& what);
    bool cancel_timer(std::string_view key, std::string_view name);
    [[nodiscard]] std::optional<job_record> find(std::string_view key, std::string_view name);

    [[nodiscard]] posthorn::router& stores() { return router_; }

private:
    router router_;
};

} // namespace posthorn
