// Expectations that say what differs.
#include <posthorn/json.hpp>
#include <posthorn/posthorn.hpp>
#include <posthorn/testing/testing.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <sstream>
#include <string>

namespace {

struct order_placed {
    std::int64_t order_id = 0;

    friend bool operator==(const order_placed&, const order_placed&) = default;
    NLOHMANN_DEFINE_TYPE_INTRUSIVE(order_placed, order_id)
};

} // namespace

template <>
struct posthorn::message_type<order_placed> {
    static constexpr std::string_view topic = "orders.placed";
};

namespace posthorn::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class expectations : public ::testing::Test {
protected:
    store_for_tests db;
};

// Proves: OPS-07
TEST_F(expectations, what_was_enqueued_is_compared_in_order)
{
    enqueue(db, {"mail", "one"});
    enqueue(db, {"mail", "two"});
    enqueue(db, {"other", "three"});

    EXPECT_TRUE(was_enqueued(db, "mail", {"one", "two"}));
    EXPECT_THAT(
        was_enqueued(db, "mail", {"one", "2"}).why(),
        AllOf(HasSubstr("number 2: expected '2', found 'two'"), Not(HasSubstr("number 1"))));
    EXPECT_THAT(was_enqueued(db, "mail", {"one"}).why(),
                HasSubstr("expected 1 messages, found 2:\n  number 2: expected none, found 'two'"));
    EXPECT_THAT(was_enqueued(db, "mail", {"one", "two", "three"}).why(),
                HasSubstr("number 3: expected 'three', found none"));
    EXPECT_THAT(nothing_was_enqueued(db, "oth*").why(), HasSubstr("1 were enqueued:\n  other "));
}

// Proves: OPS-07
TEST_F(expectations, typed_messages_are_compared_as_values)
{
    enqueue(db, order_placed{7});
    enqueue(db, order_placed{8});
    EXPECT_THAT(values_of<order_placed>(db), ElementsAre(order_placed{7}, order_placed{8}));
    EXPECT_TRUE(was_enqueued<order_placed>(db, {{7}, {8}}));
    EXPECT_THAT(was_enqueued<order_placed>(db, {{7}, {9}}).why(),
                HasSubstr(R"(number 2: expected '{"order_id":9}', found '{"order_id":8}')"));
}

TEST_F(expectations, a_rolled_back_message_was_never_enqueued)
{
    auto tx = db.begin();
    enqueue(tx, {"mail", "one"});
    tx.rollback();
    EXPECT_TRUE(nothing_was_enqueued(db));
}

TEST_F(expectations, more_messages_than_a_page_are_all_seen)
{
    std::vector<outgoing> many(2'500, {.message = {"mail", "x"}});
    enqueue(db, many);
    EXPECT_EQ(messages_of(db, "mail").size(), 2'500U);
    EXPECT_THAT(everything_is_done(db).why(),
                AllOf(HasSubstr("2500 not done"), HasSubstr("… and 2490 more")));
}

TEST_F(expectations, a_dead_message_is_explained)
{
    const auto which = enqueue(db, {"mail", "secret"});
    worker who(db);
    who.handle("mail", [](const delivery_view&) { return fail("no such mailbox"); });
    drain(who);

    EXPECT_TRUE(is_in_state(db, which.id, message_state::dead));
    const auto told =
        AllOf(HasSubstr("mail " + to_string(which.id) + " is dead"), HasSubstr("attempts: 1"),
              HasSubstr("no such mailbox"), Not(HasSubstr("secret")));
    EXPECT_THAT(nothing_is_dead(db).why(), told);
    EXPECT_THAT(everything_is_done(db).why(), told);
    EXPECT_THAT(is_in_state(db, which.id, message_state::done).why(), told);
    EXPECT_THAT(are_in_state(db, message_state::done, 1).why(), told);
    EXPECT_TRUE(are_in_state(db, message_state::dead, 1, "mail"));
    EXPECT_TRUE(are_in_state(db, message_state::dead, 0, "other"));
}

TEST_F(expectations, a_parked_message_says_why)
{
    enqueue(db, {"mail", "x"});
    worker who(db);
    drain(who);
    EXPECT_THAT(nothing_is_parked(db).why(), HasSubstr("is parked (no_handler)"));
}

TEST_F(expectations, an_unknown_message_is_in_no_state)
{
    EXPECT_THAT(is_in_state(db, message_id{}, message_state::done).why(),
                HasSubstr("there is no message"));
}

TEST(verdicts, googletest_prints_the_reason)
{
    const ::testing::AssertionResult bad = verdict::no("the reason");
    EXPECT_FALSE(bad);
    EXPECT_STREQ(bad.message(), "the reason");
    EXPECT_NONFATAL_FAILURE(EXPECT_TRUE(verdict::no("the reason")), "the reason");
}

TEST(verdicts, other_frameworks_print_them_too)
{
    std::ostringstream out;
    out << verdict::no("the reason") << ", " << verdict::yes();
    EXPECT_EQ(out.str(), "the reason, as expected");
    EXPECT_TRUE(static_cast<bool>(verdict::yes()));
    EXPECT_FALSE(static_cast<bool>(verdict::no("the reason")));
}

} // namespace
} // namespace posthorn::testing
