// Rows that another program has written past the contract: no such row stops a store.
#include "integration/mariadb/fresh_database.hpp"
#include <posthorn/testing/manual_clock.hpp>
#include <posthorn/worker.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace posthorn::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class bad_rows : public ::testing::Test {
protected:
    // Handles everything that is due, in one pass.
    run_report work_off()
    {
        worker one(db, {.name = "carol"});
        one.handle("*", [this](delivery_view each) { handled.push_back(each.id()); });
        return one.process_outbox();
    }

    environment logging()
    {
        auto world = environment::system();
        world.log = [this](log_level level, std::string_view line) {
            if (level == log_level::error)
                errors.emplace_back(line);
        };
        return world;
    }

    std::string rows()
    {
        return root.run("SELECT (SELECT COUNT(*) FROM posthorn_ready) + "
                        "(SELECT COUNT(*) FROM posthorn_queue) + "
                        "(SELECT COUNT(*) FROM posthorn_batch)");
    }

    migrated_database database;
    std::vector<std::string> errors;
    store db = mariadb::open(database.url(), {.environment = logging()});
    native_client root{database.name};
    const message some{.topic = "orders", .payload = ""};
    std::vector<message_id> handled;
};

} // namespace

// Proves: I20
TEST_F(bad_rows, without_a_message_are_removed_and_the_rest_goes_on)
{
    root.run("INSERT INTO posthorn_ready (seq) SELECT seq FROM seq_1_to_300");
    root.run("INSERT INTO posthorn_queue (seq, place, due_at) VALUES (301, 1, 0)");
    root.run(
        "INSERT INTO posthorn_queue (seq, place, due_at, ordering_key) VALUES (302, 0, 0, 'k')");
    root.run("ALTER TABLE posthorn_message AUTO_INCREMENT = 1000");
    const auto plain = enqueue(db, some).id;
    const auto keyed = enqueue(db, some, {.ordering_key = "k"}).id;
    EXPECT_EQ(work_off().done, 2U);
    EXPECT_THAT(handled, ::testing::UnorderedElementsAre(plain, keyed));
    EXPECT_EQ(rows(), "0");
    EXPECT_THAT(errors, Contains(HasSubstr("for messages that are not there")));
}

// Proves: I3, I20
TEST_F(bad_rows, that_make_a_finished_message_wait_again_do_not_change_its_end)
{
    const auto id = enqueue(db, some).id;
    EXPECT_EQ(work_off().done, 1U);
    const auto ended = find_message(db, id)->finished_at;
    root.run("INSERT INTO posthorn_ready (seq) SELECT seq FROM posthorn_message");
    const auto next = enqueue(db, some).id;
    (void)work_off();
    EXPECT_EQ(find_message(db, id)->finished_at, ended);
    EXPECT_EQ(find_message(db, next)->state, message_state::done);
    EXPECT_EQ(rows(), "0");
    EXPECT_THAT(errors, Contains(HasSubstr("had ended before")));
}

// Proves: I20
TEST_F(bad_rows, that_name_a_message_twice_stop_nothing)
{
    const auto twice = enqueue(db, some, {.priority = -1}).id;
    const auto same = enqueue(db, some, {.delay = std::chrono::hours{1}}).id;
    root.run("INSERT INTO posthorn_ready (seq) SELECT seq FROM posthorn_message");
    root.run("UPDATE posthorn_queue SET due_at = 0");
    const auto next = enqueue(db, some).id;
    (void)work_off();
    for (const auto id : {twice, same, next})
        EXPECT_EQ(find_message(db, id)->state, message_state::done);
    EXPECT_EQ(rows(), "0");
}

// Proves: I20
TEST_F(bad_rows, that_come_back_into_the_queue_stop_nothing)
{
    const auto id = enqueue(db, some, {.delay = std::chrono::hours{1}}).id;
    root.run("INSERT INTO posthorn_ready (seq) SELECT seq FROM posthorn_message");
    outbox box(db);
    const owner who{.token = "token"};
    const auto claimed = box.claim(who);
    ASSERT_EQ(claimed.size(), 1U);
    EXPECT_EQ(box.abandon(who, claimed.receipts()).answers, std::vector{settled_as::retrying});
    EXPECT_EQ(find_message(db, id)->state, message_state::ready);
    EXPECT_EQ(rows(), "1");
}

// A session that may create temporary tables hides ours from the procedure, which runs with the
// rights of another user.
// Proves: OUT-20, I3
TEST_F(bad_rows, are_not_made_by_calls_behind_temporary_tables)
{
    const auto first = enqueue(db, some).id;
    EXPECT_EQ(work_off().done, 1U);
    for (const std::string shadow : {"message", "ready", "queue", "dedup", "own_id"}) {
        native_client caller{database.name};
        caller.run("CREATE OR REPLACE TABLE copy LIKE posthorn_" + shadow);
        for (const std::string options :
             {"NULL", R"('{"ordering_key":"k"}')", R"('{"dedup_key":"d"}')",
              R"('{"id":"9b2d0c6e-1f51-4f0e-9d5c-3f1f0a4c7e01"}')"}) {
            root.run("DELETE FROM posthorn_dedup");
            root.run("DELETE FROM posthorn_own_id");
            SCOPED_TRACE(shadow + " " + options);
            caller.run("CREATE TEMPORARY TABLE posthorn_" + shadow + " LIKE copy");
            caller.run("START TRANSACTION");
            caller.run("CALL posthorn_enqueue('orders', 'x', " + options + ", @id)");
            caller.run("COMMIT");
            const auto id = message_id::parse(caller.run("SELECT @id")).value();
            handled.clear();
            EXPECT_EQ(work_off().done, 1U);
            EXPECT_THAT(handled, ::testing::ElementsAre(id));
            EXPECT_EQ(rows(), "0");
            root.run("DELETE FROM posthorn_message WHERE id_start = UNHEX("
                     "'9b2d0c6e1f514f0e9d5c3f1f0a4c7e01')");
        }
    }
    EXPECT_EQ(find_message(db, first)->attempts, 1);
    EXPECT_TRUE(errors.empty());
}

} // namespace posthorn::test
