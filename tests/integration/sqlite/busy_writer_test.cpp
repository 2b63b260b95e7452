// Fairness between processes: whoever settles must get its turn beside writers that never rest.
// This is about real time, so it runs on the real clock for some seconds, and alone.
#include "integration/sqlite/child_process.hpp"
#include "integration/sqlite/temporary_store.hpp"
#include <posthorn/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

namespace posthorn::test {
namespace {

using namespace std::chrono_literals;

void write_without_rest(const std::string& url)
{
    auto where = sqlite::open(url);
    for (;;)
        enqueue(where, {"order", "one of very many"});
}

struct figures {
    std::size_t settlements = 0;
    duration p50{};
    duration longest{};
};

// Claims and settles for a while; measures each settlement.
figures settle_beside_writers(const temporary_store& where, std::size_t writers, duration length)
{
    std::vector<child_process> children;
    for (std::size_t i = 0; i < writers; ++i)
        children.emplace_back([&] { write_without_rest(where.url()); });

    const auto world = environment::system();
    outbox worker(where.open());
    const auto me = owner::create("settler", *world.random);
    std::vector<duration> took;
    const auto end = world.clock->monotonic() + length;
    while (world.clock->monotonic() < end) {
        const auto batch = worker.claim(me, {.limit = 100});
        if (batch.empty())
            continue;
        const auto start = world.clock->monotonic();
        const auto result = worker.acknowledge(me, batch.receipts());
        took.push_back(world.clock->monotonic() - start);
        EXPECT_EQ(result.lost(), 0U);
    }
    std::ranges::sort(took);
    return took.empty() ? figures{} : figures{took.size(), took[took.size() / 2], took.back()};
}

std::string in_ms(duration length)
{
    return std::to_string(length.count() / 1'000) + "." + std::to_string(length.count() / 100 % 10);
}

void report(std::size_t writers, const figures& measured)
{
    std::cout << "beside " << writers << " busy writer(s): " << measured.settlements
              << " settlements, p50 " << in_ms(measured.p50) << " ms, max "
              << in_ms(measured.longest) << " ms" << std::endl;
}

TEST(busy_writer, a_settlement_takes_less_than_200_ms_beside_a_process_that_writes_constantly)
{
    // A disk that stalls for a moment is not unfairness: one of three stretches must be free of it.
    // With SQLite's own busy time-out instead of our handler, this test goes red.
    figures best{.longest = duration::max()};
    for (int stretch = 0; stretch < 3 && best.longest >= 200ms; ++stretch) {
        const temporary_store where;
        const auto measured = settle_beside_writers(where, 1, 5s);
        report(1, measured);
        if (measured.longest < best.longest)
            best = measured;
    }
    EXPECT_GT(best.settlements, 20U);
    EXPECT_LT(best.longest, 200ms);
}

TEST(busy_writer, settlements_get_through_beside_four_processes_that_write_constantly)
{
    // A disk may even stall for so long that the settler gives up.
    figures best;
    for (int stretch = 0; stretch < 3 && best.settlements <= 20; ++stretch) {
        const temporary_store where;
        try {
            best = settle_beside_writers(where, 4, 5s);
            report(4, best);
        } catch (const error& busy) {
            std::cout << busy.what() << std::endl;
        }
    }
    EXPECT_GT(best.settlements, 20U);
}

} // namespace
} // namespace posthorn::test
