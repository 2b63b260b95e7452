// A handler that does nothing, at the worker's best: all that is left is the worker itself.
#include "bench/worker_bench.hpp"

#include "bench/workload.hpp"
#include <posthorn/worker.hpp>

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <sys/resource.h>

namespace bench {
namespace {

namespace ph = posthorn;

constexpr std::size_t at_once = 1'000;

std::string metric_of(const std::string& engine)
{
    return engine + " worker no-op";
}

ph::run_report drain(const std::string& url)
{
    ph::worker worker(ph::open(url), {.name = "bench", .concurrency = at_once});
    worker.handle("*", [](const ph::delivery_view&) {});
    return worker.run({}, {.until_empty = true});
}

} // namespace

void worker_round(const std::string& engine, const std::string& url, std::size_t messages,
                  figures& into)
{
    const auto metric = metric_of(engine);
    posthorn_side own(url);
    own.enqueue(messages, 1'000);
    into.add("posthorn without worker", metric,
             rate(messages, [&] { own.claim_and_acknowledge(messages, at_once); }));
    own.enqueue(messages, 1'000);
    into.add("posthorn", metric, rate(messages, [&] {
                 if (drain(url).done != messages)
                     throw std::runtime_error("the worker left messages behind");
             }));
}

void expect_worker(const std::string& engine, figures& into)
{
    const auto metric = metric_of(engine);
    into.expect(metric, "posthorn", 0.8, metric, "posthorn without worker");
}

void worker_memory(const std::string& engine, const std::string& url, std::size_t messages,
                   figures& into)
{
    posthorn_side(url).enqueue(messages, 1'000);
    const auto self = std::filesystem::read_symlink("/proc/self/exe").string();
    const auto command = fmt::format("'{}' --drain '{}'", self, url);
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> child(popen(command.c_str(), "r"),
                                                                &pclose);
    long kibibytes = 0;
    if (!child || std::fscanf(child.get(), "%ld", &kibibytes) != 1)
        throw std::runtime_error("the draining process did not tell its size");
    into.add("posthorn", engine + " rss", static_cast<double>(kibibytes) / 1'024, "MiB");
    into.expect_at_most(engine + " rss", "posthorn", 64);
}

int drain_and_tell(const std::string& url)
{
    drain(url);
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    fmt::print("{}\n", used.ru_maxrss);
    return 0;
}

} // namespace bench
