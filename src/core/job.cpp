// Which instants of a job run, which are left out and why; each is accounted for once.
#include "core/job.hpp"

#include <algorithm>

namespace posthorn::core {
namespace {

constexpr std::string_view while_paused = "the job was paused";
constexpr std::string_view missed_and_skipped = "nobody was there in time";
constexpr std::string_view for_a_later_one = "a later run stands for it";
constexpr std::string_view beyond_the_limit = "too many were missed";

using instants = std::vector<timestamp>;

planned_run stretch(instants::const_iterator first, instants::const_iterator last)
{
    return {.from = *first, .nominal = *(last - 1), .covers = last - first};
}

void leave_out(job_plan& plan, instants::const_iterator first, instants::const_iterator last,
               std::string_view reason, bool coalesced = false)
{
    if (first == last)
        return;
    auto what = stretch(first, last);
    what.runs = false;
    what.coalesced = coalesced;
    what.reason = reason;
    plan.what.push_back(what);
}

void run_each(job_plan& plan, instants::const_iterator first, instants::const_iterator last)
{
    for (; first != last; ++first)
        plan.what.push_back(stretch(first, first + 1));
}

} // namespace

job_plan plan_runs(const job_options& how, const job_turn& turn,
                   const std::function<std::optional<timestamp>(timestamp)>& after)
{
    instants due;
    std::optional<timestamp> next = turn.next;
    while (next && *next <= turn.now && due.size() < plan_instants_max) {
        due.push_back(*next);
        next = after(*next);
    }
    job_plan plan{.what = {}, .next = next};
    const bool more = next && *next <= turn.now;
    const auto awake =
        turn.skip_before ? std::ranges::lower_bound(due, *turn.skip_before) : due.begin();
    leave_out(plan, due.begin(), awake, while_paused);

    const auto in_time = std::ranges::lower_bound(due, turn.now - how.late_after);
    plan.missed = more || awake < in_time;
    if (!plan.missed) {
        run_each(plan, awake, due.end());
        return plan;
    }
    switch (how.on_misfire) {
    case misfire::skip: {
        const auto first = std::max(awake, in_time);
        leave_out(plan, awake, first, missed_and_skipped);
        run_each(plan, first, due.end());
        break;
    }
    case misfire::fire_once:
        if (more)
            leave_out(plan, awake, due.end(), for_a_later_one, true);
        else if (awake != due.end())
            plan.what.push_back(stretch(awake, due.end()));
        break;
    case misfire::catch_up: {
        const auto room = static_cast<std::ptrdiff_t>(how.catch_up_max);
        const auto first = due.end() - awake > room ? due.end() - room : awake;
        leave_out(plan, awake, first, beyond_the_limit);
        if (!more)
            run_each(plan, first, due.end());
        else if (first != due.end())
            plan.next = *first; // what follows decides whether these are among the last
        break;
    }
    }
    return plan;
}

} // namespace posthorn::core
