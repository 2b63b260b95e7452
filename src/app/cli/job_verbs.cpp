// The verbs of jobs and timers: looking at them, changing them, and what became of their runs.
#include "app/cli/job_requests.hpp"
#include "app/cli/table.hpp"
#include "app/cli/text.hpp"
#include <posthorn/error.hpp>
#include <posthorn/schedules.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <utility>

namespace posthorn::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t runs_shown = 5;

ordered_json instant_or_null(const std::optional<timestamp>& when)
{
    return when ? ordered_json(iso_time(*when)) : ordered_json();
}

job_record job_or_refuse(store& where, const std::string& name)
{
    auto found = find_job(where, name);
    if (!found)
        throw error(error_code::not_found, fmt::format("there is no job '{}'", printable(name)));
    return *std::move(found);
}

schedule times_of(const job_record& job)
{
    const auto& how = job.options;
    return how.every ? schedule::every(*how.every, how.anchor.value_or(job.created_at))
                     : schedule::cron(how.cron, how.zone);
}

std::string times_in_words(const job_options& how)
{
    return how.every ? schedule::every(*how.every).text() : how.cron;
}

ordered_json job_as_json(const job_record& job)
{
    const auto& how = job.options;
    return {{"name", job.name},
            {"position", job.position},
            {"paused", job.paused},
            {"cron", how.every ? ordered_json() : ordered_json(how.cron)},
            {"zone", how.every ? ordered_json() : ordered_json(how.zone)},
            {"every_seconds", how.every
                                  ? ordered_json(std::chrono::duration<double>(*how.every).count())
                                  : ordered_json()},
            {"topic", how.run.topic},
            {"payload_bytes", how.run.payload.size()},
            {"misfire", to_string(how.on_misfire)},
            {"overlap", to_string(how.on_overlap)},
            {"jitter_seconds", std::chrono::duration<double>(how.jitter).count()},
            {"next_at", instant_or_null(job.next_at)},
            {"created_at", iso_time(job.created_at)},
            {"updated_at", iso_time(job.updated_at)}};
}

tint tint_of_run(execution_state state)
{
    switch (state) {
    case execution_state::done: return tint::green;
    case execution_state::failed: return tint::red;
    case execution_state::skipped:
    case execution_state::coalesced:
    case execution_state::cancelled: return tint::yellow;
    default: return tint::none;
    }
}

std::string length_of(const execution_record& run)
{
    if (!run.started_at || !run.ended_at)
        return "";
    return fmt::format("{:.1f}s",
                       std::chrono::duration<double>(*run.ended_at - *run.started_at).count());
}

void print_runs(const std::vector<execution_record>& page, output& to)
{
    using side = column::side;
    table rows({{"EXECUTION"},
                {"JOB"},
                {"INSTANT"},
                {"KIND"},
                {"STATE"},
                {"FOR", side::right},
                {"TOOK", side::right},
                {"REASON"}});
    for (const auto& each : page)
        rows.add({{to_string(each.id)},
                  {each.job},
                  {iso_time(each.nominal_at)},
                  {std::string(to_string(each.kind))},
                  {std::string(to_string(each.state)), tint_of_run(each.state)},
                  {fmt::format("{}", each.covers)},
                  {length_of(each)},
                  {each.reason}});
    rows.print(to);
}

std::string mark_of(const firing& which)
{
    using std::chrono::minutes;
    std::string mark;
    if (which.clock_change != duration::zero())
        mark = fmt::format("clocks go {} {} min",
                           which.clock_change > duration::zero() ? "forward" : "back",
                           abs(which.clock_change) / minutes{1});
    if (which.moved)
        mark += "; its time does not exist on this day";
    return mark;
}

exit_status answer_of(const job_request& what, std::string_view word, bool changed,
                      std::string_view otherwise, output& to)
{
    to.answer({{"name", what.name}, {"answer", changed ? word : "unchanged"}},
              changed ? word : otherwise);
    return changed ? exit_status::success : exit_status::failure;
}

} // namespace

ordered_json execution_as_json(const execution_record& what)
{
    return {{"id", to_string(what.id)},
            {"position", what.position},
            {"job", what.job},
            {"nominal_at", iso_time(what.nominal_at)},
            {"kind", to_string(what.kind)},
            {"state", to_string(what.state)},
            {"covers", what.covers},
            {"covers_from", iso_time(what.covers_from)},
            {"message", what.message ? ordered_json(to_string(*what.message)) : ordered_json()},
            {"created_at", iso_time(what.created_at)},
            {"started_at", instant_or_null(what.started_at)},
            {"ended_at", instant_or_null(what.ended_at)},
            {"attempts", what.attempts},
            {"reason", what.reason.empty() ? ordered_json() : ordered_json(what.reason)}};
}

std::string execution_in_words(const execution_record& what)
{
    return fmt::format("job {}  {}, {} for {}", printable(what.job), to_string(what.state),
                       to_string(what.kind), iso_time(what.nominal_at));
}

exit_status list_of_jobs(const jobs_request& what, output& to)
{
    auto where = open(what.url);
    const auto page = list_jobs(where, what.after, what.limit);
    const bool more = page.size() == what.limit;
    if (to.json()) {
        auto list = ordered_json::array();
        for (const auto& each : page)
            list.push_back(job_as_json(each));
        to.document({{"jobs", std::move(list)},
                     {"next_after", more ? ordered_json(page.back().position) : ordered_json()}});
        return exit_status::success;
    }
    if (page.empty()) {
        to.note("no jobs");
        return exit_status::success;
    }
    const auto now = where.environment().clock->now();
    table rows({{"NAME"}, {"TIMES"}, {"ZONE"}, {"NEXT"}, {"IN"}, {"TOPIC"}});
    for (const auto& each : page)
        rows.add({{each.name},
                  {times_in_words(each.options)},
                  {each.options.every ? "" : each.options.zone},
                  {each.paused    ? "paused"
                   : each.next_at ? iso_time(*each.next_at)
                                  : "never",
                   each.paused ? tint::yellow : tint::none},
                  {each.next_at ? relative(*each.next_at, now) : ""},
                  {each.options.run.topic}});
    rows.print(to);
    if (more)
        to.note(fmt::format("there may be more: --after {}", page.back().position));
    return exit_status::success;
}

exit_status show_job(const job_request& what, output& to)
{
    auto where = open(what.url);
    const auto job = job_or_refuse(where, what.name);
    const auto runs = list_executions(where, {.job = what.name, .limit = runs_shown});
    if (to.json()) {
        auto document = job_as_json(job);
        auto list = ordered_json::array();
        for (const auto& each : runs)
            list.push_back(execution_as_json(each));
        document["executions"] = std::move(list);
        to.document(document);
        return exit_status::success;
    }
    const auto now = where.environment().clock->now();
    fact_sheet facts;
    facts.add("name", job.name);
    facts.add("state", job.paused ? "paused" : "active", job.paused ? tint::yellow : tint::none);
    facts.add("times", times_in_words(job.options));
    if (!job.options.every)
        facts.add("zone", job.options.zone);
    if (job.next_at)
        facts.add("next",
                  fmt::format("{} ({})", iso_time(*job.next_at), relative(*job.next_at, now)));
    facts.add("topic", job.options.run.topic);
    facts.add("payload", fmt::format("{} bytes", job.options.run.payload.size()));
    facts.add("misfire", to_string(job.options.on_misfire));
    facts.add("overlap", to_string(job.options.on_overlap));
    if (job.options.jitter != duration::zero())
        facts.add("jitter", age(job.options.jitter));
    facts.add("made", iso_time(job.created_at));
    facts.print(to);
    if (!runs.empty()) {
        to.line("");
        print_runs(runs, to);
    }
    return exit_status::success;
}

exit_status add_job(const add_job_request& what, output& to)
{
    auto where = open(what.url);
    const auto answer = put_job(where, what.name, what.how);
    const auto job = job_or_refuse(where, what.name);
    to.answer({{"name", what.name},
               {"answer", to_string(answer)},
               {"next_at", instant_or_null(job.next_at)}},
              job.next_at ? fmt::format("{}; next at {}", to_string(answer), iso_time(*job.next_at))
                          : std::string(to_string(answer)));
    return exit_status::success;
}

exit_status trigger_one_job(const job_request& what, output& to)
{
    auto where = open(what.url);
    const auto id = to_string(trigger_job(where, what.name));
    to.answer({{"name", what.name}, {"execution", id}}, id);
    return exit_status::success;
}

exit_status pause_one_job(const job_request& what, output& to)
{
    auto where = open(what.url);
    (void)job_or_refuse(where, what.name);
    return answer_of(what, "paused", pause_job(where, what.name), "it was paused already", to);
}

exit_status resume_one_job(const job_request& what, output& to)
{
    auto where = open(what.url);
    (void)job_or_refuse(where, what.name);
    return answer_of(what, "resumed", resume_job(where, what.name), "it was not paused", to);
}

exit_status delete_one_job(const job_request& what, output& to)
{
    auto where = open(what.url);
    (void)job_or_refuse(where, what.name);
    return answer_of(what, "deleted", delete_job(where, what.name), "it is gone already", to);
}

exit_status backfill_one_job(const backfill_request& what, output& to)
{
    auto where = open(what.url);
    const auto report = backfill_job(where, what.name, what.from, what.to, what.limit);
    to.answer({{"name", what.name},
               {"added", report.added},
               {"known", report.known},
               {"next_from", instant_or_null(report.next)}},
              fmt::format("{} added, {} there already", counted(report.added, "execution"),
                          report.known));
    if (report.next)
        to.note(fmt::format("there are more: --from {}", iso_time(*report.next)));
    return exit_status::success;
}

exit_status preview_job(const preview_request& what, output& to)
{
    const bool of_a_job = !what.url.empty();
    if (of_a_job == !what.cron.empty() || of_a_job == what.name.empty())
        throw error(error_code::invalid_argument,
                    "preview: give a store and the name of a job, or --cron");
    auto times =
        of_a_job ? schedule::every(std::chrono::hours{1}) : schedule::cron(what.cron, what.zone);
    if (of_a_job) {
        auto where = open(what.url);
        times = times_of(job_or_refuse(where, what.name));
    }
    const auto now = environment::system().clock->now();
    const auto seen = preview(times, what.from.value_or(now), what.count);
    if (to.json()) {
        auto list = ordered_json::array();
        for (const auto& each : seen)
            list.push_back({{"at", iso_time(each.at)},
                            {"local", each.local},
                            {"clock_change_minutes", each.clock_change / std::chrono::minutes{1}},
                            {"moved", each.moved}});
        to.document({{"times", times.text()}, {"zone", times.zone()}, {"firings", list}});
        return exit_status::success;
    }
    table rows({{"LOCAL"}, {"UTC"}, {"", column::side::left, 80}});
    for (const auto& each : seen)
        rows.add({{each.local}, {each.utc}, {mark_of(each), tint::yellow}});
    rows.print(to);
    return exit_status::success;
}

exit_status job_history(const history_request& what, output& to)
{
    auto where = open(what.url);
    auto filter = what.filter;
    filter.job = what.name;
    const auto page = list_executions(where, filter);
    const bool more = page.size() == filter.limit;
    if (to.json()) {
        auto list = ordered_json::array();
        for (const auto& each : page)
            list.push_back(execution_as_json(each));
        to.document({{"executions", std::move(list)},
                     {"next_before", more ? ordered_json(page.back().position) : ordered_json()}});
        return exit_status::success;
    }
    if (page.empty())
        to.note("no executions");
    else
        print_runs(page, to);
    if (more)
        to.note(fmt::format("there may be more: --before {}", page.back().position));
    return exit_status::success;
}

exit_status list_of_timers(const jobs_request& what, output& to)
{
    auto where = open(what.url);
    const auto page = list_timers(where, what.after, what.limit);
    const bool more = page.size() == what.limit;
    if (to.json()) {
        auto list = ordered_json::array();
        for (const auto& each : page)
            list.push_back({{"name", each.name},
                            {"position", each.position},
                            {"at", iso_time(each.at)},
                            {"topic", each.what.topic},
                            {"payload_bytes", each.what.payload.size()},
                            {"created_at", iso_time(each.created_at)}});
        to.document({{"timers", std::move(list)},
                     {"next_after", more ? ordered_json(page.back().position) : ordered_json()}});
        return exit_status::success;
    }
    if (page.empty()) {
        to.note("no timers");
        return exit_status::success;
    }
    const auto now = where.environment().clock->now();
    table rows({{"NAME"}, {"AT"}, {"IN"}, {"TOPIC"}});
    for (const auto& each : page)
        rows.add({{each.name}, {iso_time(each.at)}, {relative(each.at, now)}, {each.what.topic}});
    rows.print(to);
    if (more)
        to.note(fmt::format("there may be more: --after {}", page.back().position));
    return exit_status::success;
}

exit_status set_one_timer(const timer_request& what, output& to)
{
    if (what.at.has_value() == what.after.has_value())
        throw error(error_code::invalid_argument, "timer: give either --at or --after");
    auto where = open(what.url);
    const auto answer = what.at ? set_timer(where, what.name, *what.at, what.what)
                                : set_timer(where, what.name, *what.after, what.what);
    to.answer({{"name", what.name}, {"answer", to_string(answer)}}, to_string(answer));
    return exit_status::success;
}

exit_status cancel_one_timer(const job_request& what, output& to)
{
    auto where = open(what.url);
    const bool cancelled = cancel_timer(where, what.name);
    to.answer({{"name", what.name}, {"answer", cancelled ? "cancelled" : "too_late"}},
              cancelled ? "cancelled" : "too late: it has fired, or there is no such timer");
    return cancelled ? exit_status::success : exit_status::failure;
}

} // namespace posthorn::cli
