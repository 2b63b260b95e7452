// Waiting for a lease: woken by its release or by the end of its holder's time, and not by asking
// over and over. Time is real here, since nobody knows a test's clock while asleep.
#include "hang_limit.hpp"
#include "leases/leasing_test.hpp"
#include "store/contract/backend.hpp"

#include <atomic>
#include <future>
#include <thread>

namespace posthorn::conformance {
namespace {

/// A desk that counts how often it is asked.
class counting_desk final : public contract::lease_desk {
public:
    explicit counting_desk(contract::lease_desk& behind) : behind_(behind) {}

    contract::lease_answer acquire(const contract::lease_request& what) override
    {
        ++asked;
        return behind_.acquire(what);
    }
    bool renew(const contract::held_lease& which, duration length) override
    {
        return behind_.renew(which, length);
    }
    bool release(const contract::held_lease& which) override { return behind_.release(which); }
    std::optional<fence> take_away(std::string_view name, std::optional<fence> from) override
    {
        return behind_.take_away(name, from);
    }
    std::optional<lease_record> find(std::string_view name) override { return behind_.find(name); }
    std::vector<lease_record> list(const lease_filter& which) override
    {
        return behind_.list(which);
    }
    std::unique_ptr<contract::bell> make_bell(std::string_view name) override
    {
        return behind_.make_bell(name);
    }

    std::atomic<int> asked = 0;

private:
    contract::lease_desk& behind_;
};

class counting_backend final : public contract::backend {
public:
    explicit counting_backend(std::shared_ptr<contract::backend> behind)
        : behind_(std::move(behind)), desk_(behind_->leases())
    {}

    std::unique_ptr<contract::session> begin() override { return behind_->begin(); }
    std::unique_ptr<contract::session> read() override { return behind_->read(); }
    counting_desk& leases() override { return desk_; }
    std::unique_ptr<contract::bell> make_bell() override { return behind_->make_bell(); }
    const posthorn::environment& environment() const override { return behind_->environment(); }
    const posthorn::limits& limits() const override { return behind_->limits(); }

private:
    std::shared_ptr<contract::backend> behind_;
    counting_desk desk_;
};

class waiting_for_leases : public leasing_test {
protected:
    void SetUp() override
    {
        leasing_test::SetUp();
        if (IsSkipped())
            return;
        // A store in memory has one handle, and the test's clock.
        real_.emplace(GetParam().can.second_handle ? under_test().open({}) : db());
    }

    [[nodiscard]] bool is_real() const { return GetParam().can.second_handle; }
    [[nodiscard]] store& real() { return *real_; }

    std::future<std::optional<lease>> wait_for(std::string_view name, duration at_most,
                                               const std::stop_token& stop = {})
    {
        return std::async(std::launch::async, [this, name, at_most, stop] {
            return acquire_lease(real(), name, at_most, {.length = 10s}, stop);
        });
    }

    /// Until somebody has asked for it, and found it taken.
    static bool is_waiting(const std::future<std::optional<lease>>& who)
    {
        return who.wait_for(100ms) == std::future_status::timeout;
    }

    /// Where time stands still unless somebody moves it.
    void pass_time_for(const std::future<std::optional<lease>>& who)
    {
        for (int i = 0; !is_real() && i < 1'000; ++i) {
            if (who.wait_for(20ms) == std::future_status::ready)
                return;
            clock().advance(400ms);
        }
    }

private:
    std::optional<store> real_;
};

// Proves: LSE-01
TEST_P(waiting_for_leases, a_free_lease_is_granted_at_once)
{
    const auto got = acquire_lease(real(), "reindex", 0s);
    ASSERT_TRUE(got);
    EXPECT_FALSE(acquire_lease(real(), "reindex", 0s)) << "no time means no wait";
}

// Nothing but its release can end this wait: the holder's time is an hour.
// Proves: LSE-01
TEST_P(waiting_for_leases, a_release_wakes_who_waits)
{
    auto held = taken(real(), "reindex", idle_for(1h));
    auto waiting = wait_for("reindex", 1min);
    EXPECT_TRUE(is_waiting(waiting));
    EXPECT_TRUE(held.release());
    ASSERT_EQ(waiting.wait_for(test::hang_limit), std::future_status::ready);
    const auto got = waiting.get();
    ASSERT_TRUE(got);
    EXPECT_GT(got->fence(), held.fence());
}

// Proves: LSE-01
TEST_P(waiting_for_leases, an_operator_who_takes_it_away_wakes_who_waits)
{
    auto held = taken(real(), "reindex", idle_for(1h));
    auto waiting = wait_for("reindex", 1min);
    EXPECT_TRUE(is_waiting(waiting));
    EXPECT_TRUE(take_lease_away(real(), "reindex"));
    ASSERT_EQ(waiting.wait_for(test::hang_limit), std::future_status::ready);
    EXPECT_TRUE(waiting.get());
}

// Proves: LSE-01, I12
TEST_P(waiting_for_leases, the_end_of_the_holders_time_wakes_who_waits)
{
    const auto held = taken(real(), "reindex", idle_for(400ms));
    auto waiting = wait_for("reindex", 1min);
    pass_time_for(waiting);
    ASSERT_EQ(waiting.wait_for(test::hang_limit), std::future_status::ready);
    const auto got = waiting.get();
    ASSERT_TRUE(got);
    EXPECT_GT(got->fence(), held.fence());
    EXPECT_FALSE(held.is_held());
}

// Proves: LSE-01
TEST_P(waiting_for_leases, nobody_waits_longer_than_wanted)
{
    const auto held = taken(real(), "reindex", idle_for(1h));
    auto waiting = wait_for("reindex", 200ms);
    pass_time_for(waiting);
    ASSERT_EQ(waiting.wait_for(test::hang_limit), std::future_status::ready);
    EXPECT_FALSE(waiting.get());
    EXPECT_TRUE(held.is_held());
}

// Proves: LSE-01
TEST_P(waiting_for_leases, a_wait_ends_when_told_to_stop)
{
    const auto held = taken(real(), "reindex", idle_for(1h));
    std::stop_source stop;
    auto waiting = wait_for("reindex", 1min, stop.get_token());
    EXPECT_TRUE(is_waiting(waiting));
    stop.request_stop();
    ASSERT_EQ(waiting.wait_for(test::hang_limit), std::future_status::ready);
    EXPECT_FALSE(waiting.get());
}

// Proves: LSE-01
TEST_P(waiting_for_leases, the_database_is_hardly_asked_meanwhile)
{
    const auto held = taken(real(), "reindex", idle_for(1h));
    const auto counted = std::make_shared<counting_backend>(real().share());
    store through(counted);
    EXPECT_FALSE(acquire_lease(through, "reindex", 1s));
    // One that cannot ring is asked after 2, 4, 8 … milliseconds.
    EXPECT_LE(counted->leases().asked, GetParam().name == "mariadb" ? 14 : 6);
    EXPECT_GE(counted->leases().asked, 2);
}

// Proves: LSE-01, I12
TEST_P(waiting_for_leases, of_many_who_wait_each_has_its_turn_and_nobody_shares_it)
{
    constexpr int contenders = 8;
    std::atomic<int> inside = 0;
    std::atomic<int> most = 0;
    std::mutex mutex;
    std::vector<fence> granted;
    {
        std::vector<std::jthread> all;
        for (int i = 0; i < contenders; ++i)
            all.emplace_back([&] {
                auto got = acquire_lease(real(), "reindex", 1min, {.length = 1h});
                ASSERT_TRUE(got);
                most = std::max(most.load(), ++inside);
                {
                    const std::lock_guard lock(mutex);
                    granted.push_back(got->fence());
                }
                --inside;
                EXPECT_TRUE(got->release());
            });
    }
    EXPECT_EQ(most, 1);
    EXPECT_EQ(granted.size(), std::size_t{contenders});
    EXPECT_TRUE(std::ranges::adjacent_find(granted, std::greater_equal{}) == granted.end())
        << "each larger than the last";
}

CONFORMANCE_SUITE(waiting_for_leases);

} // namespace
} // namespace posthorn::conformance
