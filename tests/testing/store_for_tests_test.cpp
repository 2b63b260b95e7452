// A store whose time and chance belong to the test.
#include <posthorn/posthorn.hpp>
#include <posthorn/testing/testing.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace posthorn::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Proves: OPS-07
TEST(store_for_tests, each_store_is_its_own)
{
    store_for_tests one;
    store_for_tests other;
    enqueue(one, {"mail", "hello"});

    EXPECT_TRUE(was_enqueued(one, "mail", {"hello"}));
    EXPECT_TRUE(nothing_was_enqueued(other));
}

TEST(store_for_tests, a_copy_of_the_handle_is_the_same_store)
{
    store_for_tests db;
    store copy = db;
    enqueue(copy, {"mail", "hello"});
    EXPECT_TRUE(was_enqueued(db, "mail", {"hello"}));
}

// Proves: OPS-07
TEST(store_for_tests, its_time_stands_still_until_the_test_moves_it)
{
    store_for_tests db;
    const auto first = enqueue(db, {"mail", "1"});
    db.clock().advance(90s);
    const auto second = enqueue(db, {"mail", "2"});

    const auto created = [&](const enqueued& of) { return find_message(db, of.id)->created_at; };
    EXPECT_EQ(created(second) - created(first), 90s);
}

TEST(store_for_tests, the_same_seed_makes_the_same_ids)
{
    const auto first_id = [](std::uint64_t seed) {
        store_for_tests db({.seed = seed});
        return enqueue(db, {"mail", "1"}).id;
    };
    EXPECT_EQ(first_id(7), first_id(7));
    EXPECT_NE(first_id(7), first_id(8));
}

TEST(store_for_tests, what_is_logged_can_be_read)
{
    store_for_tests db;
    enqueue(db, {"nobody.cares", "x"});
    worker who(db);
    drain(who);
    EXPECT_THAT(db.log(), ElementsAre(HasSubstr("topic 'nobody.cares' has no handler")));
}

TEST(store_for_tests, another_store_can_have_the_clock_of_a_test)
{
    const opener how = [](std::string_view url, const store_options& options) {
        return posthorn::open(url, options);
    };
    store_for_tests db({.url = "sqlite::memory:", .open = how});
    EXPECT_EQ(db.environment().clock->now(), db.clock().now());
    EXPECT_THROW(store_for_tests({.url = "sqlite::memory:"}), error);
}

TEST(sample_delivery, a_handler_can_be_called_without_a_store)
{
    const auto handler = [](const delivery_view& which) {
        if (which.attempt() > 2)
            return fail("no more");
        return which.stop_token().stop_requested() ? retry("asked to stop") : done();
    };
    const sample_delivery first({"mail", "hello"});
    EXPECT_EQ(handler(first).verdict, outcome::kind::done);
    first.ask_to_stop();
    EXPECT_EQ(handler(first).error, "asked to stop");
    EXPECT_FALSE(first.view().is_lost());

    const sample_delivery third({"mail", "hello"}, 3, {.headers = {{"lang", "en"}}});
    EXPECT_EQ(handler(third).error, "no more");
    EXPECT_EQ(third.view().headers().at("lang"), "en");
    third.lose();
    EXPECT_TRUE(third.view().is_lost());
    EXPECT_TRUE(third.view().stop_token().stop_requested());
}

} // namespace
} // namespace posthorn::testing
