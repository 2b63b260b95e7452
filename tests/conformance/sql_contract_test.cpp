// The contract for every other language: one INSERT in the application's own transaction. It must
// give the same messages as the library, and refuse what the library refuses. The statement runs on
// the database's clock, so the clock of these tests is set to it first.
#include "conformance/sql_application.hpp"

#include <algorithm>

namespace posthorn::conformance {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAreArray;

// A literal of as many letters.
std::string letters(std::size_t bytes)
{
    return "'" + std::string(bytes, 'x') + "'";
}

const std::vector<std::string> text_columns{"ordering_key", "dedup_key", "correlation_id",
                                            "causation_id"};

class sql_contract : public sql_application {};

// Proves: OUT-20
TEST_P(sql_contract, a_topic_and_a_payload_are_a_message)
{
    const auto before = database_time();
    const auto id = send("topic, payload", "'orders', 'hello'");
    const auto after = database_time();
    const auto found = look(id);
    EXPECT_EQ(found.state, message_state::ready);
    EXPECT_EQ(found.topic, "orders");
    EXPECT_EQ(found.payload, "hello");
    EXPECT_EQ(found.payload_bytes, 5U);
    EXPECT_GE(found.created_at, before);
    EXPECT_LE(found.created_at, after);
    EXPECT_EQ(found.due_at, found.created_at);
    EXPECT_EQ(found.expires_at, std::nullopt);
    EXPECT_EQ(found.ordering_key, "");
    EXPECT_EQ(found.priority, 0);
    EXPECT_EQ(found.correlation_id, "");
    EXPECT_EQ(found.causation_id, "");
    EXPECT_EQ(found.headers, headers{});
    EXPECT_EQ(found.attempts, 0);

    catch_up();
    const auto claimed = claim();
    ASSERT_THAT(ids_of(claimed), ElementsAre(id));
    EXPECT_EQ(claimed.deliveries[0].topic, "orders");
    EXPECT_EQ(claimed.deliveries[0].payload, "hello");
    EXPECT_EQ(acknowledge(claimed.deliveries[0].receipt), settled_as::done);
    EXPECT_EQ(total(), 1U);
}

// Proves: OUT-20, I1
TEST_P(sql_contract, a_message_commits_with_the_application)
{
    app().execute("CREATE TABLE business (fact TEXT)");
    app().begin();
    app().execute("INSERT INTO business VALUES ('order 1')");
    const auto plain = send();
    const auto keyed = send_with("ordering_key", "'k'");
    EXPECT_TRUE(app().in_transaction());
    EXPECT_EQ(total(), 0U);
    EXPECT_THAT(claimed_ids(), IsEmpty());
    app().commit();
    EXPECT_THAT(ids_of(list_messages(db())), ElementsAre(plain, keyed));
    catch_up();
    EXPECT_THAT(work_off(), ElementsAre(plain, keyed));
}

// Proves: OUT-20, I1
TEST_P(sql_contract, a_message_rolls_back_with_the_application)
{
    app().execute("CREATE TABLE business (fact TEXT)");
    app().begin();
    app().execute("INSERT INTO business VALUES ('order 1')");
    send();
    send("topic, ordering_key, dedup_key", "'orders', 'k', 'd'");
    app().rollback();
    EXPECT_EQ(app().count("SELECT count(*) FROM business"), 0);
    EXPECT_EQ(total(), 0U);
    EXPECT_EQ(rows(), 0);
    EXPECT_THAT(claimed_ids(), IsEmpty());
    EXPECT_EQ(state_of(send("topic, ordering_key, dedup_key", "'orders', 'k', 'd'")),
              message_state::ready);
}

// Proves: OUT-02, OUT-04, OUT-05, OUT-06, OUT-20
TEST_P(sql_contract, every_column_can_be_seen_and_reaches_the_worker)
{
    const auto id = send("topic, payload, ordering_key, priority, delay_ms, expires_after_ms, "
                         "dedup_key, dedup_window_ms, correlation_id, causation_id, headers, id",
                         "'orders', X'00FF10', 'customer 7', -3, 1500, 60000, 'once', 5000, "
                         "'request 12', 'click 4', '{\"a\": \"b\", \"empty\": \"\"}', "
                         "X'018BCFE5687B7FFFBFFF000000000001'");
    EXPECT_EQ(to_string(id), "018bcfe5-687b-7fff-bfff-000000000001");
    const auto found = look(id);
    EXPECT_EQ(found.topic, "orders");
    EXPECT_EQ(found.payload, std::string("\x00\xff\x10", 3));
    EXPECT_EQ(found.ordering_key, "customer 7");
    EXPECT_EQ(found.priority, -3);
    EXPECT_EQ(found.due_at, found.created_at + 1500ms);
    EXPECT_EQ(found.expires_at, found.created_at + 1min);
    EXPECT_EQ(found.correlation_id, "request 12");
    EXPECT_EQ(found.causation_id, "click 4");
    EXPECT_EQ(found.headers, (headers{{"a", "b"}, {"empty", ""}}));

    clock().set(found.due_at);
    const auto claimed = claim();
    ASSERT_THAT(ids_of(claimed), ElementsAre(id));
    const auto& got = claimed.deliveries[0];
    EXPECT_EQ(got.payload, std::string("\x00\xff\x10", 3));
    EXPECT_EQ(got.ordering_key, "customer 7");
    EXPECT_EQ(got.priority, -3);
    EXPECT_EQ(got.correlation_id, "request 12");
    EXPECT_EQ(got.causation_id, "click 4");
    EXPECT_EQ(got.headers, (headers{{"a", "b"}, {"empty", ""}}));
    EXPECT_EQ(got.expires_at, found.created_at + 1min);
}

// Proves: OUT-20
TEST_P(sql_contract, null_and_empty_mean_left_out)
{
    const auto nulls =
        send("topic, payload, ordering_key, priority, delay_ms, expires_after_ms, dedup_key, "
             "dedup_window_ms, correlation_id, causation_id, headers, id",
             "'orders', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL");
    const auto empty = send("topic, payload, ordering_key, dedup_key, correlation_id, "
                            "causation_id, headers",
                            "'orders', '', '', '', '', '', '{}'");
    const auto again = send("topic, ordering_key, dedup_key", "'orders', '', ''");
    for (const auto id : {nulls, empty, again}) {
        const auto found = look(id);
        EXPECT_EQ(found.state, message_state::ready);
        EXPECT_EQ(found.payload, "");
        EXPECT_EQ(found.ordering_key, "");
        EXPECT_EQ(found.correlation_id, "");
        EXPECT_EQ(found.causation_id, "");
        EXPECT_EQ(found.headers, headers{});
    }
    EXPECT_EQ(total(), 3U);
}

// Proves: OUT-03, OUT-20
TEST_P(sql_contract, an_id_is_made_that_is_a_version_7_uuid)
{
    std::vector<message_id> ids;
    for (int i = 0; i < 10; ++i)
        ids.push_back(send());
    for (const auto id : ids) {
        const auto& bytes = id.value().bytes;
        EXPECT_EQ(bytes[6] & 0xf0U, 0x70U) << to_string(id);
        EXPECT_EQ(bytes[8] & 0xc0U, 0x80U) << to_string(id);
        std::int64_t milliseconds = 0;
        for (std::size_t i = 0; i < 6; ++i)
            milliseconds = (milliseconds << 8U) | bytes[i];
        const auto found = look(id);
        EXPECT_EQ(found.id, id);
        EXPECT_EQ(found.created_at, timestamp{std::chrono::milliseconds{milliseconds}});
    }
    EXPECT_EQ(ids_of(list_messages(db())), ids);
    std::ranges::sort(ids);
    EXPECT_EQ(std::ranges::adjacent_find(ids), ids.end());
}

// Proves: OUT-03, OUT-20
TEST_P(sql_contract, an_id_of_the_applications_own_is_kept_and_used_once)
{
    const auto id = send_with("id", "X'6BA7B8109DAD11D180B400C04FD430C8'");
    EXPECT_EQ(to_string(id), "6ba7b810-9dad-11d1-80b4-00c04fd430c8");
    EXPECT_EQ(look(id).topic, "orders");
    expect_refused("topic, id", "'other', X'6BA7B8109DAD11D180B400C04FD430C8'", "exists already");
    EXPECT_EQ(thrown_by([&] { add("other", {.id = id}); }).code(), error_code::constraint);
    EXPECT_EQ(look(id).topic, "orders");
    EXPECT_EQ(total(), 1U);
}

// Proves: OUT-03, OUT-20
TEST_P(sql_contract, an_id_that_was_made_cannot_be_used_again)
{
    const auto by_library = add();
    const auto by_statement = send();
    for (const auto id : {by_library, by_statement}) {
        auto hex = to_string(id);
        std::erase(hex, '-');
        expect_refused("topic, id", "'other', X'" + hex + "'", "exists already");
        EXPECT_EQ(thrown_by([&] { add("other", {.id = id}); }).code(), error_code::constraint);
    }
    EXPECT_EQ(total(), 2U);
}

// Proves: OUT-03, OUT-20
TEST_P(sql_contract, an_id_is_sixteen_bytes_and_not_nil)
{
    for (const auto* bad : {"X''", "X'00'", "X'018BCFE5687B7FFFBFFF0000000001'",
                            "X'018BCFE5687B7FFFBFFF00000000000102'", "'sixteen letters!'", "7",
                            "'018bcfe5-687b-7fff-bfff-000000000001'"})
        expect_refused("id", bad);
    expect_refused("id", "X'00000000000000000000000000000000'");
}

// Proves: OUT-02, OUT-20
TEST_P(sql_contract, a_topic_has_1_to_255_bytes_of_text)
{
    for (const auto* missing : {"NULL", "''", "X'6F7264657273'", "12", "1.5"})
        expect_refused("topic, payload", std::string(missing) + ", 'payload'", "topic");
    expect_refused("payload", "'payload'", "topic");
    expect_refused("topic", letters(256), "topic");
    std::string umlauts;
    for (int i = 0; i < 128; ++i)
        umlauts += "ä";
    expect_refused("topic", "'" + umlauts + "'", "topic"); // 128 characters, 256 bytes
    expect_refused("topic", "'a' || char(0) || 'b'", "topic");
    EXPECT_EQ(look(send("topic", letters(255))).topic, std::string(255, 'x'));
    EXPECT_EQ(look(send("topic", "'Ünïcode/注文'")).topic, "Ünïcode/注文");
}

// Proves: OUT-02, OUT-20, F20
TEST_P(sql_contract, a_payload_is_any_bytes_up_to_a_mebibyte)
{
    EXPECT_EQ(look(send_with("payload", "X''")).payload, "");
    EXPECT_EQ(look(send_with("payload", "X'00'")).payload, std::string(1, '\0'));
    EXPECT_EQ(look(send_with("payload", "'grüße 📯'")).payload, "grüße 📯");
    EXPECT_TRUE(look(send_with("payload", "zeroblob(1048576)")).payload ==
                std::string(1U << 20U, '\0'));
    EXPECT_EQ(look(send_with("payload", letters(1U << 20U))).payload_bytes, 1U << 20U);
    expect_refused("payload", "zeroblob(1048577)");
    expect_refused("payload", letters((1U << 20U) + 1));
}

// Proves: OUT-02, OUT-20
TEST_P(sql_contract, keys_and_ids_have_at_most_255_bytes)
{
    for (const auto& column : text_columns) {
        expect_refused(column, letters(256));
        EXPECT_THAT(verdict_on("topic, " + column, "'orders', " + letters(255)), "taken");
        expect_refused("topic, " + column, "'orders', 'a' || char(0)", "NUL");
    }
    EXPECT_EQ(total(), 4U);
}

// Proves: OUT-02, OUT-20
TEST_P(sql_contract, keys_and_ids_are_text)
{
    for (const auto& column : text_columns)
        expect_refused("topic, " + column, "'orders', X'6162'", column);
}

// Proves: OUT-02, OUT-05, OUT-20
TEST_P(sql_contract, a_priority_is_a_whole_number_from_minus_100_to_100)
{
    for (const auto* bad : {"-101", "101", "1.5", "'high'", "'5'", "X'05'", "9223372036854775807"})
        expect_refused("priority", bad);
    const auto low = send_with("priority", "-100");
    const auto plain = send_with("priority", "0");
    const auto high = send_with("priority", "100");
    catch_up();
    EXPECT_THAT(claimed_ids(), ElementsAre(high, plain, low));
}

// Proves: OUT-04, OUT-20, I17
TEST_P(sql_contract, a_delayed_message_starts_when_it_is_due)
{
    const auto id = send_with("delay_ms", "5000");
    const auto found = look(id);
    EXPECT_EQ(found.due_at, found.created_at + 5s);
    clock().set(found.due_at - 1us);
    EXPECT_THAT(claimed_ids(), IsEmpty());
    clock().set(found.due_at);
    EXPECT_THAT(claimed_ids(), ElementsAre(id));
}

// Proves: OUT-04, OUT-20
TEST_P(sql_contract, a_delay_is_a_whole_number_and_below_zero_it_means_now)
{
    for (const auto* bad : {"1.5", "'5'", "'soon'", "X'05'", "9223372036854775807"})
        expect_refused("delay_ms", bad);
    for (const auto* past : {"0", "-1", "-86400000"}) {
        const auto found = look(send_with("delay_ms", past));
        EXPECT_EQ(found.due_at, found.created_at);
    }
}

// Proves: OUT-04, OUT-20, I17
TEST_P(sql_contract, a_message_expires)
{
    const auto id = send_with("expires_after_ms", "5000");
    const auto other = send_with("expires_after_ms", "3600000");
    const auto created = look(id).created_at;
    EXPECT_EQ(look(id).expires_at, created + 5s);
    clock().set(created + 5s);
    EXPECT_THAT(claimed_ids(), ElementsAre(other));
    EXPECT_EQ(state_of(id), message_state::expired);
}

// Proves: OUT-04, OUT-20
TEST_P(sql_contract, an_expiry_must_leave_time_for_a_start)
{
    for (const auto* bad : {"0", "-1", "1.5", "'5'", "X'05'", "9223372036854775807"})
        expect_refused("expires_after_ms", bad);
    expect_refused("topic, delay_ms, expires_after_ms", "'orders', 5000, 5000", "expires_after_ms");
    expect_refused("topic, delay_ms, expires_after_ms", "'orders', 5000, 4999", "expires_after_ms");
    const auto id = send("topic, delay_ms, expires_after_ms", "'orders', 5000, 5001");
    EXPECT_EQ(look(id).expires_at, look(id).due_at + 1ms);
    EXPECT_EQ(state_of(send("topic, delay_ms, expires_after_ms", "'orders', -5000, 1000")),
              message_state::ready);
}

// Proves: OUT-06, OUT-20, I8
TEST_P(sql_contract, the_second_message_of_a_key_waits)
{
    const auto first = send_with("ordering_key", "'k'");
    const auto second = send_with("ordering_key", "'k'");
    const auto other = send_with("ordering_key", "'K'");
    const auto by_library = add_keyed("k");
    const auto last = send_with("ordering_key", "'k'");
    EXPECT_THAT(states_of({first, second, other, by_library, last}),
                ElementsAre(message_state::ready, message_state::waiting, message_state::ready,
                            message_state::waiting, message_state::waiting));
    catch_up();
    EXPECT_THAT(work_off(), ElementsAre(first, other));
    EXPECT_THAT(work_off(), ElementsAre(second));
    EXPECT_THAT(work_off(), ElementsAre(by_library));
    EXPECT_THAT(work_off(), ElementsAre(last));
}

// Proves: OUT-06, OUT-20, I8
TEST_P(sql_contract, a_message_waits_behind_a_dead_one_of_its_key)
{
    const auto dead = add_dead("broken", "orders", {.ordering_key = "k"});
    const auto second = send_with("ordering_key", "'k'");
    EXPECT_EQ(state_of(second), message_state::waiting);
    ASSERT_TRUE(skip_blocked_key(db(), "k"));
    catch_up();
    EXPECT_THAT(work_off(), ElementsAre(second));
    EXPECT_EQ(state_of(dead), message_state::dead);
}

// Proves: OUT-07, OUT-20
TEST_P(sql_contract, a_repeated_dedup_key_adds_nothing)
{
    const auto first = send("topic, payload, dedup_key", "'orders', 'one', 'd'");
    EXPECT_EQ(send("topic, payload, dedup_key", "'orders', 'two', 'd'"), first);
    EXPECT_EQ(send("topic, payload, dedup_key, ordering_key", "'orders', 'three', 'd', 'k'"),
              first);
    EXPECT_EQ(look(first).payload, "one");
    EXPECT_EQ(total(), 1U);
    const auto elsewhere = send("topic, dedup_key", "'invoices', 'd'");
    EXPECT_NE(elsewhere, first);
    EXPECT_EQ(total(), 2U);
    EXPECT_EQ(state_of(send_with("ordering_key", "'k'")), message_state::ready);
}

// Proves: OUT-03, OUT-07, OUT-20
TEST_P(sql_contract, a_statement_repeated_word_for_word_adds_nothing)
{
    const auto* columns = "topic, dedup_key, id";
    const auto* values = "'orders', 'd', X'6BA7B8109DAD11D180B400C04FD430C8'";
    EXPECT_EQ(verdict_on(columns, values), "taken");
    EXPECT_EQ(verdict_on(columns, values), "taken");
    EXPECT_EQ(total(), 1U);
}

// Proves: OUT-07, OUT-20
TEST_P(sql_contract, dedup_keys_are_shared_with_the_library)
{
    const auto by_statement = send("topic, dedup_key, dedup_window_ms", "'orders', 'a', 5000");
    const auto created = look(by_statement).created_at;
    clock().set(created + 5s - 1us);
    const auto repeated = enqueue(db(), {"orders", ""}, {.dedup_key = "a"});
    EXPECT_TRUE(repeated.duplicate);
    EXPECT_EQ(repeated.id, by_statement);
    clock().set(created + 5s);
    EXPECT_FALSE(enqueue(db(), {"orders", ""}, {.dedup_key = "a"}).duplicate);

    catch_up();
    const auto by_library = add("orders", {.dedup_key = "b", .dedup_window = 1h});
    EXPECT_EQ(send_with("dedup_key", "'b'"), by_library);
    EXPECT_EQ(total(), 3U);
}

// Proves: OUT-07, OUT-20
TEST_P(sql_contract, a_dedup_key_can_be_used_again_after_its_window)
{
    clock().set(database_time() - 1h);
    const auto first = add("orders", {.dedup_key = "d", .dedup_window = 59min});
    const auto second = send_with("dedup_key", "'d'");
    EXPECT_NE(second, first);
    EXPECT_EQ(send_with("dedup_key", "'d'"), second);
    // The window of the second one lasts a day.
    const auto created = look(second).created_at;
    clock().set(created + 24h - 1us);
    EXPECT_EQ(add("orders", {.dedup_key = "d"}), second);
    clock().set(created + 24h);
    EXPECT_NE(add("orders", {.dedup_key = "d"}), second);
}

// Proves: OUT-07, OUT-20
TEST_P(sql_contract, a_dedup_window_is_positive_and_whole)
{
    for (const auto* bad : {"0", "-1", "1.5", "'5'", "X'05'"})
        expect_refused("topic, dedup_key, dedup_window_ms", "'orders', 'd', " + std::string(bad),
                       "dedup_window_ms");
    expect_refused("topic, dedup_key, dedup_window_ms", "'orders', 'd', 9223372036854775807",
                   "dedup_window_ms");
}

// Proves: OUT-02, OUT-20
TEST_P(sql_contract, headers_come_back_as_they_were)
{
    EXPECT_EQ(look(send_with("headers", R"('{"Größe":"10 µm","名前":"📯"}')")).headers,
              (headers{{"Größe", "10 µm"}, {"名前", "📯"}}));
    EXPECT_EQ(look(send_with("headers", R"('{"a":"\"\\\/ \u00fc \ud83d\udcef"}')")).headers,
              (headers{{"a", "\"\\/ ü 📯"}}));
    EXPECT_EQ(look(send_with("headers", "' { } '")).headers, headers{});
    EXPECT_EQ(look(send_with("headers", "json_object('a', 'it''s', 'b', '')")).headers,
              (headers{{"a", "it's"}, {"b", ""}}));
}

// Proves: OUT-02, OUT-20
TEST_P(sql_contract, headers_are_a_json_object_of_strings)
{
    for (const auto* bad :
         {"''", "'no json'", "'{'", "'[]'", "'[\"a\"]'", "'\"a\"'", "'null'", "'1'", "1",
          R"('{"a":1}')", R"('{"a":null}')", R"('{"a":true}')", R"('{"a":{}}')", R"('{"a":["b"]}')",
          R"('{"good":"x","bad":1}')", R"('{"":"x"}')", "X'7B7D'"})
        expect_refused("headers", bad);
}

// Proves: OUT-02, OUT-20
TEST_P(sql_contract, headers_hold_no_control_characters)
{
    for (const std::string escape :
         {"\\u0000", "\\u0001", "\\u0009", "\\n", "\\t", "\\u001f", "\\u007f", "\\b"}) {
        expect_refused("headers", "'{\"a\":\"x" + escape + "y\"}'");
        expect_refused("headers", "'{\"x" + escape + "y\":\"a\"}'");
        expect_refused("headers", "'{\"good\":\"\",\"a\":\"" + escape + "\"}'");
    }
    expect_refused("headers", "'{\"a\":\"' || char(10) || '\"}'");
    expect_refused("headers", "'{\"a\":\"' || char(127) || '\"}'");
}

// Proves: OUT-20, I2
TEST_P(sql_contract, whatever_gets_in_can_be_read_and_delivered)
{
    // Half a surrogate pair, and bytes that are no UTF-8. Refusing them is as good as taking them;
    // but one such message must not stop those who read, or those who work.
    std::vector<std::string> statements{
        R"((topic, headers) VALUES ('orders', '{"a":"\ud83d"}'))",
        R"((topic, headers) VALUES ('orders', '{"a":"\udcef x"}'))",
        R"((topic, headers) VALUES ('orders', '{"\ud83d":"a"}'))",
        "(topic, headers) VALUES ('orders', CAST(X'7B2261223A22FF227D' AS TEXT))",
        "(topic) VALUES (CAST(X'6FFF' AS TEXT))"};
    for (const auto& column : text_columns)
        statements.push_back("(topic, " + column + ") VALUES ('orders', CAST(X'6FFF' AS TEXT))");
    std::size_t taken = 0;
    for (const auto& each : statements) {
        const auto said = verdict("INSERT INTO posthorn_enqueue " + each);
        EXPECT_THAT(said, AnyOf("taken", StartsWith("posthorn: "))) << each;
        taken += said == "taken" ? 1U : 0U;
    }
    const auto last = send();
    const auto all = ids_of(list_messages(db()));
    ASSERT_EQ(all.size(), taken + 1);
    EXPECT_EQ(all.back(), last);
    for (const auto id : all)
        EXPECT_EQ(look(id).id, id);
    catch_up();
    EXPECT_THAT(work_off(), UnorderedElementsAreArray(all));
}

// Proves: OUT-02, OUT-20
TEST_P(sql_contract, headers_are_bounded)
{
    EXPECT_THAT(
        verdict_on("topic, headers", "'orders', json_object('a', " + letters(65'536 - 8) + ")"),
        "taken");
    expect_refused("headers", "json_object('a', " + letters(65'536) + ")");
}

// Proves: OUT-02, OUT-20
TEST_P(sql_contract, header_names_are_taken_exactly_as_the_library_takes_them)
{
    for (const std::string name :
         {"posthorn-", "posthorn-msg-id", "posthorn-corr-seq", "posthorn", "posthorn_id",
          "x-posthorn-id", "Posthorn-Id", "POSTHORN-ID", "POSTHORN", "ordinary", "a%b_c*[d]"}) {
        bool taken_by_library = true;
        try {
            add("library", {.headers = {{name, "value"}}});
        } catch (const error&) {
            taken_by_library = false;
        }
        const auto said = verdict_on("topic, headers", "'statement', '{\"" + name + "\":\"v\"}'");
        EXPECT_EQ(said == "taken", taken_by_library) << name << ": " << said;
    }
    expect_refused("headers", R"('{"posthorn-msg-id":"v"}')");
    expect_refused("headers", R"('{"mine":"v","posthorn-":"v"}')");
}

// Proves: OUT-20
TEST_P(sql_contract, nothing_but_the_documented_columns_can_be_set)
{
    for (const std::string column :
         {"state", "fence", "owner", "worker", "attempts", "errors", "lease_until", "redrives",
          "seq", "plain", "own_id", "created_at", "due_at", "finished_at", "started_at"})
        EXPECT_THAT(verdict_on("topic, " + column, "'orders', 1"), HasSubstr(column)) << column;
    EXPECT_EQ(rows(), 0);
}

// Proves: OUT-20
TEST_P(sql_contract, the_view_shows_and_changes_nothing_else)
{
    send();
    EXPECT_EQ(app().count("SELECT count(*) FROM posthorn_enqueue"), 0);
    EXPECT_NE(verdict("UPDATE posthorn_enqueue SET topic = 'other'"), "taken");
    EXPECT_NE(verdict("DELETE FROM posthorn_enqueue"), "taken");
    EXPECT_EQ(total(), 1U);
    EXPECT_EQ(look(newest()).topic, "orders");
}

// Proves: OUT-08, OUT-20
TEST_P(sql_contract, one_statement_can_add_many)
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
TEST_P(sql_contract, a_duplicate_among_many_leaves_the_others)
{
    app().execute("INSERT INTO posthorn_enqueue (topic, payload, dedup_key) VALUES "
                  "('orders', '1', 'a'), ('orders', '2', 'a'), ('orders', '3', 'b')");
    std::string payloads;
    for (const auto& each : list_messages(db(), {.with_payload = true}))
        payloads += each.payload;
    EXPECT_EQ(payloads, "13");
}

// Proves: OUT-02, OUT-20
TEST_P(sql_contract, a_bad_message_among_many_leaves_none)
{
    app().begin();
    EXPECT_THAT(verdict("INSERT INTO posthorn_enqueue (topic, ordering_key, dedup_key) VALUES "
                        "('orders', 'k', 'a'), ('', 'k', 'b'), ('orders', 'k', 'c')"),
                StartsWith("posthorn: topic"));
    const auto kept = send();
    app().commit();
    EXPECT_THAT(ids_of(list_messages(db())), ElementsAre(kept));
    EXPECT_EQ(rows(), 1);
}

// Proves: OUT-20, I9
TEST_P(sql_contract, messages_of_both_ways_share_one_order)
{
    std::vector<message_id> all;
    for (int i = 0; i < 5; ++i) {
        all.push_back(add());
        all.push_back(send());
        app().begin();
        all.push_back(enqueue(app().borrow(), {"orders", ""}).id);
        all.push_back(send());
        app().commit();
    }
    EXPECT_EQ(ids_of(list_messages(db())), all);
    catch_up();
    EXPECT_EQ(claimed_ids(), all);
}

// Proves: OUT-20
TEST_P(sql_contract, another_prefix_gives_the_view_another_name)
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

CONFORMANCE_SUITE(sql_contract);

} // namespace
} // namespace posthorn::conformance
