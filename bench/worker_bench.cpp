// A handler that does nothing, at the worker's best: all that is left is the worker itself.
#include "bench/worker_bench.hpp"

#include "bench/workload.hpp"
#include <posthorn/worker.hpp>

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <functional>
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

// The two sides take turns: the speed of a disk drifts.
constexpr std::size_t worker_turns = 5;

ph::worker idle_hands(const std::string& url)
{
    ph::worker worker(ph::open(url), {.name = "bench", .concurrency = at_once});
    worker.handle("*", [](const ph::delivery_view&) {});
    return worker;
}

} // namespace

void worker_round(const std::string& engine, const std::string& bare_url,
                  const std::string& worker_url, std::size_t messages, figures& into)
{
    const auto metric = metric_of(engine);
    const auto each_turn = messages / worker_turns;
    posthorn_side bare(bare_url);
    bare.enqueue(each_turn * worker_turns, 1'000);
    posthorn_side(worker_url).enqueue(each_turn * worker_turns, 1'000);
    auto worker = idle_hands(worker_url);
    double seconds_bare = 0;
    double seconds_worker = 0;
    const auto time = [&](const std::function<void()>& work) {
        return static_cast<double>(each_turn) / rate(each_turn, work);
    };
    for (std::size_t turn = 0; turn < worker_turns; ++turn) {
        seconds_bare += time([&] { bare.claim_and_acknowledge(each_turn, at_once); });
        seconds_worker += time([&] {
            if (worker.run({}, {.until_empty = true, .limit = each_turn}).done != each_turn)
                throw std::runtime_error("the worker left messages behind");
        });
    }
    const auto count = static_cast<double>(each_turn * worker_turns);
    into.add("posthorn without worker", metric, count / seconds_bare);
    into.add("posthorn", metric, count / seconds_worker);
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
    (void)idle_hands(url).run({}, {.until_empty = true});
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    fmt::print("{}\n", used.ru_maxrss);
    return 0;
}

} // namespace bench
