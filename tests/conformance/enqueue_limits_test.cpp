// The bounds of what can be enqueued: each at its edge and one beyond. What lies within comes back
// byte by byte; what lies outside is refused, and nothing of it is written.
#include "conformance/conformance_test.hpp"

#include <limits>

namespace posthorn::conformance {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t mebibyte = 1U << 20U;

std::string letters(std::size_t bytes)
{
    return std::string(bytes, 'x');
}

// As many bytes, but fewer characters.
std::string umlauts(std::size_t bytes)
{
    std::string result(bytes % 2, 'x');
    while (result.size() < bytes)
        result += "ä";
    return result;
}

const std::vector<std::string> broken_utf8{
    "\xff", "\xc3", "a\xc3(", "\xe2\x82", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80",
};

class enqueue_limits : public conformance_test {
protected:
    /// Refused for the caller's own fault, in words that name `field`, and without a trace.
    void expect_refused(const message& what, const enqueue_options& how, const std::string& field)
    {
        const auto before = total();
        const auto single = thrown_by([&] { enqueue(db(), what, how); });
        EXPECT_EQ(single.code(), error_code::invalid_argument);
        EXPECT_FALSE(single.retryable());
        EXPECT_FALSE(single.in_doubt());
        EXPECT_THAT(single.what(), HasSubstr(field));

        const std::vector<outgoing> all{{.message = {"orders", ""}},
                                        {.message = what, .options = how},
                                        {.message = {"orders", ""}}};
        EXPECT_EQ(thrown_by([&] { enqueue(db(), all); }).code(), error_code::invalid_argument);
        EXPECT_EQ(total(), before);
        EXPECT_TRUE(claim().empty());
    }

    void expect_refused(const enqueue_options& how, const std::string& field)
    {
        expect_refused({.topic = "orders", .payload = "payload"}, how, field);
    }

    /// Taken, and the same in the store's record and at the worker.
    void expect_taken(const message& what, const enqueue_options& how = {})
    {
        const auto id = enqueue(db(), what, how).id;
        const auto found = look(id);
        EXPECT_EQ(found.topic, what.topic);
        EXPECT_TRUE(found.payload == what.payload);
        EXPECT_EQ(found.payload_bytes, what.payload.size());
        EXPECT_EQ(found.ordering_key, how.ordering_key);
        EXPECT_EQ(found.correlation_id, how.correlation_id);
        EXPECT_EQ(found.causation_id, how.causation_id);
        EXPECT_TRUE(found.headers == how.headers);

        const auto claimed = claim();
        ASSERT_EQ(ids_of(claimed), std::vector{id});
        const auto& got = claimed.deliveries.front();
        EXPECT_EQ(got.topic, what.topic);
        EXPECT_TRUE(got.payload == what.payload);
        EXPECT_EQ(got.ordering_key, how.ordering_key);
        EXPECT_EQ(got.correlation_id, how.correlation_id);
        EXPECT_EQ(got.causation_id, how.causation_id);
        EXPECT_TRUE(got.headers == how.headers);
        EXPECT_EQ(acknowledge(got.receipt), settled_as::done);
    }

    void expect_taken(const enqueue_options& how)
    {
        expect_taken({.topic = "orders", .payload = "payload"}, how);
    }

    /// A handle with other bounds; on its own store where only one handle can be had.
    store bounded(limits bounds)
    {
        return under_test().open({.environment = world(), .limits = bounds});
    }
};

// Proves: OUT-02
TEST_P(enqueue_limits, a_topic_has_1_to_500_bytes)
{
    expect_taken({.topic = "x", .payload = ""});
    expect_taken({.topic = letters(500), .payload = ""});
    expect_taken({.topic = umlauts(500), .payload = ""});
    expect_refused({.topic = "", .payload = ""}, {}, "topic");
    expect_refused({.topic = letters(501), .payload = ""}, {}, "topic");
    expect_refused({.topic = umlauts(501), .payload = ""}, {}, "topic");
}

// Proves: OUT-02
TEST_P(enqueue_limits, topics_differ_by_case)
{
    const auto small = add("orders");
    const auto large = add("Orders");
    EXPECT_EQ(look(small).topic, "orders");
    EXPECT_EQ(look(large).topic, "Orders");
    EXPECT_EQ(ids_of(list_messages(db(), {.topic = "orders"})), std::vector{small});
    EXPECT_EQ(ids_of(list_messages(db(), {.topic = "Orders"})), std::vector{large});
    EXPECT_EQ(ids_of(list_messages(db(), {.topic = "ORDERS"})), std::vector<message_id>{});
}

// Proves: OUT-02
TEST_P(enqueue_limits, a_topic_may_be_any_text_but_not_hold_a_nul)
{
    expect_taken({.topic = "заказы/注文 *%_'\"\\", .payload = ""});
    expect_refused({.topic = std::string("a\0b", 3), .payload = ""}, {}, "topic");
    expect_refused({.topic = std::string("\0", 1), .payload = ""}, {}, "topic");
}

// Proves: OUT-02
TEST_P(enqueue_limits, a_payload_may_be_empty)
{
    expect_taken({.topic = "orders", .payload = ""});
}

// Proves: OUT-02
TEST_P(enqueue_limits, a_payload_may_hold_every_byte)
{
    std::string bytes;
    for (int first = 0; first < 256; ++first)
        bytes += static_cast<char>(first);
    for (int last = 255; last >= 0; --last)
        bytes += static_cast<char>(last);
    expect_taken({.topic = "orders", .payload = bytes});
    expect_taken({.topic = "orders", .payload = std::string("\0", 1)});
    expect_taken({.topic = "orders", .payload = std::string("\0tail", 5)});
    for (const auto& broken : broken_utf8)
        expect_taken({.topic = "orders", .payload = broken});
}

// Proves: OUT-02, F20
TEST_P(enqueue_limits, a_payload_has_at_most_a_mebibyte)
{
    expect_taken({.topic = "orders", .payload = letters(mebibyte)});
    expect_refused({.topic = "orders", .payload = letters(mebibyte + 1)}, {}, "payload");
}

// Proves: OUT-02, F20
TEST_P(enqueue_limits, the_largest_payload_can_be_configured)
{
    auto small = bounded({.payload_bytes_max = 10});
    const auto id = enqueue(small, {.topic = "orders", .payload = letters(10)}).id;
    EXPECT_EQ(find_message(small, id).value().payload, letters(10));
    const auto refused = thrown_by([&] { enqueue(small, {"orders", letters(11)}); });
    EXPECT_EQ(refused.code(), error_code::invalid_argument);
    EXPECT_THAT(refused.what(), HasSubstr("10"));

    auto none = bounded({.payload_bytes_max = 0});
    enqueue(none, {.topic = "orders", .payload = ""});
    EXPECT_EQ(thrown_by([&] {
                  enqueue(none, {"orders", "x"});
              }).code(),
              error_code::invalid_argument);

    auto large = bounded({.payload_bytes_max = 2 * mebibyte});
    const auto big = enqueue(large, {.topic = "orders", .payload = letters(2 * mebibyte)}).id;
    EXPECT_EQ(find_message(large, big).value().payload_bytes, 2 * mebibyte);
    EXPECT_EQ(thrown_by([&] {
                  enqueue(large, {"orders", letters(2 * mebibyte + 1)});
              }).code(),
              error_code::invalid_argument);
}

// Proves: OUT-02
TEST_P(enqueue_limits, the_bound_of_a_handle_also_holds_in_its_transactions)
{
    auto small = bounded({.payload_bytes_max = 3});
    auto tx = small.begin();
    EXPECT_EQ(thrown_by([&] {
                  enqueue(tx, {"orders", "four"});
              }).code(),
              error_code::invalid_argument);
    const auto id = enqueue(tx, {.topic = "orders", .payload = "two"}).id;
    tx.commit();
    EXPECT_EQ(ids_of(list_messages(small)), std::vector{id});
}

// Proves: OUT-02
TEST_P(enqueue_limits, a_correlation_id_has_at_most_255_bytes_and_may_be_empty)
{
    expect_taken({.correlation_id = ""});
    expect_taken({.correlation_id = letters(255)});
    expect_taken({.correlation_id = umlauts(255)});
    expect_refused({.correlation_id = letters(256)}, "correlation id");
    expect_refused({.correlation_id = umlauts(256)}, "correlation id");
    expect_refused({.correlation_id = std::string("a\0", 2)}, "correlation id");
}

// Proves: OUT-02
TEST_P(enqueue_limits, a_causation_id_has_at_most_255_bytes_and_may_be_empty)
{
    expect_taken({.causation_id = ""});
    expect_taken({.causation_id = letters(255)});
    expect_refused({.causation_id = letters(256)}, "causation id");
    expect_refused({.causation_id = std::string("a\0", 2)}, "causation id");
}

// Proves: OUT-02, OUT-06
TEST_P(enqueue_limits, an_ordering_key_has_at_most_255_bytes)
{
    expect_taken({.ordering_key = "k"});
    expect_taken({.ordering_key = letters(255)});
    expect_taken({.ordering_key = umlauts(255)});
    expect_refused({.ordering_key = letters(256)}, "ordering key");
    expect_refused({.ordering_key = std::string("a\0", 2)}, "ordering key");
}

// Proves: OUT-02, OUT-07
TEST_P(enqueue_limits, a_dedup_key_has_at_most_255_bytes)
{
    expect_taken({.dedup_key = letters(255)});
    EXPECT_TRUE(enqueue(db(), {"orders", ""}, {.dedup_key = letters(255)}).duplicate);
    expect_refused({.dedup_key = letters(256)}, "dedup key");
    expect_refused({.dedup_key = std::string("a\0", 2)}, "dedup key");
}

// Proves: OUT-02
TEST_P(enqueue_limits, text_that_is_not_utf8_is_refused)
{
    for (const auto& broken : broken_utf8) {
        expect_refused({.topic = broken, .payload = ""}, {}, "topic");
        expect_refused({.ordering_key = broken}, "ordering key");
        expect_refused({.dedup_key = broken}, "dedup key");
        expect_refused({.correlation_id = broken}, "correlation id");
        expect_refused({.causation_id = broken}, "causation id");
        expect_refused({.headers = {{broken, "value"}}}, "header");
        expect_refused({.headers = {{"name", broken}}}, "header");
    }
}

// Proves: OUT-02
TEST_P(enqueue_limits, headers_come_back_as_they_were)
{
    expect_taken({.headers = {{"name", "value"}}});
    expect_taken({.headers = {{"empty", ""}}});
    expect_taken({.headers = {{"Größe", "10 µm"}, {"名前", "郵便 📯"}, {"имя", "почта"}}});
    expect_taken({.headers = {{"\"quoted\"", "\\ / \" ' {}[],:"}, {" ", " a  b "}}});
    expect_taken({.headers = {{"A", "upper"}, {"a", "lower"}}});
    expect_taken({.headers = {{"n", "1"}, {"t", "true"}, {"z", "null"}, {"o", "{\"a\":1}"}}});
}

// Proves: OUT-02
TEST_P(enqueue_limits, headers_hold_no_control_characters)
{
    for (int code = 0; code < 32; ++code) {
        const std::string control(1, static_cast<char>(code));
        expect_refused({.headers = {{"name", "a" + control + "b"}}}, "name");
        expect_refused({.headers = {{"a" + control + "b", "value"}}}, "header");
    }
    expect_refused({.headers = {{"name", "\x7f"}}}, "name");
    expect_refused({.headers = {{"\x7f", "value"}}}, "header");
}

// Proves: OUT-02
TEST_P(enqueue_limits, a_header_has_a_name)
{
    expect_refused({.headers = {{"", "value"}}}, "header");
}

// Proves: OUT-02
TEST_P(enqueue_limits, header_names_of_posthorn_are_reserved)
{
    for (const auto* name : {"posthorn-msg-id", "posthorn-corr-id", "posthorn-corr-seq",
                             "posthorn-causation-id", "posthorn-", "posthorn-anything"})
        expect_refused({.headers = {{"mine", "1"}, {name, "value"}}}, name);
    expect_taken({.headers = {{"posthorn", "1"}, {"x-posthorn-id", "2"}, {"posthorn_id", "3"}}});
}

// Proves: OUT-02
TEST_P(enqueue_limits, headers_are_bounded_together)
{
    constexpr auto bound = limits{}.headers_bytes_max;
    expect_taken({.headers = {{"a", letters(bound - 1)}}});
    expect_taken({.headers = {{"a", letters(bound / 2 - 1)}, {"b", letters(bound / 2 - 1)}}});
    expect_refused({.headers = {{"a", letters(bound)}}}, "headers");
    expect_refused({.headers = {{"a", letters(bound / 2 - 1)}, {"b", letters(bound / 2)}}},
                   "headers");

    auto small = bounded({.headers_bytes_max = 4});
    enqueue(small, {.topic = "orders", .payload = ""}, {.headers = {{"a", "bcd"}}});
    const auto too_long = enqueue_options{.headers = {{"a", "bcde"}}};
    EXPECT_EQ(thrown_by([&] {
                  enqueue(small, {"orders", ""}, too_long);
              }).code(),
              error_code::invalid_argument);
}

// Proves: OUT-02, OUT-05
TEST_P(enqueue_limits, a_priority_lies_between_minus_100_and_100)
{
    for (const auto priority : {-100, -1, 0, 1, 100}) {
        const auto id = add("orders", {.priority = priority});
        EXPECT_EQ(look(id).priority, priority);
        EXPECT_EQ(work_off(), std::vector{id});
    }
    for (const auto priority :
         {-101, 101, std::numeric_limits<int>::min(), std::numeric_limits<int>::max()})
        expect_refused({.priority = priority}, "priority");
}

// Proves: OUT-02, OUT-03
TEST_P(enqueue_limits, the_nil_uuid_is_nobodys_id)
{
    expect_refused({.id = message_id{}}, "id");
}

// Proves: OUT-02, OUT-04
TEST_P(enqueue_limits, a_due_time_is_given_in_one_way_only)
{
    expect_refused({.delay = 1s, .due_at = now() + 1s}, "due_at");
    expect_refused({.delay = 0s, .due_at = now()}, "due_at");
}

// Proves: OUT-02, OUT-04
TEST_P(enqueue_limits, an_expiry_is_given_in_one_way_only)
{
    expect_refused({.expires_after = 1s, .expires_at = now() + 1s}, "expires_at");
}

// Proves: OUT-02, OUT-04
TEST_P(enqueue_limits, an_expiry_must_leave_time_for_a_start)
{
    expect_refused({.expires_after = 0s}, "expires_after");
    expect_refused({.expires_after = -1s}, "expires_after");
    expect_refused({.delay = 10s, .expires_after = 10s}, "expires_after");
    expect_refused({.delay = 10s, .expires_after = 9s}, "expires_after");
    expect_refused({.due_at = now() + 10s, .expires_at = now() + 10s}, "expires_at");
    expect_refused({.due_at = now() + 10s, .expires_at = now() + 9s}, "expires_at");
    add("orders", {.delay = 10s, .expires_after = 10s + 1us});
    add("orders", {.due_at = now() + 10s, .expires_at = now() + 10s + 1us});
    add("orders", {.delay = -10s, .expires_after = 1us});
    EXPECT_EQ(total(), 3U);
}

// Proves: OUT-02, OUT-04
TEST_P(enqueue_limits, an_expiry_before_the_due_time_is_seen_however_the_two_are_given)
{
    expect_refused({.delay = 10s, .expires_at = now() + 10s}, "expires");
    expect_refused({.delay = 10s, .expires_at = now() + 5s}, "expires");
    expect_refused({.due_at = now() + 10s, .expires_after = 10s}, "expires");
    expect_refused({.due_at = now() + 10s, .expires_after = 5s}, "expires");
    add("orders", {.delay = 10s, .expires_at = now() + 10s + 1us});
    add("orders", {.due_at = now() + 10s, .expires_after = 10s + 1us});
    EXPECT_EQ(total(), 2U);
}

// Proves: OUT-02, OUT-04
TEST_P(enqueue_limits, a_time_that_no_clock_will_show_is_refused)
{
    expect_refused({.delay = duration::max()}, "delay");
    expect_refused({.expires_after = duration::max()}, "expires_after");
    expect_refused({.dedup_key = "d", .dedup_window = duration::max()}, "dedup_window");
}

// Proves: OUT-02, OUT-07
TEST_P(enqueue_limits, a_dedup_window_is_positive)
{
    expect_refused({.dedup_key = "d", .dedup_window = 0s}, "dedup_window");
    expect_refused({.dedup_key = "d", .dedup_window = -1s}, "dedup_window");
    EXPECT_FALSE(enqueue(db(), {"orders", ""}, {.dedup_key = "d", .dedup_window = 1us}).duplicate);
}

// Proves: OUT-02, I1
TEST_P(enqueue_limits, a_refusal_leaves_the_rest_of_the_transaction_alone)
{
    auto tx = db().begin();
    const auto before = enqueue(tx, {.topic = "orders", .payload = ""}).id;
    EXPECT_EQ(thrown_by([&] { enqueue(tx, {"", ""}); }).code(), error_code::invalid_argument);
    const auto after = enqueue(tx, {.topic = "orders", .payload = ""}, {.priority = -1}).id;
    tx.commit();
    EXPECT_EQ(ids_of(list_messages(db())), (std::vector{before, after}));
}

CONFORMANCE_SUITE(enqueue_limits);

} // namespace
} // namespace posthorn::conformance
