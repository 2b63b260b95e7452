// The database's clock is set ahead, work is done meanwhile, and it is set back: a worker brings
// what was written meanwhile back to the present, and nothing waits for the clock to catch up.
#include "schedules/jobs_testing.hpp"

#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace posthorn::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class clock_set_back : public jobs_test {
protected:
    void SetUp() override
    {
        jobs_test::SetUp();
        own_.emplace(make_worker({.concurrency = 1}));
        own_->handle("note", [this](const delivery_view& which) {
            noted_.push_back(which.payload());
            return which.payload() == failing_ ? retry_in(10s, "not yet") : done();
        });
        own_->process_outbox();
    }

    message_id note(const std::string& payload, enqueue_options how = {})
    {
        return enqueue(db(), {.topic = "note", .payload = payload}, how).id;
    }

    enqueue_options keyed(enqueue_options how = {})
    {
        how.ordering_key = "key";
        return how;
    }

    std::vector<std::string> noted_after(duration length)
    {
        noted_.clear();
        clock().advance(length);
        own_->process_outbox();
        return noted_;
    }

    std::optional<worker> own_;
    std::vector<std::string> noted_; ///< one handler at a time
    std::string failing_;
};

// A database's clock that somebody sets, while what nobody can set goes on.
class unsteady_clock final : public testing::manual_clock {
public:
    [[nodiscard]] timestamp now() const override { return manual_clock::now() + ahead.load(); }

    std::atomic<duration> ahead{};
};

} // namespace

// Proves: F13, SCH-01
TEST_P(clock_set_back, jobs_go_on_with_their_next_instant)
{
    for (const auto ahead : {1h, 24h}) {
        const auto name = std::to_string(ahead.count());
        const auto start = now();
        put_job(db(), "cron" + name, hourly());
        put_job(db(), "every" + name, {.run = {"report", ""}, .every = 10min});
        pass(*own_, 10min, 10min);
        clock().advance(ahead);
        own_->process_outbox();
        put_job(db(), "new" + name, {.run = {"report", ""}, .every = 10min});
        EXPECT_GT(find_job(db(), "every" + name)->next_at, start + ahead);
        clock().advance(-ahead);
        own_->process_outbox();
        EXPECT_EQ(find_job(db(), "every" + name)->next_at, start + 20min);
        EXPECT_EQ(find_job(db(), "new" + name)->next_at, start + 20min);
        EXPECT_LE(find_job(db(), "cron" + name)->next_at, start + 2h);
        pass(*own_, 50min, 10min);
        EXPECT_EQ(find_job(db(), "every" + name)->next_at, start + 70min);
        EXPECT_EQ(find_job(db(), "new" + name)->next_at, start + 70min);
        EXPECT_EQ(find_job(db(), "cron" + name)->next_at, start + 2h);
        // No instant has run twice, and those that the clock had not run through have run.
        std::set<timestamp> instants;
        for (const auto& each : executions("new" + name))
            EXPECT_TRUE(instants.insert(each.nominal_at).second);
        for (auto each = start + 20min; each <= start + 60min; each += 10min)
            EXPECT_TRUE(instants.contains(each));
        clock().advance(72h); // beyond all that has run ahead
        own_->process_outbox();
    }
}

// Proves: F13, I20
TEST_P(clock_set_back, keyed_messages_that_were_tried_ahead_of_it_are_tried_again_in_their_order)
{
    for (const auto ahead : {1h, 24h}) {
        clock().advance(ahead);
        failing_ = "first";
        note("first", keyed());
        note("second", keyed());
        note("third", keyed({.delay = 30s}));
        note("urgent", {.priority = 5, .delay = 5s});
        own_->process_outbox();
        clock().advance(-ahead);
        failing_.clear();
        EXPECT_THAT(noted_after(0s), IsEmpty());
        EXPECT_THAT(noted_after(5s), ElementsAre("urgent"));
        EXPECT_THAT(noted_after(5s), ElementsAre("first", "second"));
        EXPECT_THAT(noted_after(20s), ElementsAre("third"));
    }
}

// Proves: F13, I20
TEST_P(clock_set_back, messages_that_were_enqueued_ahead_of_it_are_due)
{
    clock().advance(24h);
    note("plain");
    note("first", keyed());
    note("second", keyed());
    note("urgent", {.priority = 5});
    clock().advance(-24h);
    EXPECT_THAT(noted_after(1min), UnorderedElementsAre("plain", "first", "second", "urgent"));
}

// Proves: F13, I20
TEST_P(clock_set_back, what_is_given_back_unharmed_is_due)
{
    clock().advance(24h);
    note("plain");
    note("keyed", keyed());
    clock().advance(-24h);
    const auto plain = box().claim(alice, {.lease = 1h, .limit = 1});
    ASSERT_EQ(plain.size(), 1U);
    EXPECT_THAT(noted_after(1min), ElementsAre("keyed"));
    const settlement back{.receipt = plain.receipts().front(), .outcome = postpone(0s)};
    (void)box().settle(alice, {&back, 1});
    EXPECT_THAT(noted_after(0s), ElementsAre("plain"));
}

// Proves: F13, I20
TEST_P(clock_set_back, leases_that_were_given_ahead_of_it_end)
{
    clock().advance(24h);
    note("left", keyed());
    ASSERT_EQ(claim(1).size(), 1U); // by a worker that dies
    clock().advance(-24h);
    EXPECT_THAT(noted_after(1min), IsEmpty());
    EXPECT_THAT(noted_after(1h), IsEmpty()); // it is taken back, and tried again a little later
    EXPECT_THAT(noted_after(1h), ElementsAre("left"));
}

// Proves: F13, I20
TEST_P(clock_set_back, also_after_a_moment_that_only_a_claim_has_seen)
{
    const auto time = std::make_shared<unsteady_clock>();
    auto world = this->world();
    world.clock = time;
    auto where = under_test().open({.environment = world});
    worker own(where, {.concurrency = 1});
    bool fails = true;
    int tries = 0;
    own.handle("note", [&](const delivery_view&) {
        ++tries;
        return fails ? retry_in(10s, "not yet") : done();
    });
    const auto tries_after = [&](duration length) {
        time->advance(length);
        own.process_outbox();
        return std::exchange(tries, 0);
    };
    EXPECT_EQ(tries_after(0s), 0);
    EXPECT_EQ(tries_after(1min), 0); // the clock is read
    enqueue(where, {.topic = "note", .payload = ""}, {.ordering_key = "key"});
    time->ahead = 24h;
    EXPECT_EQ(tries_after(10s), 1);
    time->ahead = 0h;
    fails = false;
    EXPECT_EQ(tries_after(40s), 0);
    EXPECT_EQ(tries_after(10s), 0); // the clock is read again
    EXPECT_EQ(tries_after(10s), 1);
}

// Proves: F13
TEST_P(clock_set_back, a_wait_that_is_longer_than_it_was_set_back_by_stays)
{
    clock().advance(1h);
    const auto id = note("late", {.delay = 10h});
    const auto due = find_message(db(), id)->due_at;
    clock().advance(-1h);
    EXPECT_THAT(noted_after(1min), IsEmpty());
    EXPECT_EQ(find_message(db(), id)->due_at, due);
}

// Proves: F13, SCH-03
TEST_P(clock_set_back, timers_count_from_now)
{
    clock().advance(24h);
    set_timer(db(), "soon", 10min, {.topic = "note", .payload = "timer"});
    const auto fixed = now() + 200h;
    set_timer(db(), "fixed", fixed, {.topic = "note", .payload = "fixed"});
    clock().advance(-24h);
    EXPECT_THAT(noted_after(1min), IsEmpty());
    EXPECT_THAT(noted_after(10min), ElementsAre("timer"));
    EXPECT_EQ(find_timer(db(), "fixed")->at, fixed);
}

CONFORMANCE_SUITE(clock_set_back);

} // namespace posthorn::conformance
