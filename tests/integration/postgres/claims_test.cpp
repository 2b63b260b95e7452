// What happens beside a claim or a settlement does not spoil it, and what is said again and again
// uses nothing up.
#include "integration/postgres/server_fixture.hpp"
#include <posthorn/enqueue.hpp>
#include <posthorn/joins.hpp>
#include <posthorn/outbox.hpp>
#include <posthorn/stores.hpp>

#include <gtest/gtest.h>

#include <future>
#include <string>

namespace posthorn::test {
namespace {

using namespace std::chrono_literals;

class postgres_claims : public server_fixture {
protected:
    [[nodiscard]] std::string table(const std::string& name) const { return schema_ + "." + name; }

    bool somebody_waits_for(const std::string& name)
    {
        return admin_->count("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = '" +
                             table(name) + "'::regclass") == 1;
    }

    store store_ = open_with("");
    outbox queue_{store_};
    owner who_ = owner::create("alice", *system_.random);
};

} // namespace

// Proves: I2, I5
TEST_F(postgres_claims, reach_their_worker_though_the_mark_cannot_be_raised)
{
    admin_->execute("CREATE FUNCTION " + table("refuse") +
                    "() RETURNS trigger LANGUAGE plpgsql AS "
                    "$$ BEGIN RAISE EXCEPTION 'not today'; END $$");
    admin_->execute("CREATE TRIGGER refuse BEFORE UPDATE ON " + table("mark") +
                    " FOR EACH ROW EXECUTE FUNCTION " + table("refuse") + "()");
    constexpr int many = 12'000; // it is raised every ten thousand
    admin_->execute("SELECT count(" + table("enqueue") + "('orders')) FROM generate_series(1, " +
                    std::to_string(many) + ")");
    std::size_t claimed = 0;
    while (const auto next = queue_.claim(who_, {.limit = 1'000}).size())
        claimed += next;
    EXPECT_EQ(claimed, many);
    EXPECT_EQ(admin_->count("SELECT low FROM " + table("mark")), 0);
}

// Proves: I2
TEST_F(postgres_claims, do_not_fail_for_a_row_whose_numbers_cannot_be_counted_up)
{
    enqueue(store_, {"odd", ""}, {.priority = 1});
    enqueue(store_, {"odd", ""}, {.priority = 1});
    enqueue(store_, {"orders", ""});
    admin_->execute("UPDATE " + table("message") +
                    " SET attempts = 2147483647, errors = 2147483647 WHERE topic = 'odd'");
    const auto claimed = queue_.claim(who_, {.limit = 10, .start = 1});
    ASSERT_EQ(claimed.size(), 3U);
    EXPECT_EQ(queue_.start(who_, claimed.receipts()).size(), 3U);
    EXPECT_EQ(queue_.fail(who_, claimed.receipts(), "no").settled(), 3U);
    EXPECT_EQ(count_messages(store_).dead, 3) << "too many attempts, or failed for good";
}

TEST_F(postgres_claims, of_workers_that_are_known_use_up_no_number)
{
    auto one = open_with("&pool=1");
    outbox queue(one);
    const auto bob = owner::create("bob", *system_.random);
    for (int i = 0; i < 20; ++i)
        EXPECT_TRUE(queue.claim(i % 2 == 0 ? who_ : bob).empty());
    EXPECT_EQ(admin_->count("SELECT last_value FROM " + table("worker_id_seq")), 2);
}

// Nothing waits behind the mark. Should it do so, it shows where the search began.
TEST_F(postgres_claims, of_a_store_among_many_begin_at_its_mark)
{
    enqueue(store_, {"orders", "behind the mark"});
    admin_->execute("UPDATE " + table("mark") + " SET low = 1");
    router to(stores({{.name = "one", .url = under_test_->url()}}, {.connections_max = 2}));
    auto one = to.store("one");
    EXPECT_TRUE(outbox(one).claim(who_).empty());
    enqueue(one, {"orders", "in front of it"});
    EXPECT_EQ(outbox(one).claim(who_).size(), 1U);
}

// Proves: I18
TEST_F(postgres_claims, whose_follower_leaves_while_they_are_settled_are_not_called_lost)
{
    const auto join = open_join(store_, {.expected = 2, .needed = 1});
    enqueue(store_, {"orders", ""}, {.join = join});
    outbox forgetful(store_, {.keep_done = false}); // settles in one go, without a quick way before
    const auto claimed = forgetful.claim(who_);
    ASSERT_EQ(claimed.size(), 1U);
    // The settlement has seen that somebody follows the message, and now it has to wait.
    admin_->begin();
    admin_->execute("LOCK TABLE " + table("message") + " IN ACCESS EXCLUSIVE MODE");
    auto settled = std::async(std::launch::async, [&] {
        return forgetful.acknowledge(who_, claimed.receipts()).answers.front();
    });
    wait_until([&] { return somebody_waits_for("message"); });
    admin_->execute("UPDATE " + table("join_member") + " SET state = 3");
    admin_->commit();
    EXPECT_EQ(settled.get(), settled_as::done);
}

} // namespace posthorn::test
