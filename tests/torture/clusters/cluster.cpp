// tools/clusters.sh, from C++.
#include "torture/clusters/cluster.hpp"

#include <cstdlib>
#include <stdexcept>

namespace posthorn::test {
namespace {

void run_command(const std::string& command)
{
    if (std::system(command.c_str()) != 0)
        throw std::runtime_error("failed: " + command);
}

} // namespace

cluster::cluster(std::string name) : name_(std::move(name))
{
    run_command(command("start", ""));
}

cluster::~cluster()
{
    (void)std::system(command("stop", "").c_str());
}

void cluster::kill(int node)
{
    run_command(command("kill", std::to_string(node)));
}

void cluster::revive(int node)
{
    run_command(command("revive", std::to_string(node)));
}

std::string cluster::command(const std::string& verb, const std::string& more) const
{
    return std::string("bash ") + CLUSTERS_SCRIPT + " " + name_ + " " + verb + " " +
           folder_.file("").string() + " " + more;
}

std::uint16_t cluster::port(int node) const
{
    return static_cast<std::uint16_t>(
        std::stoi(folder_.read("node-" + std::to_string(node) + "/" + name_ + ".port")));
}

std::string cluster::urls(int first) const
{
    const std::string scheme = name_ == "rabbitmq" ? "amqp" : name_;
    std::string result;
    for (int i = 0; i < size; ++i)
        result += (i == 0 ? "" : ",") + scheme +
                  "://127.0.0.1:" + std::to_string(port((first - 1 + i) % size + 1));
    return result;
}

std::vector<cluster_kind> cluster_kinds()
{
    return {rabbitmq_cluster()};
}

} // namespace posthorn::test
