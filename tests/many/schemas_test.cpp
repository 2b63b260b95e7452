// A thousand schemas of one PostgreSQL database: what they cost while nothing happens.
// POSTHORN_MANY_SCHEMAS says how many.
#include "many/process_cost.hpp"
#include "many/schema_tenants.hpp"

#include <cstdio>
#include <cstdlib>

namespace posthorn::test {
namespace {

// Proves: MDB-07
TEST(schemas, of_one_database_share_a_few_connections_and_wake)
{
    const char* asked = std::getenv("POSTHORN_MANY_SCHEMAS");
    const std::size_t count = asked == nullptr ? 60 : std::stoul(asked);
    const char* lasting = std::getenv("POSTHORN_MANY_SECONDS");
    const std::size_t seconds = lasting == nullptr ? 3 : std::stoul(lasting);
    schema_tenants all(count);
    worker one(stores(all.list()));
    tally seen;
    one.handle("orders", [&](const delivery_view& view) { seen.add(view.store()); });
    background running(one);
    ASSERT_TRUE(eventually_all_idle(one));

    const auto used_before = processor_time();
    const auto from = std::chrono::steady_clock::now();
    environment::system().clock->pause(std::chrono::seconds(seconds));
    const auto share = std::chrono::duration<double>(processor_time() - used_before) /
                       std::chrono::duration<double>(std::chrono::steady_clock::now() - from);
    duration worst{};
    duration worst_best{}; // what delays one message is the machine, what delays three is us
    std::size_t sent = 0;
    for (std::size_t i = 0; i < 30; ++i) {
        const auto which = i * 7919 % count;
        const auto name = all.list()[which].name;
        auto best = duration::max();
        for (int attempt = 0; attempt < 3 && best > 1s; ++attempt) {
            const auto before = seen.of(name);
            all.send(which);
            ++sent;
            const auto at = std::chrono::steady_clock::now();
            ASSERT_TRUE(eventually([&] { return seen.of(name) > before; })) << name;
            const auto took =
                std::chrono::duration_cast<duration>(std::chrono::steady_clock::now() - at);
            best = std::min(best, took);
            worst = std::max(worst, took);
        }
        worst_best = std::max(worst_best, best);
    }
    std::printf("%zu idle schemas: %.2f %% of a core over %zu s, %.0f "
                "MiB, %zu descriptors, %ld connections, a "
                "message begins after %.1f ms at most\n",
                count, share * 100, seconds, resident_mib(), open_descriptors(),
                static_cast<long>(all.connections()),
                std::chrono::duration<double, std::milli>(worst).count());
    EXPECT_LE(share, 0.03);
    if (asked != nullptr) { // a campaign that measures: `./dev many`
        EXPECT_LE(worst_best, 1s);
    }
    EXPECT_LE(all.connections(), 8);
    EXPECT_LE(resident_mib(), 256);
    EXPECT_EQ(running.end().done, sent);
}

} // namespace
} // namespace posthorn::test
