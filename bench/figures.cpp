// Medians, bars, and the two forms of output.
#include "bench/figures.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <stdexcept>

namespace bench {

double rate(std::size_t messages, const std::function<void()>& work)
{
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    return static_cast<double>(messages) / elapsed.count();
}

void figures::add(const std::string& peer, const std::string& metric, double value,
                  const std::string& unit)
{
    auto& known = series_[{metric, peer}];
    if (known.values.empty())
        order_.emplace_back(metric, peer);
    known.values.push_back(value);
    known.unit = unit;
}

double figures::median(const std::string& peer, const std::string& metric) const
{
    auto values = series_.at({metric, peer}).values;
    std::ranges::sort(values);
    const auto middle = values.size() / 2;
    return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double figures::best(const std::string& peer, const std::string& metric) const
{
    const auto& all = series_.at({metric, peer});
    const bool is_rate = all.unit.ends_with("/s");
    return is_rate ? std::ranges::max(all.values) : std::ranges::min(all.values);
}

void figures::expect(const std::string& metric, const std::string& peer, double factor,
                     const std::string& against_metric, const std::string& against_peer)
{
    bars_.push_back({metric, peer, factor, against_metric, against_peer, bar::side::at_least});
}

void figures::expect_within(double factor, const std::string& metric, const std::string& peer,
                            const std::string& against_peer)
{
    bars_.push_back({metric, peer, factor, metric, against_peer, bar::side::at_most});
}

void figures::expect_at_most(const std::string& metric, const std::string& peer, double limit)
{
    ceilings_.push_back({metric, peer, limit});
}

bool figures::print(const std::string& json_path) const
{
    fmt::print("{:<32} {:<22} {:>12} {:>12}  {}\n", "metric", "peer", "median", "best", "unit");
    for (const auto& [metric, peer] : order_)
        fmt::print("{:<32} {:<22} {:>12.0f} {:>12.0f}  {}\n", metric, peer, median(peer, metric),
                   best(peer, metric), series_.at({metric, peer}).unit);

    bool all_reached = true;
    fmt::print("\n");
    for (const auto& each : bars_) {
        const double factor =
            median(each.peer, each.metric) / median(each.against_peer, each.against_metric);
        const bool at_least = each.which == bar::side::at_least;
        const bool reached = at_least ? factor >= each.factor : factor <= each.factor;
        all_reached = all_reached && reached;
        fmt::print("{} {} {}: {:.2f} x {} {} ({} {:.2f})\n", reached ? "reached" : "MISSED ",
                   each.peer, each.metric, factor, each.against_peer, each.against_metric,
                   at_least ? "at least" : "at most", each.factor);
    }

    for (const auto& each : ceilings_) {
        const double value = median(each.peer, each.metric);
        const bool reached = value <= each.limit;
        all_reached = all_reached && reached;
        fmt::print("{} {} {}: {:.0f} (at most {:.0f})\n", reached ? "reached" : "MISSED ",
                   each.peer, each.metric, value, each.limit);
    }

    if (!json_path.empty()) {
        std::ofstream file(json_path, std::ios::trunc);
        for (const auto& [metric, peer] : order_)
            file << nlohmann::json{{"peer", peer},
                                   {"metric", metric},
                                   {"value", median(peer, metric)},
                                   {"best", best(peer, metric)},
                                   {"rounds", series_.at({metric, peer}).values.size()},
                                   {"unit", series_.at({metric, peer}).unit}}
                        .dump()
                 << "\n";
        if (!file.flush())
            throw std::runtime_error("cannot write " + json_path);
        fmt::print("\nJSON lines: {}\n", json_path);
    }
    return all_reached;
}

} // namespace bench
