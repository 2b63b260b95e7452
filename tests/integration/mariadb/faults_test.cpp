// Faults, provoked for real: what the server says, and what Posthorn makes of it.
#include "gate/tcp_gate.hpp"
#include "integration/mariadb/fresh_database.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace posthorn::test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

const message some_message{.topic = "orders", .payload = "payload"};

class fault : public ::testing::Test {
protected:
    migrated_database database;
    native_client root{database.name};
    owner worker{.token = "token", .worker = "worker"};
};

TEST_F(fault, a_lock_that_is_held_for_too_long_is_busy)
{
    auto db = mariadb::open(database.url("?lock_timeout=1s"));
    const auto id = enqueue(db, some_message).id;
    root.run("START TRANSACTION");
    root.run("SELECT * FROM posthorn_ready FOR UPDATE");
    const auto failure = error_of([&] { (void)cancel(db, id); });
    EXPECT_EQ(failure.code(), error_code::busy);
    EXPECT_EQ(failure.native_code(), 1205);
    EXPECT_TRUE(failure.retryable());
    EXPECT_FALSE(failure.in_doubt());
    root.run("ROLLBACK");
    EXPECT_EQ(cancel(db, id), cancel_answer::cancelled);
}

TEST_F(fault, a_claim_passes_over_what_others_hold)
{
    auto db = mariadb::open(database.url("?lock_timeout=1s"));
    enqueue(db, some_message);
    const auto second = enqueue(db, some_message).id;
    root.run("START TRANSACTION");
    root.run("SELECT * FROM posthorn_ready ORDER BY seq LIMIT 1 FOR UPDATE");
    const auto claimed = outbox(db).claim(worker);
    ASSERT_EQ(claimed.size(), 1U);
    EXPECT_EQ(claimed.deliveries.front().receipt.id, second);
}

TEST_F(fault, a_statement_that_takes_too_long_is_busy)
{
    auto db = mariadb::open(database.url("?statement_timeout=300ms&lock_timeout=20s"));
    const auto id = enqueue(db, some_message).id;
    root.run("START TRANSACTION");
    root.run("SELECT * FROM posthorn_ready FOR UPDATE");
    const auto failure = error_of([&] { (void)cancel(db, id); });
    EXPECT_EQ(failure.code(), error_code::busy);
    EXPECT_EQ(failure.native_code(), 1969);
}

TEST_F(fault, a_killed_connection_is_replaced)
{
    auto db = mariadb::open(database.url());
    auto tx = db.begin();
    enqueue(tx, some_message);
    const auto victim = root.run("SELECT id FROM information_schema.processlist WHERE db = '" +
                                 database.name + "' AND id <> CONNECTION_ID()");
    root.run("KILL " + victim);
    const auto failure = error_of([&] { enqueue(tx, some_message); });
    EXPECT_EQ(failure.code(), error_code::connection_lost);
    EXPECT_TRUE(failure.retryable());
    EXPECT_TRUE(failure.poisons_connection());
    EXPECT_FALSE(failure.in_doubt());
    enqueue(db, some_message);
    EXPECT_EQ(count_messages(db).ready, 1);
}

TEST_F(fault, a_store_outlives_the_loss_of_all_its_connections)
{
    tcp_gate gate("127.0.0.1", server_address::of_tests().port);
    auto db = mariadb::open(database.url_through(gate.port()));
    for (int i = 0; i < 3; ++i) {
        enqueue(db, some_message);
        gate.cut();
        EXPECT_EQ(count_messages(db).ready, i + 1);
        gate.cut(tcp_gate::ending::close);
    }
    EXPECT_EQ(outbox(db).claim(worker).size(), 3U);
}

TEST_F(fault, a_server_that_is_away_is_unavailable_until_it_is_back)
{
    tcp_gate gate("127.0.0.1", server_address::of_tests().port);
    auto db = mariadb::open(database.url_through(gate.port()));
    gate.refuse(true);
    gate.cut();
    const auto failure = error_of([&] { enqueue(db, some_message); });
    EXPECT_EQ(failure.code(), error_code::unavailable);
    EXPECT_TRUE(failure.retryable());
    EXPECT_FALSE(failure.in_doubt());
    gate.refuse(false);
    enqueue(db, some_message);
    EXPECT_EQ(count_messages(db).ready, 1);
}

// Proves: I15, F4
TEST_F(fault, a_commit_whose_reply_is_lost_is_in_doubt_and_not_repeated)
{
    tcp_gate gate("127.0.0.1", server_address::of_tests().port);
    auto db = mariadb::open(database.url_through(gate.port()));
    gate.lose_reply("COMMIT");
    const auto failure = error_of([&] { enqueue(db, some_message); });
    EXPECT_EQ(failure.code(), error_code::connection_lost);
    EXPECT_TRUE(failure.in_doubt());
    EXPECT_FALSE(failure.retryable());
    EXPECT_EQ(count_messages(db).ready, 1);
}

TEST_F(fault, a_commit_whose_request_is_lost_is_in_doubt_too)
{
    tcp_gate gate("127.0.0.1", server_address::of_tests().port);
    auto db = mariadb::open(database.url_through(gate.port()));
    gate.lose_request("COMMIT");
    EXPECT_TRUE(error_of([&] { enqueue(db, some_message); }).in_doubt());
    EXPECT_EQ(count_messages(db).ready, 0);
}

// The pattern `try { commit } catch { rollback; throw }` must be harmless.
TEST_F(fault, a_transaction_whose_commit_is_in_doubt_takes_a_rollback_and_nothing_else)
{
    tcp_gate gate("127.0.0.1", server_address::of_tests().port);
    auto db = mariadb::open(database.url_through(gate.port()) + "?pool=2&lock_timeout=1s");
    for (int i = 0; i < 3; ++i) {
        auto tx = db.begin();
        enqueue(tx, some_message);
        gate.lose_reply("COMMIT");
        EXPECT_TRUE(error_of([&] { tx.commit(); }).in_doubt());
        for (const auto& deed :
             {std::function<void()>([&] { enqueue(tx, some_message); }),
              std::function<void()>([&] { (void)hold_lease(tx, "lease", fence{1}); }),
              std::function<void()>([&] { (void)mariadb::native_handle(tx); }),
              std::function<void()>([&] { tx.commit(); })})
            EXPECT_EQ(error_of(deed).code(), error_code::no_transaction);
        tx.rollback();
    }
    auto one = db.begin();
    auto other = db.begin();
    for (auto* each : {&one, &other}) {
        enqueue(*each, some_message);
        each->commit();
    }
    EXPECT_EQ(count_messages(db).ready, 5);
}

TEST_F(fault, a_connection_lost_before_the_commit_leaves_no_doubt)
{
    tcp_gate gate("127.0.0.1", server_address::of_tests().port);
    auto db = mariadb::open(database.url_through(gate.port()));
    auto tx = db.begin();
    enqueue(tx, some_message);
    gate.cut();
    const auto failure = error_of([&] { enqueue(tx, some_message); });
    EXPECT_EQ(failure.code(), error_code::connection_lost);
    EXPECT_FALSE(failure.in_doubt());
    EXPECT_TRUE(failure.retryable());
}

TEST_F(fault, a_read_only_transaction_says_so)
{
    root.run("START TRANSACTION READ ONLY");
    mariadb::borrowed_transaction tx(root.handle());
    EXPECT_EQ(error_of([&] { enqueue(tx, some_message); }).code(), error_code::read_only);
}

TEST_F(fault, a_missing_table_is_named_with_its_remedy)
{
    auto db = mariadb::open(database.url());
    root.run("DROP TABLE posthorn_ready");
    const auto failure = error_of([&] { enqueue(db, some_message); });
    EXPECT_EQ(failure.code(), error_code::schema_missing);
    EXPECT_THAT(failure.what(), HasSubstr("posthorn_ready"));
}

TEST_F(fault, a_database_that_does_not_exist_is_not_found)
{
    const auto url = conformance::server_url("POSTHORN_TEST_MARIADB") + "nowhere_to_be_found";
    EXPECT_EQ(error_of([&] { (void)mariadb::open(url); }).code(), error_code::not_found);
}

TEST_F(fault, a_wrong_password_is_refused_and_never_repeated_in_words)
{
    const auto server = server_address::of_tests();
    const auto url = "mariadb://nobody:s3cr%2Ft%40@127.0.0.1:" + std::to_string(server.port) + "/" +
                     database.name;
    const auto failure = error_of([&] { (void)mariadb::open(url); });
    EXPECT_EQ(failure.code(), error_code::unavailable);
    EXPECT_FALSE(failure.retryable());
    EXPECT_THAT(failure.what(), Not(HasSubstr("s3cr")));
}

// A server without encryption is refused before anything is asked of it; one with it is taken.
TEST_F(fault, encryption_that_is_required_is_there_or_the_connection_is_not)
{
    if (root.run("SELECT @@have_ssl") == "YES") {
        auto db = mariadb::open(database.url("?tls=require"));
        enqueue(db, some_message);
        return;
    }
    for (const auto* how : {"?tls=require", "?tls=verify"}) {
        const auto failure = error_of([&] { (void)mariadb::open(database.url(how)); });
        EXPECT_EQ(failure.code(), error_code::unavailable);
        EXPECT_FALSE(failure.retryable());
        EXPECT_THAT(failure.what(),
                    AnyOf(HasSubstr("does not encrypt"), HasSubstr("SSL is required")));
    }
}

TEST_F(fault, a_password_may_hold_any_character_and_come_from_a_file)
{
    const auto user = "u" + std::to_string(environment::system().random->bits() % 1'000'000'000);
    root.run("CREATE USER " + user + "@'%' IDENTIFIED BY 'a/b@c:d?e%f&g'");
    root.run("GRANT ALL ON " + database.name + ".* TO " + user + "@'%'");
    const auto port = std::to_string(server_address::of_tests().port);
    const auto tail = "@127.0.0.1:" + port + "/" + database.name;
    auto db = mariadb::open("mariadb://" + user + ":a%2Fb%40c%3Ad%3Fe%25f%26g" + tail);
    enqueue(db, some_message);
    const auto path = ::testing::TempDir() + user;
    std::ofstream(path) << "a/b@c:d?e%f&g\n";
    EXPECT_EQ(
        count_messages(db = mariadb::open("mariadb://" + user + tail + "?password_file=" + path))
            .ready,
        1);
    root.run("DROP USER " + user + "@'%'");
}

// Proves: OUT-20
TEST_F(fault, a_user_with_execute_alone_can_enqueue_and_nothing_else)
{
    const auto user = "u" + std::to_string(environment::system().random->bits() % 1'000'000'000);
    root.run("CREATE USER " + user + "@'%'");
    root.run("GRANT EXECUTE ON PROCEDURE " + database.name + ".posthorn_enqueue TO " + user +
             "@'%'");
    const auto server = server_address::of_tests();
    const std::unique_ptr<MYSQL, void (*)(MYSQL*)> app(mysql_init(nullptr), &mysql_close);
    ASSERT_NE(mysql_real_connect(app.get(), "127.0.0.1", user.c_str(), "", database.name.c_str(),
                                 server.port, nullptr, CLIENT_MULTI_RESULTS),
              nullptr);
    EXPECT_EQ(mysql_query(app.get(), "CALL posthorn_enqueue('orders', 'x', NULL, @id)"), 0)
        << mysql_error(app.get());
    EXPECT_NE(mysql_query(app.get(), "SELECT * FROM posthorn_message"), 0);
    auto db = mariadb::open(database.url());
    EXPECT_EQ(count_messages(db).ready, 1);
    const auto blind = error_of([&] {
        (void)mariadb::open("mariadb://" + user + "@127.0.0.1:" + std::to_string(server.port) +
                            "/" + database.name);
    });
    EXPECT_EQ(blind.code(), error_code::schema_missing);
    EXPECT_THAT(blind.what(), HasSubstr("no Posthorn tables"));
    root.run("DROP USER " + user + "@'%'");
}

} // namespace
} // namespace posthorn::test
