// A server of the test's own, which is killed and comes back.
#include "integration/mariadb/fresh_database.hpp"
#include "integration/mariadb/own_server.hpp"

#include <gtest/gtest.h>

#include <string>

namespace posthorn::test {
namespace {

// Proves: F2, I2
TEST(restarted_server, keeps_what_was_committed_and_is_found_again)
{
    own_server server;
    const std::unique_ptr<MYSQL, void (*)(MYSQL*)> root(mysql_init(nullptr), &mysql_close);
    const auto port = server.port();
    ASSERT_NE(mysql_real_connect(root.get(), "127.0.0.1", "root", nullptr, nullptr,
                                 static_cast<unsigned>(std::stoul(port)), nullptr, 0),
              nullptr);
    ASSERT_EQ(mysql_query(root.get(), "CREATE DATABASE shop"), 0);
    const auto url = "mariadb://root@127.0.0.1:" + port + "/shop";
    mariadb::migrate(url);
    auto db = mariadb::open(url);
    outbox box(db);
    const owner worker{.token = "token", .worker = "worker"};
    enqueue(db, {.topic = "orders", .payload = "1"});
    const auto claimed = box.claim(worker);
    ASSERT_EQ(claimed.size(), 1U);
    enqueue(db, {.topic = "orders", .payload = "2"});

    server.run("kill");
    const auto failure = error_of([&] { enqueue(db, {.topic = "orders", .payload = "3"}); });
    EXPECT_EQ(failure.code(), error_code::unavailable);
    EXPECT_TRUE(failure.retryable());
    EXPECT_FALSE(failure.in_doubt());

    server.run("start");
    EXPECT_EQ(server.port(), port);
    enqueue(db, {.topic = "orders", .payload = "4"});
    EXPECT_EQ(box.acknowledge(worker, claimed.receipts()).settled(), 1U);
    const auto next = box.claim(worker);
    ASSERT_EQ(next.size(), 2U);
    EXPECT_EQ(next.deliveries[0].payload, "2");
    EXPECT_EQ(next.deliveries[1].payload, "4");
    EXPECT_GT(next.fence, claimed.fence);
}

} // namespace
} // namespace posthorn::test
