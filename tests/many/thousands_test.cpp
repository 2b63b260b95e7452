// A thousand SQLite files: what they cost while nothing happens, and what a few bad ones cost each
// of the others. POSTHORN_MANY_… make it more of them, and longer.
#include "hang_limit.hpp"
#include "many/many_test.hpp"
#include "many/process_cost.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sys/resource.h>

namespace posthorn::test {
namespace {

using clock = std::chrono::steady_clock;

std::size_t asked_for(const char* variable, std::size_t otherwise)
{
    const char* text = std::getenv(variable);
    return text == nullptr ? otherwise : std::stoul(text);
}

/// Whether this is `./dev many`, which measures. A test on a busy machine says nothing of speed.
bool measures()
{
    return std::getenv("POSTHORN_MANY_STORES") != nullptr;
}

/// How long each of these stores takes to begin a message that is sent to it. Whatever else the
/// machine does may delay one message; a store that is slow by itself is slow each time.
struct starts {
    duration worst{};      ///< of all
    duration worst_best{}; ///< of each store's quickest
    std::size_t sent = 0;
};

starts times_to_begin(const tenants& all, const std::vector<std::string>& names,
                      const std::function<std::size_t(const std::string&)>& handled)
{
    starts result;
    for (const auto& each : names) {
        auto best = duration::max();
        for (int attempt = 0; attempt < 3 && best > 1s; ++attempt) {
            const auto before = handled(each);
            all.send(each);
            ++result.sent;
            const auto sent = clock::now();
            EXPECT_TRUE(eventually([&] { return handled(each) > before; })) << each;
            const auto took = std::chrono::duration_cast<duration>(clock::now() - sent);
            best = std::min(best, took);
            result.worst = std::max(result.worst, took);
        }
        result.worst_best = std::max(result.worst_best, best);
    }
    return result;
}

// Proves: MDB-07
TEST(thousands, of_idle_stores_cost_next_to_nothing_and_each_of_them_wakes)
{
    const auto count = asked_for("POSTHORN_MANY_STORES", 1'000);
    const auto seconds = asked_for("POSTHORN_MANY_SECONDS", 5);
    tenants all;
    const auto list = all.add_many(count);
    worker one(stores(list));
    tally seen;
    one.handle("orders", [&](const delivery_view& view) { seen.add(view.store()); });
    const auto began = clock::now();
    background running(one);
    const auto idle = [&] {
        return std::ranges::count(one.stores(), store_state::idle, &store_status::state);
    };
    while (idle() < static_cast<std::ptrdiff_t>(count)) { // as long as the disk takes
        ASSERT_LT(clock::now() - began, 5 * hang_limit);
        environment::system().clock->pause(20ms);
    }
    const auto all_idle = clock::now();

    const auto used_before = processor_time();
    const auto measured_from = clock::now();
    environment::system().clock->pause(std::chrono::seconds(seconds));
    const auto share = std::chrono::duration<double>(processor_time() - used_before) /
                       std::chrono::duration<double>(clock::now() - measured_from);

    std::vector<std::string> some;
    for (std::size_t i = 0; i < 50; ++i)
        some.push_back(list[i * 7919 % count].name);
    const auto times =
        times_to_begin(all, some, [&](const std::string& name) { return seen.of(name); });
    std::printf("%zu idle stores: all looked at after %.1f s, then "
                "%.2f %% of a core over %zu s, %.0f MiB, %zu descriptors, %zu threads, a message "
                "begins after %.1f ms at most\n",
                count, std::chrono::duration<double>(all_idle - began).count(), share * 100,
                seconds, resident_mib(), open_descriptors(), one.status().threads,
                std::chrono::duration<double, std::milli>(times.worst).count());
    EXPECT_LE(share, 0.03);
    EXPECT_LE(resident_mib(), 256);
    EXPECT_LE(open_descriptors(), 1'024U);
    if (measures()) {
        EXPECT_LE(times.worst_best, 1s);
    }
    EXPECT_EQ(running.end().done, times.sent);
}

/// How many messages of each store were handled in a second.
using rates = std::map<std::string, double>;

/// Stores that have something to do for as long as they are measured.
class busy_stores {
public:
    busy_stores(const tenants& all, std::vector<std::string> names, std::size_t backlog)
        : all_(all), backlog_(backlog)
    {
        for (auto& name : names)
            handled_[std::move(name)] = backlog; // as if: the first filling is a whole one
    }

    /// Serves the list for so long, or until one of the stores has nothing left.
    rates measure(const std::vector<named_store>& list, const sharing& how,
                  std::chrono::seconds at_most)
    {
        for (auto& [name, handled] : handled_)
            all_.send_many(name, handled.exchange(0));
        std::atomic<bool> empty = false;
        worker one(stores(list, how));
        one.handle("orders", [&](const delivery_view& view) {
            const auto found = handled_.find(view.store());
            if (found != handled_.end() && ++found->second == backlog_)
                empty = true;
        });
        background running(one);
        // The first turns are spent on opening files.
        environment::system().clock->pause(500ms);
        const auto begun = so_far();
        const auto from = clock::now();
        // A slow machine gets as long as each store needs for its first message.
        while (!empty && clock::now() - from < hang_limit &&
               (clock::now() - from < at_most || !each_was_served(begun)))
            environment::system().clock->pause(5ms);
        const auto seconds = std::chrono::duration<double>(clock::now() - from).count();
        const auto ended = so_far();
        running.stop();
        running.stop_now();
        running.wait();
        rates result;
        for (const auto& [name, count] : ended)
            result[name] = static_cast<double>(count - begun.at(name)) / seconds;
        return result;
    }

private:
    [[nodiscard]] bool each_was_served(const std::map<std::string, std::size_t>& since) const
    {
        return std::ranges::all_of(
            handled_, [&](const auto& each) { return each.second > since.at(each.first); });
    }

    [[nodiscard]] std::map<std::string, std::size_t> so_far() const
    {
        return {handled_.begin(), handled_.end()};
    }

    const tenants& all_;
    const std::size_t backlog_;
    std::map<std::string, std::atomic<std::size_t>, std::less<>> handled_;
};

/// As many as the system lets us have.
void allow_descriptors(std::size_t count)
{
    rlimit now{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &now), 0);
    now.rlim_cur = std::max<rlim_t>(now.rlim_cur, std::min<rlim_t>(now.rlim_max, count + 1'000));
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &now), 0);
}

double median(std::vector<double> values)
{
    std::ranges::sort(values);
    return values.at(values.size() / 2);
}

// Each live store is served at the same rate with and without four bad ones among them, in turns
// that follow each other closely, so that whatever else the machine does meanwhile meets both. Only
// one file in eight can be open at a time.
// Proves: I19, MDB-07
TEST(thousands, of_stores_keep_their_pace_each_when_some_of_them_are_broken_or_hang)
{
    const auto count = std::min<std::size_t>(asked_for("POSTHORN_MANY_STORES", 40), 1'000);
    const auto backlog = asked_for("POSTHORN_MANY_MESSAGES", 4'000);
    const std::chrono::seconds seconds(asked_for("POSTHORN_MANY_BUSY_SECONDS", 3));
    const auto pairs = asked_for("POSTHORN_MANY_PAIRS", 4);
    const sharing how{.open_files_max = count < 1'000 ? count / 8 : 128};
    allow_descriptors(count);
    tenants all;
    const auto well = all.add_many(count);
    std::vector<std::string> live;
    for (const auto& one : well)
        live.push_back(one.name);
    auto troubled = well;
    for (const auto* name : {"broken-1", "broken-2", "broken-3"})
        troubled.insert(troubled.begin() + static_cast<std::ptrdiff_t>(count / 2),
                        all.add_broken(name));
    troubled.insert(troubled.begin(), all.add("hangs", "&busy_timeout=600s"));
    all.send("hangs");

    busy_stores busy(all, live, backlog);
    std::map<std::string, std::vector<double>> kept; // of its rate, by store
    std::vector<double> of_all;
    std::vector<double> fairness; // what the worst served store gets of a fair share
    for (std::size_t pair = 0; pair < pairs; ++pair) {
        rates without;
        rates with;
        const auto measure_with = [&] {
            locker lock(all.path("hangs"));
            with = busy.measure(troubled, how, seconds);
            lock.let_go();
        };
        if (pair % 2 == 1)
            measure_with();
        without = busy.measure(well, how, seconds);
        if (pair % 2 == 0)
            measure_with();
        double sum = 0;
        auto least = without.begin()->second;
        for (const auto& name : live) {
            ASSERT_GT(without.at(name), 0) << name << " was not served at all";
            ASSERT_GT(with.at(name), 0) << name << " was not served beside the bad ones";
            kept[name].push_back(with.at(name) / without.at(name));
            sum += without.at(name);
            least = std::min(least, without.at(name));
        }
        of_all.push_back(sum);
        fairness.push_back(least * static_cast<double>(count) / sum);
    }
    std::vector<double> medians;
    for (const auto& [name, ratios] : kept)
        medians.push_back(median(ratios));
    std::printf("%zu busy stores, %zu files open: %.0f messages/s, each gets at least %.0f %% of "
                "its share; with 3 broken and 1 hanging among them a store keeps %.0f %% of its "
                "pace (median of all), and each at least %.0f %%\n",
                count, how.open_files_max, median(of_all), median(fairness) * 100,
                median(medians) * 100, std::ranges::min(medians) * 100);
    if (!measures())
        return; // every live store was served beside the bad ones
    EXPECT_GE(std::ranges::max(fairness), 0.8);
    // What the machine does meanwhile makes one of a pair look slow; what bad stores cost would
    // show in every pair. So the second best counts.
    for (auto& [name, ratios] : kept) {
        std::ranges::sort(ratios, std::greater<>{});
        EXPECT_GE(ratios.at(ratios.size() > 1 ? 1 : 0), 0.8) << name;
    }
}

} // namespace
} // namespace posthorn::test
