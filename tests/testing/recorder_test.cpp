// What handlers were given, and what they said.
#include <posthorn/posthorn.hpp>
#include <posthorn/testing/testing.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace posthorn::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class recording : public ::testing::Test {
protected:
    store_for_tests db;
    recorder seen;
};

// Proves: OPS-07
TEST_F(recording, every_call_is_remembered_with_what_became_of_it)
{
    enqueue(db, {"mail", "x"});
    worker who(db, seen.watching({.concurrency = 1}));
    who.handle("mail", [](const delivery_view& which) {
        return which.attempt() == 1 ? retry("not yet") : done();
    });
    drain_to_the_end(who, db);

    const auto calls = seen.handled("mail");
    ASSERT_EQ(calls.size(), 2U);
    EXPECT_EQ(calls[0].attempt, 1);
    EXPECT_EQ(calls[0].said.error, "not yet");
    EXPECT_EQ(calls[0].became, settled_as::retrying);
    EXPECT_EQ(calls[1].attempt, 2);
    EXPECT_EQ(calls[1].became, settled_as::done);
    EXPECT_TRUE(seen.was_handled("mail", {"x", "x"}));
    EXPECT_THAT(seen.was_handled("mail", {"x"}).why(),
                HasSubstr(R"(expected calls with ["x"], found calls with ["x", "x"])"));
    EXPECT_TRUE(seen.was_handled("other", {}));
}

TEST_F(recording, a_transactional_handler_is_remembered_too)
{
    enqueue(db, {"mail", "x"});
    worker who(db, seen.watching());
    who.handle("mail", [](transactional_delivery<>& which) {
        enqueue(which.tx(), {"sent", which.payload()});
    });
    who.handle("sent", [](const delivery_view&) {});
    drain(who);
    ASSERT_TRUE(seen.was_handled("mail", {"x"}));
    EXPECT_EQ(seen.handled("mail")[0].became, settled_as::done);
    EXPECT_TRUE(seen.was_handled("sent", {"x"}));
}

TEST_F(recording, what_was_turned_away_is_not_handled)
{
    enqueue(db, {"mail", "x"});
    worker who(db, seen.watching());
    drain(who);
    EXPECT_TRUE(seen.handled().empty());
    ASSERT_EQ(seen.turned_away().size(), 1U);
    EXPECT_EQ(seen.turned_away()[0].became, settled_as::parked);
}

TEST_F(recording, hooks_of_the_application_are_called_as_before)
{
    enqueue(db, {"mail", "x"});
    int ended = 0;
    int settled = 0;
    worker_options options;
    options.on.ended = [&](const delivery_view&, const outcome&, duration) { ++ended; };
    options.on.settled = [&](const delivery_view&, settled_as) { ++settled; };
    worker who(db, seen.watching(std::move(options)));
    who.handle("mail", [](const delivery_view&) {});
    drain(who);
    EXPECT_EQ(ended, 1);
    EXPECT_EQ(settled, 1);
    EXPECT_EQ(seen.handled().size(), 1U);
    seen.forget();
    EXPECT_TRUE(seen.handled().empty());
}

} // namespace
} // namespace posthorn::testing
