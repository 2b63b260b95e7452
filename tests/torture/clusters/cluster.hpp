// A cluster of three brokers of one test's own, and what a test of transports needs of each kind.
#pragma once

#include "checker/scratch_folder.hpp"
#include "transport/stubborn.hpp"
#include <posthorn/transport.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace posthorn::test {

/// Runs from construction on; it ends, and its data with it, when this object does.
class cluster {
public:
    explicit cluster(std::string name);
    cluster(const cluster&) = delete;
    cluster& operator=(const cluster&) = delete;
    ~cluster();

    static constexpr int size = 3;

    /// A crash, and the end of it. Nodes have the numbers 1 to 3.
    void kill(int node);
    void revive(int node);

    /// Of all nodes, this one first.
    [[nodiscard]] std::string urls(int first) const;
    [[nodiscard]] std::uint16_t port(int node) const;

private:
    [[nodiscard]] std::string command(const std::string& verb, const std::string& more) const;

    std::string name_;
    checker::scratch_folder folder_;
};

/// One kind of broker.
struct cluster_kind {
    std::string name; ///< as tools/clusters.sh knows it

    /// A place that survives the loss of a node, fresh for each round; topics of this name lead
    /// there.
    std::function<void(cluster&, const std::string& place)> prepare;
    std::function<std::shared_ptr<transport>(const std::string& urls, const std::string& place)>
        open;

    /// Everything that is there.
    std::function<arrivals(cluster&, const std::string& place)> look;
};

/// Those that this program was built with.
[[nodiscard]] std::vector<cluster_kind> cluster_kinds();

[[nodiscard]] cluster_kind rabbitmq_cluster();

} // namespace posthorn::test
