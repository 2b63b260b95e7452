// Each entry of the configuration is looked after by one thread at a time: it searches, then makes
// tables, one store after the other. A lock is held only to write down what came of it.
#include "app/daemon/store_book.hpp"

#include <posthorn/store.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace posthorn::daemon {
namespace {

using namespace std::chrono_literals;

constexpr duration look_again_after_failure = 5s;
constexpr duration patience_for_the_first_list = 1s;
constexpr duration patience_for_a_thread = 5ms;

// The list is at hand, so asking for it often costs nothing; what was found is served that soon.
constexpr duration read_the_book_every = 1s;

// Entries that are looked after at once: so many databases may be silent at the same time.
constexpr std::size_t threads_max = 16;

// A server that took so long to fail is not asked for its other stores in the same round.
constexpr duration silent_after = 1s;

// A query that gives nonsense gives a lot of it.
constexpr std::size_t rows_told = 20;

// Whoever shares it is silent together: the server, or the file itself.
std::string server_of(const std::string& url)
{
    const auto begin = url.find("://");
    return begin == std::string::npos ? url : url.substr(0, url.find_first_of("/?", begin + 3));
}

bool mean_the_same(const store_settings& one, const store_settings& other)
{
    if (one.name != other.name || one.url.reveal() != other.url.reveal() ||
        one.discover.has_value() != other.discover.has_value())
        return false;
    return !one.discover || (one.discover->url.reveal() == other.discover->url.reveal() &&
                             one.discover->query == other.discover->query &&
                             one.discover->name == other.discover->name &&
                             one.discover->store.reveal() == other.discover->store.reveal());
}

} // namespace

struct store_book::state {
    struct entry {
        store_settings what; ///< never changes
        std::vector<named_store> found = {};
        bool is_known = false;   ///< `found` is an answer
        bool has_looked = false; ///< at least once, and tables were tried
        bool is_looking = false;
        monotonic_time next_at = {};
        std::string failure = {};            ///< of the last search; empty: none
        std::set<std::string> left_out = {}; ///< as it was told
        std::map<std::string, std::string> migration_failures = {}; ///< by URL, as told
    };

    const environment world = environment::system();
    std::shared_ptr<journal> log; // shared with everything that has something to say
    mutable std::mutex mutex;     ///< of all that follows
    std::condition_variable looked;
    std::vector<entry> entries; ///< as many as at the beginning
    std::set<std::string> migrated = {};
    std::set<std::string> tried = {}; ///< URLs whose tables were to be made, with whatever success
    std::set<std::string> doubles = {}; ///< names, as told
    std::optional<monotonic_time> wait_until = {};
    bool is_left = false; ///< nobody wants to know any more

    void inherit(const state& before);
    [[nodiscard]] bool is_listed(const entry& in, const named_store& which) const;
    [[nodiscard]] bool all_have_looked() const;
    [[nodiscard]] std::vector<std::size_t> take_due();
    [[nodiscard]] std::vector<named_store> collect();

    // On a thread of the book, without the lock.
    void look_after(std::size_t index);
    bool search(entry& which);
    void make_tables(entry& which);
    bool make_tables_of(entry& which, const named_store& store);
    void tell_left_out(entry& which, const std::vector<std::string>& left_out);
};

// A database that is away must not cost stores that are known, nor a second look at their tables.
void store_book::state::inherit(const state& before)
{
    const std::lock_guard lock(before.mutex);
    migrated = before.migrated;
    tried = before.tried;
    for (auto& each : entries) {
        const auto same = std::ranges::find_if(
            before.entries, [&](const auto& old) { return mean_the_same(old.what, each.what); });
        if (same == before.entries.end() || !same->is_known)
            continue;
        each.found = same->found;
        each.is_known = true;
        each.left_out = same->left_out;
        each.has_looked = std::ranges::all_of(
            each.found, [&](const auto& store) { return is_listed(each, store); });
    }
}

bool store_book::state::is_listed(const entry& in, const named_store& which) const
{
    return !in.what.migrate || tried.contains(which.url);
}

bool store_book::state::all_have_looked() const
{
    return std::ranges::all_of(entries, &entry::has_looked);
}

std::vector<std::size_t> store_book::state::take_due()
{
    const std::lock_guard lock(mutex);
    const auto now = world.clock->monotonic();
    std::vector<std::size_t> due;
    for (std::size_t i = 0; i < entries.size(); ++i)
        if (auto& each = entries[i]; !each.is_looking && each.next_at <= now) {
            each.is_looking = true;
            due.push_back(i);
        }
    return due;
}

// Two stores of the same name cannot be told apart: the first one counts.
std::vector<named_store> store_book::state::collect()
{
    std::vector<named_store> all;
    std::map<std::string_view, std::string_view> url_of;
    std::set<std::string> twice;
    for (const auto& each : entries)
        for (const auto& store : each.found) {
            if (!is_listed(each, store))
                continue;
            const auto [at, is_new] = url_of.emplace(store.name, store.url);
            if (is_new)
                all.push_back(store);
            else if (at->second != store.url && twice.insert(store.name).second &&
                     !doubles.contains(store.name))
                log->write(log_level::warning, "two stores have the same name; one is left out",
                           {{"store", store.name}, {"key", each.what.key}});
        }
    doubles = std::move(twice);
    return all;
}

void store_book::state::look_after(std::size_t index)
{
    auto& which = entries[index];
    const bool found = search(which);
    if (which.what.migrate)
        make_tables(which);
    const auto pause =
        found ? which.what.every : std::min(which.what.every, look_again_after_failure);
    const std::lock_guard lock(mutex);
    which.is_looking = false;
    which.has_looked = true;
    which.next_at = world.clock->monotonic() + pause;
    looked.notify_all();
}

bool store_book::state::search(entry& which)
{
    std::vector<std::string> left_out;
    try {
        auto found = find_stores(which.what, left_out);
        for (const auto& each : found)
            log->hide(secret_url(each.url).secrets());
        const std::lock_guard lock(mutex);
        which.found = std::move(found);
        which.is_known = true;
        which.failure.clear();
    } catch (const std::exception& failure) {
        const std::lock_guard lock(mutex);
        if (std::exchange(which.failure, failure.what()) != failure.what() && !is_left)
            log->write(log_level::warning, "cannot look for stores; those known so far stay",
                       {{"key", which.what.key}, {"error", failure.what()}});
        return false;
    }
    tell_left_out(which, left_out);
    return true;
}

// Each once, for as long as it is so.
void store_book::state::tell_left_out(entry& which, const std::vector<std::string>& left_out)
{
    const std::lock_guard lock(mutex);
    std::size_t untold = 0;
    std::size_t told = 0;
    for (const auto& each : left_out) {
        if (which.left_out.contains(each))
            continue;
        if (++told > rows_told)
            ++untold;
        else
            log->write(log_level::warning, "a row is left out",
                       {{"key", which.what.key}, {"error", each}});
    }
    if (untold > 0)
        log->write(log_level::warning, "more rows are left out",
                   {{"key", which.what.key}, {"rows", untold}});
    which.left_out = {left_out.begin(), left_out.end()};
}

// Those that failed are tried again in the next round, which a thousand of them can wait for.
void store_book::state::make_tables(entry& which)
{
    std::vector<named_store> todo;
    {
        const std::lock_guard lock(mutex);
        std::ranges::copy_if(which.found, std::back_inserter(todo),
                             [&](const auto& each) { return !migrated.contains(each.url); });
    }
    std::set<std::string> silent;
    for (const auto& each : todo) {
        const auto begin = world.clock->monotonic();
        const auto server = server_of(each.url);
        const bool made = !silent.contains(server) && make_tables_of(which, each);
        if (!made && world.clock->monotonic() - begin >= silent_after)
            silent.insert(server);
        const std::lock_guard lock(mutex);
        if (is_left)
            return;
        tried.insert(each.url);
    }
}

bool store_book::state::make_tables_of(entry& which, const named_store& store)
{
    try {
        const auto report = migrate(store.url);
        if (!report.applied.empty())
            log->write(log_level::info, "tables were brought up to date",
                       {{"store", store.name}, {"version", report.version_after}});
        const std::lock_guard lock(mutex);
        migrated.insert(store.url);
        which.migration_failures.erase(store.url);
        return true;
    } catch (const std::exception& failure) {
        const std::lock_guard lock(mutex);
        auto& told = which.migration_failures[store.url];
        if (std::exchange(told, failure.what()) != failure.what() && !is_left)
            log->write(log_level::warning, "cannot bring tables up to date, will try again",
                       {{"store", store.name}, {"error", failure.what()}});
        return false;
    }
}

store_book::store_book(std::vector<store_settings> entries, std::shared_ptr<journal> log,
                       const store_book* before)
    : state_(std::make_shared<state>()), threads_(threads_max)
{
    state_->log = std::move(log);
    for (auto& each : entries)
        state_->entries.push_back({.what = std::move(each)});
    if (before != nullptr)
        state_->inherit(*before->state_);
    for (auto& each : state_->entries) {
        if (!is_fixed(each.what))
            continue;
        each.found = {{.name = each.what.name, .url = each.what.url.reveal()}};
        each.is_known = true;
        if (each.what.migrate)
            continue;
        each.has_looked = true;
        each.next_at = monotonic_time::max();
    }
}

store_book::~store_book()
{
    const std::lock_guard lock(state_->mutex);
    state_->is_left = true;
}

duration store_book::every() const
{
    auto shortest = duration::max();
    for (const auto& each : state_->entries)
        shortest =
            std::min(shortest, is_fixed(each.what) && !each.what.migrate ? each.what.every
                                                                         : read_the_book_every);
    return shortest;
}

void store_book::look()
{
    std::vector<std::function<void()>> tasks;
    for (const auto index : state_->take_due())
        tasks.emplace_back([with = state_, index] { with->look_after(index); });
    threads_.submit(std::move(tasks));
    threads_.grow();
}

bool store_book::has_looked() const
{
    const std::lock_guard lock(state_->mutex);
    return state_->all_have_looked();
}

std::vector<std::string> store_book::failures() const
{
    const std::lock_guard lock(state_->mutex);
    std::vector<std::string> result;
    for (const auto& each : state_->entries)
        if (!each.is_known && !each.failure.empty())
            result.push_back(fmt::format("{}: {}", each.what.key, each.failure));
    return result;
}

std::vector<named_store> store_book::list()
{
    look();
    std::unique_lock lock(state_->mutex);
    const auto& clock = *state_->world.clock;
    if (!state_->wait_until)
        state_->wait_until = clock.monotonic() + patience_for_the_first_list;
    while (!state_->all_have_looked() && clock.monotonic() < *state_->wait_until) {
        state_->looked.wait_for(lock, patience_for_a_thread);
        lock.unlock();
        threads_.grow();
        lock.lock();
    }
    return state_->collect();
}

std::optional<named_store> store_book::find(std::string_view name) const
{
    const std::lock_guard lock(state_->mutex);
    for (const auto& each : state_->entries)
        for (const auto& store : each.found)
            if (store.name == name && state_->is_listed(each, store))
                return store;
    return std::nullopt;
}

} // namespace posthorn::daemon
