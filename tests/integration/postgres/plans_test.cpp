// The statements on a message's way, at a million messages: each finds its rows by an index and
// touches about as many pages as it has work, whatever the statistics say and however large the
// table is.
#include "integration/postgres/server_fixture.hpp"
#include "store/postgres/connection.hpp"
#include "store/postgres/statements.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace posthorn::test {
namespace {

namespace sql = postgres::sql;
using ::testing::IsSubsetOf;
using parameters = std::map<int, std::string>;

/// A statement, what it is asked for, and what may be expected of its plan.
struct probe {
    const contract::named_statement& which;
    parameters with = {};               ///< SQL by number; the others are NULL
    std::set<std::string> indexes = {}; ///< that must be used
    std::int64_t pages_max = 100;       ///< touched, in a table of tens of thousands
};

// The contents, by number:
//        1 …   900,000  done
//  900,001 …   930,000  of 1,000 keys: a head each, 28,000 behind, the last 1,000 arrived
//  930,001 …   940,000  claimed and started, in batches of 100
//  940,001 …   960,000  plain
//  960,001 …   970,000  due later, except the first 100
//  970,001 …   980,000  due, with a priority
//  980,001 …   990,000  dead
//  990,001 … 1,000,000  expiring, the first 100 too late
//  1,000,001 … 1,030,000  put aside, of 30 topics
constexpr const char* contents = R"sql(
INSERT INTO {p}message (seq, id, created_at, due_at, finished_at, failed_at, state, place, attempts,
                        fence, started_at, expires_at, priority, ordering_key, topic, payload)
SELECT n, {p}numbered_id('0190000000007000800000', n), now,
       now + CASE WHEN n BETWEEN 960101 AND 970000 THEN day ELSE 0 END,
       CASE WHEN n <= 900000 OR n BETWEEN 980001 AND 990000 THEN now ELSE 0 END,
       CASE WHEN n BETWEEN 980001 AND 990000 THEN now ELSE 0 END,
       CASE WHEN n <= 900000 THEN 6 WHEN n BETWEEN 930001 AND 940000 THEN 3
            WHEN n BETWEEN 980001 AND 990000 THEN 5 ELSE 0 END,
       CASE WHEN n <= 900000 THEN 0 WHEN n <= 901000 THEN 1 WHEN n <= 929000 THEN 4
            WHEN n <= 930000 THEN 3 WHEN n <= 960000 THEN 0 WHEN n <= 970000 THEN 2
            WHEN n <= 980000 THEN 1 WHEN n <= 990000 THEN 6 WHEN n <= 1000000 THEN 1
            ELSE 7 + n % 3 END,
       CASE WHEN n BETWEEN 930001 AND 940000 THEN 1 ELSE 0 END,
       CASE WHEN n BETWEEN 930001 AND 940000 THEN (n - 930001) / 100 + 1 ELSE 0 END, now,
       CASE WHEN n > 1000000 THEN 0 WHEN n > 990100 THEN now + day WHEN n > 990000 THEN now - 1
            ELSE 0 END,
       CASE WHEN n BETWEEN 970001 AND 980000 THEN n % 9 + 1 ELSE 0 END,
       CASE WHEN n BETWEEN 900001 AND 930000 THEN 'key ' || n % 1000 ELSE '' END,
       CASE WHEN n > 1000000 THEN 'aside ' || n % 30 ELSE 'orders' END, 'payload'
  FROM (SELECT {p}clock(NULL) - 1000000 AS now, 86400000000 AS day OFFSET 0) c,
       generate_series(1, 1030000) n;
SELECT setval('{p}message_seq', 1030000), setval('{p}fence_seq', 1000);
UPDATE {p}mark SET low = 900000;
INSERT INTO {p}worker (name) VALUES ('alice');
INSERT INTO {p}key_head (ordering_key, seq)
SELECT 'key ' || n % 1000, n FROM generate_series(900001, 901000) n;
INSERT INTO {p}batch (fence, owner, claimed_at, lease_until, open, plain_from, plain_to, others)
SELECT n, 'alice', 0, {p}clock(NULL) + CASE WHEN n <= 10 THEN -1 ELSE 86400000000 END, 100,
       930001 + (n - 1) * 100, 930000 + n * 100, '{}'
  FROM generate_series(1, 100) n;
INSERT INTO {p}dedup (topic, dedup_key, id, seq, expires_at)
SELECT 'orders', 'once ' || n, {p}numbered_id('0190000000007000800000', n), n,
       {p}clock(NULL) + n - 100
  FROM generate_series(1, 100000) n)sql";

std::string seqs(std::int64_t from, std::int64_t to)
{
    std::string all;
    for (auto each = from; each <= to; ++each)
        all += (all.empty() ? "" : ",") + std::to_string(each);
    return "'{" + all + "}'::bigint[]";
}

std::string id_of(std::int64_t number)
{
    char digits[11];
    std::snprintf(digits, sizeof digits, "%010llx", static_cast<unsigned long long>(number));
    return "'0190000000007000800000" + std::string(digits) + "'::uuid";
}

std::vector<probe> probes()
{
    const std::string batch = seqs(930'001, 930'100);
    const std::string heads = seqs(900'001, 900'100);
    const parameters claim{{sql::claim::anyway, "true"},    {sql::claim::limit, "100"},
                           {sql::claim::low, "940000"},     {sql::claim::owner, "'alice'"},
                           {sql::claim::worker, "'alice'"}, {sql::claim::lease, "30000000"},
                           {sql::claim::start, "100"}};
    auto unless_chores = claim;
    unless_chores[sql::claim::anyway] = "false";
    const auto listing = [](const std::string& places) {
        return parameters{{sql::seqs_in_places::places, places + "::bigint[]"},
                          {sql::seqs_in_places::waits, "false"},
                          {sql::seqs_in_places::ready_as, "0"},
                          {sql::seqs_in_places::after, "0"},
                          {sql::seqs_in_places::limit, "50"}};
    };
    return {
        {sql::claim::text, claim, {"message_due", "message_pkey"}, 3'000},
        {sql::claim::text, unless_chores, {"message_place"}, 200},
        {sql::look::text,
         {{sql::look::seen_before, "1"},
          {sql::look::seen_to, "1000000"},
          {sql::look::low, "940000"}},
         {"message_place", "message_later", "message_expiry", "message_pkey"}},
        {sql::lock_batch::text,
         {{sql::lock_batch::fence, "20"}, {sql::lock_batch::owner, "'alice'"}},
         {"batch_pkey"}},
        {sql::members::text,
         {{sql::members::fence, "1"}, {sql::members::seqs, batch}},
         {"message_pkey"},
         600},
        {sql::start::text,
         {{sql::start::fence, "1"}, {sql::start::seqs, batch}},
         {"message_pkey"},
         600},
        {sql::settle_done::text,
         {{sql::settle_done::fence, "20"},
          {sql::settle_done::owner, "'alice'"},
          {sql::settle_done::seqs, seqs(931'901, 932'000)}},
         {"message_pkey", "batch_pkey"},
         1'000},
        {sql::settle_stretch::text,
         {{sql::settle_stretch::fence, "21"},
          {sql::settle_stretch::owner, "'alice'"},
          {sql::settle_stretch::first, "932001"},
          {sql::settle_stretch::last, "932100"}},
         {"message_pkey", "batch_pkey"},
         1'000},
        {sql::settle_forget::text,
         {{sql::settle_forget::fence, "20"},
          {sql::settle_forget::owner, "'alice'"},
          {sql::settle_forget::seqs, seqs(931'901, 932'000)}},
         {"message_pkey", "batch_pkey"},
         1'000},
        {sql::settle_any::text,
         {{sql::settle_any::fence, "20"},
          {sql::settle_any::owner, "'alice'"},
          {sql::settle_any::seqs, seqs(931'901, 932'000)},
          {sql::settle_any::states, "array_fill(0::bigint, ARRAY[100])"},
          {sql::settle_any::delays, "array_fill(1000::bigint, ARRAY[100])"},
          {sql::settle_any::errors, "array_fill('late'::text, ARRAY[100])"},
          {sql::settle_any::unharmed, "array_fill(NULL::bigint, ARRAY[100])"}},
         {"message_pkey", "batch_pkey"},
         4'000},
        // Of 1,000 heads, 100 may be cheaper to find by walking them in the order of their keys.
        {sql::lock_heads_of::text, {{sql::lock_heads_of::seqs, heads}}, {}, 600},
        {sql::move_heads_of_on::text,
         {{sql::move_heads_of_on::seqs, heads}},
         {"message_key"},
         1'500},
        {sql::move_heads_on::text,
         {{sql::move_heads_on::keys, "ARRAY['key 1', 'key 2']"}},
         {"key_head_pkey"}},
        {sql::ensure_heads::text,
         {{sql::ensure_heads::keys, "ARRAY['key 1', 'key 2', 'new']"}},
         {"message_key"}},
        {sql::lock_heads::text,
         {{sql::lock_heads::keys, "ARRAY['key 1', 'key 2']"}},
         {"key_head_pkey"}},
        {sql::admit::text, {{sql::admit::seqs, seqs(929'001, 929'100)}}, {"key_head_pkey"}, 5'000},
        {sql::arrivals::text, {{sql::arrivals::limit, "100"}}, {"message_place"}, 150},
        {sql::ripen::text, {{sql::ripen::limit, "100"}}, {"message_later"}, 4'000},
        {sql::unpark::text,
         {{sql::unpark::topics, "ARRAY['aside 1', 'aside 2', 'unknown']"},
          {sql::unpark::after, "0"},
          {sql::unpark::limit, "100"}},
         {"message_parked"},
         5'000},
        {sql::outlook::text,
         {{sql::outlook::low, "940000"}, {sql::outlook::arrivals, "true"}},
         {"message_parked", "message_later", "message_expiry", "batch_lease"},
         300},
        // Listed by number: what is ready (each arrival may be a head), was put aside, is dead.
        {sql::seqs_in_places::text, listing("'{1, 2, 3, 9}'"), {"message_place"}, 1'000},
        {sql::seqs_in_places::text, listing("'{7, 8}'"), {"message_place"}, 300},
        {sql::seqs_in_places::text, listing("'{6}'"), {"message_place"}},
        {sql::late::text, {{sql::late::limit, "100"}}, {"message_expiry"}, 150},
        {sql::expire::text, {{sql::expire::seqs, seqs(990'001, 990'100)}}, {"message_pkey"}, 2'000},
        {sql::open_members::text, {{sql::open_members::fence, "1"}}, {"message_pkey"}, 300},
        {sql::overdue_batches::text, {{sql::overdue_batches::limit, "10"}}, {"batch_lease"}},
        {sql::renew::text,
         {{sql::renew::lease, "1"}, {sql::renew::fence, "20"}, {sql::renew::owner, "'alice'"}},
         {"batch_pkey"}},
        {sql::find_message::text,
         {{sql::find_message::hint, "500000"}, {sql::find_message::id, id_of(500'000)}},
         {"message_pkey", "message_id"},
         20},
        {sql::call_off::text,
         {{sql::call_off::state, "7"},
          {sql::call_off::seqs, seqs(950'000, 950'000)},
          {sql::call_off::from_state, "0"},
          {sql::call_off::fence, "0"}},
         {"message_pkey"},
         50},
        {sql::redrive::text, {{sql::redrive::delay, "0"}, {sql::redrive::seq, "985000"}}, {}, 50},
        {sql::delete_dead::text, {{sql::delete_dead::seqs, seqs(985'000, 985'000)}}, {}, 50},
        {sql::removable_dead::text,
         {{sql::removable_dead::age, "0"}, {sql::removable_dead::limit, "100"}},
         {"message_place"},
         300},
        {sql::removable_dead::text,
         {{sql::removable_dead::age, "31536000000000000"}, {sql::removable_dead::limit, "100"}},
         {"message_pkey"},
         300},
        {sql::remove_finished::text,
         {{sql::remove_finished::age, "0"}, {sql::remove_finished::limit, "500"}},
         {"message_pkey"},
         4'000},
        // Nothing is a thousand years old: then hardly anything is looked at.
        {sql::remove_finished::text,
         {{sql::remove_finished::age, "31536000000000000"}, {sql::remove_finished::limit, "500"}},
         {"message_pkey"},
         300},
        {sql::forget_dedup::text,
         {{sql::forget_dedup::limit, "50"}},
         {"dedup_expiry", "dedup_pkey"},
         500},
        {sql::find_dedup::text,
         {{sql::find_dedup::topic, "'orders'"}, {sql::find_dedup::dedup_key, "'once 500'"}},
         {"dedup_pkey"},
         10},
        {sql::blocker_of::text,
         {{sql::blocker_of::ordering_key, "'key 5'"}},
         {"key_head_pkey", "message_pkey"},
         20},
    };
}

class postgres_plans : public server_fixture {
protected:
    void run(const std::string& text) { db_.execute(db_.with_prefix(text), "test"); }

    struct plan {
        std::set<std::string> read_whole; ///< tables
        std::set<std::string> indexes;
        std::int64_t pages = 0;
        std::string text;
    };

    /// Runs a statement in a transaction that is rolled back, and returns how the server did it.
    plan plan_of(const probe& what)
    {
        std::string given;
        for (int i = 1; i <= what.which.parameters; ++i) {
            const auto found = what.with.find(i);
            given += (i == 1 ? "" : ", ") + (found == what.with.end() ? "NULL" : found->second);
        }
        run("PREPARE probed AS " + std::string(what.which.text) + "; BEGIN");
        plan result;
        result.text = db_.ask("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE probed" +
                                  (given.empty() ? "" : "(" + given + ")"),
                              what.which.name)
                          .value();
        run("ROLLBACK; DEALLOCATE probed");
        gather(nlohmann::json::parse(result.text).at(0).at("Plan"), result);
        return result;
    }

    static void gather(const nlohmann::json& node, plan& into)
    {
        if (node.at("Node Type") == "Seq Scan")
            into.read_whole.insert(node.at("Relation Name"));
        if (node.contains("Index Name"))
            into.indexes.insert(node.at("Index Name"));
        into.pages = std::max(into.pages, node.at("Shared Hit Blocks").get<std::int64_t>() +
                                              node.at("Shared Read Blocks").get<std::int64_t>());
        if (node.contains("Plans"))
            for (const auto& each : node.at("Plans"))
                gather(each, into);
    }

    enum class tables { full, empty };

    void expect_good_plans(const std::string& when, tables are = tables::full)
    {
        for (const std::string mode : {"force_generic_plan", "force_custom_plan"}) {
            run("SET plan_cache_mode = " + mode);
            for (const auto& each : probes()) {
                const auto found = plan_of(each);
                SCOPED_TRACE(std::string(each.which.name) + ", " + when + ", " + mode);
                EXPECT_FALSE(found.read_whole.contains("message")) << found.text;
                if (are == tables::full) { // else one index is as good as another
                    EXPECT_THAT(each.indexes, IsSubsetOf(found.indexes)) << found.text;
                }
                // A neighbour's transaction may keep some old rows alive; a walk through the table
                // would touch a hundred times as many.
                EXPECT_LE(found.pages, 4 * each.pages_max) << found.text;
            }
        }
    }

    postgres::connection db_{
        postgres::location::parse(under_test_->url() + "&statement_timeout=0s")};
};

} // namespace

// Proves: OUT-05, OUT-06, OUT-14
TEST_F(postgres_plans, no_statement_on_a_messages_way_reads_a_table_of_a_million)
{
    // The statistics of an empty table are the usual trap: nobody renews them here but this test.
    for (const std::string table : {"message", "batch", "key_head", "dedup"})
        run("ALTER TABLE {p}" + table + " SET (autovacuum_enabled = false); ANALYZE {p}" + table);
    run(contents);
    expect_good_plans("with the statistics of empty tables");
    run("ANALYZE {p}message; ANALYZE {p}batch; ANALYZE {p}key_head; ANALYZE {p}dedup");
    expect_good_plans("with fresh statistics");
    run("TRUNCATE {p}message, {p}batch, {p}key_head, {p}dedup, {p}worker");
    expect_good_plans("emptied, with the statistics of full tables", tables::empty);
}

} // namespace posthorn::test
