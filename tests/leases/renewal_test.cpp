// What a holder believes, and how long: it renews in time, whatever the length, and stops believing
// before the database does.
#include "core/lease.hpp"
#include "hang_limit.hpp"
#include "leases/leasing_test.hpp"
#include <posthorn/testing/seeded_random.hpp>

#include <condition_variable>
#include <mutex>

namespace posthorn::conformance {
namespace {

using ::testing::HasSubstr;

/// Waits until a token asks to stop. False: it does not.
bool is_asked_to_stop(const std::stop_token& token)
{
    std::mutex mutex;
    std::condition_variable_any changed;
    std::unique_lock lock(mutex);
    return !changed.wait_for(lock, token, test::hang_limit, [] { return false; }) &&
           token.stop_requested();
}

class lease_renewals : public leasing_test {};

// Proves: LSE-02, I13
TEST_P(lease_renewals, a_holder_stops_believing_before_the_database_does)
{
    const auto held = take("reindex", {.length = 10s, .margin = 2s, .renew = false});
    EXPECT_EQ(held.left(), 8s);
    EXPECT_FALSE(held.renews_in());
    clock().advance(8s - 1us);
    EXPECT_TRUE(held.is_held());
    EXPECT_NO_THROW(held.throw_if_lost());
    EXPECT_FALSE(held.stop_token().stop_requested());
    clock().advance(1us);
    EXPECT_FALSE(held.is_held());
    EXPECT_EQ(thrown_by([&] { held.throw_if_lost(); }).code(), error_code::lease_lost);
    EXPECT_TRUE(is_asked_to_stop(held.stop_token()));
    EXPECT_TRUE(find("reindex").held) << "and nobody else gets it yet";
    EXPECT_FALSE(try_lease(db(), "reindex"));
}

// Proves: LSE-02, I13
TEST_P(lease_renewals, the_token_asks_to_stop_without_anybody_looking)
{
    const auto held = take("reindex", idle_for(10s));
    clock().advance(9s);
    EXPECT_TRUE(is_asked_to_stop(held.stop_token()));
    EXPECT_TRUE(find("reindex").held);
}

// Whoever was told so has stopped; nothing can take that back.
// Proves: LSE-02, I13
TEST_P(lease_renewals, what_was_lost_never_comes_back)
{
    auto held = take("reindex", idle_for(10s));
    clock().advance(9s);
    EXPECT_FALSE(held.renew()) << "although the database would have";
    EXPECT_FALSE(held.is_held());
    EXPECT_FALSE(held.release());
}

// Proves: LSE-02
TEST_P(lease_renewals, who_hears_from_the_database_that_it_is_lost_is_asked_to_stop)
{
    auto held = take("reindex");
    ASSERT_TRUE(take_lease_away(db(), "reindex"));
    EXPECT_TRUE(held.is_held()) << "nobody has told it yet";
    EXPECT_FALSE(held.renew());
    EXPECT_FALSE(held.is_held());
    EXPECT_TRUE(is_asked_to_stop(held.stop_token()));
}

// Proves: LSE-02
TEST_P(lease_renewals, a_lease_renews_itself_for_as_long_as_it_is_there)
{
    const auto held = take("reindex", {.length = 30s});
    testing::let_time_pass(clock(), 10min, {&held});
    EXPECT_TRUE(held.is_held());
    EXPECT_FALSE(held.stop_token().stop_requested());
    EXPECT_FALSE(try_lease(db(), "reindex"));
    EXPECT_EQ(find("reindex").fence, held.fence());
}

// Jitter in seconds would outlive them: the bug is number 7 of those known elsewhere.
// Proves: LSE-02
TEST_P(lease_renewals, short_leases_are_renewed_in_time)
{
    auto chance = world(); // that of the suite is always the same
    chance.random = std::make_shared<testing::seeded_random>(7);
    auto db = under_test().open({.environment = chance});
    const auto short_one = taken(db, "short", {.length = 50ms});
    const auto longer = taken(db, "longer", {.length = 1s});
    testing::let_time_pass(clock(), 3s, {&short_one, &longer});
    EXPECT_TRUE(short_one.is_held());
    EXPECT_TRUE(longer.is_held());
}

// Proves: LSE-02, LSE-03, I13
TEST_P(lease_renewals, a_holder_that_stood_still_knows_at_once)
{
    const auto held = take("reindex", {.length = 10s});
    clock().advance(1min); // as after SIGCONT: no thread has run meanwhile
    EXPECT_FALSE(held.is_held());
    EXPECT_EQ(held.left(), 0s);
}

CONFORMANCE_SUITE(lease_renewals);

// Proves: LSE-02
TEST(decisions_on_leases, a_renewal_leaves_time_to_try_again_whatever_the_length)
{
    for (const auto length : {10ms, 50ms, 1'000ms, 30'000ms, 3'600'000ms})
        for (const auto margin : {0.0, 0.1, 0.25})
            for (const auto chance : {0.0, 0.5, 0.999}) {
                const lease_options how{.length = length,
                                        .margin =
                                            std::chrono::duration_cast<duration>(length * margin)};
                const auto after = core::renewed_after(how, chance);
                const auto believed = core::believed_for(how);
                EXPECT_GE(after, how.length * 6 / 10);
                EXPECT_LE(after, believed - (believed - how.length * 6 / 10) / 2);
                EXPECT_LT(believed, how.length + 1us);
            }
    EXPECT_EQ(core::believed_for({.length = 10s}), 9s) << "the margin is a tenth";
}

// Proves: LSE-02
TEST(decisions_on_leases, several_tries_fit_into_what_is_left)
{
    duration left = 10s;
    int tries = 0;
    for (; left > 100ms; ++tries)
        left -= core::tried_again_after(left, 0.999);
    EXPECT_GE(tries, 10);
    EXPECT_LE(tries, 60);
}

// A renewal that hangs must not keep the holder from being told.
// Proves: LSE-02, I13, F16
TEST(leases_in_trouble, a_holder_is_told_in_time_while_its_renewal_hangs)
{
    for (const auto& kind : store_kinds()) {
        if (kind.name != "sqlite_file")
            continue;
        const auto file = kind.make();
        const auto clock = std::make_shared<testing::manual_clock>();
        environment world = environment::system();
        world.clock = clock;
        auto holder = file->open({.environment = world});
        auto other = file->open({.environment = world});
        auto held = try_lease(holder, "reindex", {.length = 10s});
        ASSERT_TRUE(held);
        auto blocking = other.begin(); // nobody else writes
        clock->advance(*held->renews_in());
        EXPECT_TRUE(held->is_held());
        clock->advance(held->left());
        EXPECT_TRUE(is_asked_to_stop(held->stop_token()));
        EXPECT_FALSE(held->is_held());
        blocking.rollback();
    }
}

// Proves: LSE-02
TEST(leases_in_trouble, a_renewal_that_failed_is_tried_again)
{
    for (const auto& kind : store_kinds()) {
        if (kind.name != "sqlite_file")
            continue;
        const auto file = kind.make();
        const auto clock = std::make_shared<testing::manual_clock>();
        std::mutex mutex;
        std::condition_variable logged;
        std::string log;
        environment world = environment::system();
        world.clock = clock;
        world.log = [&](log_level, std::string_view line) {
            const std::lock_guard lock(mutex);
            log += line;
            logged.notify_all();
        };
        auto holder = file->open_impatient({.environment = world});
        auto other = file->open({.environment = environment::system()});
        auto held = try_lease(holder, "reindex", {.length = 10s});
        ASSERT_TRUE(held);
        auto blocking = other.begin();
        clock->advance(*held->renews_in());
        {
            std::unique_lock lock(mutex);
            ASSERT_TRUE(logged.wait_for(lock, test::hang_limit, [&] { return !log.empty(); }));
            EXPECT_THAT(log, HasSubstr("lease 'reindex' could not be renewed"));
        }
        blocking.rollback();
        testing::let_time_pass(*clock, 1min, {&*held});
        EXPECT_TRUE(held->is_held());
    }
}

} // namespace
} // namespace posthorn::conformance
