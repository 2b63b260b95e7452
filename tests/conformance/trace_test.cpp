// Finding the messages of a correlation on every store, without an index.
#include "conformance/conformance_test.hpp"
#include <posthorn/correlation.hpp>
#include <posthorn/error.hpp>
#include <posthorn/trace.hpp>

namespace posthorn::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class tracing : public conformance_test {
protected:
    message_id add_to(const std::string& correlation, std::optional<message_id> cause = {})
    {
        return add("orders", {.correlation_id = correlation,
                              .causation_id = cause ? to_string(*cause) : std::string{}});
    }

    static std::vector<message_id> ids(const message_trace& found)
    {
        std::vector<message_id> result;
        for (const auto& each : found.messages)
            result.push_back(each.record.id);
        return result;
    }
    static std::vector<std::size_t> depths(const message_trace& found)
    {
        std::vector<std::size_t> result;
        for (const auto& each : found.messages)
            result.push_back(each.depth);
        return result;
    }
    std::vector<message_id> traced(const std::string& correlation, const trace_options& how = {})
    {
        return ids(trace_messages(db(), correlation, how));
    }
};

// Proves: COR-06
TEST_P(tracing, lists_can_be_narrowed_to_a_correlation_and_to_positions)
{
    const auto a = add_to("x");
    const auto b = add_to("y");
    const auto c = add_to("x");
    const auto d = add_keyed("k", {.correlation_id = "x"});
    add();
    EXPECT_THAT(ids_of(list_messages(db(), {.correlation_id = "x"})), ElementsAre(a, c, d));
    EXPECT_THAT(ids_of(list_messages(db(), {.correlation_id = "x",
                                            .after_position = look(a).position,
                                            .before_position = look(d).position})),
                ElementsAre(c));
    EXPECT_THAT(ids_of(list_messages(db(), {.before_position = look(c).position})),
                ElementsAre(a, b));
    EXPECT_THAT(ids_of(list_messages(db(), {.state = message_state::ready, .correlation_id = "x"})),
                ElementsAre(a, c, d));
    EXPECT_THAT(list_messages(db(), {.correlation_id = "X"}), IsEmpty()); // exactly
    work_off();
    EXPECT_THAT(ids_of(list_messages(db(), {.state = message_state::done, .correlation_id = "y"})),
                ElementsAre(b));
}

// Proves: COR-06
TEST_P(tracing, shows_what_caused_what_whatever_became_of_it)
{
    const auto root = add_to("order-7");
    add_to("another");
    const auto left = add_to("order-7", root);
    const auto right = add_to("order-7", root);
    work_off();
    const auto dead = add_dead("broken", "orders",
                               {.correlation_id = "order-7", .causation_id = to_string(left)});
    const auto below = add_to("order-7", left);
    const auto found = trace_messages(db(), "order-7");
    EXPECT_EQ(found.correlation_id, "order-7");
    EXPECT_TRUE(found.complete);
    EXPECT_THAT(ids(found), ElementsAre(root, left, dead, below, right));
    EXPECT_THAT(depths(found), ElementsAre(0, 1, 2, 2, 1));
    EXPECT_EQ(found.messages.at(0).record.state, message_state::done);
    EXPECT_EQ(found.messages.at(2).record.state, message_state::dead);
    EXPECT_EQ(found.messages.at(2).record.last_error, "broken");
    EXPECT_EQ(found.messages.at(0).record.payload, "");
}

// Proves: COR-06
TEST_P(tracing, the_first_message_need_not_say_that_it_belongs_to_itself)
{
    const auto root = add();
    const auto child = add_to(to_string(root), root);
    EXPECT_THAT(traced(to_string(root)), ElementsAre(root, child));
    const auto lonely = add();
    EXPECT_THAT(traced(to_string(lonely)), ElementsAre(lonely));
}

// Proves: COR-06
TEST_P(tracing, the_id_of_any_of_its_messages_stands_for_a_correlation)
{
    const auto root = add_to("order-7");
    const auto child = add_to("order-7", root);
    EXPECT_THAT(traced(to_string(child)), ElementsAre(root, child));
    const auto first = add();
    const auto second = add_to(to_string(first), first);
    EXPECT_THAT(traced(to_string(second)), ElementsAre(first, second));
}

// Proves: COR-06
TEST_P(tracing, begins_where_it_is_told_or_a_day_ago)
{
    const auto old = add_to("order-7");
    // Positions of several sessions may be out of step, so a few too many are always looked at.
    add_many(11'000, "filler");
    clock().advance(25h);
    const auto recent = add_to("order-7", old);
    EXPECT_THAT(traced("order-7"), ElementsAre(recent));
    EXPECT_THAT(traced("order-7", {.since = now() - 48h}), ElementsAre(old, recent));
    EXPECT_EQ(trace_messages(db(), "order-7").since, now() - 24h);
}

// Proves: COR-06
TEST_P(tracing, a_uuid_tells_when_to_begin_however_long_ago)
{
    const auto gone = uuid::version_7(now(), *world().random); // a message that was removed
    const auto old = add_to(to_string(gone));
    const auto root = add();
    clock().advance(72h);
    add_many(11'000, "filler");
    const auto child = add_to(to_string(root), root);
    EXPECT_THAT(traced(to_string(gone)), ElementsAre(old));
    EXPECT_THAT(traced(to_string(root)), ElementsAre(root, child));
}

// Proves: COR-06
TEST_P(tracing, looks_past_its_first_window)
{
    const auto root = add_to("order-7");
    for (int i = 0; i < 3; ++i)
        add_many(9'000, "filler");
    const auto child = add_to("order-7", root);
    std::vector<std::int64_t> told;
    const auto found = trace_messages(db(), "order-7", {.progress = [&](auto done, auto of) {
                                          told.push_back(done);
                                          EXPECT_GE(of, done);
                                          return true;
                                      }});
    EXPECT_THAT(ids(found), ElementsAre(root, child));
    EXPECT_EQ(told.size(), 2U);
    const auto ended =
        trace_messages(db(), "order-7", {.progress = [](auto done, auto) { return done == 0; }});
    EXPECT_THAT(ids(ended), ElementsAre(root));
    EXPECT_FALSE(ended.complete);
}

// Proves: COR-06
TEST_P(tracing, says_when_there_are_more_than_it_may_show)
{
    std::vector<message_id> all;
    for (int i = 0; i < 4; ++i)
        all.push_back(add_to("order-7"));
    const auto some = trace_messages(db(), "order-7", {.limit = 3});
    EXPECT_THAT(ids(some), ElementsAre(all[0], all[1], all[2]));
    EXPECT_FALSE(some.complete);
    EXPECT_TRUE(trace_messages(db(), "order-7", {.limit = 4}).complete);
    // Also when the first one was found by its id.
    const auto root = add();
    for (int i = 0; i < 3; ++i)
        add_to(to_string(root), root);
    EXPECT_FALSE(trace_messages(db(), to_string(root), {.limit = 3}).complete);
    EXPECT_TRUE(trace_messages(db(), to_string(root), {.limit = 4}).complete);
}

// Proves: COR-06
TEST_P(tracing, finds_nothing_in_an_empty_store_and_refuses_nonsense)
{
    EXPECT_THAT(traced("order-7"), IsEmpty());
    EXPECT_THAT(traced(to_string(uuid::version_7(now(), *world().random))), IsEmpty());
    EXPECT_EQ(thrown_by([&] { (void)traced(""); }).code(), error_code::invalid_argument);
    EXPECT_EQ(thrown_by([&] { (void)traced("x", {.limit = 0}); }).code(),
              error_code::invalid_argument);
}

CONFORMANCE_SUITE(tracing);

} // namespace
} // namespace posthorn::conformance
