// What a stop does to work that is repeated or waits.
#include "hang_limit.hpp"
#include "store/contract/run_again.hpp"
#include <posthorn/stop.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <stop_token>
#include <thread>

namespace posthorn {
namespace {

using namespace std::chrono_literals;

// Proves: I21
TEST(stops, are_requested_by_either_token)
{
    EXPECT_FALSE(stop_request{}.requested());
    std::stop_source one;
    const stop_request gently(one.get_token());
    const stop_request at_once({}, one.get_token());
    EXPECT_FALSE(gently.requested());
    one.request_stop();
    EXPECT_TRUE(gently.requested());
    EXPECT_TRUE(at_once.requested());
}

// Proves: I21, F16
TEST(stops, keep_a_transaction_that_the_database_gave_up_from_being_run_again)
{
    const auto world = environment::system();
    std::stop_source stop;
    int runs = 0;
    const auto victim = [&]() -> int {
        ++runs;
        stop.request_stop();
        throw error(error_code::serialization, "a deadlock", {.retryable = true});
    };
    try {
        contract::run_again(world, victim, stop.get_token());
        FAIL() << "it was not told to stop";
    } catch (const error& told) {
        EXPECT_EQ(told.code(), error_code::stopped);
        EXPECT_TRUE(told.retryable());
        EXPECT_FALSE(told.in_doubt());
    }
    EXPECT_EQ(runs, 1);
}

// Proves: I21
TEST(stops, end_a_rest)
{
    const auto world = environment::system();
    std::stop_source stop;
    const auto began = std::chrono::steady_clock::now();
    const std::jthread other([&] { stop.request_stop(); });
    contract::rest(world, 10h, stop.get_token());
    EXPECT_LT(std::chrono::steady_clock::now() - began, test::hang_limit);
}

} // namespace
} // namespace posthorn
