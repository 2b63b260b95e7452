// Due messages without a worker, topics that no worker takes, jobs that are late, and jobs that
// wait for an instant after the next one. Every finding says which command helps.
#include "posthorn/waiting_work.hpp"

#include "store/contract/backend.hpp"
#include "store/contract/job_book.hpp"
#include "store/contract/session.hpp"
#include <posthorn/messages.hpp>
#include <posthorn/pauses.hpp>
#include <posthorn/schedule.hpp>
#include <posthorn/schedules.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <utility>

namespace posthorn {
namespace {

using namespace std::chrono_literals;

// A worker that is running takes what is due within seconds.
constexpr duration late_after = 1min;

// Clocks are adjusted by less than this all the time.
constexpr duration clock_tolerance = 2s;

constexpr std::size_t names_max = 5;
constexpr std::size_t page = 500;

// Topics and names come from outside, and this is shown on terminals.
std::string quoted(std::string_view name)
{
    std::string result = "'";
    for (const char each : name)
        result += static_cast<unsigned char>(each) < 0x20 || each == 0x7f ? '?' : each;
    return result + "'";
}

std::string list_of(const std::vector<std::string>& all)
{
    const auto shown = std::min(all.size(), names_max);
    auto text =
        fmt::format("{}", fmt::join(all.begin(), all.begin() + static_cast<long>(shown), ", "));
    if (shown < all.size())
        text += fmt::format(" and {} more", all.size() - shown);
    return text;
}

std::string in_words(duration length)
{
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(length).count();
    if (seconds < 120)
        return fmt::format("{} s", seconds);
    return seconds < 7'200 ? fmt::format("{} min", seconds / 60)
                           : fmt::format("{} h", seconds / 3'600);
}

timestamp time_in(store& where)
{
    auto view = where.read();
    return view.session().jobs().jobs().now();
}

class examiner {
public:
    examiner(store& where, std::vector<finding>& into)
        : where_(where), findings_(into), now_(time_in(where)), pauses_(list_pauses(where))
    {}

    void look_at_due_messages()
    {
        const auto counts = count_messages(where_);
        const auto oldest = counts.oldest_ready.value_or(duration::zero());
        if (oldest < late_after)
            return fine("due messages", fmt::format("{}, none is late", counts.ready));
        const auto detail = fmt::format("{}, the oldest for {}", counts.ready, in_words(oldest));
        if (is_paused(pauses_, {}))
            return warn("due messages", detail + ": the whole store is paused",
                        "end the pause with `posthorn resume`");
        const auto topics = late_topics();
        if (counts.claimed == 0)
            warn("due messages",
                 fmt::format("{}, and no worker holds any: topics {}", detail, topics),
                 "start a worker with handlers for these topics (`posthorn work`, `posthorn "
                 "serve`), "
                 "or read the log of the one that runs");
        else
            warn("due messages",
                 fmt::format("{}; workers hold {}: topics {}", detail, counts.claimed, topics),
                 "workers are too slow, or are at the limits of their handlers: raise the "
                 "concurrency or start more; `posthorn why` explains a single message");
    }

    // Of the first messages that are not due yet: a backlog may be long.
    void look_at_messages_ahead()
    {
        std::size_t count = 0;
        for (const auto as : {ready_state::delayed, ready_state::retrying})
            for (const auto& each : list_messages(
                     where_, {.state = message_state::ready, .ready_as = as, .limit = page}))
                if (std::max(each.created_at, each.failed_at.value_or(each.created_at)) >
                    now_ + clock_tolerance)
                    ++count;
        if (count > 0)
            warn("messages ahead",
                 fmt::format("{} that wait were written at a later time than it is", count),
                 "the database's clock ran ahead and was set back: check time synchronisation; a "
                 "worker makes them count their time from now, within a minute or two");
    }

    void look_at_parked_topics()
    {
        const auto count = count_messages(where_).parked;
        if (count == 0)
            return fine("parked topics", "none");
        std::vector<std::string> without_handler;
        std::vector<std::string> paused;
        for (const auto& each : where_.backend().outlook().parked) {
            if (each.reason == park_reason::no_handler)
                without_handler.push_back(quoted(each.topic));
            else if (each.reason == park_reason::paused)
                paused.push_back(quoted(each.topic));
        }
        auto detail = fmt::format("messages parked: {}", count);
        std::string advice;
        if (!without_handler.empty()) {
            detail += "; no worker has a handler for " + list_of(without_handler);
            advice = "start a worker with a handler for these topics: `posthorn work --on TOPIC`";
        }
        if (!paused.empty()) {
            detail += "; parked while paused: " + list_of(paused);
            advice += advice.empty() ? "" : "; ";
            advice += "end the pause with `posthorn resume`; if it is over, start a worker";
        }
        if (advice.empty())
            advice = "see `posthorn messages --state parked`";
        warn("parked topics", std::move(detail), std::move(advice));
    }

    void look_at_jobs()
    {
        std::vector<std::string> late;
        std::vector<std::string> too_far;
        duration latest{};
        std::int64_t after = 0;
        for (;;) {
            const auto found = list_jobs(where_, after, page);
            for (const auto& each : found) {
                after = each.position;
                if (each.paused || !each.next_at)
                    continue;
                const auto late_by = now_ - (*each.next_at + each.options.jitter);
                if (late_by > late_after) {
                    late.push_back(quoted(each.name));
                    latest = std::max(latest, late_by);
                } else if (waits_too_long(each)) {
                    too_far.push_back(quoted(each.name));
                }
            }
            if (found.size() < page)
                break;
        }
        if (late.empty())
            fine("late jobs", "none");
        else
            warn("late jobs",
                 fmt::format("{}; the latest should have run {} ago", list_of(late),
                             in_words(latest)),
                 "jobs run when a worker takes the topic job.tick, which every worker does: is one "
                 "running, and is nothing paused?");
        if (!too_far.empty())
            warn("jobs ahead",
                 fmt::format("not waiting for their next instant but for a later one: {}",
                             list_of(too_far)),
                 "the database's clock ran ahead and was set back: check time synchronisation; a "
                 "worker moves these jobs to their next instant within a minute or two, and if it "
                 "does not, make them again (`posthorn jobs delete`, `posthorn jobs add`)");
    }

private:
    void fine(std::string check, std::string detail)
    {
        findings_.push_back({severity::ok, std::move(check), std::move(detail)});
    }
    void warn(std::string check, std::string detail, std::string advice)
    {
        findings_.push_back(
            {severity::warning, std::move(check), std::move(detail), std::move(advice)});
    }

    // Of the first messages only: a backlog may be long.
    std::string late_topics()
    {
        std::set<std::string> topics;
        for (const auto& each : list_messages(
                 where_,
                 {.state = message_state::ready, .ready_as = ready_state::ready, .limit = page}))
            if (now_ - each.due_at >= late_after)
                topics.insert(quoted(each.topic));
        return list_of({topics.begin(), topics.end()});
    }

    [[nodiscard]] bool waits_too_long(const job_record& which) const
    {
        const auto& how = which.options;
        std::optional<timestamp> next;
        if (how.every)
            next = now_ + *how.every;
        else if (!how.cron.empty())
            next = schedule::cron(how.cron, how.zone).next(now_);
        return next && *which.next_at > *next + how.jitter + late_after &&
               (!how.anchor || *how.anchor <= now_);
    }

    store& where_;
    std::vector<finding>& findings_;
    const timestamp now_;
    const std::vector<pause_record> pauses_;
};

} // namespace

void look_at_waiting_work(store& where, std::vector<finding>& into)
{
    examiner looks(where, into);
    looks.look_at_due_messages();
    looks.look_at_messages_ahead();
    looks.look_at_parked_topics();
    looks.look_at_jobs();
}

} // namespace posthorn
