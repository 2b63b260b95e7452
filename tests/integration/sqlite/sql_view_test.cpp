// The view that is SQLite's SQL contract: what only its dynamic types make possible, what one
// INSERT of many rows does, and that the view is nothing but a way in. The rest of the contract is
// the same for all engines, and so is its test.
#include "conformance/sql_application.hpp"
#include "conformance/sqlite_under_test.hpp"

#include <string>
#include <vector>

namespace posthorn::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class sqlite_sql_view : public sql_application {};

// Proves: OUT-02, OUT-20
TEST_P(sqlite_sql_view, a_value_of_another_type_is_refused)
{
    const auto bytes = sql_bytes{"ab"};
    for (const auto& wrong : std::vector<sql_value>{bytes, 12, sql_raw{"1.5"}})
        expect_refused({{"topic", wrong}}, "topic must");
    for (const auto* name : {"ordering_key", "dedup_key", "correlation_id", "causation_id"})
        expect_refused_with(name, bytes);
    for (const auto* name : {"priority", "delay_ms", "expires_after_ms", "dedup_window_ms"})
        for (const auto& wrong : std::vector<sql_value>{bytes, "5", sql_raw{"1.5"}})
            expect_refused({{"topic", "orders"}, {"dedup_key", "d"}, {name, wrong}},
                           std::string(name) + " must");
    for (const auto& wrong : std::vector<sql_value>{"", "no json", "{", "null", 1, sql_bytes{"{}"}})
        expect_refused({{"topic", "orders"}, {"headers", wrong}}, "headers must");
    expect_refused({{"payload", "payload"}}, "topic must");
}

// Proves: OUT-02, OUT-20
TEST_P(sqlite_sql_view, headers_are_measured_as_they_are_written)
{
    const auto of_bytes = [](std::size_t bytes) {
        return sql_json{R"({"a":")" + std::string(bytes - 8, 'x') + R"("})"};
    };
    EXPECT_EQ(verdict({{"topic", "orders"}, {"headers", of_bytes(65'536)}}), "taken");
    expect_refused_with("headers", of_bytes(65'537));
}

// Proves: OUT-03, OUT-20
TEST_P(sqlite_sql_view, an_id_is_sixteen_bytes)
{
    for (const auto* bad : {"X''", "X'00'", "X'018BCFE5687B7FFFBFFF0000000001'",
                            "X'018BCFE5687B7FFFBFFF00000000000102'", "'sixteen letters!'", "7",
                            "'018bcfe5-687b-7fff-bfff-000000000001'"})
        expect_refused({{"topic", "orders"}, {"id", sql_raw{bad}}}, "id must");
}

// Proves: OUT-20
TEST_P(sqlite_sql_view, the_view_shows_and_changes_nothing_else)
{
    const auto id = send();
    EXPECT_EQ(app().count("SELECT count(*) FROM posthorn_enqueue"), 0);
    EXPECT_NE(verdict_on("UPDATE posthorn_enqueue SET topic = 'other'"), "taken");
    EXPECT_NE(verdict_on("DELETE FROM posthorn_enqueue"), "taken");
    EXPECT_EQ(total(), 1U);
    EXPECT_EQ(look(id).topic, "orders");
}

// Proves: OUT-08, OUT-20
TEST_P(sqlite_sql_view, one_statement_can_add_many)
{
    app().execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) "
                  "INSERT INTO posthorn_enqueue (topic, payload) SELECT 'orders', i FROM n");
    const auto all = list_messages(db(), {.limit = 1'000, .with_payload = true});
    ASSERT_EQ(all.size(), 500U);
    for (std::size_t i = 0; i < all.size(); ++i)
        ASSERT_EQ(all[i].payload, std::to_string(i + 1));
    catch_up();
    EXPECT_EQ(claimed_ids(1'000), ids_of(all));
}

// Proves: OUT-07, OUT-20
TEST_P(sqlite_sql_view, a_duplicate_among_many_leaves_the_others)
{
    app().execute("INSERT INTO posthorn_enqueue (topic, payload, dedup_key) VALUES "
                  "('orders', '1', 'a'), ('orders', '2', 'a'), ('orders', '3', 'b')");
    std::string payloads;
    for (const auto& each : list_messages(db(), {.with_payload = true}))
        payloads += each.payload;
    EXPECT_EQ(payloads, "13");
}

// Proves: OUT-02, OUT-20
TEST_P(sqlite_sql_view, a_bad_message_among_many_leaves_none)
{
    app().begin();
    EXPECT_THAT(verdict_on("INSERT INTO posthorn_enqueue (topic, ordering_key, dedup_key) VALUES "
                           "('orders', 'k', 'a'), ('', 'k', 'b'), ('orders', 'k', 'c')"),
                StartsWith("posthorn: topic"));
    const auto kept = send();
    app().commit();
    EXPECT_THAT(ids_of(list_messages(db())), ElementsAre(kept));
    EXPECT_EQ(rows(), 1);
}

// Proves: OUT-20
TEST_P(sqlite_sql_view, another_prefix_gives_the_view_another_name)
{
    const auto url = under_test().url() + "?prefix=shop_";
    migrate(url);
    app().execute("INSERT INTO shop_enqueue (topic, payload) VALUES ('orders', 'shop')");
    auto shop = posthorn::open(url, {.environment = world()});
    const auto found = list_messages(shop, {.with_payload = true});
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].payload, "shop");
    EXPECT_EQ(total(), 0U);
}

INSTANTIATE_TEST_SUITE_P(stores, sqlite_sql_view,
                         ::testing::Values(store_kind{"sqlite_file", {}, &make_sqlite_file}),
                         [](const auto& kind) { return kind.param.name; });

} // namespace
} // namespace posthorn::conformance
