// From others into the inbox: stored first, then acknowledged, whatever breaks in between.
#include "integration/sqlite/temporary_store.hpp"
#include "runtime/worker_test.hpp"
#include <posthorn/correlation.hpp>
#include <posthorn/feeds.hpp>
#include <posthorn/inbox.hpp>

#include <atomic>
#include <deque>
#include <map>
#include <optional>
#include <set>

namespace posthorn::conformance {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

// A queue that hands out what nobody has acknowledged, again and again.
class scripted_feed final : public feed {
public:
    void put(fed_message what)
    {
        const std::lock_guard lock(mutex_);
        queue_.push_back(std::move(what));
        changed_.notify_all();
    }

    std::vector<fed_message> receive(std::size_t at_most, const time_limit& how_long) override
    {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, how_long.stop, [&] { return closed_ || !queue_.empty(); });
        std::vector<fed_message> result;
        while (!closed_ && !queue_.empty() && result.size() < at_most) {
            auto& next = queue_.front();
            next.ticket = ++last_ticket_;
            out_[next.ticket] = next;
            result.push_back(std::move(next));
            queue_.pop_front();
        }
        return result;
    }

    void acknowledge(std::span<const std::uint64_t> tickets) override
    {
        const std::lock_guard lock(mutex_);
        for (const auto ticket : tickets) {
            acknowledged.push_back(out_.at(ticket).id);
            out_.erase(ticket);
        }
    }

    void give_back(std::span<const std::uint64_t> tickets, duration /*pause*/) override
    {
        const std::lock_guard lock(mutex_);
        for (const auto ticket : tickets) {
            given_back.push_back(out_.at(ticket).id);
            queue_.push_back(out_.at(ticket));
            out_.erase(ticket);
        }
        changed_.notify_all();
    }

    void refuse(std::span<const std::uint64_t> tickets, const std::string& reason) override
    {
        const std::lock_guard lock(mutex_);
        for (const auto ticket : tickets) {
            refused[out_.at(ticket).id] = reason;
            out_.erase(ticket);
        }
    }

    void close() override
    {
        const std::lock_guard lock(mutex_);
        closed_ = true;
        changed_.notify_all();
    }

    [[nodiscard]] std::string name() const override { return "script"; }

    [[nodiscard]] std::size_t returns() const
    {
        const std::lock_guard lock(mutex_);
        return given_back.size();
    }

    std::vector<std::string> acknowledged;
    std::vector<std::string> given_back;
    std::map<std::string, std::string> refused;

private:
    mutable std::mutex mutex_;
    std::condition_variable_any changed_;
    std::deque<fed_message> queue_;
    std::map<std::uint64_t, fed_message> out_;
    std::uint64_t last_ticket_ = 0;
    bool closed_ = false;
};

class feeds : public worker_test {
protected:
    /// Feeds until so many messages have been answered.
    feed_report run_until(std::size_t answered, feed_options how)
    {
        feed_report sum;
        how.progress = [&](const feed_report& done) {
            sum += done;
            if (sum.stored + sum.repeated + sum.refused >= answered)
                from_.close();
        };
        return feed_inbox(db(), from_, how, {});
    }

    scripted_feed from_;
};

// Proves: INB-05
TEST_P(feeds, store_what_comes_and_then_acknowledge_it)
{
    from_.put({.id = "4711",
               .topic = "orders.placed",
               .key = "customer 7",
               .headers = {{"lang", "de"}, {"posthorn-corr-id", "cart-1"}},
               .payload = "seven"});
    const auto report = run_until(1, {.source = "shop"});
    EXPECT_EQ(report.stored, 1U);
    EXPECT_THAT(from_.acknowledged, ElementsAre("4711"));
    const auto known = find_inbound(db(), {.source = "shop", .id = "4711"});
    ASSERT_TRUE(known && known->message);
    worker one(db(), steady());
    one.handle(inbox_topic("orders.placed"), [](const delivery_view& which) {
        EXPECT_EQ(which.payload(), "seven");
        EXPECT_EQ(which.message().ordering_key, "customer 7");
        EXPECT_EQ(which.message().correlation_id, "cart-1");
        EXPECT_THAT(which.headers(), Contains(Pair("lang", "de")));
        EXPECT_THAT(which.headers(), Contains(Pair("posthorn-source", "shop")));
    });
    EXPECT_EQ(one.process_outbox().done, 1U);
}

// Proves: INB-05, INB-01
TEST_P(feeds, acknowledge_what_comes_again_without_a_second_effect)
{
    for (int i = 0; i < 3; ++i)
        from_.put({.id = "4711", .topic = "orders", .payload = "x"});
    const auto report = run_until(3, {.source = "shop", .batch = 1});
    EXPECT_EQ(report.stored, 1U);
    EXPECT_EQ(report.repeated, 2U);
    EXPECT_EQ(from_.acknowledged.size(), 3U);
    EXPECT_EQ(total(), 1U);
}

// Proves: INB-05
TEST_P(feeds, refuse_what_no_store_can_take_and_go_on_with_its_neighbours)
{
    from_.put({.id = "1", .topic = "orders"});
    from_.put({.id = "", .topic = "orders"});
    from_.put({.id = "3", .topic = ""});
    from_.put({.id = "4", .topic = "orders"});
    const auto report = run_until(4, {.source = "shop"});
    EXPECT_EQ(report.stored, 2U);
    EXPECT_EQ(report.refused, 2U);
    EXPECT_THAT(from_.acknowledged, ElementsAre("1", "4"));
    EXPECT_THAT(from_.refused[""], HasSubstr("id"));
    EXPECT_THAT(from_.refused["3"], HasSubstr("topic"));
    EXPECT_EQ(logged("cannot be stored"), 2U);
}

// Proves: INB-05
TEST_P(feeds, give_messages_without_a_topic_the_one_they_are_told)
{
    from_.put({.id = "1", .topic = ""});
    from_.put({.id = "2", .topic = "said"});
    run_until(2, {.source = "shop", .topic = "told"});
    worker one(db(), steady());
    notes met;
    one.handle("*", [&](const delivery_view& which) { met.add(which.topic()); });
    one.process_outbox();
    EXPECT_THAT(met.all(),
                ::testing::UnorderedElementsAre(inbox_topic("told"), inbox_topic("said")));
}

// Proves: INB-05
TEST_P(feeds, keep_a_message_whose_headers_were_broken_on_the_way)
{
    from_.put({.id = "1",
               .topic = "orders",
               .headers = {{"posthorn-corr-id", "cart"}, {"posthorn-corr-seq", "many"}}});
    EXPECT_EQ(run_until(1, {.source = "shop"}).stored, 1U);
}

// Proves: INB-05
TEST_P(feeds, leave_out_headers_with_our_names_however_their_letters_are_written)
{
    from_.put({.id = "1",
               .topic = "orders",
               .headers = {{"lang", "de"},
                           {"posthorn-source", "bank"},
                           {"Posthorn-Source", "bank"},
                           {"POSTHORN-source-id", "7"}}});
    EXPECT_EQ(run_until(1, {.source = "shop"}).stored, 1U);
    worker one(db(), steady());
    one.handle("*", [](const delivery_view& which) {
        EXPECT_THAT(which.headers(), ::testing::UnorderedElementsAre(
                                         Pair("lang", "de"), Pair("posthorn-source", "shop"),
                                         Pair("posthorn-source-id", "1")));
    });
    EXPECT_EQ(one.process_outbox().done, 1U);
}

// Proves: INB-05
TEST_P(feeds, end_when_they_are_told_to)
{
    std::stop_source told;
    std::jthread later([&] { told.request_stop(); });
    EXPECT_EQ(feed_inbox(db(), from_, {.source = "shop"}, told.get_token()).stored, 0U);
}

// Proves: F21
TEST_P(feeds, need_a_source)
{
    EXPECT_EQ(thrown_by([&] { feed_inbox(db(), from_, {}, {}); }).code(),
              error_code::invalid_argument);
}

CONFORMANCE_SUITE(feeds);

// A store whose only writer is somebody else, until it is let go.
class feeds_of_a_store_that_is_away : public ::testing::Test {
protected:
    feeds_of_a_store_that_is_away() { enqueue(*holder_, {"mine", ""}); }

    /// Until everything is stored.
    feed_report run(feed_options how)
    {
        how.progress = [&](const feed_report& done) {
            failures_ += done.failures;
            if ((stored_ += done.stored) == 2)
                from_.close();
        };
        return feed_inbox(open(file_.url() + "?busy_timeout=10ms"), from_, how, {});
    }

    void SetUp() override
    {
        from_.put({.id = "1", .topic = "orders"});
        from_.put({.id = "2", .topic = "orders"});
    }

    const test::temporary_store file_;
    store other_ = file_.open();
    std::optional<transaction> holder_ = other_.begin();
    scripted_feed from_;
    std::atomic<std::size_t> failures_ = 0;
    std::size_t stored_ = 0;
};

// Proves: INB-05
TEST_F(feeds_of_a_store_that_is_away, acknowledge_nothing_and_bring_everything_once_it_is_back)
{
    feed_report sum;
    std::jthread feeding([&] { sum = run({.source = "shop", .keep_for = {}}); });
    EXPECT_TRUE(eventually([&] { return from_.returns() >= 2; }));
    holder_->commit();
    feeding.join();
    EXPECT_EQ(sum.stored, 2U);
    EXPECT_GT(sum.failures, 0U);
    EXPECT_THAT(from_.acknowledged, ::testing::UnorderedElementsAre("1", "2"));
}

// Proves: INB-05
TEST_F(feeds_of_a_store_that_is_away, keep_what_they_have_for_a_while_so_that_nothing_overtakes_it)
{
    feed_report sum;
    std::jthread feeding([&] { sum = run({.source = "shop", .batch = 1, .keep_for = 1h}); });
    EXPECT_TRUE(eventually([&] { return failures_ >= 2; }));
    holder_->commit();
    feeding.join();
    EXPECT_EQ(sum.stored, 2U);
    EXPECT_THAT(from_.acknowledged, ElementsAre("1", "2"));
    EXPECT_THAT(from_.given_back, IsEmpty());
}

} // namespace
} // namespace posthorn::conformance
