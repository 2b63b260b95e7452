// What happens when a job's instant has come.
#pragma once

#include "store/contract/job_book.hpp"
#include <posthorn/delivery.hpp>
#include <posthorn/schedule.hpp>
#include <posthorn/schedules.hpp>
#include <posthorn/transaction.hpp>

#include <optional>
#include <string_view>

namespace posthorn::schedules {

/// When a job runs. Throws: `error` with `invalid_argument`.
[[nodiscard]] schedule schedule_of(const job_options& how, timestamp created_at);

/// Deals with every instant of a locked job that has come; its tick is for the next one then.
void fire(contract::job_book& book, contract::job_row& job);

/// Whether runs may begin beside others, and if not, whether they wait.
enum class turn { at_once, in_line };

/// Runs one instant of a locked job. Nothing: it has an execution already, or was left out.
std::optional<execution_id> run(contract::job_book& book, const contract::job_row& job,
                                const job_options& how, const contract::job_book::new_run& what,
                                turn when);

/// Handles a tick. Says when to come back if this machine cannot tell the job's times.
[[nodiscard]] outcome handle_tick(transaction& tx, message_id tick, std::string_view payload);

} // namespace posthorn::schedules
