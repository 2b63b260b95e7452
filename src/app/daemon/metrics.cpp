// Counting.
#include "app/daemon/metrics.hpp"

#include "core/validation.hpp"

#include <algorithm>
#include <utility>

namespace posthorn::daemon {
namespace {

// Transports and feeds are written down one by one: nobody has thousands.
constexpr std::size_t routes_max = 1'000;

// No name of a host is longer, but a URL may claim so.
constexpr std::size_t endpoint_bytes_max = 300;

class measured_transport final : public transport {
public:
    measured_transport(std::shared_ptr<transport> which, std::shared_ptr<metrics> where,
                       const std::string& name)
        : which_(std::move(which)), where_(std::move(where)), numbers_(where_->of_transport(name))
    {}

    using transport::close;
    using transport::publish;

    [[nodiscard]] std::vector<publish_answer> publish(std::span<const transport_message> what,
                                                      const time_limit& how_long) override
    {
        const auto begin = world_.clock->monotonic();
        auto answers = which_->publish(what, how_long);
        numbers_.took.add(world_.clock->monotonic() - begin);
        if (std::ranges::any_of(answers, &publish_answer::accepted))
            numbers_.ready = readiness::ready;
        for (const auto& each : answers)
            switch (each.verdict) {
            case publish_answer::kind::accepted:
                ++(each.duplicate ? numbers_.duplicates : numbers_.accepted);
                break;
            case publish_answer::kind::refused: ++numbers_.refused; break;
            case publish_answer::kind::unknown: ++numbers_.unknown; break;
            }
        return answers;
    }
    [[nodiscard]] bool wait_until_ready(const time_limit& how_long) override
    {
        const bool ready = which_->wait_until_ready(how_long);
        if (ready || !how_long.stop.stop_requested()) // who is told to stop has not found out
            numbers_.ready = ready ? readiness::ready : readiness::away;
        return ready;
    }
    void close(const time_limit& how_long) override { which_->close(how_long); }
    [[nodiscard]] transport_capabilities capabilities() const override
    {
        return which_->capabilities();
    }
    [[nodiscard]] std::string name() const override { return which_->name(); }

private:
    std::shared_ptr<transport> which_; // shared with whoever opened it
    std::shared_ptr<metrics> where_;   // shared with the daemon, which may be gone first
    transport_numbers& numbers_;
    const environment world_ = environment::system();
};

} // namespace

void histogram::add(duration length) noexcept
{
    std::size_t bucket = 0;
    while (bucket < bounds_ms.size() && length > std::chrono::milliseconds{bounds_ms[bucket]})
        ++bucket;
    counts_[bucket].fetch_add(1, std::memory_order_relaxed);
    sum_us_.fetch_add(length.count(), std::memory_order_relaxed);
}

histogram::reading histogram::read() const noexcept
{
    reading result;
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i)
        result.up_to[i] = all += counts_[i].load(std::memory_order_relaxed);
    result.sum_seconds = static_cast<double>(sum_us_.load(std::memory_order_relaxed)) / 1e6;
    return result;
}

void endpoint_numbers::note(std::string_view endpoint, bool is_left, std::size_t endpoints_max)
{
    endpoint = core::truncated(endpoint, endpoint_bytes_max);
    const std::lock_guard lock(mutex_);
    auto found = all_.find(endpoint);
    if (is_left) {
        if (found == all_.end()) {
            const bool has_name = make_room(endpoints_max);
            found = all_.emplace(endpoint, entry{.has_name = has_name}).first;
        }
        ++found->second.left;
        ++(found->second.has_name ? found->second.times : others_times_);
    } else if (found != all_.end() && found->second.left > 0 && --found->second.left == 0) {
        found->second.well_since = ++latest_;
        if (!found->second.has_name)
            all_.erase(found);
    }
}

// Whether another one may have a name of its own. Those that are left alone keep theirs.
bool endpoint_numbers::make_room(std::size_t endpoints_max)
{
    std::size_t named = 0;
    auto oldest = all_.end();
    for (auto each = all_.begin(); each != all_.end(); ++each) {
        named += each->second.has_name ? 1 : 0;
        if (each->second.left == 0 &&
            (oldest == all_.end() || each->second.well_since < oldest->second.well_since))
            oldest = each;
    }
    if (named < endpoints_max)
        return true;
    if (oldest == all_.end())
        return false;
    others_times_ += oldest->second.times; // sums over all must not fall
    all_.erase(oldest);
    return true;
}

std::vector<endpoint_numbers::row> endpoint_numbers::list() const
{
    const std::lock_guard lock(mutex_);
    std::vector<row> result;
    row others{.endpoint = "other", .times = others_times_};
    for (const auto& [name, each] : all_)
        if (each.has_name)
            result.push_back(
                {.endpoint = name, .left = each.left > 0 ? 1U : 0U, .times = each.times});
        else
            ++others.left;
    if (others.times > 0)
        result.push_back(std::move(others));
    return result;
}

metrics::metrics(const metrics_settings& how, environment world)
    : how_(how),
      world_(std::move(world)),
      began_(world_.clock->now()),
      topics_(how.topics_max),
      transports_(routes_max),
      feeds_(routes_max)
{}

void metrics::starting(const delivery_view& which)
{
    auto& numbers = topics_.of(which.topic());
    numbers.started.fetch_add(1, std::memory_order_relaxed);
    numbers.late.add(std::max(duration{}, world_.clock->now() - which.message().due_at));
}

void metrics::ended(const delivery_view& which, duration took)
{
    topics_.of(which.topic()).took.add(took);
}

void metrics::settled(const delivery_view& which, settled_as answer)
{
    topics_.of(which.topic())
        .settled.at(static_cast<std::size_t>(answer))
        .fetch_add(1, std::memory_order_relaxed);
}

void metrics::noted(std::string_view transport, std::string_view endpoint, bool is_left)
{
    transports_.of(transport).endpoints.note(endpoint, is_left, how_.endpoints_max);
}

void metrics::fed(std::string_view source, const feed_report& what)
{
    auto& numbers = feeds_.of(source);
    numbers.stored += what.stored;
    numbers.repeated += what.repeated;
    numbers.refused += what.refused;
    numbers.failures += what.failures;
}

void metrics::counted(const std::string& store, const store_stats& what)
{
    const std::lock_guard lock(mutex_);
    stores_[store] = {.counts = what, .counted = true};
}

void metrics::keep_stores(const std::vector<store_status>& these)
{
    const std::lock_guard lock(mutex_);
    std::erase_if(stores_, [&](const auto& each) {
        return std::ranges::find(these, each.first, &store_status::name) == these.end();
    });
}

std::shared_ptr<transport> measured(std::shared_ptr<transport> which,
                                    std::shared_ptr<metrics> where, const std::string& name)
{
    return std::make_shared<measured_transport>(std::move(which), std::move(where), name);
}

} // namespace posthorn::daemon
