// What a daemon does beside handling messages: jobs are put into stores, old rows are removed,
// messages are counted, and feeds are emptied into the inbox. A store that fails is tried again,
// and costs the others nothing.
#include "app/daemon/generation.hpp"
#include "app/daemon/held_feed.hpp"
#include "store/contract/premises.hpp"
#include <posthorn/error.hpp>
#include <posthorn/leases.hpp>
#include <posthorn/messages.hpp>
#include <posthorn/retention.hpp>
#include <posthorn/schedules.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace posthorn::daemon {
namespace {

using namespace std::chrono_literals;

constexpr duration look_for_stores_every = 1s;
constexpr duration look_whose_turn_every = 50ms;
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

// A store that has moved is another one: whatever was done where it was has to be done again.
using whereabouts = std::pair<std::string, std::string>;

whereabouts whereabouts_of(const named_store& which)
{
    return {which.name, which.url};
}

// Times by store, of those that are still listed.
using times_of_stores = std::map<whereabouts, monotonic_time>;

void forget_gone(times_of_stores& times, const std::vector<named_store>& listed)
{
    times_of_stores kept;
    for (const auto& each : listed)
        if (const auto known = times.find(whereabouts_of(each)); known != times.end())
            kept.insert(*known);
    times = std::move(kept);
}

} // namespace

store generation::open(const named_store& which) const
{
    return store{provider_.way_to(which).open()};
}

// The generation before may be in the middle of it, and its jobs must not come after ours.
std::unique_lock<std::mutex> generation::wait_for_turn(const std::stop_token& stop)
{
    std::unique_lock turn(*around_.putting_jobs, std::try_to_lock);
    while (!turn && rest(stop, look_whose_turn_every))
        turn.try_lock();
    return turn;
}

void generation::put_jobs(const std::stop_token& stop)
{
    const auto turn = wait_for_turn(stop);
    times_of_stores not_before;
    do {
        const auto all = book_->list();
        forget_gone(not_before, all);
        for (const auto& each : all) {
            const auto now = world_.clock->monotonic();
            auto& next = not_before[whereabouts_of(each)];
            if (stop.stop_requested() || now < next)
                continue;
            try {
                put_jobs_into(each, stop);
                next = monotonic_time::max(); // once is enough
            } catch (const std::exception& failure) {
                next = now + pause_after_failure;
                world_.log(log_level::warning,
                           fmt::format("cannot put jobs into the store '{}', will try again: {}",
                                       each.name, failure.what()));
            }
        }
    } while (rest(stop, look_for_stores_every));
}

// Stops between two jobs: the next generation waits for that.
void generation::put_jobs_into(const named_store& which, const std::stop_token& stop)
{
    auto where = open(which);
    const auto owner = owner_of(what_);
    for (const auto& each : what_.schedules) {
        if (!belongs_to(each, which.name))
            continue;
        if (stop.stop_requested())
            return;
        auto job = each.job;
        job.headers.emplace(owner_header, owner);
        const auto answer = put_job(where, each.name, job);
        if (answer != put_answer::unchanged)
            around_.log->write(log_level::info, fmt::format("a job was {}", to_string(answer)),
                               {{"job", each.name}, {"store", which.name}});
    }
    if (what_.daemon.prune_jobs)
        prune_jobs_of(which, where, stop);
}

void generation::prune_jobs_of(const named_store& which, store& where, const std::stop_token& stop)
{
    const auto owner = owner_of(what_);
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
                return job.name == each.name && belongs_to(job, which.name);
            });
            if (ours && !listed)
                gone.push_back(each.name);
        }
    }
    for (const auto& each : gone)
        if (!stop.stop_requested() && delete_job(where, each))
            around_.log->write(log_level::info, "a job was deleted",
                               {{"job", each}, {"store", which.name}});
}

void generation::clean_stores(const std::stop_token& stop)
{
    times_of_stores not_before;
    do {
        const auto all = book_->list();
        forget_gone(not_before, all);
        for (const auto& each : all) {
            const auto now = world_.clock->monotonic();
            auto& next = not_before[whereabouts_of(each)];
            if (stop.stop_requested() || now < next)
                continue;
            next = now + what_.retention->every;
            try {
                clean_store(each, stop);
            } catch (const std::exception& failure) {
                world_.log(log_level::warning,
                           fmt::format("cannot clean the store '{}', will try again: {}", each.name,
                                       failure.what()));
            }
        }
    } while (rest(stop, std::min(look_for_stores_every, what_.retention->every)));
}

// Of several daemons one cleans, and the others see that it was done not long ago.
void generation::clean_store(const named_store& which, const std::stop_token& stop)
{
    auto where = open(which);
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
                           {{"store", which.name}, {"rows", removed}});
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
            const auto listed = book_->find(each.name);
            if (!listed)
                continue; // it has just left
            try {
                auto where = open(*listed);
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
    held_feed from(*feeds_[index]);
    do {
        try {
            feed_into_store(how.store, from, options, stop);
            break;
        } catch (const std::exception& failure) {
            from.give_held_back(pause_after_failure);
            world_.log(log_level::error,
                       fmt::format("{}: the feed from {} stopped, and begins again soon: {}",
                                   how.key, feeds_[index]->name(), failure.what()));
        }
    } while (rest(stop, pause_after_failure));
    // Whatever the other side still sends to it would reach nobody: it has to go now, and not when
    // handlers have ended.
    std::unique_ptr<feed> ended;
    const std::lock_guard lock(feeds_mutex_);
    ended.swap(feeds_[index]);
}

// Where a store is may change between two batches: the next one goes to where it is then.
void generation::feed_into_store(const std::string& name, held_feed& from, const feed_options& how,
                                 const std::stop_token& stop)
{
    while (!stop.stop_requested() && !from.is_closed()) {
        auto where = book_->find(name);
        if (!where) {
            (void)book_->list(); // at the beginning this waits for it
            where = book_->find(name);
        }
        if (!where)
            throw error(error_code::not_found, fmt::format("there is no store called '{}'", name));
        from.hold_if([this, name, url = where->url] {
            const auto now = book_->find(name);
            return !now || now->url != url;
        });
        feed_inbox(open(*where), from, how, stop);
    }
}

} // namespace posthorn::daemon
