// A handler that takes its process down: its message dies after its attempts, and the others live.
#include "torture/scene.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

namespace posthorn::torture {
namespace {

using namespace std::chrono_literals;
using ::testing::IsEmpty;

constexpr int attempts_max = 3;

class aborts : public ::testing::TestWithParam<conformance::store_kind> {
protected:
    void add_poison_among_others(int others, const message& slow = {"slow", "15"},
                                 const message& poison = {"poison", "0"})
    {
        for (int i = 0; i < others; ++i) {
            if (i == others / 2)
                poison_ = where_.add(poison);
            others_.push_back(where_.add(slow));
        }
    }

    /// Starts a worker again whenever it dies, as a service manager would. Returns: the deaths.
    int work_until_drained(const std::string& concurrency)
    {
        const std::vector<std::string> options{"--concurrency",  concurrency,
                                               "--attempts-max", std::to_string(attempts_max),
                                               "--lease",        "300"};
        for (int deaths = 0; deaths <= attempts_max; ++deaths) {
            const auto worker = where_.start_worker(options);
            const bool drained = wait_until(
                [&] { return where_.of(worker).ended().has_value() || where_.is_drained(); });
            EXPECT_TRUE(drained) << where_.log();
            if (!where_.of(worker).ended()) {
                where_.stop(worker);
                return deaths;
            }
            EXPECT_EQ(where_.see_end(worker, 0s), -SIGABRT) << where_.log();
        }
        return attempts_max + 1;
    }

    void expect_poison_dead_and_all_others_done(int attempts_of_others_max)
    {
        const auto poison = where_.look(poison_);
        EXPECT_EQ(poison.state, message_state::dead);
        EXPECT_EQ(poison.attempts, attempts_max);
        for (const auto id : others_) {
            const auto other = where_.look(id);
            EXPECT_EQ(other.state, message_state::done);
            EXPECT_LE(other.attempts, attempts_of_others_max) << to_string(id);
        }
        const auto judged = where_.judged({.attempts_max = attempts_max, .clock_tolerance = 5ms});
        EXPECT_THAT(judged.violations(), IsEmpty()) << to_text(judged) << where_.log();
    }

    scene where_{GetParam()};

private:
    message_id poison_;
    std::vector<message_id> others_;
};

} // namespace

// Proves: OUT-11, I5, F26
TEST_P(aborts, one_at_a_time_it_costs_nobody_else_an_attempt)
{
    add_poison_among_others(12);
    EXPECT_EQ(work_until_drained("1"), attempts_max);
    expect_poison_dead_and_all_others_done(1);
}

// Proves: OUT-11, I5, F26
TEST_P(aborts, among_many_it_costs_each_of_them_one_attempt_at_most)
{
    add_poison_among_others(60);
    EXPECT_EQ(work_until_drained("8"), attempts_max);
    expect_poison_dead_and_all_others_done(2);
}

// Handlers take longer than a worker waits, the first time, for what runs beside a suspect to end.
// Proves: OUT-11, I5, F26
TEST_P(aborts, it_is_alone_however_long_others_and_it_take)
{
    add_poison_among_others(2, {"slow", "5700"}, {"poison", "5700"});
    EXPECT_EQ(work_until_drained("3"), attempts_max);
    expect_poison_dead_and_all_others_done(2);
}

INSTANTIATE_TEST_SUITE_P(stores, aborts, ::testing::ValuesIn(kinds_for_processes()),
                         [](const auto& kind) { return kind.param.name; });

} // namespace posthorn::torture
