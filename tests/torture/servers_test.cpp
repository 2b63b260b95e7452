// The server goes away under a running worker: it is killed and comes back, or it ends the one
// connection on which the worker sleeps.
#include "hang_limit.hpp"
#include "torture/effects.hpp"
#include "torture/own_server.hpp"
#include "torture/scene.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>

namespace posthorn::torture {
namespace {

using namespace std::chrono_literals;
using ::testing::IsEmpty;

/// The server, then its tables, then everything on them.
struct own_scene {
    explicit own_scene(const std::string& engine) : server(engine)
    {
        migrate(server.url());
        where.emplace(server.url(), server.table());
    }

    own_server server;
    std::optional<scene> where;
};

// A connection of before may fail once.
bool holds_at_last(const std::function<bool()>& condition, duration at_most)
{
    return wait_until(
        [&] {
            try {
                return condition();
            } catch (const error& failure) {
                EXPECT_TRUE(failure.retryable()) << failure.what();
                return false;
            }
        },
        at_most);
}

class servers : public ::testing::TestWithParam<std::string> {};

} // namespace

// Proves: I1, I2, I4, I6, I20, F2
TEST_P(servers, a_worker_outlives_a_server_that_is_killed_under_load_twice)
{
    own_scene all(GetParam());
    auto& where = *all.where;
    const auto worker = where.start_worker({"--lease", "2000"});
    const auto first = where.start_producer(1);
    const auto second = where.start_producer(2);
    for (int crash = 0; crash < 2; ++crash) {
        const auto before = where.starts_of(worker);
        ASSERT_TRUE(wait_until([&] { return where.starts_of(worker) > before + 30; }))
            << where.log();
        const auto asked_at = where.now();
        all.server.kill();
        environment::system().clock->pause(300ms);
        all.server.start();
        const auto at_return = where.starts_of(worker);
        EXPECT_TRUE(wait_until([&] { return where.starts_of(worker) > at_return + 5; }))
            << "nothing is delivered after the server is back\n"
            << where.log();
        where.tell(checker::fault_event{.kind = checker::fault_kind::server}, asked_at);
    }
    where.stop(first);
    where.stop(second);
    where.tell(checker::stop_event{});
    EXPECT_TRUE(holds_at_last([&] { return where.is_drained(); }, test::hang_limit)) << where.log();
    where.stop_all();
    const auto judged =
        where.judged({.attempts_max = 50, .settle_within = 60s, .clock_tolerance = 5ms});
    EXPECT_THAT(judged.violations(), IsEmpty()) << to_text(judged) << where.log();
    EXPECT_THAT(where.wrong_effects(), IsEmpty()) << where.log();
}

// Whether it listens or polls, a worker without work is hardly noticed.
TEST_P(servers, a_worker_without_work_asks_less_than_once_a_second)
{
    constexpr auto length = 12s;
    own_scene all(GetParam());
    auto& where = *all.where;
    const auto worker = where.start_worker({"--lease", "30000"});
    const auto id = where.add({"ordinary", "x"});
    ASSERT_TRUE(wait_until([&] { return where.is_done(id); })) << where.log();
    const auto statements_in_a_stretch = [&] {
        const auto before = all.server.statements();
        environment::system().clock->pause(length);
        return all.server.statements() - before;
    };
    EXPECT_TRUE(wait_until([&] { return statements_in_a_stretch() < length.count(); }))
        << where.log(); // it comes to rest first
    where.stop_all();
}

INSTANTIATE_TEST_SUITE_P(engines, servers, ::testing::Values("postgres", "mariadb"),
                         [](const auto& engine) { return engine.param; });

// Proves: F18
TEST(listeners, a_worker_whose_sleeping_connection_is_ended_is_woken_by_rings_again)
{
    own_scene all("postgres");
    auto& where = *all.where;
    // An hour: only a ring, or a look because the connection was lost, delivers within the limit.
    const auto worker = where.start_worker({"--look-every", "3600000"});
    const auto deliver = [&] {
        const auto id = where.add({"ordinary", "x"});
        return wait_until([&] { return where.is_done(id); });
    };
    const auto end_sleepers = [&] {
        auto tx = where.db().begin();
        return count_in(tx, where.url(),
                        "SELECT count(pg_terminate_backend(pid, 10000)) FROM (SELECT DISTINCT pid "
                        "FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid <> "
                        "pg_backend_pid()) sleeping");
    };
    ASSERT_TRUE(deliver()) << where.log();
    for (int i = 0; i < 3; ++i) {
        ASSERT_TRUE(wait_until([&] { return end_sleepers() == 1; })) << where.log();
        EXPECT_TRUE(deliver()) << "a worker that lost its bell looks by itself\n" << where.log();
        EXPECT_TRUE(deliver()) << "the bell is back\n" << where.log();
    }
    where.stop_all();
    const auto judged = where.judged({.attempts_max = 1, .clock_tolerance = 5ms});
    EXPECT_THAT(judged.violations(), IsEmpty()) << to_text(judged) << where.log();
}

} // namespace posthorn::torture
