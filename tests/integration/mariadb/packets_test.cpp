// A server that takes little at once: whatever is done for many messages is cut to what it takes.
#include "integration/mariadb/own_server.hpp"
#include <posthorn/mariadb.hpp>
#include <posthorn/posthorn.hpp>

#include <gtest/gtest.h>
#include <mysql.h>

#include <memory>
#include <string>
#include <vector>

namespace posthorn::test {
namespace {

class small_packets : public ::testing::Test {
protected:
    small_packets()
    {
        const std::unique_ptr<MYSQL, void (*)(MYSQL*)> root(mysql_init(nullptr), &mysql_close);
        mysql_real_connect(root.get(), "127.0.0.1", "root", nullptr, nullptr,
                           static_cast<unsigned>(std::stoul(server.port())), nullptr, 0);
        EXPECT_EQ(mysql_query(root.get(), "SET GLOBAL max_allowed_packet = 1048576"), 0);
        EXPECT_EQ(mysql_query(root.get(), "CREATE DATABASE shop"), 0);
        mariadb::migrate(url);
    }

    own_server server;
    const std::string url = "mariadb://root@127.0.0.1:" + server.port() + "/shop";
};

TEST_F(small_packets, what_is_done_for_many_messages_is_cut_to_their_size)
{
    auto db = mariadb::open(url);
    outbox box(db);
    const owner worker{.token = "token", .worker = "worker"};
    enqueue(db, std::vector<outgoing>(700, {.message = {.topic = "orders", .payload = ""}}));
    std::vector<settlement> failures;
    for (const auto& each : box.claim(worker, {.limit = 700}).receipts())
        failures.push_back({each, retry_in(duration::zero(), std::string(2'000, 'e'))});
    EXPECT_EQ(box.settle(worker, failures).answers, std::vector(700, settled_as::retrying));

    const auto join = open_join(db, {});
    std::vector<outgoing> keyed;
    for (int i = 0; i < 30'000; ++i)
        keyed.push_back(
            {.message = {.topic = "orders", .payload = ""},
             .options = {.ordering_key = std::to_string(i) + std::string(40, 'k'), .join = join}});
    EXPECT_EQ(enqueue(db, keyed).size(), 30'000U);
    EXPECT_EQ(find_join(db, join)->attached, 30'000);

    // Their numbers alone are more than a packet.
    EXPECT_EQ(
        enqueue(db, std::vector<outgoing>(200'000, {.message = {.topic = "orders", .payload = ""}}))
            .size(),
        200'000U);
}

} // namespace
} // namespace posthorn::test
