// The verbs of jobs and timers, in the order of the help.
#include "app/cli/values.hpp"
#include "app/cli/verb_tree.hpp"

namespace posthorn::cli {
namespace {

constexpr auto no_job = "there is no such job, or the store failed";

void add_job_name(CLI::App& verb, std::string& name, bool required = true)
{
    verb.add_option("NAME", name, "the job's name")->required(required)->type_name("");
}

void add_job_page(CLI::App& verb, jobs_request& what)
{
    verb.add_option("--limit", what.limit, "at most so many (default 50)")
        ->check(CLI::Range(1, 100'000).description(""))
        ->type_name("N");
    verb.add_option("--after", what.after, "go on behind this position")
        ->check(CLI::NonNegativeNumber.description(""))
        ->type_name("POSITION");
}

void add_content(CLI::App& verb, message& what)
{
    verb.add_option("--topic", what.topic, "the topic of its messages")
        ->required()
        ->type_name("TEXT");
    verb.add_option("--payload", what.payload, "their payload (default: none)")->type_name("TEXT");
}

void add_times(CLI::App& verb, job_options& how)
{
    verb.add_option("--cron", how.cron, "minute hour day month weekday, or with leading seconds")
        ->type_name("TEXT");
    verb.add_option("--zone", how.zone, "of --cron, such as Europe/Vienna (default UTC)")
        ->type_name("NAME");
    add_duration(verb, "--every", how.every, "an interval instead, such as 90s or 6h");
}

} // namespace

void verb_tree::declare_jobs()
{
    group_ = "Jobs and timers";
    auto& jobs = *root_.add_subcommand("jobs", "look at scheduled jobs, and change them");
    jobs.group(group_);
    jobs.require_subcommand(1);
    jobs.footer("Example:\n"
                "  posthorn jobs add sqlite:orders.db nightly --topic report \\\n"
                "      --cron '30 2 * * *' --zone Europe/Vienna\n"
                "  posthorn jobs history sqlite:orders.db nightly\n\n"
                "Exit codes: 0 success, 1 failure, 2 wrong usage.");
    auto& asked = asked_.jobs;
    add_job_page(verb(jobs, {"list", "list jobs", "  posthorn jobs list sqlite:orders.db"},
                      asked.list, &cli::list_of_jobs),
                 asked.list);
    add_job_name(verb(jobs,
                      {"show", "show a job and its last runs",
                       "  posthorn jobs show sqlite:orders.db nightly", no_job},
                      asked.show, &cli::show_job),
                 asked.show.name);
    declare_add_job(jobs);
    add_job_name(verb(jobs,
                      {"trigger", "run a job now",
                       "  posthorn jobs trigger sqlite:orders.db nightly", no_job},
                      asked.trigger, &cli::trigger_one_job),
                 asked.trigger.name);
    add_job_name(verb(jobs,
                      {"pause", "leave out a job's runs until it is resumed",
                       "  posthorn jobs pause sqlite:orders.db nightly",
                       "it was paused already, there is no such job, or the store failed"},
                      asked.pause, &cli::pause_one_job),
                 asked.pause.name);
    add_job_name(
        verb(jobs,
             {"resume", "let a job go on", "  posthorn jobs resume sqlite:orders.db nightly",
              "it was not paused, there is no such job, or the store failed"},
             asked.resume, &cli::resume_one_job),
        asked.resume.name);
    add_job_name(verb(jobs,
                      {"delete", "remove a job; what runs, runs to its end",
                       "  posthorn jobs delete sqlite:orders.db nightly", no_job},
                      asked.remove, &cli::delete_one_job),
                 asked.remove.name);
    declare_job_times(jobs);
    declare_timers();
}

void verb_tree::declare_add_job(CLI::App& jobs)
{
    auto& what = asked_.jobs.add;
    auto& how = what.how;
    auto& add = verb(jobs,
                     {"add", "make a job, or change it",
                      "  posthorn jobs add sqlite:orders.db nightly --topic report \\\n"
                      "      --cron '30 2 * * *' --zone Europe/Vienna\n"
                      "  posthorn jobs add sqlite:orders.db poll --topic poll --every 90s \\\n"
                      "      --misfire skip --overlap queue"},
                     what, &cli::add_job);
    add_job_name(add, what.name);
    add_content(add, how.run);
    add_times(add, how);
    add_parsed(add, "--misfire", how.on_misfire, &read_misfire,
               "missed runs: skip, fire-once (default) or catch-up")
        ->type_name("WHAT");
    add_duration(add, "--late-after", how.late_after, "missed is what is later (default 1m)");
    add.add_option("--catch-up", how.catch_up_max, "catch up with so many (default 100)")
        ->check(CLI::Range(1, 1'000).description(""))
        ->type_name("N");
    add_parsed(add, "--overlap", how.on_overlap, &read_overlap,
               "beside an earlier run: skip (default), queue or allow")
        ->type_name("WHAT");
    add.add_option("--waiting", how.waiting_max, "so many may wait in line (default 100)")
        ->check(CLI::Range(1, 10'000).description(""))
        ->type_name("N");
    add_duration(add, "--jitter", how.jitter, "begin up to so much later, by chance");
    add.add_option("--priority", how.priority, "of its messages, -100 to 100")->type_name("N");
    add.add_option("--key", how.ordering_key, "of its messages")->type_name("TEXT");
    add_parsed<std::vector<std::string>>(add, "--header", how.headers, &read_headers,
                                         "a header; may be repeated")
        ->allow_extra_args(false)
        ->option_text("NAME=VALUE");
}

void verb_tree::declare_job_times(CLI::App& jobs)
{
    auto& asked = asked_.jobs;
    auto& preview = verb(jobs,
                         {"preview", "show when a job will run, and where clocks change",
                          "  posthorn jobs preview sqlite:orders.db nightly\n"
                          "  posthorn jobs preview --cron '30 2 * * *' --zone Europe/Vienna \\\n"
                          "      --from 2027-03-26T00:00:00Z",
                          no_job, false},
                         asked.preview, &cli::preview_job);
    add_job_name(preview, asked.preview.name, false);
    preview.add_option("--cron", asked.preview.cron, "an expression instead of a job")
        ->type_name("TEXT");
    preview.add_option("--zone", asked.preview.zone, "of --cron (default UTC)")->type_name("NAME");
    add_parsed(preview, "--from", asked.preview.from, &read_time, "begin after this (default now)")
        ->type_name("TIME");
    preview.add_option("--count", asked.preview.count, "so many (default 10)")
        ->check(CLI::Range(1, 10'000).description(""))
        ->type_name("N");

    auto& history = verb(jobs,
                         {"history", "list executions, the newest first",
                          "  posthorn jobs history sqlite:orders.db\n"
                          "  posthorn jobs history sqlite:orders.db nightly --state failed"},
                         asked.history, &cli::job_history);
    add_job_name(history, asked.history.name, false);
    auto& filter = asked.history.filter;
    add_parsed(history, "--state", filter.state, &read_execution_state, "only in this state")
        ->type_name("STATE");
    history.add_option("--limit", filter.limit, "at most so many (default 50)")
        ->check(CLI::Range(1, 100'000).description(""))
        ->type_name("N");
    history.add_option("--before", filter.before_position, "go on before this position")
        ->type_name("POSITION");

    auto& backfill = verb(jobs,
                          {"backfill", "run a job for instants of the past that have not run",
                           "  posthorn jobs backfill sqlite:orders.db nightly \\\n"
                           "      --from 2027-03-01T00:00:00Z --to 2027-03-08T00:00:00Z",
                           no_job},
                          asked.backfill, &cli::backfill_one_job);
    add_job_name(backfill, asked.backfill.name);
    add_parsed(backfill, "--from", asked.backfill.from, &read_time, "the first instant")
        ->required()
        ->type_name("TIME");
    add_parsed(backfill, "--to", asked.backfill.to, &read_time, "up to this, and without it")
        ->required()
        ->type_name("TIME");
    backfill.add_option("--limit", asked.backfill.limit, "at most so many (default 1000)")
        ->check(CLI::Range(1, 10'000).description(""))
        ->type_name("N");
}

void verb_tree::declare_timers()
{
    auto& timers = *root_.add_subcommand("timers", "messages that are enqueued once, at a time");
    timers.group(group_);
    timers.require_subcommand(1);
    timers.footer("Example:\n"
                  "  posthorn timers set sqlite:orders.db remind-7 --after 2h --topic mail.remind\n"
                  "  posthorn timers cancel sqlite:orders.db remind-7\n\n"
                  "Exit codes: 0 success, 1 failure, 2 wrong usage.");
    auto& asked = asked_.jobs;
    add_job_page(verb(timers, {"list", "list timers", "  posthorn timers list sqlite:orders.db"},
                      asked.timers_list, &cli::list_of_timers),
                 asked.timers_list);
    auto& set = verb(timers,
                     {"set", "set a timer, or change it",
                      "  posthorn timers set sqlite:orders.db remind-7 --after 2h --topic remind\n"
                      "  posthorn timers set sqlite:orders.db new-year --topic party \\\n"
                      "      --at 2027-12-31T23:00:00Z"},
                     asked.timers_set, &cli::set_one_timer);
    add_job_name(set, asked.timers_set.name);
    add_content(set, asked.timers_set.what);
    add_parsed(set, "--at", asked.timers_set.at, &read_time, "when")->type_name("TIME");
    add_duration(set, "--after", asked.timers_set.after, "or so long from now");
    add_job_name(verb(timers,
                      {"cancel", "cancel a timer before it fires",
                       "  posthorn timers cancel sqlite:orders.db remind-7",
                       "it has fired, there is no such timer, or the store failed"},
                      asked.timers_cancel, &cli::cancel_one_timer),
                 asked.timers_cancel.name);
}

} // namespace posthorn::cli
