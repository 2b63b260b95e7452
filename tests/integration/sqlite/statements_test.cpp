// The named statements themselves: each can be prepared, and the hot ones use their indexes.
#include "conformance/conformance_test.hpp"
#include "store/sqlite/connection.hpp"
#include "store/sqlite/schema.hpp"
#include "store/sqlite/statements.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::test {
namespace {

class sqlite_statements : public ::testing::Test {
protected:
    sqlite_statements() { sqlite::bring_up_to_date(db_, environment::system()); }

    /// SQLite's plan in words, one line per step.
    std::string plan_of(const contract::named_statement& which)
    {
        const auto text = "EXPLAIN QUERY PLAN " + db_.with_prefix(which.text);
        sqlite3_stmt* prepared = nullptr;
        EXPECT_EQ(sqlite3_prepare_v2(db_.handle(), text.c_str(), -1, &prepared, nullptr),
                  SQLITE_OK);
        const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> owned(prepared,
                                                                          &sqlite3_finalize);
        std::string plan;
        while (sqlite3_step(prepared) == SQLITE_ROW)
            plan +=
                std::string(reinterpret_cast<const char*>(sqlite3_column_text(prepared, 3))) + "\n";
        return plan;
    }

    sqlite::connection db_{
        "",
        sqlite::connection::access::memory,
        {.prefix = "posthorn_", .busy_timeout = {}, .environment = environment::system()}};
};

} // namespace

TEST_F(sqlite_statements, every_one_can_be_prepared)
{
    for (const auto& each : sqlite::sql::all)
        EXPECT_NO_THROW((void)db_.use(each)) << each.name;
}

TEST_F(sqlite_statements, every_one_says_what_it_is_called_when_it_fails)
{
    sqlite::connection empty{"",
                             sqlite::connection::access::memory,
                             {.prefix = "posthorn_", .environment = environment::system()}};
    const auto failure =
        conformance::thrown_by([&] { (void)empty.use(sqlite::sql::find_seq::text); });
    EXPECT_EQ(failure.code(), error_code::schema_missing);
    EXPECT_EQ(failure.statement(), "find_seq");
}

// Proves: OUT-05, OUT-06, OUT-14
TEST_F(sqlite_statements, the_frequent_ones_use_their_indexes)
{
    using namespace sqlite::sql;
    using ::testing::HasSubstr;
    EXPECT_THAT(plan_of(next_in_queue::text),
                HasSubstr("posthorn_queue_ready (priority=? AND due_at<?)"));
    EXPECT_THAT(plan_of(next_priority::text), HasSubstr("posthorn_queue_ready (priority<?)"));
    EXPECT_THAT(plan_of(queue_new::text),
                HasSubstr("posthorn_queue_key (ordering_key=? AND state<?)"));
    EXPECT_THAT(plan_of(let_key_go_on::text),
                HasSubstr("posthorn_queue_key (ordering_key=? AND state=?)"));
    EXPECT_THAT(plan_of(expirable::text),
                HasSubstr("posthorn_queue_expiry (expires_at>? AND expires_at<?)"));
    EXPECT_THAT(plan_of(next_expiry::text), HasSubstr("posthorn_queue_expiry (expires_at>?)"));
    EXPECT_THAT(plan_of(next_parked::text),
                HasSubstr("posthorn_queue_parked (parked_topic=? AND rowid>?)"));
    EXPECT_THAT(plan_of(next_parked_topic::text),
                HasSubstr("posthorn_queue_parked (parked_topic>?)"));
    EXPECT_THAT(plan_of(removable_finished::text),
                HasSubstr("posthorn_finished_at (finished_at<?)"));
    EXPECT_THAT(plan_of(removable_dead::text), HasSubstr("posthorn_queue_died (finished_at<?)"));
    EXPECT_THAT(plan_of(seqs_of_dead::text), HasSubstr("posthorn_queue_dead (seq>?"));
    EXPECT_THAT(plan_of(find_seq::text), HasSubstr("posthorn_message_id (id=?)"));
    EXPECT_THAT(plan_of(overdue_batches::text), HasSubstr("posthorn_batch_lease (lease_until<?)"));
    EXPECT_THAT(plan_of(find_dedup::text), HasSubstr("PRIMARY KEY (topic=? AND dedup_key=?)"));
    EXPECT_THAT(plan_of(forget_dedup::text), HasSubstr("posthorn_dedup_expiry (expires_at<?)"));
    EXPECT_THAT(plan_of(blocker_of::text),
                HasSubstr("posthorn_queue_key (ordering_key=? AND state=?)"));
}

TEST_F(sqlite_statements, nothing_on_the_way_of_a_message_scans_a_table)
{
    using namespace sqlite::sql;
    const std::vector<contract::named_statement> on_the_way{
        reserve_numbers::text, insert_message::text, queue_new::text,        find_dedup::text,
        remember_dedup::text,  find_seq::text,       log_position::text,     advance_log::text,
        log_has_more::text,    next_in_log::text,    next_priority::text,    next_in_queue::text,
        mark_claimed::text,    insert_batch::text,   find_batch::text,       update_batch::text,
        delete_batch::text,    renew_batch::text,    open_delivery::text,    finish_plain::text,
        finish_queued::text,   delete_queued::text,  requeue_plain::text,    requeue_queued::text,
        let_key_go_on::text,   expirable::text,      overdue_batches::text,  next_parked::text,
        unpark::text,          next_expiry::text,    next_parked_topic::text};
    for (const auto& each : on_the_way) {
        EXPECT_THAT(plan_of(each), ::testing::Not(::testing::HasSubstr("SCAN posthorn")))
            << each.name;
        EXPECT_THAT(plan_of(each), ::testing::Not(::testing::HasSubstr("TEMP B-TREE")))
            << each.name;
    }
    // The first of an index is one look-up, whatever the plan calls it.
    EXPECT_THAT(plan_of(next_lease_end::text),
                ::testing::HasSubstr("USING COVERING INDEX posthorn_batch_lease"));
}

} // namespace posthorn::test
