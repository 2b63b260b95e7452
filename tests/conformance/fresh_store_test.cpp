// The suite's own ground: servers hand out used stores again, and no test may notice.
#include "conformance/conformance_test.hpp"
#include <posthorn/leases.hpp>

#include <memory>
#include <optional>
#include <tuple>

namespace posthorn::conformance {

class fresh_stores : public conformance_test {};

TEST_P(fresh_stores, count_from_the_beginning_whatever_was_in_the_store_before)
{
    std::optional<std::tuple<std::int64_t, fence, fence>> first;
    for (int round = 0; round < 3; ++round) {
        const auto made = GetParam().make();
        auto fresh = made->open({.environment = world()});
        ASSERT_EQ(list_messages(fresh).size(), 0U);
        ASSERT_EQ(list_leases(fresh).size(), 0U);

        outbox box(fresh);
        (void)enqueue(fresh, {"orders", "x"}, {.ordering_key = "k", .dedup_key = "once"});
        EXPECT_FALSE(
            enqueue(fresh, {"orders", "x"}, {.ordering_key = "k", .dedup_key = "twice"}).duplicate);
        const auto claimed = box.claim(alice, {.limit = 1});
        ASSERT_EQ(claimed.size(), 1U);
        const auto record = find_message(fresh, ids_of(claimed).front()).value();
        const auto held = try_lease(fresh, "reindex", {.renew = false});
        const auto seen = std::tuple(record.position, record.fence, held.value().fence());
        if (!first)
            first = seen;
        EXPECT_EQ(seen, *first);
    }
}

TEST_P(fresh_stores, have_nothing_that_somebody_has_built_into_another)
{
    for (int round = 0; round < 2; ++round) {
        const auto made = GetParam().make();
        const auto app = made->connect(world());
        app->execute("CREATE TABLE " + made->table_of_application() + " (fact INTEGER)");
        EXPECT_EQ(app->count("SELECT count(*) FROM " + made->table_of_application()), 0);
    }
}

CONFORMANCE_SUITE(fresh_stores);

} // namespace posthorn::conformance
