// What a daemon counts: cheap to add to from any thread, and bounded, however many topics and
// stores there are. Those beyond the bound share the name "other".
#pragma once

#include "app/daemon/config.hpp"
#include <posthorn/delivery.hpp>
#include <posthorn/feeds.hpp>
#include <posthorn/messages.hpp>
#include <posthorn/serving.hpp>
#include <posthorn/transport.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::daemon {

using counter = std::atomic<std::uint64_t>;

/// How long something took, in buckets from a millisecond to a minute.
class histogram {
public:
    static constexpr std::array<std::int64_t, 11> bounds_ms{
        1, 5, 10, 50, 100, 500, 1'000, 5'000, 10'000, 30'000, 60'000};

    void add(duration length) noexcept;

    struct reading {
        std::array<std::uint64_t, bounds_ms.size() + 1> up_to{}; ///< cumulated; the last is all
        double sum_seconds = 0;
    };
    [[nodiscard]] reading read() const noexcept;

private:
    std::array<counter, bounds_ms.size() + 1> counts_{};
    std::atomic<std::int64_t> sum_us_{0};
};

/// Numbers by a name, of which there are at most so many. Threads: safe to use from any.
template <typename Numbers>
class numbers_by_name {
public:
    explicit numbers_by_name(std::size_t names_max) : names_max_(names_max) {}

    [[nodiscard]] Numbers& of(std::string_view name)
    {
        {
            const std::shared_lock lock(mutex_);
            if (const auto found = all_.find(name); found != all_.end())
                return *found->second;
        }
        const std::lock_guard lock(mutex_);
        if (all_.size() >= names_max_ && !all_.contains(name))
            name = "other";
        auto& slot = all_[std::string(name)];
        if (!slot)
            slot = std::make_unique<Numbers>();
        return *slot;
    }

    /// They stay where they are, and are never removed.
    [[nodiscard]] std::vector<std::pair<std::string, const Numbers*>> list() const
    {
        const std::shared_lock lock(mutex_);
        std::vector<std::pair<std::string, const Numbers*>> result;
        for (const auto& [name, each] : all_)
            result.emplace_back(name, each.get());
        return result;
    }

private:
    const std::size_t names_max_;
    mutable std::shared_mutex mutex_;
    std::map<std::string, std::unique_ptr<Numbers>, std::less<>> all_;
};

struct topic_numbers {
    counter started{0};
    std::array<counter, 6> settled{}; ///< by `settled_as`
    histogram took;
    histogram late; ///< from when it was due to its start
};

enum class readiness { unknown, away, ready };

/// The endpoints of one transport that have been left alone for their failures. If there is no room
/// for another one, that is forgotten which has been well for longest; and where none is well,
/// further ones share the name "other". Threads: safe to use from any.
class endpoint_numbers {
public:
    void note(std::string_view endpoint, bool is_left, std::size_t endpoints_max);

    struct row {
        std::string endpoint;
        std::size_t left = 0;    ///< now; of those that share a name, so many
        std::uint64_t times = 0; ///< that it began
    };
    [[nodiscard]] std::vector<row> list() const;

private:
    struct entry {
        std::size_t left = 0; ///< by so many transports: after a reload there are two for a while
        std::uint64_t times = 0;
        std::uint64_t well_since = 0; ///< a number that grows
        bool has_name = true;
    };

    [[nodiscard]] bool make_room(std::size_t endpoints_max);

    mutable std::mutex mutex_;
    std::map<std::string, entry, std::less<>> all_;
    std::uint64_t others_times_ = 0;
    std::uint64_t latest_ = 0;
};

struct transport_numbers {
    counter accepted{0};
    counter duplicates{0};
    counter refused{0};
    counter unknown{0};
    histogram took; ///< a batch

    /// Whether the other side was there when somebody last wanted to send; nothing before that.
    std::atomic<readiness> ready{readiness::unknown};

    endpoint_numbers endpoints;
};

struct feed_numbers {
    counter stored{0};
    counter repeated{0};
    counter refused{0};
    counter failures{0};
};

/// What was last heard of a store.
struct store_numbers {
    store_stats counts;
    bool counted = false; ///< it has answered at least once
};

/// What only the daemon knows at the moment of asking.
struct daemon_view {
    bool draining = false;
    std::size_t running = 0;
    std::vector<store_status> stores = {};
    std::array<std::uint64_t, 4> log_lines = {}; ///< by level
};

class metrics {
public:
    metrics(const metrics_settings& how, environment world);

    /// For a worker: count, and call what is there already.
    void starting(const delivery_view& which);
    void ended(const delivery_view& which, duration took);
    void settled(const delivery_view& which, settled_as answer);

    /// That an endpoint of a transport begins or ceases to be left alone.
    void noted(std::string_view transport, std::string_view endpoint, bool is_left);

    void fed(std::string_view source, const feed_report& what);
    void counted(const std::string& store, const store_stats& what);
    /// Forgets the stores that are not among these.
    void keep_stores(const std::vector<store_status>& these);

    counter reloads{0};
    counter reloads_failed{0};
    counter cleaned{0}; ///< rows

    [[nodiscard]] transport_numbers& of_transport(std::string_view name)
    {
        return transports_.of(name);
    }

    /// In the text format of Prometheus, version 0.0.4. `shown` says how a name of a topic, a
    /// store, a transport or a source may be shown: the page itself must stay as it is.
    [[nodiscard]] std::string exposition(
        const daemon_view& now, const std::function<std::string(std::string)>& shown) const;

private:
    const metrics_settings how_;
    const environment world_;
    const timestamp began_;
    numbers_by_name<topic_numbers> topics_;
    numbers_by_name<transport_numbers> transports_;
    numbers_by_name<feed_numbers> feeds_;
    mutable std::mutex mutex_; ///< of the stores
    std::map<std::string, store_numbers, std::less<>> stores_;
};

/// A transport that is counted. Everything else is as it was.
[[nodiscard]] std::shared_ptr<transport> measured(std::shared_ptr<transport> which,
                                                  std::shared_ptr<metrics> where,
                                                  const std::string& name);

} // namespace posthorn::daemon
