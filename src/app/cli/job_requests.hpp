// What the verbs of jobs and timers are asked.
#pragma once

#include "app/cli/output.hpp"
#include "app/cli/verbs.hpp"
#include <posthorn/schedules.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace posthorn::cli {

struct jobs_request : store_request {
    std::int64_t after = 0;
    std::size_t limit = 50;
};

struct job_request : store_request {
    std::string name;
};

struct add_job_request : job_request {
    job_options how;
};

struct backfill_request : job_request {
    timestamp from;
    timestamp to;
    std::size_t limit = 1'000;
};

struct preview_request : job_request {
    std::string cron; ///< instead of a store and a name
    std::string zone = "UTC";
    std::optional<timestamp> from;
    std::size_t count = 10;
};

struct history_request : job_request {
    execution_filter filter;
};

struct timer_request : job_request {
    std::optional<timestamp> at;
    std::optional<duration> after;
    message what;
};

exit_status list_of_jobs(const jobs_request& what, output& to);
exit_status show_job(const job_request& what, output& to);
exit_status add_job(const add_job_request& what, output& to);
exit_status trigger_one_job(const job_request& what, output& to);
exit_status pause_one_job(const job_request& what, output& to);
exit_status resume_one_job(const job_request& what, output& to);
exit_status delete_one_job(const job_request& what, output& to);
exit_status backfill_one_job(const backfill_request& what, output& to);
exit_status preview_job(const preview_request& what, output& to);
exit_status job_history(const history_request& what, output& to);
exit_status list_of_timers(const jobs_request& what, output& to);
exit_status set_one_timer(const timer_request& what, output& to);
exit_status cancel_one_timer(const job_request& what, output& to);

/// An execution, as JSON and in words; for `trace`, too.
[[nodiscard]] nlohmann::ordered_json execution_as_json(const execution_record& what);
[[nodiscard]] std::string execution_in_words(const execution_record& what);

/// One request per verb; the options write into them.
struct requests_of_jobs {
    jobs_request list;
    job_request show;
    add_job_request add;
    job_request trigger;
    job_request pause;
    job_request resume;
    job_request remove;
    backfill_request backfill;
    preview_request preview;
    history_request history;
    jobs_request timers_list;
    timer_request timers_set;
    job_request timers_cancel;
};

} // namespace posthorn::cli
