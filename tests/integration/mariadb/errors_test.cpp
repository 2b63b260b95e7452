// Every kind of error that a MariaDB server gives, provoked for real: what it is called, whether
// trying again helps, which statement it hit, and that no password is in its words.
#include "gate/tcp_gate.hpp"
#include "integration/mariadb/fresh_database.hpp"
#include "integration/mariadb/own_server.hpp"
#include <posthorn/testing/manual_clock.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace posthorn::test {
namespace {

using namespace std::chrono_literals;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

const message some{.topic = "orders", .payload = "payload"};
const std::string secret = "s3cr3t";

/// A user with a password and no rights; gone with this object.
class scratch_user {
public:
    explicit scratch_user(native_client& root, const std::string& options = {}) : root_(root)
    {
        root_.run("CREATE USER " + name + "@'%' IDENTIFIED BY '" + secret + "' " + options);
    }
    scratch_user(const scratch_user&) = delete;
    scratch_user& operator=(const scratch_user&) = delete;
    ~scratch_user()
    {
        try {
            root_.run("DROP USER " + name + "@'%'");
        } catch (const std::exception& failure) {
            ADD_FAILURE() << "the user " << name << " stays behind: " << failure.what();
        }
    }

    const std::string name = conformance::unused_name();

private:
    native_client& root_;
};

class mariadb_errors : public ::testing::Test {
protected:
    enum class retry { helps, is_useless };

    /// Neither in doubt nor indiscreet.
    static void expect(const error& failure, error_code code, retry again, int native,
                       const std::string& statement)
    {
        EXPECT_EQ(failure.code(), code) << failure.what();
        EXPECT_EQ(failure.retryable(), again == retry::helps) << failure.what();
        EXPECT_FALSE(failure.in_doubt()) << failure.what();
        EXPECT_EQ(failure.native_code(), native) << failure.what();
        EXPECT_EQ(failure.statement(), statement) << failure.what();
        EXPECT_THAT(failure.what(), Not(HasSubstr(secret)));
    }

    [[nodiscard]] std::string url_as(const std::string& user, std::uint16_t port = 0) const
    {
        return "mariadb://" + user + ":" + secret +
               "@127.0.0.1:" + std::to_string(port == 0 ? server_address::of_tests().port : port) +
               "/" + database.name;
    }

    /// What opening gives.
    static error refusal_of(const std::string& url)
    {
        return error_of([&] { (void)mariadb::open(url); });
    }

    /// A claimed message that has a row in the queue.
    receipt claim_one(store& db)
    {
        enqueue(db, some, {.priority = 1});
        return outbox(db).claim(worker, {.limit = 1}).receipts().at(0);
    }

    static std::string lock_of(const receipt& which)
    {
        return "SELECT * FROM posthorn_queue WHERE seq = " + std::to_string(which.position) +
               " FOR UPDATE";
    }

    static void wait_until(const std::function<bool()>& condition)
    {
        const auto& clock = *environment::system().clock;
        for (const auto end = clock.monotonic() + 20s; !condition();)
            if (clock.monotonic() > end)
                throw std::runtime_error("it did not happen in time");
            else
                clock.pause(5ms);
    }

    migrated_database database;
    native_client root{database.name};
    owner worker{.token = "token", .worker = "worker"};
};

} // namespace

// Proves: F16
TEST_F(mariadb_errors, a_deadlock_of_two_applications_is_a_serialization_error_of_one_of_them)
{
    native_client first(database.name);
    native_client second(database.name);
    mariadb::borrowed_transaction in_first(first.handle());
    mariadb::borrowed_transaction in_second(second.handle());
    first.run("START TRANSACTION");
    second.run("START TRANSACTION");
    enqueue(in_first, some, {.dedup_key = "a"});
    enqueue(in_second, some, {.dedup_key = "b"});
    const auto try_other = [](native_client& mine, transaction& tx, const std::string& other) {
        std::optional<error> failure;
        try {
            enqueue(tx, some, {.dedup_key = other});
            mine.run("COMMIT");
        } catch (const error& caught) {
            failure = caught;
            // The server has ended the transaction: nothing must be enqueued outside of one.
            EXPECT_EQ(error_of([&] { enqueue(tx, some); }).code(), error_code::no_transaction);
            mine.run("ROLLBACK");
        }
        return failure;
    };
    auto waiting = std::async(std::launch::async, [&] { return try_other(first, in_first, "b"); });
    const auto of_second = try_other(second, in_second, "a");
    const auto of_first = waiting.get();
    ASSERT_NE(of_first.has_value(), of_second.has_value()) << "one of them is the victim";
    expect(of_first ? *of_first : *of_second, error_code::serialization, retry::helps, 1213,
           "open_dedup");
    auto db = mariadb::open(database.url());
    EXPECT_EQ(count_messages(db).ready, 2) << "the other one's";
}

// Proves: I5, F16
TEST_F(mariadb_errors, a_deadlock_that_hits_our_own_transaction_is_run_again_and_costs_nothing)
{
    auto db = mariadb::open(database.url());
    for (const bool failing : {false, true}) {
        const auto held = claim_one(db);
        native_client app(database.name);
        app.run("START TRANSACTION");
        // Whoever has written less is the victim.
        app.run(
            "INSERT INTO posthorn_own_id (id, seq) SELECT UNHEX(MD5(seq)), 0 FROM seq_1_to_200");
        app.run(lock_of(held));
        auto settled = std::async(std::launch::async, [&] {
            return failing ? outbox(db).fail(worker, {&held, 1}, "as asked")
                           : outbox(db).acknowledge(worker, {&held, 1});
        });
        wait_until([&] { // they hold their batch
            return root.run("SELECT 1 FROM posthorn_batch FOR UPDATE SKIP LOCKED").empty();
        });
        const auto deadlocks = [&] {
            return std::stoll(
                root.run("SELECT variable_value FROM information_schema.global_status "
                         "WHERE variable_name = 'Innodb_deadlocks'"));
        };
        const auto before = deadlocks();
        app.run("SELECT * FROM posthorn_batch FOR UPDATE");
        EXPECT_GT(deadlocks(), before);
        app.run("ROLLBACK");
        EXPECT_EQ(settled.get().answers,
                  std::vector{failing ? settled_as::dead : settled_as::done});
        EXPECT_EQ(find_message(db, held.id)->attempts, 1);
    }
}

// Proves: I1
TEST_F(mariadb_errors, a_lock_wait_that_ends_in_the_middle_takes_the_whole_operation_back)
{
    auto db = mariadb::open(database.url("?lock_timeout=1s"));
    enqueue(db, some); // acknowledged before the other one, which somebody holds
    enqueue(db, some, {.priority = -1});
    const auto held = outbox(db).claim(worker).receipts();
    ASSERT_EQ(held.size(), 2U);
    root.run("START TRANSACTION");
    root.run(lock_of(held[1]));
    expect(error_of([&] { (void)outbox(db).acknowledge(worker, held); }), error_code::busy,
           retry::helps, 1205, "lock_queued_list");
    EXPECT_EQ(count_messages(db).claimed, 2);
    root.run("ROLLBACK");
    EXPECT_EQ(outbox(db).acknowledge(worker, held).answers,
              (std::vector{settled_as::done, settled_as::done}));
}

// Proves: OUT-01
TEST_F(mariadb_errors, a_lock_wait_that_ends_leaves_the_applications_transaction_as_it_was)
{
    auto db = mariadb::open(database.url());
    const auto where = enqueue(db, some);
    const auto id = where.id;
    root.run("START TRANSACTION");
    root.run("SELECT * FROM posthorn_ready WHERE seq = " + std::to_string(where.position) +
             " FOR UPDATE");
    native_client app(database.name);
    app.run("SET innodb_lock_wait_timeout = 1");
    app.run("START TRANSACTION");
    mariadb::borrowed_transaction tx(app.handle());
    enqueue(tx, some);
    expect(error_of([&] { (void)cancel(tx, id); }), error_code::busy, retry::helps, 1205,
           "take_one_ready");
    app.run("COMMIT");
    root.run("ROLLBACK");
    EXPECT_EQ(count_messages(db).ready, 2);
}

TEST_F(mariadb_errors, a_statement_that_somebody_kills_is_busy_and_its_connection_stays)
{
    auto db = mariadb::open(database.url());
    const auto held = claim_one(db);
    native_client app(database.name);
    app.run("START TRANSACTION");
    app.run(lock_of(held));
    auto failure = std::async(std::launch::async, [&] {
        return error_of([&] { (void)outbox(db).acknowledge(worker, {&held, 1}); });
    });
    std::string victim;
    wait_until([&] {
        victim = root.run("SELECT id FROM information_schema.processlist WHERE db = '" +
                          database.name + "' AND id <> CONNECTION_ID() AND command = 'Execute' " +
                          "AND info LIKE 'SELECT q.seq, q.place%'");
        return !victim.empty();
    });
    root.run("KILL QUERY " + victim);
    const auto killed = failure.get();
    expect(killed, error_code::busy, retry::helps, 1317, "lock_queued_list");
    EXPECT_FALSE(killed.poisons_connection());
    app.run("ROLLBACK");
    EXPECT_EQ(outbox(db).acknowledge(worker, {&held, 1}).answers, std::vector{settled_as::done});
}

// Proves: F2, I1
TEST_F(mariadb_errors, a_server_that_shuts_down_is_a_lost_connection_and_then_unavailable)
{
    own_server server;
    const auto url = "mariadb://root@127.0.0.1:" + server.port() + "/mysql";
    mariadb::migrate(url);
    // Its pauses before the next try take no time.
    auto quick = environment::system();
    quick.clock = std::make_shared<testing::manual_clock>();
    auto db = mariadb::open(url, {.environment = quick});
    auto tx = db.begin();
    enqueue(tx, some);
    server.run("stop");
    const auto lost = error_of([&] { enqueue(tx, some); });
    EXPECT_EQ(lost.code(), error_code::connection_lost) << lost.what();
    EXPECT_TRUE(lost.retryable());
    EXPECT_FALSE(lost.in_doubt());
    EXPECT_TRUE(lost.poisons_connection());
    EXPECT_THAT(lost.native_code(), AnyOf(1053, 1927, 2006, 2013));
    const auto away = error_of([&] { enqueue(db, some); });
    EXPECT_THAT(away.native_code(), AnyOf(2002, 2003));
    expect(away, error_code::unavailable, retry::helps, away.native_code(), "connect");
}

TEST_F(mariadb_errors, too_many_connections_are_unavailable_until_there_are_fewer)
{
    const scratch_user limited(root, "WITH MAX_USER_CONNECTIONS 1");
    root.run("GRANT ALL ON " + database.name + ".* TO " + limited.name + "@'%'");
    auto quick = environment::system();
    quick.clock = std::make_shared<testing::manual_clock>();
    auto db = mariadb::open(url_as(limited.name), {.environment = quick});
    {
        auto tx = db.begin();
        enqueue(tx, some);
        const auto failure = error_of([&] { enqueue(db, some); });
        expect(failure, error_code::unavailable, retry::helps, 1226, "connect");
        tx.commit();
    }
    EXPECT_NO_THROW(enqueue(db, some));
    EXPECT_EQ(count_messages(db).ready, 2);
}

// What docs/mariadb.md says that such a user needs, and nothing more.
TEST_F(mariadb_errors, a_user_who_may_only_enqueue_can_do_that_and_nothing_else)
{
    const scratch_user limited(root);
    const auto grant = [&](const std::string& rights, const std::string& table) {
        root.run("GRANT " + rights + " ON " + database.name + ".posthorn_" + table + " TO " +
                 limited.name + "@'%'");
    };
    grant("SELECT", "schema");
    for (const auto* each : {"message", "own_id", "ready", "queue", "dedup"})
        grant("SELECT, INSERT", each);
    grant("UPDATE", "dedup");
    auto db = mariadb::open(url_as(limited.name));
    enqueue(db, some);
    enqueue(db, some, {.ordering_key = "k", .dedup_key = "d"});
    enqueue(db, std::vector<outgoing>(3, {.message = some}));
    EXPECT_EQ(error_of([&] { (void)outbox(db).claim(worker); }).code(), error_code::read_only);
    EXPECT_EQ(root.run("SELECT COUNT(*) FROM posthorn_message"), "5");
}

TEST_F(mariadb_errors, a_user_who_does_not_exist_or_may_not_enter_is_unavailable_for_good)
{
    expect(refusal_of(url_as("nobody")), error_code::unavailable, retry::is_useless, 1045,
           "connect");
    const scratch_user stranger(root);
    expect(refusal_of(url_as(stranger.name)), error_code::unavailable, retry::is_useless, 1044,
           "connect");
}

TEST_F(mariadb_errors, a_server_that_is_not_there_is_told_at_once)
{
    tcp_gate gate("127.0.0.1", server_address::of_tests().port);
    gate.refuse(true);
    const auto refused = refusal_of(url_as("root", gate.port()));
    EXPECT_THAT(refused.native_code(), AnyOf(2002, 2003));
    expect(refused, error_code::unavailable, retry::helps, refused.native_code(), "connect");
    EXPECT_THAT(refused.what(), HasSubstr("is the server running"));
}

TEST_F(mariadb_errors, a_server_that_does_not_answer_is_given_up_after_connect_timeout)
{
    tcp_gate gate("127.0.0.1", server_address::of_tests().port);
    gate.stall(true);
    const auto silent = refusal_of(url_as("root", gate.port()) + "?connect_timeout=1s");
    EXPECT_THAT(silent.code(), AnyOf(error_code::unavailable, error_code::connection_lost));
    expect(silent, silent.code(), retry::helps, silent.native_code(), "connect");
}

TEST_F(mariadb_errors, a_right_that_is_missing_is_read_only_and_says_what)
{
    const scratch_user reader(root);
    root.run("GRANT SELECT ON " + database.name + ".* TO " + reader.name + "@'%'");
    auto db = mariadb::open(url_as(reader.name));
    EXPECT_EQ(count_messages(db).ready, 0);
    const auto failure = error_of([&] { enqueue(db, some); });
    expect(failure, error_code::read_only, retry::is_useless, 1142, "insert_message");
    EXPECT_THAT(failure.what(), HasSubstr("posthorn_message"));
}

// Proves: OUT-03
TEST_F(mariadb_errors, an_id_that_exists_is_a_broken_constraint_and_ends_no_transaction)
{
    auto db = mariadb::open(database.url());
    const auto made_here = enqueue(db, some).id;
    const auto from_outside = message_id::parse("11111111-2222-4333-8444-555555555555").value();
    enqueue(db, some, {.id = from_outside});
    auto tx = db.begin();
    for (const auto& how : {enqueue_options{.id = made_here},
                            {.id = from_outside},
                            {.id = from_outside, .dedup_key = "once"}}) {
        expect(error_of([&] { enqueue(db, some, how); }), error_code::constraint, retry::is_useless,
               0, "");
        expect(error_of([&] { enqueue(tx, some, how); }), error_code::constraint, retry::is_useless,
               0, "");
    }
    enqueue(tx, some);
    tx.commit();
    EXPECT_EQ(count_messages(db).ready, 3);
}

TEST_F(mariadb_errors, parameters_that_nobody_knows_are_refused_before_anything_is_tried)
{
    const auto expect_bad = [&](const std::string& parameters, const std::string& words) {
        const auto failure = refusal_of(url_as("root") + parameters);
        expect(failure, error_code::invalid_argument, retry::is_useless, 0, "");
        EXPECT_THAT(failure.what(), HasSubstr(words));
    };
    expect_bad("?colour=blue", "unknown parameter 'colour'");
    expect_bad("?pool=0", "pool");
    expect_bad("?pool=many", "many");
    expect_bad("?pool=1001", "1001");
    expect_bad("?lock_timeout=soon", "soon");
    expect_bad("?statement_timeout=-1s", "-1s");
    expect_bad("?tls=perhaps", "perhaps");
    expect_bad("?prefix=a-b", "prefix");
    expect_bad("?pool", "name=value");
    expect_bad("?password_file=/nowhere", "both");
}

} // namespace posthorn::test
