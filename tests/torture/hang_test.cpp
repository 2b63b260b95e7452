// A server that hangs: it answers nothing, and its connections stay open. A worker ends in time all
// the same, and its handlers hear that their time and their leases are over.
#include "hang_limit.hpp"
#include "torture/own_server.hpp"
#include "torture/scene.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace posthorn::torture {
namespace {

using namespace std::chrono_literals;
using ::testing::IsEmpty;

// A worker that waits for the server would do so for 40 seconds, its own limit for a statement, and
// then for the next one. What else takes time is a busy machine.
constexpr duration grace = 2s;
constexpr duration end_max = grace + 15s;

class hanging_servers : public ::testing::TestWithParam<std::string> {
protected:
    hanging_servers() : server_(GetParam())
    {
        migrate(server_.url());
        where_.emplace(server_.url(), server_.table());
    }

    void freeze()
    {
        frozen_at_ = where_->now();
        server_.freeze();
    }
    void thaw()
    {
        server_.thaw();
        where_->tell(checker::fault_event{.kind = checker::fault_kind::server}, frozen_at_);
    }

    std::string start_worker(const std::string& grace, const std::string& lease = "1000")
    {
        return where_->start_worker({"--concurrency", "4", "--grace", grace, "--lease", lease});
    }

    /// Nothing is lost, and nothing was handled more often than a hang allows.
    void finish_with_another_worker()
    {
        where_->start_worker({"--lease", "1000"});
        EXPECT_TRUE(wait_until([&] {
            try {
                return where_->is_drained();
            } catch (const error& failure) {
                EXPECT_TRUE(failure.retryable()) << failure.what();
                return false; // a connection of before
            }
        })) << where_->log();
        where_->stop_all();
        const auto judged = where_->judged({.attempts_max = 50, .clock_tolerance = 5ms});
        EXPECT_THAT(judged.violations(), IsEmpty()) << to_text(judged) << where_->log();
        EXPECT_THAT(where_->wrong_effects(), IsEmpty()) << where_->log();
    }

    own_server server_;
    std::optional<scene> where_;

private:
    timestamp frozen_at_;
};

bool exists(const std::string& file)
{
    return std::filesystem::exists(file);
}

} // namespace

// Proves: I2, I6, I21, F27
TEST_P(hanging_servers, a_worker_that_is_told_to_stop_ends_with_its_grace_period)
{
    for (int i = 0; i < 40; ++i)
        where_->add({i % 2 == 0 ? "effect" : "slow", "20"});
    const auto worker = start_worker(std::to_string(grace / 1ms));
    ASSERT_TRUE(wait_until([&] { return where_->starts_of(worker) > 4; })) << where_->log();
    freeze();
    const auto asked = std::chrono::steady_clock::now();
    where_->stop(worker, test::hang_limit);
    EXPECT_LT(std::chrono::steady_clock::now() - asked, end_max) << where_->log();
    thaw();
    finish_with_another_worker();
}

// Proves: I21, F27
TEST_P(hanging_servers, a_worker_without_work_ends_with_its_grace_period)
{
    const auto id = where_->add({"ordinary", ""});
    const auto worker = start_worker(std::to_string(grace / 1ms));
    ASSERT_TRUE(wait_until([&] { return where_->is_done(id); })) << where_->log();
    freeze();
    const auto asked = std::chrono::steady_clock::now();
    where_->stop(worker, test::hang_limit);
    EXPECT_LT(std::chrono::steady_clock::now() - asked, end_max) << where_->log();
    thaw();
}

// Proves: I21, F27
TEST_P(hanging_servers, a_worker_that_is_told_twice_does_not_wait_for_its_grace_period)
{
    for (int i = 0; i < 40; ++i)
        where_->add({i % 2 == 0 ? "effect" : "slow", "20"});
    const auto worker = start_worker("600000");
    ASSERT_TRUE(wait_until([&] { return where_->starts_of(worker) > 4; })) << where_->log();
    freeze();
    const auto asked = std::chrono::steady_clock::now();
    where_->of(worker).send(SIGTERM);
    EXPECT_EQ(where_->of(worker).wait(300ms), std::nullopt) << "the first one waits";
    where_->stop(worker, test::hang_limit);
    EXPECT_LT(std::chrono::steady_clock::now() - asked, end_max) << where_->log();
    thaw();
    finish_with_another_worker();
}

// Proves: I13, I21, OUT-10
TEST_P(hanging_servers, handlers_hear_that_their_time_and_their_lease_are_over)
{
    const auto file = where_->file("told");
    const auto id = where_->add({"watchful", file});
    const auto worker = start_worker("5000", "1500");
    ASSERT_TRUE(wait_until([&] { return where_->starts_of(worker) == 1; })) << where_->log();
    freeze();
    EXPECT_TRUE(wait_until([&] { return exists(file + ".asked"); }, 20s)) << where_->log();
    EXPECT_TRUE(wait_until([&] { return exists(file + ".lost"); }, 20s)) << where_->log();
    thaw();
    EXPECT_TRUE(wait_until([&] { return where_->is_done(id); })) << where_->log();
    where_->stop(worker);
    finish_with_another_worker();
}

// Proves: I15
TEST_P(hanging_servers, a_commit_that_gets_no_answer_is_unknown_after_a_while)
{
    auto where = open(server_.url() + "?lock_timeout=1s&statement_timeout=1s");
    auto before = where.begin(); // now the connection knows its statements
    enqueue(before, {"ordinary", ""});
    before.commit();
    auto tx = where.begin();
    const auto id = enqueue(tx, {"ordinary", ""}).id;
    freeze();
    try {
        tx.commit();
        ADD_FAILURE() << "there can be no answer";
    } catch (const error& failure) {
        EXPECT_TRUE(failure.in_doubt()) << failure.what();
        EXPECT_FALSE(failure.retryable()) << failure.what();
        EXPECT_TRUE(failure.poisons_connection()) << failure.what();
    }
    thaw();
    EXPECT_TRUE(wait_until([&] {
        try {
            return find_message(where, id).has_value(); // it had been sent
        } catch (const error& failure) {
            EXPECT_TRUE(failure.retryable()) << failure.what();
            return false;
        }
    }));
}

INSTANTIATE_TEST_SUITE_P(engines, hanging_servers, ::testing::Values("postgres", "mariadb"),
                         [](const auto& engine) { return engine.param; });

} // namespace posthorn::torture
