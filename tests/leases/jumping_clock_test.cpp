// The application's clock jumps by a day, in both directions: nothing about leases changes, because
// nobody asks it.
#include "leases/leasing_test.hpp"

#include <atomic>

namespace posthorn::conformance {
namespace {

/// The machine's clock, as if somebody had set it.
class jumping_clock final : public clock {
public:
    [[nodiscard]] timestamp now() const override { return real_->now() + jump_.load(); }
    [[nodiscard]] monotonic_time monotonic() const override { return real_->monotonic(); }
    [[nodiscard]] monotonic_time since_boot() const override { return real_->since_boot(); }
    void pause(duration length) const override { real_->pause(length); }

    void jump(duration by) { jump_ = by; }

private:
    std::shared_ptr<clock> real_ = environment::system().clock;
    std::atomic<duration> jump_{};
};

class leases_under_a_jumping_clock : public leasing_test {
protected:
    struct machine {
        std::shared_ptr<jumping_clock> clock = std::make_shared<jumping_clock>();
        std::optional<store> db;
    };

    /// A handle with a clock of its own; the same store, where there can be a second handle.
    machine make()
    {
        machine result;
        auto world = environment::system();
        world.clock = result.clock;
        result.db = under_test().open({.environment = world});
        return result;
    }
};

// Proves: LSE-01, F12, I12
TEST_P(leases_under_a_jumping_clock, nobody_else_gets_what_is_held)
{
    auto holder = make();
    auto other = GetParam().can.second_handle ? make() : holder;
    const auto held = taken(*holder.db, "reindex", {.length = 1h});
    for (const duration by : {duration{24h}, duration{-24h}, duration{}}) {
        for (const auto& each : {holder, other}) {
            each.clock->jump(by);
            EXPECT_TRUE(held.is_held());
            EXPECT_FALSE(try_lease(*other.db, "reindex")) << by.count();
            EXPECT_TRUE(find_lease(*other.db, "reindex")->held);
            EXPECT_NO_THROW(write_fenced(*holder.db, held, [](transaction&) {}));
        }
    }
}

// Proves: LSE-02, F12, I13
TEST_P(leases_under_a_jumping_clock, a_holder_renews_and_others_get_what_is_released)
{
    auto holder = make();
    auto other = GetParam().can.second_handle ? make() : holder;
    for (const duration by : {duration{24h}, duration{-24h}}) {
        auto held = taken(*holder.db, "reindex", {.length = 1h});
        holder.clock->jump(by);
        other.clock->jump(-by);
        EXPECT_TRUE(held.renew());
        EXPECT_GT(held.left(), 50min);
        EXPECT_LE(held.left(), 54min);
        EXPECT_TRUE(held.release());
        auto next = taken(*other.db, "reindex", {.length = 1h});
        EXPECT_GT(next.fence(), held.fence());
        EXPECT_TRUE(next.release());
    }
}

// Proves: LSE-01, F12
TEST_P(leases_under_a_jumping_clock, a_lease_is_over_after_its_length_whatever_the_clock_says)
{
    auto holder = make();
    auto other = GetParam().can.second_handle ? make() : holder;
    const auto held = taken(*holder.db, "reindex", idle_for(300ms));
    other.clock->jump(-24h);
    const auto next = acquire_lease(*other.db, "reindex", 30s);
    ASSERT_TRUE(next);
    EXPECT_FALSE(held.is_held());
}

CONFORMANCE_SUITE(leases_under_a_jumping_clock);

} // namespace
} // namespace posthorn::conformance
