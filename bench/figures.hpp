// Figures: what was measured, by whom, and how the two sides compare.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace bench {

/// Messages per second while `work` runs.
[[nodiscard]] double rate(std::size_t messages, const std::function<void()>& work);

/// Collects rounds per peer and metric, and prints them as text and as JSON lines.
class figures {
public:
    void add(const std::string& peer, const std::string& metric, double value,
             const std::string& unit = "msg/s");

    [[nodiscard]] double median(const std::string& peer, const std::string& metric) const;
    [[nodiscard]] double best(const std::string& peer, const std::string& metric) const;

    /// A bar: the median of one figure must be at least `factor` times the median of another.
    void expect(const std::string& metric, const std::string& peer, double factor,
                const std::string& against_metric, const std::string& against_peer);

    /// The same for what should be small, such as latencies: at most `factor` times the other's.
    void expect_within(double factor, const std::string& metric, const std::string& peer,
                       const std::string& against_peer);

    /// A bar on a count, such as bytes of log: its median must not be above `limit`.
    void expect_at_most(const std::string& metric, const std::string& peer, double limit);

    /// Returns whether every bar was reached.
    bool print(const std::string& json_path) const;

private:
    struct bar {
        std::string metric;
        std::string peer;
        double factor;
        std::string against_metric;
        std::string against_peer;
        enum class side { at_least, at_most } which;
    };
    struct series {
        std::vector<double> values;
        std::string unit;
    };

    std::vector<std::pair<std::string, std::string>> order_; ///< (metric, peer) as first seen
    std::map<std::pair<std::string, std::string>, series> series_;
    struct ceiling {
        std::string metric;
        std::string peer;
        double limit;
    };
    std::vector<bar> bars_;
    std::vector<ceiling> ceilings_;
};

} // namespace bench
