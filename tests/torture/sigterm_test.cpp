// SIGTERM in the middle of a batch: what runs may end, what has not begun is left as it was, and
// whoever asks twice does not wait.
#include "hang_limit.hpp"
#include "torture/scene.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <string>
#include <vector>

namespace posthorn::torture {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::IsEmpty;

// What waits for a handler that never ends would wait for ever, or for a grace of ten minutes.
constexpr duration soon = test::hang_limit;

class sigterm : public ::testing::TestWithParam<conformance::store_kind> {
protected:
    std::vector<message_id> add_many(int count, const message& what)
    {
        std::vector<message_id> ids;
        for (int i = 0; i < count; ++i)
            ids.push_back(where_.add(what));
        return ids;
    }

    /// A worker with that many handlers in the middle of their work.
    std::string start_busy_worker(std::size_t handlers, const std::string& grace)
    {
        auto name = where_.start_worker(
            {"--concurrency", std::to_string(handlers), "--grace", grace, "--lease", "1000"});
        EXPECT_TRUE(wait_until([&] { return where_.starts_of(name) >= handlers; })) << where_.log();
        return name;
    }

    void finish_with_another_worker()
    {
        where_.start_worker();
        ASSERT_TRUE(wait_until([&] { return where_.is_drained(); })) << where_.log();
        where_.stop_all();
    }

    void expect_nothing_wrong()
    {
        const auto judged = where_.judged({.attempts_max = 50, .clock_tolerance = 5ms});
        EXPECT_THAT(judged.violations(), IsEmpty()) << to_text(judged) << where_.log();
    }

    scene where_{GetParam()};
};

} // namespace

// Proves: I5, I6, F27
TEST_P(sigterm, handlers_end_and_what_has_not_begun_loses_no_attempt)
{
    const auto ids = add_many(12, {"slow", "400"});
    const auto worker = start_busy_worker(4, "10000");
    where_.stop(worker, soon);

    std::size_t done = 0;
    for (const auto id : ids) {
        const auto seen = where_.look(id);
        const bool ended = seen.state == message_state::done;
        done += ended ? 1U : 0U;
        EXPECT_EQ(seen.attempts, ended ? 1 : 0);
        EXPECT_TRUE(ended || seen.state == message_state::ready) << to_string(seen.state);
    }
    EXPECT_EQ(done, where_.starts_of(worker)) << "every handler that had begun ended";
    EXPECT_LT(done, ids.size()) << "it was stopped in the middle";
    EXPECT_THAT(where_.answers_to(worker), Each(settled_as::done));

    finish_with_another_worker();
    for (const auto id : ids)
        EXPECT_EQ(where_.look(id).attempts, 1);
    expect_nothing_wrong();
}

// Proves: F27
TEST_P(sigterm, handlers_are_asked_to_end_before_the_grace_period_is_over)
{
    const auto id = where_.add({"polite", ""});
    const auto worker = start_busy_worker(1, "2000");
    const auto asked = std::chrono::steady_clock::now();
    where_.stop(worker, soon);
    const auto took = std::chrono::steady_clock::now() - asked;
    EXPECT_GE(took, 1400ms) << "three quarters of the grace are the handler's";
    EXPECT_LT(took, soon);
    EXPECT_THAT(where_.answers_to(worker), ::testing::ElementsAre(settled_as::retrying));
    EXPECT_EQ(where_.look(id).attempts, 1);
}

// Proves: F27
TEST_P(sigterm, a_handler_that_never_ends_is_not_waited_for_beyond_the_grace_period)
{
    where_.add({"deaf", ""});
    const auto worker = start_busy_worker(1, "1000");
    const auto asked = std::chrono::steady_clock::now();
    where_.stop(worker, soon);
    EXPECT_LT(std::chrono::steady_clock::now() - asked, soon);
    EXPECT_THAT(where_.log(), ::testing::HasSubstr("1 left running"));
}

// Proves: F27
TEST_P(sigterm, the_second_one_ends_the_process_quickly_and_loses_nothing)
{
    const auto deaf = where_.add({"deaf", ""});
    const auto slow = where_.add({"slow", "1"});
    const auto worker = start_busy_worker(2, "600000");
    ASSERT_TRUE(wait_until([&] { return where_.is_done(slow); })) << where_.log();
    where_.of(worker).send(SIGTERM);
    EXPECT_EQ(where_.of(worker).wait(300ms), std::nullopt) << "the first one waits";
    const auto asked = std::chrono::steady_clock::now();
    where_.stop(worker, soon);
    EXPECT_LT(std::chrono::steady_clock::now() - asked, soon);
    EXPECT_EQ(where_.look(deaf).state, message_state::claimed) << "until its lease runs out";
    EXPECT_EQ(where_.look(deaf).attempts, 1);
}

INSTANTIATE_TEST_SUITE_P(stores, sigterm, ::testing::ValuesIn(kinds_for_processes()),
                         [](const auto& kind) { return kind.param.name; });

} // namespace posthorn::torture
