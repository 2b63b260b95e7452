// Jobs whose workers are killed at random: every instant has one execution, and none is missing.
//
// POSTHORN_TORTURE_SECONDS=n is for people with time: so many seconds instead of a few.
#include "torture/scene.hpp"
#include <posthorn/schedules.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace posthorn::torture {
namespace {

using namespace std::chrono_literals;

std::chrono::seconds torture_length()
{
    const char* told = std::getenv("POSTHORN_TORTURE_SECONDS");
    return std::chrono::seconds{told != nullptr ? std::atoi(told) : 6};
}

class killed_jobs : public ::testing::TestWithParam<conformance::store_kind> {
protected:
    static std::vector<execution_record> executions(scene& where, const std::string& job)
    {
        auto all = list_executions(where.db(), {.job = job, .limit = 1'000'000});
        std::ranges::sort(all, {}, &execution_record::nominal_at);
        return all;
    }

    static bool all_have_ended(scene& where)
    {
        return list_executions(where.db(), {.state = execution_state::enqueued}).empty() &&
               list_executions(where.db(), {.state = execution_state::waiting}).empty();
    }
};

// Proves: SCH-03, I16, F1
TEST_P(killed_jobs, have_one_execution_for_each_instant_and_none_is_missing)
{
    scene where(GetParam());
    const std::vector<std::string> names{"one", "two", "three"};
    const std::vector<overlap> policies{overlap::allow, overlap::queue, overlap::skip};
    for (std::size_t i = 0; i < names.size(); ++i)
        put_job(where.db(), names[i],
                {.run = {"ordinary", ""},
                 .cron = "* * * * * *",
                 .on_misfire = misfire::catch_up,
                 .late_after = 1h,
                 .catch_up_max = 1'000,
                 .on_overlap = policies[i],
                 .waiting_max = 10'000});
    const auto first = find_job(where.db(), "one")->next_at.value();
    const std::vector<std::string> options{"--concurrency", "4", "--attempts-max", "50"};
    std::vector<std::string> workers;
    for (int i = 0; i < 5; ++i)
        workers.push_back(where.start_worker(options));
    const auto world = environment::system();
    const auto& clock = *world.clock;
    std::mt19937 draw(static_cast<unsigned>(world.random->bits()));
    for (const auto end = clock.monotonic() + torture_length(); clock.monotonic() < end;) {
        clock.pause(std::chrono::milliseconds{50 + draw() % 300});
        auto& victim = workers[draw() % workers.size()];
        where.kill(victim);
        victim = where.start_worker(options);
    }
    // What was missed is caught up with, and then no instant is left to come.
    ASSERT_TRUE(wait_until(
        [&] {
            return std::ranges::all_of(names, [&](const auto& name) {
                const auto found = executions(where, name);
                return !found.empty() && found.back().nominal_at >= first + torture_length();
            });
        },
        120s))
        << where.log();
    for (const auto& name : names)
        EXPECT_TRUE(pause_job(where.db(), name));
    ASSERT_TRUE(wait_until([&] { return all_have_ended(where); }, 120s)) << where.log();
    where.stop_all();
    for (const auto& name : names) {
        auto next = find_job(where.db(), name)->created_at;
        next = std::chrono::floor<std::chrono::seconds>(next) + 1s;
        for (const auto& each : executions(where, name)) {
            ASSERT_EQ(each.nominal_at, next) << name << " has two, or lacks one";
            EXPECT_EQ(each.covers, 1);
            if (name != "three") { // which leaves some out
                EXPECT_EQ(each.state, execution_state::done) << each.reason;
            }
            next += 1s;
        }
        EXPECT_GT(next, first + torture_length());
    }
}

INSTANTIATE_TEST_SUITE_P(stores, killed_jobs, ::testing::ValuesIn(kinds_for_processes()),
                         [](const auto& kind) { return kind.param.name; });

} // namespace
} // namespace posthorn::torture
