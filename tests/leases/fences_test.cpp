// Writes under a fence: what counts, and what is refused although its writer believes otherwise.
#include "leases/leasing_test.hpp"
#include <posthorn/dead_letters.hpp>

namespace posthorn::conformance {
namespace {

class fences : public leasing_test {
protected:
    void write_under(const lease& which)
    {
        write_fenced(db(), which, [](transaction& tx) { enqueue(tx, {"written", ""}); });
    }

    error_code refusal(const lease& which)
    {
        return thrown_by([&] { write_under(which); }).code();
    }
};

// Proves: LSE-04
TEST_P(fences, a_holder_writes_and_what_throws_leaves_nothing)
{
    const auto held = take("reindex");
    write_under(held);
    write_under(held);
    EXPECT_EQ(total(), 2U);
    EXPECT_THROW(write_fenced(db(), held,
                              [](transaction& tx) {
                                  enqueue(tx, {"written", ""});
                                  throw std::runtime_error("no");
                              }),
                 std::runtime_error);
    EXPECT_EQ(total(), 2U);
}

// Proves: LSE-04, I12
TEST_P(fences, a_write_is_refused_after_the_lease_has_passed_on)
{
    const auto first = take("reindex", idle_for(10s));
    clock().advance(10s);
    const auto second = take("reindex");
    EXPECT_EQ(refusal(first), error_code::lease_lost);
    EXPECT_EQ(total(), 0U);
    write_under(second);
    EXPECT_EQ(total(), 1U);
}

// Proves: LSE-04
TEST_P(fences, a_write_is_refused_when_the_lease_is_over_released_or_taken_away)
{
    const auto over = take("over", idle_for(10s));
    clock().advance(10s);
    EXPECT_EQ(refusal(over), error_code::lease_lost);
    auto released = take("released");
    released.release();
    EXPECT_EQ(refusal(released), error_code::lease_lost);
    const auto taken_away = take("taken away");
    ASSERT_TRUE(take_lease_away(db(), "taken away"));
    EXPECT_TRUE(taken_away.is_held()) << "it has not heard of it yet";
    EXPECT_EQ(refusal(taken_away), error_code::lease_lost);
    EXPECT_EQ(total(), 0U);
}

// Proves: LSE-04
TEST_P(fences, can_be_held_by_name_and_number)
{
    const auto held = take("reindex");
    auto tx = db().begin();
    EXPECT_TRUE(hold_lease(tx, held));
    EXPECT_TRUE(hold_lease(tx, "reindex", held.fence()));
    EXPECT_FALSE(hold_lease(tx, "reindex", fence{static_cast<std::int64_t>(held.fence()) + 1}));
    EXPECT_FALSE(hold_lease(tx, "unknown", held.fence()));
    tx.rollback();
    EXPECT_TRUE(held.is_held());
    EXPECT_TRUE(find("reindex").held);
}

// Proves: LSE-04
TEST_P(fences, a_place_that_knows_only_numbers_refuses_smaller_ones)
{
    const auto pass = [&](std::string_view name, int number, bool commits = true) {
        auto tx = db().begin();
        const bool passed = pass_fence(tx, name, fence{number});
        if (commits)
            tx.commit();
        return passed;
    };
    EXPECT_TRUE(pass("report", 5));
    EXPECT_TRUE(pass("report", 5)) << "the same holder, again";
    EXPECT_TRUE(pass("report", 7));
    EXPECT_FALSE(pass("report", 6));
    EXPECT_TRUE(pass("report", 9, false));
    EXPECT_TRUE(pass("report", 8)) << "what was rolled back never came";
    EXPECT_TRUE(pass("another", 1));
}

CONFORMANCE_SUITE(fences);

// A grant would wait for the transaction; a renewal need not.
// Proves: LSE-02, LSE-04
TEST(fences_on_postgres, a_holder_is_renewed_in_the_middle_of_a_fenced_write)
{
    for (const auto& kind : store_kinds()) {
        if (kind.name != "postgres")
            continue;
        const auto made = kind.make();
        auto db = made->open_impatient({});
        auto held = try_lease(db, "reindex", {.length = 1h});
        ASSERT_TRUE(held);
        auto tx = db.begin();
        ASSERT_TRUE(hold_lease(tx, *held));
        EXPECT_TRUE(held->renew());
        ASSERT_TRUE(take_lease_away(db, "reindex"));
        EXPECT_EQ(thrown_by([&] { (void)try_lease(db, "reindex"); }).code(), error_code::busy);
        tx.commit();
        EXPECT_TRUE(try_lease(db, "reindex"));
    }
}

} // namespace
} // namespace posthorn::conformance
