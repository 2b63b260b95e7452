// Jobs and executions within one transaction, written once for all engines: the message that waits
// for a job's next instant (its tick), the messages of its runs, and how those end.
//
// When an instant comes is not known here. A job is locked before its ticks and runs are changed.
#pragma once

#include "store/contract/job_table.hpp"
#include "store/contract/join_table.hpp"
#include "store/contract/message_reader.hpp"
#include "store/contract/message_writer.hpp"
#include "store/contract/settlement_follower.hpp"
#include <posthorn/environment.hpp>

#include <optional>
#include <span>
#include <string>

namespace posthorn::contract {

class job_book {
public:
    job_book(job_table& jobs, run_table& runs, join_table& followed, message_writer& writer,
             message_reader& reader, const posthorn::environment& world)
        : jobs_(jobs),
          runs_(runs),
          followed_(followed),
          writer_(writer),
          reader_(reader),
          world_(world)
    {}

    [[nodiscard]] job_table& jobs() noexcept { return jobs_; }
    [[nodiscard]] run_table& runs() noexcept { return runs_; }

    /// The job's next instant is `at`, or there is none: its tick is enqueued, and the row written.
    void arm(job_row& job, std::optional<timestamp> at);

    /// Its tick is called off, and the row written. A tick that a worker has finds itself replaced.
    void disarm(job_row& job);

    struct new_run {
        timestamp nominal_at;
        execution_kind kind = execution_kind::scheduled;
        timestamp covers_from;
        std::int64_t covers = 1;
    };

    /// An execution whose message is enqueued now, or that waits for its turn. `spread` is by how
    /// much it may begin later. Nothing: this instant has one already.
    std::optional<execution_id> start(const job_row& job, const new_run& what,
                                      duration spread = {});
    std::optional<execution_id> wait(const job_row& job, const new_run& what);

    /// Instants that never run.
    void leave_out(const job_row& job, const new_run& what, execution_state as,
                   std::string_view reason);

    /// The runs of a job that wait for their turn are cancelled.
    void cancel_waiting(const job_row& job, std::string_view reason);

    // ------------------------------------------------------------- what becomes of messages

    void ended(std::span<const join_row> rows, std::span<const ended_message> which);
    void came_back(std::span<const join_row> rows);

    /// Whether anything was enqueued here, which somebody may want to know of.
    [[nodiscard]] bool has_enqueued() const noexcept { return has_enqueued_; }

private:
    [[nodiscard]] run_row fresh(const job_row& job, const new_run& what) const;
    void enqueue_run(const job_row& job, run_row& run, std::optional<timestamp> due);
    void end_runs(std::span<const std::int64_t> seqs, std::span<const ended_message> which);
    void next_turn(const std::string& job);
    void arm_again(std::span<const std::int64_t> seqs);
    void follow(const locator& which, join_role as);

    job_table& jobs_;
    run_table& runs_;
    join_table& followed_;
    message_writer& writer_;
    message_reader& reader_;
    const posthorn::environment& world_;
    bool has_enqueued_ = false;
};

} // namespace posthorn::contract
