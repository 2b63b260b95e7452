// The statements on a message's way, at a million messages: each finds its rows by an index and
// reads about as many as it has work, whatever the statistics say and however large the tables are.
#include "integration/mariadb/fresh_database.hpp"
#include "store/mariadb/connection.hpp"
#include "store/mariadb/location.hpp"
#include "store/mariadb/statements.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace posthorn::test {
namespace {

namespace sql = mariadb::sql;
using ::testing::IsSubsetOf;
using parameters = std::map<int, std::string>;

/// A statement, what it is asked for, and what may be expected of its plan.
struct probe {
    const contract::named_statement& which;
    parameters with = {};               ///< SQL by number; the others are NULL
    std::set<std::string> indexes = {}; ///< that must be used, without the tables' prefix
    std::int64_t rows_max = 10;         ///< read by the engine, lists in JSON included
};

// The contents, by number:
//        1 …   900,000  done
//  900,001 …   930,000  of 1,000 keys: a head each, 28,000 waiting, the last 1,000 arrived
//  930,001 …   940,000  claimed in batches of 100, and plain
//  940,001 …   960,000  plain
//  960,001 …   965,000  due later, except the first 100
//  965,001 …   970,000  parked, of 10 topics, the first 100 expiring
//  970,001 …   980,000  due, with a priority
//  980,001 …   990,000  dead, the first 100 blocking their keys
//  990,001 … 1,000,000  expiring, the first 100 too late
const std::vector<std::string> contents{
    "SET @now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - 1000000, "
    "@day = 86400000000",
    "INSERT INTO {p}message (seq, id_start, created_at, topic, ordering_key, payload) "
    "SELECT seq, UNHEX('0190000000007000800000'), @now, "
    "       IF(seq BETWEEN 965001 AND 970000, CONCAT('topic ', seq % 10), 'orders'), "
    "       IF(seq BETWEEN 900001 AND 930000, CONCAT('key ', seq % 1000), NULL), 'payload' "
    "  FROM seq_1_to_1000000",
    "INSERT INTO {p}finished (seq, state, finished_at, attempts) "
    "SELECT seq, 6, @now, 1 FROM seq_1_to_900000",
    "INSERT INTO {p}ready (seq) SELECT seq FROM seq_940001_to_960000",
    "INSERT INTO {p}queue (seq, place, urgency, due_at, expires_at, finished_at, ordering_key) "
    "SELECT seq, "
    "       CASE WHEN seq <= 901000 THEN 1 WHEN seq <= 929000 THEN 2 WHEN seq <= 930000 THEN 0 "
    "            WHEN seq BETWEEN 965001 AND 970000 THEN 9 "
    "            WHEN seq BETWEEN 980001 AND 980100 THEN 4 "
    "            WHEN seq BETWEEN 980101 AND 990000 THEN 5 ELSE 1 END, "
    "       IF(seq BETWEEN 970001 AND 980000, -(seq % 9) - 1, 0), "
    "       IF(seq BETWEEN 960101 AND 965000, @now + @day, @now), "
    "       CASE WHEN seq BETWEEN 965001 AND 965100 OR seq > 990100 THEN @now + @day WHEN seq > "
    "990000 THEN @now - 1 END, "
    "       IF(seq BETWEEN 980001 AND 990000, @now, NULL), "
    "       CASE WHEN seq <= 930000 THEN CONCAT('key ', seq % 1000) "
    "            WHEN seq BETWEEN 980001 AND 980100 THEN CONCAT('blocked ', seq) END "
    "  FROM seq_900001_to_1000000 WHERE seq NOT BETWEEN 930001 AND 960000",
    "INSERT INTO {p}parked (topic, seq, reason) "
    "SELECT CONCAT('topic ', seq % 10), seq, 0 FROM seq_965001_to_970000",
    "INSERT INTO {p}paused (topic, since) VALUES ('topic 1', @now), ('letters*', @now)",
    "INSERT INTO {p}key_head (ordering_key, seq) SELECT ordering_key, seq FROM {p}queue "
    " WHERE place IN (1, 4) AND ordering_key IS NOT NULL",
    "INSERT INTO {p}batch (fence, owner, worker, claimed_at, lease_until, open, first_seq, "
    "                      last_seq, members, settled, starts) "
    "SELECT seq, 'alice', 'alice', @now, @now + IF(seq <= 10, -1, @day), 100, "
    "       929901 + seq * 100, 930000 + seq * 100, REPEAT('m', 300), '', '' FROM seq_1_to_100",
    "INSERT INTO {p}dedup (topic, dedup_key, id, seq, expires_at) "
    "SELECT 'orders', CONCAT('once ', seq), '', seq, @now + seq - 100 FROM seq_1_to_100000",
    "INSERT INTO {p}own_id (id, seq) SELECT UNHEX(MD5(seq)), seq FROM seq_800001_to_900000"};

std::string seqs(std::int64_t from, std::int64_t to)
{
    std::vector<std::int64_t> all;
    for (auto each = from; each <= to; ++each)
        all.push_back(each);
    return "'" + mariadb::json_list(all) + "'";
}

std::string endings(std::int64_t from, std::int64_t to)
{
    std::string all;
    for (auto each = from; each <= to; ++each)
        all += (all.empty() ? "[" : ",[") + std::to_string(each) + ",1]";
    return "'[" + all + "]'";
}

const std::string now = "@now + 2";
const std::string members = seqs(930'001, 930'100);
const std::string heads = seqs(900'001, 900'100);
const std::string arrivals = seqs(929'001, 929'100);

std::vector<probe> probes_of_claims()
{
    return {
        {sql::look::text, {{sql::look::now, now}}, {"queue_expiry"}},
        {sql::any_ready::text},
        {sql::next_ready::text,
         {{sql::next_ready::after, "0"}, {sql::next_ready::limit, "100"}},
         {"PRIMARY"},
         110},
        {sql::next_ready::text,
         {{sql::next_ready::after, "950000"}, {sql::next_ready::limit, "100"}},
         {"PRIMARY"},
         110},
        {sql::earlier_ready::text,
         {{sql::earlier_ready::until, "950000"}, {sql::earlier_ready::limit, "100"}},
         {"PRIMARY"},
         110},
        {sql::next_urgency::text, {{sql::next_urgency::after, "-1000"}}, {"queue_claim"}},
        {sql::next_urgency::text, {{sql::next_urgency::after, "-1"}}, {"queue_claim"}},
        {sql::next_urgency::text, {{sql::next_urgency::after, "0"}}, {"queue_claim"}},
        {sql::next_in_queue::text,
         {{sql::next_in_queue::urgency, "-5"},
          {sql::next_in_queue::now, now},
          {sql::next_in_queue::limit, "100"}},
         {"queue_claim"},
         110},
        {sql::next_in_queue::text,
         {{sql::next_in_queue::urgency, "0"},
          {sql::next_in_queue::now, now},
          {sql::next_in_queue::limit, "100"}},
         {"queue_claim"},
         110},
        {sql::messages_of::text, {{sql::messages_of::list, members}}, {"PRIMARY"}, 210},
        {sql::take_ready::text,
         {{sql::take_ready::list, seqs(940'001, 940'100)}},
         {"PRIMARY"},
         310},
        {sql::mark_claimed::text,
         {{sql::mark_claimed::list, heads}, {sql::mark_claimed::fence, "7"}},
         {"PRIMARY"},
         410},
        {sql::expirable::text,
         {{sql::expirable::now, now}, {sql::expirable::limit, "50"}},
         {"queue_expiry"},
         60},
        {sql::overdue_batches::text,
         {{sql::overdue_batches::now, "@now"}, {sql::overdue_batches::limit, "5"}},
         {"batch_lease"}},
        {sql::lock_batch::text, {{sql::lock_batch::fence, "20"}}, {"PRIMARY"}},
        {sql::read_batch::text, {{sql::read_batch::fence, "20"}}, {"PRIMARY"}},
        {sql::update_batch::text,
         {{sql::update_batch::fence, "20"},
          {sql::update_batch::open, "1"},
          {sql::update_batch::settled, "'x'"},
          {sql::update_batch::starts, "'x'"}},
         {"PRIMARY"}},
        {sql::renew_batch::text,
         {{sql::renew_batch::fence, "20"}, {sql::renew_batch::lease_until, "1"}},
         {"PRIMARY"}},
        {sql::delete_batch::text, {{sql::delete_batch::fence, "20"}}, {"PRIMARY"}},
    };
}

std::vector<probe> probes_of_endings()
{
    return {
        {sql::topics_of::text, {{sql::topics_of::list, members}}, {"PRIMARY"}, 210},
        {sql::creation_of::text, {{sql::creation_of::list, members}}, {"PRIMARY"}, 210},
        {sql::attempts_of::text, {{sql::attempts_of::list, heads}}, {"PRIMARY"}, 210},
        {sql::late_among::text,
         {{sql::late_among::list, heads}, {sql::late_among::now, now}},
         {"PRIMARY"},
         210},
        {sql::was_called_off::text,
         {{sql::was_called_off::seq, "500000"}, {sql::was_called_off::fence, "7"}}},
        {sql::finish_plain_together::text,
         {{sql::finish_plain_together::list, members},
          {sql::finish_plain_together::state, "6"},
          {sql::finish_plain_together::now, now},
          {sql::finish_plain_together::attempts, "1"},
          {sql::finish_plain_together::fence, "1"}},
         {},
         110},
        {sql::finish_plain::text,
         {{sql::finish_plain::list, endings(930'001, 930'100)},
          {sql::finish_plain::state, "6"},
          {sql::finish_plain::now, now},
          {sql::finish_plain::fence, "1"}},
         {},
         110},
        {sql::lock_queued_list::text, {{sql::lock_queued_list::list, heads}}, {"PRIMARY"}, 210},
        {sql::finish_queued::text,
         {{sql::finish_queued::list, endings(900'001, 900'100)},
          {sql::finish_queued::state, "6"},
          {sql::finish_queued::now, now}},
         {"PRIMARY"},
         310},
        {sql::delete_queued::text, {{sql::delete_queued::list, heads}}, {"PRIMARY"}, 310},
        {sql::requeue_queued::text,
         {{sql::requeue_queued::place, "1"},
          {sql::requeue_queued::now, now},
          {sql::requeue_queued::attempts, "1"},
          {sql::requeue_queued::errors, "1"},
          {sql::requeue_queued::seq, "900001"}},
         {"PRIMARY"}},
        {sql::delete_own_ids::text,
         {{sql::delete_own_ids::list, seqs(890'001, 890'100)}},
         {"PRIMARY"},
         410},
        {sql::delete_messages::text,
         {{sql::delete_messages::list, seqs(890'001, 890'100)}},
         {"PRIMARY"},
         310},
    };
}

std::vector<probe> probes_of_keys()
{
    const std::string key = "_binary 'key 5'";
    return {
        {sql::arrived::text,
         {{sql::arrived::after, "0"}, {sql::arrived::limit, "100"}},
         {"queue_place"},
         210},
        {sql::arrived_before::text,
         {{sql::arrived_before::list, arrivals}},
         {"PRIMARY", "queue_key"},
         410},
        {sql::ensure_heads::text, {{sql::ensure_heads::list, arrivals}}, {"PRIMARY"}, 510},
        {sql::heads_of::text, {{sql::heads_of::list, arrivals}}, {"PRIMARY"}, 310},
        {sql::move_queued::text,
         {{sql::move_queued::list, arrivals}, {sql::move_queued::place, "2"}},
         {"PRIMARY"},
         410},
        {sql::lock_head::text, {{sql::lock_head::ordering_key, key}}, {"PRIMARY"}},
        {sql::next_of_key::text, {{sql::next_of_key::ordering_key, key}}, {"queue_key"}},
        {sql::first_arrived_of_key::text,
         {{sql::first_arrived_of_key::ordering_key, key}},
         {"queue_key"}},
        {sql::delete_head::text, {{sql::delete_head::ordering_key, key}}, {"PRIMARY"}},
        {sql::move_one::text,
         {{sql::move_one::place, "1"}, {sql::move_one::seq, "901001"}},
         {"PRIMARY"}},
        {sql::blocker_of::text,
         {{sql::blocker_of::ordering_key, "_binary 'blocked 980005'"}},
         {"queue_key", "PRIMARY"}},
        {sql::blocking_of_key::text,
         {{sql::blocking_of_key::ordering_key, "_binary 'blocked 980005'"}},
         {"queue_key"}},
    };
}

std::vector<probe> probes_of_parking()
{
    const std::string parked = seqs(965'001, 965'100);
    const std::string topic = "_binary 'topic 5'";
    return {
        {sql::outlook::text,
         {{sql::outlook::now, now}},
         {"queue_claim", "queue_place", "PRIMARY"},
         100},
        {sql::park::text, {{sql::park::list, "'[[930001,0],[930002,1],[930003,2]]'"}}, {"PRIMARY"}},
        {sql::parked_among::text,
         {{sql::parked_among::list, "'[\"746F7069632035\",\"6F7264657273\"]'"},
          {sql::parked_among::after, "0"}},
         {"PRIMARY"}},
        {sql::lock_parked::text,
         {{sql::lock_parked::topic, topic},
          {sql::lock_parked::after, "0"},
          {sql::lock_parked::before, "1000000"},
          {sql::lock_parked::limit, "100"}},
         {"PRIMARY"},
         110},
        {sql::lock_parked_rows::text, {{sql::lock_parked_rows::list, parked}}, {"PRIMARY"}, 210},
        {sql::delete_parked::text, {{sql::delete_parked::list, parked}}, {"PRIMARY"}, 410},
        {sql::resume::text, {{sql::resume::topic, "_binary 'topic 1'"}}, {"PRIMARY"}},
        {sql::seqs_put_aside::text,
         {{sql::seqs_put_aside::after, "966000"},
          {sql::seqs_put_aside::at_limit, "0"},
          {sql::seqs_put_aside::ready_as, "0"},
          {sql::seqs_put_aside::limit, "50"}},
         {"queue_place", "PRIMARY"},
         500}, // why one was put aside is two more look-ups
    };
}

std::vector<probe> probes_of_others()
{
    return {
        {sql::find_seq::text,
         {{sql::find_seq::hint, "500000"},
          {sql::find_seq::id, "UNHEX('0190000000007000800000000007A120')"}},
         {"PRIMARY"}},
        {sql::find_seq::text,
         {{sql::find_seq::hint, "500000"}, {sql::find_seq::id, "UNHEX(MD5(850000))"}},
         {"PRIMARY"}},
        {sql::whereabouts::text, {{sql::whereabouts::seq, "950000"}}, {"PRIMARY"}},
        {sql::take_one_ready::text, {{sql::take_one_ready::seq, "950000"}}, {"PRIMARY"}},
        {sql::lock_queued::text, {{sql::lock_queued::seq, "985000"}}, {"PRIMARY"}},
        {sql::redrive::text,
         {{sql::redrive::place, "1"},
          {sql::redrive::due_at, "@now"},
          {sql::redrive::seq, "985000"}},
         {"PRIMARY"}},
        {sql::find_dedup::text,
         {{sql::find_dedup::topic, "_binary 'orders'"},
          {sql::find_dedup::dedup_key, "_binary 'once 500'"}},
         {"PRIMARY"}},
        {sql::remember_dedup::text,
         {{sql::remember_dedup::id, "''"},
          {sql::remember_dedup::seq, "1"},
          {sql::remember_dedup::expires_at, "1"},
          {sql::remember_dedup::topic, "_binary 'orders'"},
          {sql::remember_dedup::dedup_key, "_binary 'once 500'"}},
         {"PRIMARY"}},
        {sql::ends_of_log::text},
        {sql::creation_from::text, {{sql::creation_from::seq, "500000"}}, {"PRIMARY"}},
        {sql::removable_finished::text,
         {{sql::removable_finished::last, "900000"},
          {sql::removable_finished::until, now},
          {sql::removable_finished::limit, "100"}},
         {"PRIMARY"},
         110},
        {sql::delete_finished::text,
         {{sql::delete_finished::list, seqs(890'001, 890'100)}},
         {"PRIMARY"},
         310},
        {sql::removable_dead::text,
         {{sql::removable_dead::until, now}, {sql::removable_dead::limit, "200"}},
         {"queue_place"},
         410},
        {sql::removable_dedup::text,
         {{sql::removable_dedup::now, "@now"}, {sql::removable_dedup::limit, "50"}},
         {"dedup_expiry"},
         110},
        {sql::forget_dedup::text,
         {{sql::forget_dedup::topic, "_binary 'orders'"},
          {sql::forget_dedup::dedup_key, "_binary 'once 500'"}},
         {"PRIMARY"}},
        {sql::seqs_of_dead::text,
         {{sql::seqs_of_dead::after, "0"}, {sql::seqs_of_dead::limit, "50"}},
         {"queue_place", "PRIMARY"},
         410},
        {sql::seqs_of_dead::text,
         {{sql::seqs_of_dead::after, "985000"}, {sql::seqs_of_dead::limit, "50"}},
         {"queue_place", "PRIMARY"},
         410},
        {sql::seqs_of_ready::text,
         {{sql::seqs_of_ready::after, "0"}, {sql::seqs_of_ready::limit, "50"}},
         {"PRIMARY"},
         110},
        {sql::seqs_finished::text,
         {{sql::seqs_finished::after, "500000"},
          {sql::seqs_finished::state, "6"},
          {sql::seqs_finished::limit, "50"}},
         {"PRIMARY"},
         110},
        {sql::message_rows::text,
         {{sql::message_rows::list, arrivals}, {sql::message_rows::with_payload, "1"}},
         {"PRIMARY"},
         1'100},
        {sql::oldest_ready::text, {}, {"PRIMARY"}},
    };
}

class mariadb_plans : public ::testing::Test {
protected:
    void run(const std::string& text) { db_.execute(db_.with_prefix(text), "test"); }

    struct plan {
        std::set<std::string> read_whole; ///< tables
        std::set<std::string> indexes;
        std::int64_t rows = 0;
        std::string text;
    };

    std::int64_t rows_read()
    {
        return std::stoll(
            db_.ask("SELECT CAST(SUM(variable_value) AS SIGNED) FROM "
                    "information_schema.session_status WHERE variable_name LIKE 'Handler_read%'",
                    "count")
                .value());
    }

    /// Runs a statement in a transaction that is rolled back, and returns how the server did it.
    plan plan_of(const probe& what)
    {
        // With its parameters apart, as Posthorn runs it.
        std::string given;
        for (const auto number : what.which.places) {
            const auto found = what.with.find(number);
            given += (given.empty() ? " USING " : ", ") +
                     (found == what.with.end() ? "NULL" : found->second);
        }
        std::string quoted;
        for (const char each : db_.with_prefix(what.which.text))
            quoted += each == '\'' || each == '\\' ? std::string{'\\', each} : std::string{each};
        const auto statement = "EXECUTE IMMEDIATE 'ANALYZE FORMAT=JSON " + quoted + "'" + given;
        plan result;
        run("START TRANSACTION");
        const auto before = rows_read();
        result.text = db_.ask(statement, what.which.name).value();
        result.rows = rows_read() - before - own_reads_;
        run("ROLLBACK");
        gather(nlohmann::json::parse(result.text), result);
        return result;
    }

    void gather(const nlohmann::json& node, plan& into)
    {
        if (!node.is_structured())
            return;
        if (node.is_object() && node.contains("access_type")) {
            const std::string table = node.value("table_name", "");
            // Lists in JSON, rows that the statement itself put aside, and the few pauses, of which
            // everybody wants all.
            if (node.at("access_type") == "ALL" && table != "l" && !table.starts_with('<') &&
                table != db_.prefix() + "paused")
                into.read_whole.insert(table);
            const std::string key = node.value("key", "");
            if (!key.empty())
                into.indexes.insert(key.starts_with(db_.prefix()) ? key.substr(db_.prefix().size())
                                                                  : key);
        }
        for (const auto& each : node)
            gather(each, into);
    }

    void expect_good_plans(const std::string& when)
    {
        for (const auto& some : {probes_of_claims(), probes_of_endings(), probes_of_keys(),
                                 probes_of_parking(), probes_of_others()})
            for (const auto& each : some) {
                SCOPED_TRACE(std::string(each.which.name) + ", " + when);
                const auto found = plan_of(each);
                EXPECT_EQ(found.read_whole, std::set<std::string>{}) << found.text;
                EXPECT_THAT(each.indexes, IsSubsetOf(found.indexes)) << found.text;
                EXPECT_LE(found.rows, each.rows_max) << found.text;
            }
        expect_look_ups_of_parked_topics();
    }

    // A block, of which the server shows no plan.
    void expect_look_ups_of_parked_topics()
    {
        const auto before = rows_read();
        std::vector<std::string> topics;
        {
            auto row = db_.use(sql::parked_topics::text);
            while (row.step())
                topics.emplace_back(row.text(0));
        }
        EXPECT_EQ(topics.size(), 10U);
        EXPECT_LE(rows_read() - before - own_reads_, 50);
    }

    migrated_database database_;
    mariadb::connection db_{mariadb::parse_location(database_.url("?statement_timeout=0s"), {})};
    std::int64_t own_reads_ = 0; ///< by asking for them
};

} // namespace

// Proves: OUT-05, OUT-06, OUT-14
TEST_F(mariadb_plans, no_statement_on_a_messages_way_reads_a_table_of_a_million)
{
    const std::vector<std::string> tables{"message",  "own_id", "ready", "queue",  "key_head",
                                          "finished", "batch",  "dedup", "parked", "paused"};
    // The statistics of an empty table are the usual trap: nobody renews them here but this test.
    for (const auto& each : tables)
        run("ALTER TABLE {p}" + each + " STATS_PERSISTENT = 1 STATS_AUTO_RECALC = 0");
    for (const auto& each : contents)
        run(each);
    (void)rows_read();
    const auto once = rows_read();
    own_reads_ = rows_read() - once;
    expect_good_plans("with the statistics of empty tables");
    for (const auto& each : tables)
        run("ANALYZE TABLE {p}" + each);
    expect_good_plans("with fresh statistics");
}

} // namespace posthorn::test
