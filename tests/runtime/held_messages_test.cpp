// The bookkeeping of a worker, without one: what it remembers, and for how long.
#include "runtime/handler_table.hpp"
#include "runtime/held_messages.hpp"
#include <posthorn/testing/manual_clock.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace posthorn::test {
namespace {

using namespace std::chrono_literals;
using runtime::held_messages;
using runtime::running_ptr;

class held : public ::testing::Test {
protected:
    /// A message whose handler runs.
    running_ptr begin(const runtime::route& to)
    {
        batch claimed;
        claimed.fence = fence{++fences_};
        claimed.deliveries.push_back({});
        claimed.deliveries.front().receipt.fence = claimed.fence;
        auto taken = all_.take(std::move(claimed), clock_->monotonic());
        taken.front()->to = &to;
        EXPECT_TRUE(all_.may_begin(taken.front()));
        return taken.front();
    }

    std::vector<runtime::result> take_results() { return all_.wait_for_chores(0s, 0s).to_settle; }

    std::int64_t fences_ = 0;
    std::shared_ptr<testing::manual_clock> clock_ = std::make_shared<testing::manual_clock>();
    held_messages all_{10, 30s, [this] {
                           auto world = environment::system();
                           world.clock = clock_;
                           return world;
                       }()};
};

} // namespace

TEST_F(held, a_handler_that_has_ended_leaves_no_deadline_behind)
{
    runtime::route quick;
    quick.options.timeout = 1h;
    const std::weak_ptr<runtime::running_delivery> once = [&] {
        const auto which = begin(quick);
        all_.ended(which, done());
        return which;
    }();
    all_.settled(take_results());
    EXPECT_TRUE(once.expired());
    EXPECT_EQ(all_.until_chores(), std::nullopt);
}

TEST_F(held, a_handler_that_runs_is_asked_to_stop_at_its_deadline)
{
    runtime::route slow;
    slow.options.timeout = 5s;
    const auto which = begin(slow);
    (void)all_.wait_for_chores(0s, 0s);
    EXPECT_FALSE(which->stop.stop_requested());
    clock_->advance(5s);
    (void)all_.wait_for_chores(0s, 0s);
    EXPECT_TRUE(which->stop.stop_requested());
}

// Proves: I13, OUT-10
TEST_F(held, times_that_are_over_are_told_though_whoever_settles_waits_for_the_store)
{
    runtime::route slow;
    slow.options.timeout = 5s;
    const auto which = begin(slow);
    EXPECT_NE(all_.fire_deadlines(), std::nullopt);
    EXPECT_FALSE(which->stop.stop_requested());
    clock_->advance(5s);
    EXPECT_NE(all_.fire_deadlines(), std::nullopt) << "its lease will end, too";
    EXPECT_TRUE(which->stop.stop_requested());
    EXPECT_FALSE(which->lost);
    clock_->advance(25s);
    EXPECT_EQ(all_.fire_deadlines(), std::nullopt);
    EXPECT_TRUE(which->lost);
}

// Proves: F27
TEST_F(held, what_could_not_be_settled_is_tried_once_more_at_the_end)
{
    const runtime::route any;
    all_.ended(begin(any), done());
    all_.try_again(take_results(), 1h);
    EXPECT_TRUE(take_results().empty()) << "not before its pause is over";
    all_.close();
    EXPECT_EQ(take_results().size(), 1U);
}

// Proves: I6
TEST_F(held, an_outcome_that_cannot_be_settled_for_long_keeps_its_lease)
{
    runtime::route slow;
    slow.options.timeout = 5s;
    slow.options.abandon_after = 5s;
    const auto which = begin(slow);
    all_.ended(which, done());
    auto results = take_results();
    ASSERT_EQ(results.size(), 1U);
    all_.set_aside(std::move(results.front()), 1h);
    clock_->advance(16s);
    EXPECT_EQ(all_.wait_for_chores(0s, 0s).to_renew.size(), 1U);
}

} // namespace posthorn::test
