// Who sleeps for long is woken by an enqueue of the same open store, and not by its own next look.
#include "integration/mariadb/fresh_database.hpp"
#include "store/contract/backend.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <vector>

namespace posthorn::test {
namespace {

using namespace std::chrono_literals;

constexpr auto long_look = 250ms; ///< half of the longest time between two looks

class mariadb_bell : public ::testing::Test {
protected:
    // Has slept for so long that its looks are rare.
    mariadb_bell()
    {
        while (wait() < long_look)
            bell->arm();
    }

    std::chrono::steady_clock::duration wait()
    {
        const auto begun = std::chrono::steady_clock::now();
        (void)bell->wait(10s);
        return std::chrono::steady_clock::now() - begun;
    }

    migrated_database database;
    store db = mariadb::open(database.url());
    std::unique_ptr<contract::bell> bell = db.backend().make_bell();
};

TEST_F(mariadb_bell, every_enqueue_that_commits_rings)
{
    const message some{.topic = "orders", .payload = ""};
    const std::vector<std::function<void()>> ways{
        [&] { enqueue(db, some); }, [&] { enqueue(db, some, {.ordering_key = "k"}); },
        [&] { enqueue(db, std::vector<outgoing>(10, {.message = some})); },
        [&] {
            auto tx = db.begin();
            enqueue(tx, some);
            tx.commit();
        }};
    for (const auto& way : ways) {
        bell->arm();
        way();
        EXPECT_LT(wait(), long_look);
    }
}

TEST_F(mariadb_bell, what_is_rolled_back_or_only_claimed_does_not_ring)
{
    enqueue(db, {.topic = "orders", .payload = ""});
    bell->arm();
    {
        auto tx = db.begin();
        enqueue(tx, {.topic = "orders", .payload = ""});
        tx.rollback();
    }
    EXPECT_EQ(outbox(db).claim({.token = "token"}).size(), 1U);
    EXPECT_GE(wait(), long_look);
}

} // namespace
} // namespace posthorn::test
