// The contract for every other language: one statement in the application's own transaction. It
// must give the same messages as the library, and refuse what the library refuses. The statement
// runs on the database's clock, so the clock of these tests is set to it first.
#include "conformance/sql_application.hpp"

#include <algorithm>
#include <limits>

namespace posthorn::conformance {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAreArray;

constexpr auto number_max = std::numeric_limits<std::int64_t>::max();

const std::vector<std::string> text_arguments{"ordering_key", "dedup_key", "correlation_id",
                                              "causation_id"};

std::string letters(std::size_t bytes)
{
    return std::string(bytes, 'x');
}

sql_json headers_of_bytes(std::size_t bytes)
{
    return {R"({"a":")" + letters(bytes - std::string(R"({"a":""})").size()) + R"("})"};
}

class sql_contract : public sql_application {};

// Proves: OUT-20
TEST_P(sql_contract, a_topic_and_a_payload_are_a_message)
{
    const auto before = std::chrono::floor<std::chrono::milliseconds>(app().now());
    const auto id = send({{"topic", "orders"}, {"payload", "hello"}});
    const auto after = app().now();
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
    const auto keyed = send_with("ordering_key", "k");
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
    const sql_message with_keys{{"topic", "orders"}, {"ordering_key", "k"}, {"dedup_key", "d"}};
    send(with_keys);
    app().rollback();
    EXPECT_EQ(app().count("SELECT count(*) FROM business"), 0);
    EXPECT_EQ(total(), 0U);
    EXPECT_EQ(rows(), 0);
    EXPECT_THAT(claimed_ids(), IsEmpty());
    EXPECT_EQ(state_of(send(with_keys)), message_state::ready);
}

// Proves: OUT-02, OUT-04, OUT-05, OUT-06, OUT-20
TEST_P(sql_contract, every_argument_can_be_seen_and_reaches_the_worker)
{
    const auto own = message_id::parse("018bcfe5-687b-7fff-bfff-000000000001").value();
    const auto id = send({{"topic", "orders"},
                          {"payload", sql_bytes{std::string("\x00\xff\x10", 3)}},
                          {"ordering_key", "customer 7"},
                          {"priority", -3},
                          {"delay_ms", 1500},
                          {"expires_after_ms", 60'000},
                          {"dedup_key", "once"},
                          {"dedup_window_ms", 5000},
                          {"correlation_id", "request 12"},
                          {"causation_id", "click 4"},
                          {"headers", sql_json{R"({"a": "b", "empty": ""})"}},
                          {"id", own}});
    EXPECT_EQ(id, own);
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
    sql_message all_null{{"topic", "orders"}};
    for (const auto* name :
         {"payload", "ordering_key", "priority", "delay_ms", "expires_after_ms", "dedup_key",
          "dedup_window_ms", "correlation_id", "causation_id", "headers", "id"})
        all_null.push_back({name, nullptr});
    const auto nulls = send(all_null);
    const auto empty = send({{"topic", "orders"},
                             {"payload", ""},
                             {"ordering_key", ""},
                             {"dedup_key", ""},
                             {"correlation_id", ""},
                             {"causation_id", ""},
                             {"headers", sql_json{"{}"}}});
    const auto again = send({{"topic", "orders"}, {"ordering_key", ""}, {"dedup_key", ""}});
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
        EXPECT_EQ(std::chrono::floor<std::chrono::milliseconds>(found.created_at),
                  timestamp{std::chrono::milliseconds{milliseconds}});
    }
    EXPECT_EQ(ids_of(list_messages(db())), ids);
    std::ranges::sort(ids);
    EXPECT_EQ(std::ranges::adjacent_find(ids), ids.end());
}

// Proves: OUT-03, OUT-20
TEST_P(sql_contract, an_id_of_the_applications_own_is_kept_and_used_once)
{
    const auto id = message_id::parse("6ba7b810-9dad-11d1-80b4-00c04fd430c8").value();
    EXPECT_EQ(send_with("id", id), id);
    EXPECT_EQ(look(id).topic, "orders");
    expect_refused({{"topic", "other"}, {"id", id}}, "exists already");
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
        expect_refused({{"topic", "other"}, {"id", id}}, "exists already");
        EXPECT_EQ(thrown_by([&] { add("other", {.id = id}); }).code(), error_code::constraint);
    }
    EXPECT_EQ(total(), 2U);
}

// Proves: OUT-03, OUT-20
TEST_P(sql_contract, an_id_is_an_id_and_not_nil)
{
    expect_refused_with("id", message_id{});
    for (const auto* bad :
         {"", "7", "sixteen letters!", "018bcfe5-687b-7fff-bfff-0000000001",
          "018bcfe5-687b-7fff-bfff-000000000001ff", "018bcfe5-687b-7fff-bfff-00000000000g"})
        expect_wrong_type_with("id", bad);
}

// Proves: OUT-02, OUT-20, F20
TEST_P(sql_contract, a_payload_is_any_bytes_up_to_a_mebibyte)
{
    const std::string mebibyte(1U << 20U, '\0');
    EXPECT_EQ(look(send_with("payload", sql_bytes{})).payload, "");
    EXPECT_EQ(look(send_with("payload", sql_bytes{{'\0'}})).payload, std::string(1, '\0'));
    EXPECT_EQ(look(send_with("payload", "grüße 📯")).payload, "grüße 📯");
    EXPECT_TRUE(look(send_with("payload", sql_bytes{mebibyte})).payload == mebibyte);
    EXPECT_EQ(look(send_with("payload", letters(mebibyte.size()))).payload_bytes, 1U << 20U);
    expect_refused_with("payload", sql_bytes{mebibyte + '\0'});
    expect_refused_with("payload", letters(mebibyte.size() + 1));
}

// Proves: OUT-02, OUT-20
TEST_P(sql_contract, keys_and_ids_have_at_most_255_bytes)
{
    for (const auto& name : text_arguments) {
        expect_refused_with(name, letters(256));
        EXPECT_EQ(verdict({{"topic", "orders"}, {name, letters(255)}}), "taken") << name;
        expect_wrong_type({{"topic", "orders"}, {name, std::string("a\0", 2)}}, "NUL");
    }
    EXPECT_EQ(total(), 4U);
}

// Proves: OUT-02, OUT-05, OUT-20
TEST_P(sql_contract, a_priority_is_a_whole_number_from_minus_100_to_100)
{
    for (const std::int64_t bad : {-101, 101})
        expect_refused_with("priority", bad);
    for (const sql_value& bad :
         {sql_value(sql_raw{"1.5"}), sql_value("high"), sql_value(number_max)})
        expect_wrong_type_with("priority", bad);
    const auto low = send_with("priority", -100);
    const auto plain = send_with("priority", 0);
    const auto high = send_with("priority", 100);
    catch_up();
    EXPECT_THAT(claimed_ids(), ElementsAre(high, plain, low));
}

// Proves: OUT-04, OUT-20, I17
TEST_P(sql_contract, a_delayed_message_starts_when_it_is_due)
{
    const auto id = send_with("delay_ms", 5000);
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
    for (const sql_value& bad : {sql_value(sql_raw{"1.5"}), sql_value("soon")})
        expect_wrong_type_with("delay_ms", bad);
    expect_refused_with("delay_ms", number_max);
    for (const std::int64_t past : {0, -1, -86'400'000}) {
        const auto found = look(send_with("delay_ms", past));
        EXPECT_EQ(found.due_at, found.created_at);
    }
}

// Proves: OUT-04, OUT-20, I17
TEST_P(sql_contract, a_message_expires)
{
    const auto id = send_with("expires_after_ms", 5000);
    const auto other = send_with("expires_after_ms", 3600000);
    const auto created = look(id).created_at;
    EXPECT_EQ(look(id).expires_at, created + 5s);
    clock().set(created + 5s);
    EXPECT_THAT(claimed_ids(), ElementsAre(other));
    EXPECT_EQ(state_of(id), message_state::expired);
}

// Proves: OUT-04, OUT-20
TEST_P(sql_contract, an_expiry_must_leave_time_for_a_start)
{
    for (const std::int64_t bad : {std::int64_t{0}, std::int64_t{-1}, number_max})
        expect_refused_with("expires_after_ms", bad);
    for (const sql_value& bad : {sql_value(sql_raw{"1.5"}), sql_value("soon")})
        expect_wrong_type_with("expires_after_ms", bad);
    const auto delayed = [](std::int64_t delay, std::int64_t expiry) {
        return sql_message{{"topic", "orders"}, {"delay_ms", delay}, {"expires_after_ms", expiry}};
    };
    expect_refused(delayed(5000, 5000), "expires_after_ms");
    expect_refused(delayed(5000, 4999), "expires_after_ms");
    const auto id = send(delayed(5000, 5001));
    EXPECT_EQ(look(id).expires_at, look(id).due_at + 1ms);
    EXPECT_EQ(state_of(send(delayed(-5000, 1000))), message_state::ready);
}

// Proves: OUT-06, OUT-20, I8
TEST_P(sql_contract, the_second_message_of_a_key_waits)
{
    const auto first = send_with("ordering_key", "k");
    const auto second = send_with("ordering_key", "k");
    const auto other = send_with("ordering_key", "K");
    const auto by_library = add_keyed("k");
    const auto last = send_with("ordering_key", "k");
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
    const auto second = send_with("ordering_key", "k");
    EXPECT_EQ(state_of(second), message_state::waiting);
    ASSERT_TRUE(skip_blocked_key(db(), "k"));
    catch_up();
    EXPECT_THAT(work_off(), ElementsAre(second));
    EXPECT_EQ(state_of(dead), message_state::dead);
}

// Proves: OUT-07, OUT-20
TEST_P(sql_contract, a_repeated_dedup_key_adds_nothing)
{
    const auto send_d = [&](const std::string& topic, const std::string& payload) {
        return send({{"topic", topic}, {"payload", payload}, {"dedup_key", "d"}});
    };
    const auto first = send_d("orders", "one");
    EXPECT_EQ(send_d("orders", "two"), first);
    EXPECT_EQ(send({{"topic", "orders"}, {"dedup_key", "d"}, {"ordering_key", "k"}}), first);
    EXPECT_EQ(look(first).payload, "one");
    EXPECT_EQ(total(), 1U);
    EXPECT_NE(send_d("invoices", ""), first);
    EXPECT_EQ(total(), 2U);
    EXPECT_EQ(state_of(send_with("ordering_key", "k")), message_state::ready);
}

// Proves: OUT-03, OUT-07, OUT-20
TEST_P(sql_contract, a_statement_repeated_word_for_word_adds_nothing)
{
    const sql_message same{
        {"topic", "orders"},
        {"dedup_key", "d"},
        {"id", message_id::parse("6ba7b810-9dad-11d1-80b4-00c04fd430c8").value()}};
    EXPECT_EQ(verdict(same), "taken");
    EXPECT_EQ(verdict(same), "taken");
    EXPECT_EQ(total(), 1U);
}

// Proves: OUT-07, OUT-20
TEST_P(sql_contract, dedup_keys_are_shared_with_the_library)
{
    const auto by_statement =
        send({{"topic", "orders"}, {"dedup_key", "a"}, {"dedup_window_ms", 5000}});
    const auto created = look(by_statement).created_at;
    clock().set(created + 5s - 1us);
    const auto repeated = enqueue(db(), {"orders", ""}, {.dedup_key = "a"});
    EXPECT_TRUE(repeated.duplicate);
    EXPECT_EQ(repeated.id, by_statement);
    clock().set(created + 5s);
    EXPECT_FALSE(enqueue(db(), {"orders", ""}, {.dedup_key = "a"}).duplicate);

    catch_up();
    const auto by_library = add("orders", {.dedup_key = "b", .dedup_window = 1h});
    EXPECT_EQ(send_with("dedup_key", "b"), by_library);
    EXPECT_EQ(total(), 3U);
}

// Proves: OUT-07, OUT-20
TEST_P(sql_contract, a_dedup_key_can_be_used_again_after_its_window)
{
    clock().set(app().now() - 1h);
    const auto first = add("orders", {.dedup_key = "d", .dedup_window = 59min});
    const auto second = send_with("dedup_key", "d");
    EXPECT_NE(second, first);
    EXPECT_EQ(send_with("dedup_key", "d"), second);
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
    const auto with_window = [](const sql_value& window) {
        return sql_message{{"topic", "orders"}, {"dedup_key", "d"}, {"dedup_window_ms", window}};
    };
    for (const std::int64_t bad : {std::int64_t{0}, std::int64_t{-1}, number_max})
        expect_refused(with_window(bad), "dedup_window_ms");
    for (const sql_value& bad : {sql_value(sql_raw{"1.5"}), sql_value("long")})
        expect_wrong_type(with_window(bad), "dedup_window_ms");
}

// Proves: OUT-02, OUT-20
TEST_P(sql_contract, headers_come_back_as_they_were)
{
    const auto seen = [&](const std::string& document) {
        return look(send_with("headers", sql_json{document})).headers;
    };
    EXPECT_EQ(seen(R"({"Größe":"10 µm","名前":"📯"})"),
              (headers{{"Größe", "10 µm"}, {"名前", "📯"}}));
    EXPECT_EQ(seen(R"({"a":"\"\\\/ \u00fc \ud83d\udcef"})"), (headers{{"a", "\"\\/ ü 📯"}}));
    EXPECT_EQ(seen(" { } "), headers{});
    EXPECT_EQ(seen(R"({"a":"it's", "b":""})"), (headers{{"a", "it's"}, {"b", ""}}));
}

// Proves: OUT-02, OUT-20
TEST_P(sql_contract, headers_are_a_json_object_of_strings)
{
    for (const auto* bad :
         {"[]", R"(["a"])", R"("a")", "1", "true", R"({"a":1})", R"({"a":null})", R"({"a":true})",
          R"({"a":{}})", R"({"a":["b"]})", R"({"good":"x","bad":1})", R"({"":"x"})"})
        expect_refused_with("headers", sql_json{bad});
    for (const auto* no_json : {"", "no json", "{", R"({"a":"b"}})", "{\"a\":\"\n\"}"})
        expect_refused_somehow({{"topic", "orders"}, {"headers", sql_json{no_json}}});
}

// Proves: OUT-02, OUT-20
TEST_P(sql_contract, headers_hold_no_control_characters)
{
    // Some engines have no text with a NUL, and so refuse the first one themselves.
    for (const std::string escape :
         {"\\u0000", "\\u0001", "\\u0009", "\\n", "\\t", "\\u001f", "\\u007f", "\\b", "\x7f"})
        for (const auto& document : {"{\"a\":\"x" + escape + "y\"}", "{\"x" + escape + "y\":\"a\"}",
                                     "{\"good\":\"\",\"a\":\"" + escape + "\"}"})
            if (escape == "\\u0000")
                expect_wrong_type_with("headers", sql_json{document});
            else
                expect_refused_with("headers", sql_json{document});
}

// Proves: OUT-20, I2
TEST_P(sql_contract, text_that_is_not_utf8_is_refused)
{
    // Bytes that are no UTF-8, and half a surrogate pair. What some engines refuse by themselves,
    // others take for text.
    std::vector<sql_message> messages;
    for (const std::string broken : {"o\xff", "\x80", "\xc0\xaf", "\xf4\x90\x80\x80", "o\xc3"}) {
        messages.push_back({{"topic", broken}});
        for (const auto& name : text_arguments)
            messages.push_back({{"topic", "orders"}, {name, broken}});
        messages.push_back(
            {{"topic", "orders"}, {"headers", sql_json{"{\"a\":\"" + broken + "\"}"}}});
    }
    for (const auto* document : {R"({"a":"\ud83d"})", R"({"a":"\udcef x"})", R"({"\ud83d":"a"})"})
        messages.push_back({{"topic", "orders"}, {"headers", sql_json{document}}});
    const std::string late(1'000, 'x');
    messages.push_back(
        {{"topic", "orders"}, {"headers", sql_json{R"({"a":"µ)" + late + R"(\ud83d"})"}}});
    for (const auto& each : messages)
        if (GetParam().can.unchecked_text)
            EXPECT_THAT(verdict(each), StartsWith("posthorn: ")) << described(each);
        else
            EXPECT_NE(verdict(each), "taken") << described(each);
    EXPECT_EQ(total(), 0U);
}

// Proves: OUT-02, OUT-20
TEST_P(sql_contract, every_character_of_utf8_is_taken)
{
    for (const std::string sound :
         {"Größe", "名前", "📯", "\u007f", "\u0080", "\u07ff", "\u0800", "\ud7ff", "\ue000",
          "\ufffe", "\uffff", "\U00010000", "\U0010ffff"}) {
        const auto id = send({{"topic", sound}, {"ordering_key", sound}});
        EXPECT_EQ(look(id).topic, sound);
        EXPECT_EQ(look(id).ordering_key, sound);
    }
    std::string long_value;
    while (long_value.size() < 30'000)
        long_value += "µ📯x";
    EXPECT_EQ(look(send_with("headers", sql_json{R"({"a":")" + long_value + "\"}"})).headers,
              (headers{{"a", long_value}}));
}

// Proves: OUT-02, OUT-20
TEST_P(sql_contract, headers_are_bounded)
{
    // Some engines write JSON in their own way before they measure it: a space here or there.
    EXPECT_EQ(verdict({{"topic", "orders"}, {"headers", headers_of_bytes(65'500)}}), "taken");
    expect_refused_with("headers", headers_of_bytes(65'537));
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
        const auto said =
            verdict({{"topic", "statement"}, {"headers", sql_json{"{\"" + name + "\":\"v\"}"}}});
        EXPECT_EQ(said == "taken", taken_by_library) << name << ": " << said;
    }
    expect_refused_with("headers", sql_json{R"({"posthorn-msg-id":"v"})"});
    expect_refused_with("headers", sql_json{R"({"mine":"v","posthorn-":"v"})"});
}

// Proves: OUT-20
TEST_P(sql_contract, nothing_but_the_documented_arguments_can_be_given)
{
    for (const std::string name :
         {"state", "fence", "owner", "worker", "attempts", "errors", "lease_until", "redrives",
          "seq", "plain", "own_id", "created_at", "due_at", "finished_at", "started_at"})
        EXPECT_THAT(verdict({{"topic", "orders"}, {name, 1}}), HasSubstr(name)) << name;
    EXPECT_EQ(rows(), 0);
}

// Proves: OUT-20, I9
TEST_P(sql_contract, messages_of_both_ways_share_one_order)
{
    std::vector<message_id> all;
    for (int i = 0; i < 5; ++i) {
        catch_up(); // the library's clock is ours, the statement's is the database's
        all.push_back(add());
        all.push_back(send());
        catch_up();
        app().begin();
        all.push_back(enqueue(app().borrow(), {"orders", ""}).id);
        all.push_back(send());
        app().commit();
    }
    EXPECT_EQ(ids_of(list_messages(db())), all);
    catch_up();
    EXPECT_EQ(claimed_ids(), all);
}

CONFORMANCE_SUITE(sql_contract);

} // namespace
} // namespace posthorn::conformance
