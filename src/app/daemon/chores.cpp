// What a daemon does beside handling messages: jobs are put into stores, old rows are removed,
// messages are counted, and feeds are emptied into the inbox. A store that fails is tried again,
// and costs the others nothing.
#include "app/daemon/generation.hpp"
#include <posthorn/error.hpp>
#include <posthorn/leases.hpp>
#include <posthorn/messages.hpp>
#include <posthorn/retention.hpp>
#include <posthorn/schedules.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace posthorn::daemon {
namespace {

using namespace std::chrono_literals;

constexpr duration look_for_stores_every = 1s;
constexpr duration pause_after_failure = 10s;
constexpr std::string_view retention_lease = "posthorn.retention";
constexpr std::size_t batches_at_once = 20;

/// The header by which a job says which daemon put it there.
constexpr const char* owner_header = "managed-by";

std::size_t rows_of(const cleaning_report& removed)
{
    return removed.finished + removed.dead + removed.dedup_keys + removed.joins + removed.inbox +
           removed.command_keys + removed.leases + removed.executions;
}

std::string owner_of(const configuration& what)
{
    return fmt::format("posthorn serve{}{}", what.daemon.name.empty() ? "" : " ", what.daemon.name);
}

bool belongs_to(const schedule_settings& job, const std::string& store)
{
    return job.store.empty() || job.store == store;
}

} // namespace

void generation::put_jobs(const std::stop_token& stop)
{
    std::set<std::string> done;
    std::map<std::string, monotonic_time> not_before;
    do {
        for (const auto& each : worker_->stores()) {
            const auto now = world_.clock->monotonic();
            if (stop.stop_requested() || done.contains(each.name) || now < not_before[each.name])
                continue;
            try {
                put_jobs_into(each.name);
                done.insert(each.name);
            } catch (const std::exception& failure) {
                not_before[each.name] = now + pause_after_failure;
                world_.log(log_level::warning,
                           fmt::format("cannot put jobs into the store '{}', will try again: {}",
                                       each.name, failure.what()));
            }
        }
    } while (rest(stop, look_for_stores_every));
}

void generation::put_jobs_into(const std::string& name)
{
    auto where = router_.store(name);
    const auto owner = owner_of(what_);
    for (const auto& each : what_.schedules) {
        if (!belongs_to(each, name))
            continue;
        auto job = each.job;
        job.headers.emplace(owner_header, owner);
        const auto answer = put_job(where, each.name, job);
        if (answer != put_answer::unchanged)
            around_.log->write(log_level::info, fmt::format("a job was {}", to_string(answer)),
                               {{"job", each.name}, {"store", name}});
    }
    if (!what_.daemon.prune_jobs)
        return;
    constexpr std::size_t page = 100;
    std::vector<std::string> gone;
    std::int64_t after = 0;
    for (bool more = true; more;) {
        const auto jobs = list_jobs(where, after, page);
        more = jobs.size() == page;
        for (const auto& each : jobs) {
            after = each.position;
            const auto put_by = each.options.headers.find(owner_header);
            const bool ours = put_by != each.options.headers.end() && put_by->second == owner;
            const bool listed = std::ranges::any_of(what_.schedules, [&](const auto& job) {
                return job.name == each.name && belongs_to(job, name);
            });
            if (ours && !listed)
                gone.push_back(each.name);
        }
    }
    for (const auto& each : gone)
        if (delete_job(where, each))
            around_.log->write(log_level::info, "a job was deleted",
                               {{"job", each}, {"store", name}});
}

void generation::clean_stores(const std::stop_token& stop)
{
    std::map<std::string, monotonic_time> next;
    do {
        for (const auto& each : worker_->stores()) {
            const auto now = world_.clock->monotonic();
            if (stop.stop_requested() || now < next[each.name])
                continue;
            next[each.name] = now + what_.retention->every;
            try {
                clean_store(each.name, stop);
            } catch (const std::exception& failure) {
                world_.log(log_level::warning,
                           fmt::format("cannot clean the store '{}', will try again: {}", each.name,
                                       failure.what()));
            }
        }
    } while (rest(stop, std::min(look_for_stores_every, what_.retention->every)));
}

// Of several daemons one cleans, and the others see that it was done not long ago.
void generation::clean_store(const std::string& name, const std::stop_token& stop)
{
    auto where = router_.store(name);
    const auto record = find_lease(where, retention_lease);
    const auto& every = what_.retention->every;
    if (record && where.environment().clock->now() - record->acquired_at < every / 10 * 9)
        return;
    const auto term = try_lease(where, retention_lease, {.holder = worker_->options().name});
    if (!term)
        return;
    std::size_t removed = 0;
    for (std::size_t more = 1; more > 0 && term->is_held() && !stop.stop_requested();) {
        more = rows_of(clean(where, what_.retention->rules, batches_at_once));
        removed += more;
    }
    around_.numbers->cleaned += removed;
    if (removed > 0)
        around_.log->write(log_level::info, "old rows were removed",
                           {{"store", name}, {"rows", fmt::format("{}", removed)}});
}

// In turn, however many there are: so many a second, and each of them at most every so often.
void generation::count_stores(const std::stop_token& stop)
{
    const auto pause = duration{1s} / static_cast<std::int64_t>(what_.metrics.stores_per_second);
    do {
        const auto begin = world_.clock->monotonic();
        const auto all = worker_->stores();
        around_.numbers->keep_stores(all);
        for (const auto& each : all) {
            if (each.state == store_state::failing || each.state == store_state::hanging)
                continue;
            try {
                auto where = router_.store(each.name);
                around_.numbers->counted(each.name, count_messages(where));
            } catch (const std::exception& failure) {
                around_.log->write(log_level::debug, "cannot count the messages of a store",
                                   {{"store", each.name}, {"error", failure.what()}});
            }
            if (!rest(stop, pause))
                return;
        }
        const auto left = what_.metrics.refresh - (world_.clock->monotonic() - begin);
        // The list is empty until the worker has read it.
        if (!rest(stop, all.empty() ? duration{50ms} : std::max(duration{1ms}, left)))
            return;
    } while (!stop.stop_requested());
}

void generation::feed_from(std::size_t index, const std::stop_token& stop)
{
    const auto& how = what_.feeds[index];
    const feed_options options{.source = how.source,
                               .batch = how.batch,
                               .topic = how.topic,
                               .topic_wins = how.topic_wins,
                               .progress = [this, &how](const feed_report& what) {
                                   around_.numbers->fed(how.source, what);
                               }};
    do {
        try {
            feed_inbox(router_.store(how.store), *feeds_[index], options, stop);
            return;
        } catch (const std::exception& failure) {
            world_.log(log_level::error,
                       fmt::format("{}: the feed from {} stopped, and begins again soon: {}",
                                   how.key, feeds_[index]->name(), failure.what()));
        }
    } while (rest(stop, pause_after_failure));
}

} // namespace posthorn::daemon
