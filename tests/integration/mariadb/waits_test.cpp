// Who waits for whom. What one transaction keeps open must not hold up the others; where two want
// the same, the second waits for the first, and both go on.
#include "integration/mariadb/fresh_database.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace posthorn::test {
namespace {

using ::testing::ElementsAre;

class mariadb_waits : public ::testing::Test {
protected:
    std::vector<message_id> claimed()
    {
        std::vector<message_id> ids;
        for (const auto& each : outbox(db).claim(worker).deliveries)
            ids.push_back(each.receipt.id);
        return ids;
    }

    migrated_database database;
    store db = mariadb::open(database.url("?lock_timeout=1s"));
    native_client root{database.name};
    const message some{.topic = "orders", .payload = ""};
    owner worker{.token = "token", .worker = "worker"};
};

TEST_F(mariadb_waits, a_claim_does_not_wait_for_a_member_of_a_join_that_is_not_committed)
{
    const auto join = open_join(db, {.expected = 1});
    const auto first = enqueue(db, some).id;
    auto open = db.begin();
    enqueue(open, some, {.join = join});
    const auto last = enqueue(db, some).id;
    EXPECT_THAT(claimed(), ElementsAre(first, last));
    open.commit();
    EXPECT_EQ(claimed().size(), 1U);
}

TEST_F(mariadb_waits, a_claim_does_not_wait_for_a_message_from_outside_that_is_not_committed)
{
    const auto first = enqueue(db, some).id;
    auto open = db.begin();
    enqueue_inbound(open, {.source = "shop", .id = "1"}, some);
    const auto last = enqueue(db, some).id;
    EXPECT_THAT(claimed(), ElementsAre(first, last));
    open.commit();
    EXPECT_EQ(claimed().size(), 1U);
}

} // namespace
} // namespace posthorn::test
