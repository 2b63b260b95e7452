// What may be enqueued: each rule at its edge, and what the refusal says.
#include "core/validation.hpp"
#include <posthorn/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace posthorn::core {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

// What a refusal says; "allowed" if there is none.
std::string verdict(const message& what, const enqueue_options& how = {}, const limits& bounds = {})
{
    try {
        check_message(what, how, bounds);
        return "allowed";
    } catch (const error& refused) {
        EXPECT_EQ(refused.code(), error_code::invalid_argument);
        EXPECT_FALSE(refused.retryable());
        return refused.what();
    }
}

std::string verdict_on(const enqueue_options& how)
{
    return verdict({"order", "payload"}, how);
}

std::string bytes(std::size_t count)
{
    return std::string(count, 'x');
}

// Proves: OUT-02
TEST(validation, a_topic_has_1_to_500_bytes)
{
    EXPECT_THAT(verdict({"", ""}), AllOf(HasSubstr("topic"), HasSubstr("1 to 500")));
    EXPECT_EQ(verdict({"x", ""}), "allowed");
    EXPECT_EQ(verdict({bytes(500), ""}), "allowed");
    EXPECT_THAT(verdict({bytes(501), ""}),
                AllOf(HasSubstr("topic"), HasSubstr("501"), HasSubstr("500")));
}

// Proves: OUT-02, F20
TEST(validation, a_payload_is_any_bytes_up_to_its_limit)
{
    EXPECT_EQ(verdict({"t", ""}), "allowed");
    EXPECT_EQ(verdict({"t", std::string("\0\xff\xfe", 3)}), "allowed");
    EXPECT_EQ(verdict({"t", bytes(1 << 20)}), "allowed");
    EXPECT_THAT(verdict({"t", bytes((1 << 20) + 1)}),
                AllOf(HasSubstr("payload"), HasSubstr("1048577"), HasSubstr("1048576")));
    EXPECT_THAT(verdict({"t", bytes(11)}, {}, {.payload_bytes_max = 10}), HasSubstr("10"));
    EXPECT_EQ(verdict({"t", bytes(10)}, {}, {.payload_bytes_max = 10}), "allowed");
}

// Proves: OUT-02
TEST(validation, keys_and_ids_have_at_most_255_bytes)
{
    EXPECT_EQ(verdict_on({.ordering_key = bytes(255)}), "allowed");
    EXPECT_EQ(verdict_on({.dedup_key = bytes(255)}), "allowed");
    EXPECT_EQ(verdict_on({.correlation_id = bytes(255)}), "allowed");
    EXPECT_EQ(verdict_on({.causation_id = bytes(255)}), "allowed");
    EXPECT_THAT(verdict_on({.ordering_key = bytes(256)}),
                AllOf(HasSubstr("ordering key"), HasSubstr("256"), HasSubstr("255")));
    EXPECT_THAT(verdict_on({.dedup_key = bytes(256)}),
                AllOf(HasSubstr("dedup key"), HasSubstr("255")));
    EXPECT_THAT(verdict_on({.correlation_id = bytes(256)}),
                AllOf(HasSubstr("correlation id"), HasSubstr("255")));
    EXPECT_THAT(verdict_on({.causation_id = bytes(256)}),
                AllOf(HasSubstr("causation id"), HasSubstr("255")));
}

// Proves: OUT-02
TEST(validation, names_hold_no_nul_byte)
{
    const std::string nul("a\0b", 3);
    EXPECT_THAT(verdict({nul, ""}), AllOf(HasSubstr("topic"), HasSubstr("NUL")));
    EXPECT_THAT(verdict_on({.ordering_key = nul}), AllOf(HasSubstr("ordering"), HasSubstr("NUL")));
    EXPECT_THAT(verdict_on({.dedup_key = nul}), AllOf(HasSubstr("dedup"), HasSubstr("NUL")));
    EXPECT_THAT(verdict_on({.correlation_id = nul}), HasSubstr("NUL"));
    EXPECT_THAT(verdict_on({.causation_id = nul}), HasSubstr("NUL"));
}

TEST(validation, names_are_valid_utf_8)
{
    for (const std::string good :
         {"ü", "€", "\xf0\x9f\x93\xaf", "\xed\x9f\xbf", "\xee\x80\x80", "\xf4\x8f\xbf\xbf",
          "\xc2\x80", "\xe0\xa0\x80", "\xf0\x90\x80\x80", "\x7f"})
        EXPECT_EQ(verdict({good, ""}), "allowed") << good;
    const std::vector<std::pair<std::string, std::string>> bad{
        {"\x80", "a lone continuation byte"},
        {"\xbf", "the last lone continuation byte"},
        {"\xc0\x80", "an overlong NUL"},
        {"\xc1\xbf", "an overlong two-byte form"},
        {"\xe0\x9f\xbf", "an overlong three-byte form"},
        {"\xf0\x8f\xbf\xbf", "an overlong four-byte form"},
        {"\xed\xa0\x80", "the first surrogate"},
        {"\xed\xbf\xbf", "the last surrogate"},
        {"\xf4\x90\x80\x80", "just beyond the last character"},
        {"\xf5\x80\x80\x80", "a lead byte beyond the last character"},
        {"\xff", "never a byte of UTF-8"},
        {"\xc3", "two bytes, cut after one"},
        {"\xe2\x82", "three bytes, cut after two"},
        {"\xf0\x9f\x93", "four bytes, cut after three"},
        {"\xe2\x28\xa1", "a wrong second byte"},
        {"\xe2\x82\x28", "a wrong third byte"},
        {"\xf0\x9f\x93\x28", "a wrong fourth byte"},
        {"ok\xc3", "cut at the end of good text"},
    };
    for (const auto& [text, why] : bad)
        EXPECT_THAT(verdict({text, ""}), AllOf(HasSubstr("topic"), HasSubstr("UTF-8"))) << why;
}

// Proves: OUT-05
TEST(validation, priority_lies_between_minus_100_and_100)
{
    EXPECT_EQ(verdict_on({.priority = 100}), "allowed");
    EXPECT_EQ(verdict_on({.priority = -100}), "allowed");
    EXPECT_THAT(verdict_on({.priority = 101}), AllOf(HasSubstr("priority 101"), HasSubstr("100")));
    EXPECT_THAT(verdict_on({.priority = -101}), HasSubstr("priority -101"));
}

TEST(validation, the_nil_id_is_refused)
{
    EXPECT_THAT(verdict_on({.id = message_id{}}), HasSubstr("nil"));
}

// Proves: OUT-04
TEST(validation, at_most_one_due_time_and_one_expiry_are_given)
{
    const timestamp now{1'000s};
    EXPECT_THAT(verdict_on({.delay = 1s, .due_at = now}),
                AllOf(HasSubstr("delay"), HasSubstr("due_at")));
    EXPECT_THAT(verdict_on({.expires_after = 1s, .expires_at = now}),
                AllOf(HasSubstr("expires_after"), HasSubstr("expires_at")));
    EXPECT_EQ(verdict_on({.delay = -5s}), "allowed");
    EXPECT_EQ(verdict_on({.due_at = timestamp{}}), "allowed");
}

// Proves: OUT-04
TEST(validation, a_message_that_could_never_start_is_refused)
{
    const timestamp now{1'000s};
    EXPECT_THAT(verdict_on({.expires_after = 0s}),
                AllOf(HasSubstr("expires_after"), HasSubstr("positive")));
    EXPECT_THAT(verdict_on({.expires_after = -1s}), HasSubstr("positive"));
    EXPECT_EQ(verdict_on({.expires_after = 1us}), "allowed");
    EXPECT_THAT(verdict_on({.delay = 5s, .expires_after = 5s}), HasSubstr("never start"));
    EXPECT_EQ(verdict_on({.delay = 5s, .expires_after = 5s + 1us}), "allowed");
    EXPECT_THAT(verdict_on({.due_at = now, .expires_at = now}), HasSubstr("never start"));
    EXPECT_EQ(verdict_on({.due_at = now, .expires_at = now + 1us}), "allowed");
}

// Proves: OUT-04
TEST(validation, a_message_that_expires_before_it_is_due_is_refused_however_both_are_given)
{
    const timestamp now{1'000s};
    const auto refused = [&](const enqueue_options& how) {
        try {
            check_start_window(how, now);
            return false;
        } catch (const error& failure) {
            EXPECT_THAT(failure.what(), HasSubstr("never start"));
            return true;
        }
    };
    EXPECT_TRUE(refused({.delay = 5s, .expires_at = now + 5s}));
    EXPECT_FALSE(refused({.delay = 5s, .expires_at = now + 5s + 1us}));
    EXPECT_TRUE(refused({.due_at = now + 5s, .expires_after = 5s}));
    EXPECT_FALSE(refused({.due_at = now + 5s, .expires_after = 5s + 1us}));
    EXPECT_FALSE(refused({.due_at = now - 1h, .expires_after = 1us}));
    EXPECT_FALSE(refused({.expires_at = now - 1h}));
    EXPECT_FALSE(refused({.delay = 5s}));
}

TEST(validation, no_span_is_longer_than_a_hundred_years)
{
    const auto longest = limits::span_max;
    EXPECT_EQ(verdict_on({.delay = longest}), "allowed");
    EXPECT_THAT(verdict_on({.delay = longest + 1us}),
                AllOf(HasSubstr("delay"), HasSubstr("hundred years")));
    EXPECT_THAT(verdict_on({.delay = duration::max()}), HasSubstr("hundred years"));
    EXPECT_THAT(verdict_on({.expires_after = duration::max()}),
                AllOf(HasSubstr("expires_after"), HasSubstr("hundred years")));
    EXPECT_THAT(verdict_on({.dedup_key = "d", .dedup_window = duration::max()}),
                AllOf(HasSubstr("dedup_window"), HasSubstr("hundred years")));
}

// Proves: OUT-07
TEST(validation, a_dedup_window_is_positive)
{
    EXPECT_THAT(verdict_on({.dedup_key = "k", .dedup_window = 0s}),
                AllOf(HasSubstr("dedup_window"), HasSubstr("positive")));
    EXPECT_EQ(verdict_on({.dedup_key = "k", .dedup_window = 1us}), "allowed");
    EXPECT_EQ(verdict_on({.dedup_window = 0s}), "allowed"); // nobody looks at it
}

// Proves: OUT-02
// Proves: INB-01
TEST(validation, a_topic_of_messages_from_outside_is_for_the_inbox_alone)
{
    const message forged{.topic = "inbox:payments.paid", .payload = {}};
    const auto verdict = [&](enqueued_by whom) {
        try {
            check_message(forged, {}, {}, limits{}, whom);
            return std::string();
        } catch (const error& refused) {
            EXPECT_EQ(refused.code(), error_code::invalid_argument);
            return std::string(refused.what());
        }
    };
    EXPECT_THAT(verdict(enqueued_by::application),
                AllOf(HasSubstr("'inbox:payments.paid'"), HasSubstr("reserved")));
    EXPECT_EQ(verdict(enqueued_by::inbox), "");
    check_message({.topic = "Inbox:payments", .payload = {}}, {}, limits{});
    check_message({.topic = "inbox", .payload = {}}, {}, limits{});
}

TEST(validation, headers_are_named_unreserved_and_without_control_characters)
{
    EXPECT_EQ(verdict_on({.headers = {{"name", ""}, {"ü", "€ and more"}}}), "allowed");
    EXPECT_THAT(verdict_on({.headers = {{"", "x"}}}), HasSubstr("empty name"));
    EXPECT_THAT(verdict_on({.headers = {{"posthorn-msg-id", "x"}}}),
                AllOf(HasSubstr("'posthorn-msg-id'"), HasSubstr("reserved")));
    EXPECT_EQ(verdict_on({.headers = {{"posthorn", "x"}}}), "allowed");
    EXPECT_THAT(verdict_on({.headers = {{"Posthorn-Msg-Id", "x"}}}), HasSubstr("reserved"));
    for (const char control : {'\0', '\x01', '\n', '\x1f', '\x7f'}) {
        EXPECT_THAT(verdict_on({.headers = {{"h", std::string(1, control)}}}),
                    AllOf(HasSubstr("'h'"), HasSubstr("control character")));
        EXPECT_THAT(verdict_on({.headers = {{std::string(1, control), "x"}}}),
                    HasSubstr("control character"));
    }
    EXPECT_THAT(verdict_on({.headers = {{"h", "\xff"}}}),
                AllOf(HasSubstr("'h'"), HasSubstr("UTF-8")));
    EXPECT_THAT(verdict_on({.headers = {{"\xff", "x"}}}), HasSubstr("UTF-8"));
}

// Proves: OUT-02
TEST(validation, headers_have_a_limit_together)
{
    const limits ten{.headers_bytes_max = 10};
    EXPECT_EQ(verdict({"t", ""}, {.headers = {{"a", "1234"}, {"b", "1234"}}}, ten), "allowed");
    EXPECT_THAT(verdict({"t", ""}, {.headers = {{"a", "1234"}, {"b", "12345"}}}, ten),
                AllOf(HasSubstr("headers"), HasSubstr("11"), HasSubstr("10")));
}

TEST(validation, identifiers_hold_what_is_safe_in_sql)
{
    const auto allowed = [](std::string_view name) {
        try {
            check_identifier("prefix", name);
            return true;
        } catch (const error& refused) {
            EXPECT_EQ(refused.code(), error_code::invalid_argument);
            EXPECT_THAT(refused.what(), HasSubstr("prefix"));
            return false;
        }
    };
    for (const char* good : {"a", "_", "posthorn_", "a1"})
        EXPECT_TRUE(allowed(good)) << good;
    EXPECT_TRUE(allowed(std::string(48, 'a')));
    for (const char* bad : {"", "1a", "A", "a-b", "a b", "a;", "a'", "ü"})
        EXPECT_FALSE(allowed(bad)) << bad;
    EXPECT_FALSE(allowed(std::string("a\0", 2)));
    EXPECT_FALSE(allowed(std::string(49, 'a')));
}

TEST(truncation, short_text_stays_as_it_is)
{
    EXPECT_EQ(truncated("abc", 3), "abc");
    EXPECT_EQ(truncated("", 0), "");
    EXPECT_EQ(truncated("abc", 2), "ab");
}

TEST(truncation, no_character_is_cut_in_two)
{
    const std::string text = "aü€\xf0\x9f\x93\xafz"; // 1, 2, 3, 4 and 1 bytes
    const std::size_t ends[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11};
    for (std::size_t bytes_max = 0; bytes_max < std::size(ends); ++bytes_max)
        EXPECT_EQ(truncated(text, bytes_max), text.substr(0, ends[bytes_max])) << bytes_max;
}

TEST(truncation, what_is_not_utf_8_is_cut_anywhere)
{
    EXPECT_EQ(truncated(std::string(30, '\x80'), 20).size(), 20U);
}

TEST(readable_words, are_text_whatever_they_were)
{
    EXPECT_EQ(readable("caf\u00e9", 100), "caf\u00e9");
    EXPECT_EQ(readable("caf\xe9 au lait", 100), "caf\ufffd au lait");
    EXPECT_EQ(readable(std::string_view("a\0b", 3), 100), "a\ufffdb");
    EXPECT_EQ(readable("\xf0\x9f\x93", 100), "\ufffd\ufffd\ufffd") << "cut before its end";
    EXPECT_EQ(readable("", 100), "");
}

TEST(readable_words, are_cut_between_characters)
{
    EXPECT_EQ(readable("a\u00e9", 2), "a");
    EXPECT_EQ(readable("\xe9\xe9", 5), "\ufffd");
    EXPECT_EQ(readable("\xe9", 2), "");
}

TEST(headers_json, headers_come_back_as_they_went)
{
    const headers some{{"plain", "value"},
                       {"empty", ""},
                       {"quotes \" and \\", "{\"not\": \"an object\"}"},
                       {"ünïcödé", "\xf0\x9f\x93\xaf"},
                       {"slash/", "</script>"}};
    EXPECT_EQ(headers_from_json(headers_to_json(some)), some);
}

TEST(headers_json, no_headers_are_no_text)
{
    EXPECT_EQ(headers_to_json({}), "");
    EXPECT_EQ(headers_from_json(""), headers{});
    EXPECT_EQ(headers_from_json("{}"), headers{});
}

TEST(headers_json, values_of_other_languages_that_are_no_strings_are_kept_as_json)
{
    EXPECT_EQ(headers_from_json(R"({"n": 5, "b": true, "o": {"x": [1]}, "s": "5"})"),
              (headers{{"n", "5"}, {"b", "true"}, {"o", R"({"x":[1]})"}, {"s", "5"}}));
}

// Proves: F28
TEST(headers_json, unreadable_headers_of_other_languages_do_not_stop_a_message)
{
    for (const std::string bad : {R"({"a": "\ud800"})", "{\"a\": \"\xff\"}", "{", "[1]", "5"})
        EXPECT_THAT(why_unreadable(headers_from_json(bad)), HasSubstr("not a JSON object")) << bad;
    EXPECT_EQ(why_unreadable(headers_from_json(R"({"a": "b"})")), "");
}

TEST(headers_json, depth_and_size_are_bounded_when_headers_are_read)
{
    const auto nested = [](std::size_t levels) {
        return R"({"a":)" + std::string(levels, '[') + std::string(levels, ']') + "}";
    };
    EXPECT_EQ(headers_from_json(nested(15)).at("a"), nested(15).substr(5, 30));
    EXPECT_THAT(why_unreadable(headers_from_json(nested(16))), HasSubstr("nested"));
    EXPECT_THAT(why_unreadable(headers_from_json(nested(400'000))), HasSubstr("nested"));
    EXPECT_THAT(why_unreadable(headers_from_json(std::string(400'000, '{'))), HasSubstr("nested"));

    const auto large = [](std::size_t bytes) {
        return R"({"a":")" + std::string(bytes - 8, 'x') + R"("})";
    };
    constexpr std::size_t bytes_max = std::size_t{4} << 20U;
    EXPECT_EQ(why_unreadable(headers_from_json(large(bytes_max))), "");
    EXPECT_THAT(why_unreadable(headers_from_json(large(bytes_max + 1))), HasSubstr("larger"));
}

TEST(headers_json, brackets_inside_of_strings_are_no_nesting)
{
    const auto brackets = std::string(1'000, '[');
    EXPECT_EQ(headers_from_json(R"({"a\"": "\\\")" + brackets + R"("})"),
              (headers{{"a\"", "\\\"" + brackets}}));
}

TEST(headers_json, nothing_is_written_that_cannot_be_read)
{
    EXPECT_THROW((void)headers_to_json({{"a", std::string(std::size_t{4} << 20U, 'x')}}), error);
}

} // namespace
} // namespace posthorn::core
