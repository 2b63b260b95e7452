// Handlers that are slow, hang, or throw what they should not, in a worker that goes on.
#include "torture/scene.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace posthorn::torture {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class bad_handlers : public ::testing::TestWithParam<conformance::store_kind> {
protected:
    void wait_until_drained()
    {
        ASSERT_TRUE(wait_until([&] { return where_.is_drained(); })) << where_.log();
    }

    /// A message that was running when its worker died.
    message_id leave_behind()
    {
        const auto dying = where_.start_worker();
        const auto id = where_.add({"gate", where_.file("nobody opens it")});
        EXPECT_TRUE(wait_until([&] { return where_.starts_of(dying) == 1; })) << where_.log();
        where_.kill(dying);
        return id;
    }

    scene where_{GetParam()};
};

} // namespace

// Proves: I5, F25
TEST_P(bad_handlers, what_is_no_exception_is_a_failure_like_any_other)
{
    const auto id = where_.add({"throws", "2"});
    const auto hopeless = where_.add({"throws", "100"});
    const auto other = where_.add({"ordinary", "x"});
    where_.start_worker({"--attempts-max", "3"});
    wait_until_drained();
    where_.stop_all();
    EXPECT_EQ(where_.look(id).state, message_state::done);
    EXPECT_EQ(where_.look(id).attempts, 3);
    EXPECT_EQ(where_.look(hopeless).state, message_state::dead);
    EXPECT_NE(where_.look(hopeless).last_error, "");
    EXPECT_EQ(where_.look(other).attempts, 1);
    const auto judged = where_.judged({.attempts_max = 3, .clock_tolerance = 5ms});
    EXPECT_THAT(judged.violations(), IsEmpty()) << to_text(judged) << where_.log();
}

// Proves: I6, F25
TEST_P(bad_handlers, a_slow_one_keeps_its_message_for_many_leases)
{
    const auto id = where_.add({"slow", "3500"});
    const auto worker = where_.start_worker({"--lease", "1000"});
    ASSERT_TRUE(wait_until([&] { return where_.starts_of(worker) == 1; })) << where_.log();
    const auto other = where_.start_worker({"--lease", "1000"});
    wait_until_drained();
    where_.stop_all();
    EXPECT_EQ(where_.look(id).attempts, 1);
    EXPECT_EQ(where_.starts_of(other), 0U);
    EXPECT_THAT(where_.answers_to(worker), ElementsAre(settled_as::done));
}

// Proves: F25
TEST_P(bad_handlers, one_that_hangs_is_given_up_and_its_message_tried_again)
{
    const auto id = where_.add({"hang", ""});
    const auto worker = where_.start_worker({"--concurrency", "2", "--grace", "500"});
    ASSERT_TRUE(wait_until([&] { return where_.starts_of(worker) == 1; })) << where_.log();
    const auto beside = where_.add({"ordinary", "x"});
    ASSERT_TRUE(wait_until([&] { return where_.is_done(beside); })) << where_.log();
    wait_until_drained();
    EXPECT_EQ(where_.look(id).state, message_state::done);
    EXPECT_EQ(where_.look(id).attempts, 2);
    where_.stop_all();
}

// Proves: F1, F25
TEST_P(bad_handlers, one_that_is_given_up_does_not_hold_up_what_a_dead_worker_left_behind)
{
    const auto left_behind = leave_behind();
    const auto id = where_.add({"hang", ""});
    const auto worker = where_.start_worker({"--concurrency", "2", "--grace", "100"});
    ASSERT_TRUE(wait_until([&] { return where_.is_done(left_behind); })) << where_.log();
    ASSERT_TRUE(wait_until([&] { return where_.is_done(id); })) << where_.log();
    EXPECT_EQ(where_.look(left_behind).attempts, 2);
    where_.stop(worker);
}

// Proves: F1, F25
TEST_P(bad_handlers, one_that_never_ends_holds_up_nothing_but_what_may_have_killed_a_worker)
{
    const auto left_behind = leave_behind();
    where_.add({"deaf", ""});
    const auto worker = where_.start_worker({"--concurrency", "2", "--grace", "100"});
    ASSERT_TRUE(wait_until([&] { return where_.starts_of(worker) == 1; })) << where_.log();
    ASSERT_TRUE(wait_until([&] { return where_.look(left_behind).errors == 1; })) << where_.log();
    for (int i = 0; i < 3; ++i) {
        const auto next = where_.add({"ordinary", "x"});
        EXPECT_TRUE(wait_until([&] { return where_.is_done(next); })) << where_.log();
    }
    EXPECT_EQ(where_.look(left_behind).attempts, 1);
    where_.stop(worker);
}

// More handlers at once than the pool has connections, each for longer than a lease; on SQLite,
// where they take turns, all of them together. Proves: I5, I6, OUT-19
TEST_P(bad_handlers, that_hold_transactions_keep_no_lease_from_being_renewed)
{
    constexpr std::size_t count = 16;
    const bool take_turns = GetParam().name.starts_with("sqlite");
    // A handler waits for its transaction for five seconds at most, and the lease is shorter.
    const std::string lease = take_turns ? "3000" : "2000";
    std::vector<message_id> ids;
    for (std::size_t i = 0; i < count; ++i)
        ids.push_back(where_.add({"holding", take_turns ? "300" : "3000"}));
    // A second worker takes over what is not renewed; on SQLite the first one would do so itself.
    std::vector<std::string> workers;
    for (int i = 0; i < (take_turns ? 1 : 2); ++i)
        workers.push_back(where_.start_worker({"--concurrency", "10", "--lease", lease}));
    wait_until_drained();
    std::size_t starts = 0;
    for (const auto& each : workers)
        starts += where_.starts_of(each);
    where_.stop_all();
    EXPECT_EQ(starts, count) << where_.log();
    for (const auto id : ids)
        EXPECT_EQ(where_.look(id).attempts, 1) << where_.log();
    EXPECT_THAT(where_.wrong_effects(), IsEmpty()) << where_.log();
}

INSTANTIATE_TEST_SUITE_P(stores, bad_handlers, ::testing::ValuesIn(kinds_for_processes()),
                         [](const auto& kind) { return kind.param.name; });

} // namespace posthorn::torture
