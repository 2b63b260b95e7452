// Fairness between processes: a worker that settles gets its turn beside writers that never rest.
// How long a turn takes is measured by `./dev bench sqlite`.
#include "hang_limit.hpp"
#include "integration/sqlite/child_process.hpp"
#include "integration/sqlite/temporary_store.hpp"
#include <posthorn/error.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace posthorn::test {
namespace {

void write_without_rest(const std::string& url)
{
    auto where = sqlite::open(url);
    for (;;)
        enqueue(where, {"order", "one of very many"});
}

// Claims and settles until it has settled `wanted` batches. Being told that the store is busy is an
// answer; being told so for the whole time is starvation.
std::size_t settle_beside_writers(const temporary_store& where, std::size_t writers,
                                  std::size_t wanted)
{
    std::vector<child_process> children;
    for (std::size_t i = 0; i < writers; ++i)
        children.emplace_back([&] { write_without_rest(where.url()); });

    const auto system = environment::system();
    outbox worker(where.open());
    const auto me = owner::create("settler", *system.random);
    std::size_t settled = 0;
    const auto end = system.clock->monotonic() + hang_limit;
    while (settled < wanted && system.clock->monotonic() < end) {
        try {
            const auto batch = worker.claim(me, {.limit = 100});
            if (batch.empty())
                continue;
            EXPECT_EQ(worker.acknowledge(me, batch.receipts()).lost(), 0U);
            ++settled;
        } catch (const error& busy) {
            EXPECT_TRUE(busy.retryable()) << busy.what();
        }
    }
    return settled;
}

TEST(busy_writer, settlements_get_through_beside_one_process_that_writes_constantly)
{
    const temporary_store where;
    EXPECT_EQ(settle_beside_writers(where, 1, 30), 30U);
}

TEST(busy_writer, settlements_get_through_beside_four_processes_that_write_constantly)
{
    const temporary_store where;
    EXPECT_EQ(settle_beside_writers(where, 4, 30), 30U);
}

} // namespace
} // namespace posthorn::test
