// Who is granted a lease, and with which fence: the database's clock and its tables decide.
#include "leases/leasing_test.hpp"
#include "store/contract/backend.hpp"
#include <posthorn/retention.hpp>

#include <future>
#include <set>

namespace posthorn::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class leases : public leasing_test {};

// Proves: LSE-01, I12
TEST_P(leases, are_granted_to_one_at_a_time)
{
    auto first = take("reindex");
    EXPECT_EQ(first.name(), "reindex");
    EXPECT_TRUE(first.is_held());
    EXPECT_FALSE(try_lease(db(), "reindex"));
    EXPECT_TRUE(try_lease(db(), "another")) << "names have nothing to do with each other";
}

// Proves: LSE-01, I12
TEST_P(leases, an_expired_lease_passes_on_with_a_larger_fence)
{
    const auto first = take("reindex", idle_for(10s));
    clock().advance(10s - 1us);
    EXPECT_FALSE(try_lease(db(), "reindex"));
    clock().advance(1us);
    const auto second = take("reindex");
    EXPECT_GT(second.fence(), first.fence());
    EXPECT_FALSE(first.is_held());
    EXPECT_TRUE(second.is_held());
}

// Proves: LSE-01, I12
TEST_P(leases, a_released_lease_is_free_at_once_with_a_larger_fence)
{
    auto first = take("reindex");
    EXPECT_TRUE(first.release());
    EXPECT_FALSE(first.is_held());
    const auto second = take("reindex");
    EXPECT_GT(second.fence(), first.fence());
    EXPECT_FALSE(first.release()) << "it was released before";
    EXPECT_TRUE(second.is_held());
}

// Proves: LSE-01
TEST_P(leases, go_with_the_object_that_holds_them)
{
    {
        const auto held = take("reindex");
        EXPECT_TRUE(find("reindex").held);
    }
    EXPECT_FALSE(find("reindex").held);
}

// Proves: LSE-01, I12
TEST_P(leases, a_fence_grows_when_its_lease_was_removed)
{
    const auto fence = take("reindex").fence();
    clock().advance(1h);
    EXPECT_EQ(clean(db(), {.leases = 2h}).leases, 0U);
    EXPECT_EQ(clean(db(), {.leases = 30min}).leases, 1U);
    EXPECT_FALSE(find_lease(db(), "reindex"));
    EXPECT_GT(take("reindex").fence(), fence);
}

// Proves: LSE-01
TEST_P(leases, only_those_that_nobody_has_are_removed)
{
    const auto held = take("held", idle_for(10s));
    (void)take("free");
    EXPECT_EQ(clean(db(), {.leases = 0s}).leases, 0U) << "it was released only now";
    clock().advance(1min);
    EXPECT_EQ(clean(db(), {.leases = 55s}).leases, 0U);
    const auto busy = take("busy", idle_for(1h));
    EXPECT_EQ(clean(db(), {.leases = 0s}).leases, 2U);
    EXPECT_THAT(names(), ElementsAre("busy"));
}

// Proves: LSE-01, I12
TEST_P(leases, a_fence_grows_when_somebody_deletes_the_row)
{
    const auto fence = take("reindex").fence();
    delete_rows();
    const auto next = take("reindex");
    EXPECT_GT(next.fence(), fence);
    EXPECT_GT(take("never seen before").fence(), next.fence());
}

// Proves: LSE-01
TEST_P(leases, who_had_one_before_cannot_release_or_renew_that_of_another)
{
    auto first = take("reindex", idle_for(10s));
    clock().advance(10s);
    const auto second = take("reindex");
    EXPECT_FALSE(first.renew());
    EXPECT_FALSE(first.release());
    EXPECT_TRUE(find("reindex").held);
    EXPECT_EQ(find("reindex").fence, second.fence());
}

// A token for each call, not for each process: the bug is number 6 of those known elsewhere.
// Proves: LSE-01, I12
TEST_P(leases, another_thread_of_the_same_process_is_somebody_else)
{
    constexpr int threads = 4;
    std::vector<std::future<std::optional<lease>>> all;
    for (int i = 0; i < threads; ++i)
        all.push_back(std::async(std::launch::async, [&] { return try_lease(db(), "reindex"); }));
    int granted = 0;
    std::vector<std::optional<lease>> kept;
    for (auto& each : all) {
        kept.push_back(each.get());
        granted += kept.back() ? 1 : 0;
    }
    EXPECT_EQ(granted, 1);
}

// Proves: LSE-01, I15
TEST_P(leases, a_grant_whose_answer_was_lost_is_found_again_by_its_token)
{
    auto& desk = db().backend().leases();
    const contract::lease_request asked{
        .name = "reindex", .token = "token", .holder = "me", .length = 10s};
    const auto once = desk.acquire(asked);
    ASSERT_TRUE(once.granted);
    EXPECT_EQ(desk.acquire(asked).granted, once.granted);
    EXPECT_FALSE(
        desk.acquire({.name = "reindex", .token = "other", .holder = "", .length = 10s}).granted);
}

// Proves: LSE-01
TEST_P(leases, say_how_long_others_have_to_wait)
{
    auto& desk = db().backend().leases();
    const auto held = take("reindex", idle_for(10s));
    clock().advance(4s);
    const auto answer =
        desk.acquire({.name = "reindex", .token = "other", .holder = "", .length = 1s});
    EXPECT_FALSE(answer.granted);
    EXPECT_EQ(answer.left, 6s);
}

TEST_P(leases, refuse_what_can_never_work)
{
    const auto refused = [&](std::string_view name, const lease_options& how) {
        return thrown_by([&] { (void)try_lease(db(), name, how); }).code();
    };
    EXPECT_EQ(refused("", {}), error_code::invalid_argument);
    EXPECT_EQ(refused(std::string(256, 'n'), {}), error_code::invalid_argument);
    EXPECT_EQ(refused("bad\xff", {}), error_code::invalid_argument);
    EXPECT_EQ(refused("n", {.length = 0s}), error_code::invalid_argument);
    EXPECT_EQ(refused("n", {.length = -1s}), error_code::invalid_argument);
    EXPECT_EQ(refused("n", {.length = 10s, .margin = 3s}), error_code::invalid_argument);
    EXPECT_EQ(refused("n", {.length = 10s, .margin = -1s}), error_code::invalid_argument);
    EXPECT_EQ(refused("n", {.holder = std::string(256, 'h')}), error_code::invalid_argument);
    EXPECT_TRUE(try_lease(db(), std::string(255, 'n'), {.holder = std::string(255, 'h')}));
    EXPECT_TRUE(try_lease(db(), "Überprüfung ü", {.holder = "Zoë"}));
}

// Proves: LSE-01
TEST_P(leases, can_be_looked_at)
{
    EXPECT_FALSE(find_lease(db(), "reindex"));
    EXPECT_THAT(list_leases(db()), IsEmpty());
    auto held = take("reindex", {.length = 10s, .renew = false, .holder = "worker-1"});
    clock().advance(4s);
    auto seen = find("reindex");
    EXPECT_EQ(seen.name, "reindex");
    EXPECT_EQ(seen.holder, "worker-1");
    EXPECT_EQ(seen.fence, held.fence());
    EXPECT_TRUE(seen.held);
    EXPECT_EQ(seen.length, 10s);
    EXPECT_EQ(seen.left, 6s);
    EXPECT_EQ(seen.acquired_at, now() - 4s);
    EXPECT_EQ(seen.renewed_at, now() - 4s);
    EXPECT_TRUE(held.renew());
    seen = find("reindex");
    EXPECT_EQ(seen.left, 10s);
    EXPECT_EQ(seen.acquired_at, now() - 4s);
    EXPECT_EQ(seen.renewed_at, now());
    clock().advance(10s);
    EXPECT_FALSE(find("reindex").held);
    EXPECT_EQ(find("reindex").left, 0s);
}

TEST_P(leases, are_listed_by_name_a_page_at_a_time)
{
    (void)take("c");
    const auto held = take("B");
    (void)take("a");
    EXPECT_THAT(names(), ElementsAre("B", "a", "c")) << "by their bytes";
    EXPECT_THAT(names({.held = true}), ElementsAre("B"));
    EXPECT_THAT(names({.limit = 2}), ElementsAre("B", "a"));
    EXPECT_THAT(names({.after = "a", .limit = 2}), ElementsAre("c"));
}

// Proves: LSE-01
TEST_P(leases, an_operator_can_take_one_away)
{
    auto held = take("reindex", idle_for(10s));
    const fence other{static_cast<std::int64_t>(held.fence()) + 1};
    EXPECT_FALSE(take_lease_away(db(), "reindex", other));
    EXPECT_TRUE(find("reindex").held);
    EXPECT_EQ(take_lease_away(db(), "reindex", held.fence()), held.fence());
    EXPECT_FALSE(find("reindex").held);
    EXPECT_FALSE(take_lease_away(db(), "reindex")) << "nobody has it";
    EXPECT_FALSE(take_lease_away(db(), "unknown"));
    EXPECT_FALSE(held.renew()) << "this is how its holder learns of it";
    EXPECT_FALSE(held.is_held());
    EXPECT_GT(take("reindex").fence(), held.fence());
}

CONFORMANCE_SUITE(leases);

TEST(ledger_of_skips_of_leases, every_entry_names_a_test_that_exists)
{
    EXPECT_THAT(entries_without_a_test([](std::string_view suite) {
                    return suite == "leases" || suite == "lease_interleavings" ||
                           suite == "waiting_for_leases";
                }),
                IsEmpty());
}

// Proves: LSE-01
TEST(leases_under_diagnosis, a_fence_that_the_next_one_may_not_exceed_is_found)
{
    for (const auto& kind : store_kinds()) {
        if (!kind.can.other_processes)
            continue;
        SCOPED_TRACE(kind.name);
        const auto made = kind.make();
        auto db = made->open({});
        const auto held = try_lease(db, "reindex");
        const auto complaints = [&] {
            std::vector<std::string> result;
            for (const auto& each : diagnose(made->url()))
                if (each.level == severity::problem && each.check != "durability")
                    result.push_back(each.check);
            return result;
        };
        EXPECT_THAT(complaints(), IsEmpty());
        made->connect(environment::system())
            ->execute("UPDATE " + table_of_leases(*made) + " SET fence = 1000000");
        EXPECT_THAT(complaints(), ElementsAre("fences"));
    }
}

// On a machine that was started anew nobody can still hold what was held before.
// Proves: LSE-01
TEST(leases_on_sqlite, end_when_the_machine_is_started_anew)
{
    for (const auto& kind : store_kinds()) {
        if (kind.name != "sqlite_file")
            continue;
        const auto file = kind.make();
        auto db = file->open({});
        const auto held = try_lease(db, "reindex", {.length = 1h, .renew = false});
        ASSERT_TRUE(held);
        EXPECT_FALSE(try_lease(db, "reindex"));
        file->connect(environment::system())->execute("UPDATE posthorn_lease SET boot = 'another'");
        EXPECT_FALSE(find_lease(db, "reindex")->held);
        const auto next = try_lease(db, "reindex");
        ASSERT_TRUE(next);
        EXPECT_GT(next->fence(), held->fence());
    }
}

} // namespace
} // namespace posthorn::conformance
