// Leaders: one at a time, and none that does not know that its time is over.
#include "hang_limit.hpp"
#include "leases/leasing_test.hpp"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace posthorn::conformance {
namespace {

/// What candidates do, seen from outside.
class observed {
public:
    void begin(const std::string& who)
    {
        const std::lock_guard lock(mutex_);
        leaders_.push_back(who);
        most_ = std::max(most_, ++leading_);
        changed_.notify_all();
    }
    void end()
    {
        const std::lock_guard lock(mutex_);
        --leading_;
        changed_.notify_all();
    }
    bool wait_for_leaders(std::size_t count)
    {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, test::hang_limit, [&] { return leaders_.size() >= count; });
    }
    bool wait_for_nobody()
    {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, test::hang_limit, [&] { return leading_ == 0; });
    }
    std::vector<std::string> leaders()
    {
        const std::lock_guard lock(mutex_);
        return leaders_;
    }
    int most() const { return most_; }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::string> leaders_;
    int leading_ = 0;
    int most_ = 0;
};

void wait_for(const std::stop_token& stop)
{
    std::mutex mutex;
    std::condition_variable_any asleep;
    std::unique_lock lock(mutex);
    asleep.wait(lock, stop, [] { return false; });
}

class elections : public leasing_test {
protected:
    /// Leads for as long as it may.
    std::jthread candidate(const std::string& name, const lease_options& how = {.length = 10s})
    {
        return std::jthread([this, name, how](const std::stop_token& stop) {
            terms_ += lead(
                db(), "leader",
                [&](lease& term, const std::stop_token& over) {
                    EXPECT_TRUE(term.is_held());
                    seen_.begin(name);
                    wait_for(over);
                    seen_.end();
                },
                stop, how);
        });
    }

    observed seen_;
    std::atomic<std::size_t> terms_ = 0;
};

// Proves: LSE-03
TEST_P(elections, one_leads_and_another_takes_over_when_it_ends)
{
    auto first = candidate("first");
    ASSERT_TRUE(seen_.wait_for_leaders(1));
    auto second = candidate("second");
    auto third = candidate("third");
    EXPECT_EQ(find("leader").held, true);
    first.request_stop();
    first.join();
    ASSERT_TRUE(seen_.wait_for_leaders(2)) << "without waiting for the lease to be over";
    EXPECT_NE(seen_.leaders().back(), "first");
    second.request_stop();
    third.request_stop();
    second.join();
    third.join();
    EXPECT_EQ(seen_.most(), 1);
    EXPECT_EQ(terms_, seen_.leaders().size());
    EXPECT_FALSE(find("leader").held);
}

// Past leaders that believe they still lead are number 9 of the bugs known elsewhere.
// Proves: LSE-03, I13
TEST_P(elections, a_leader_that_did_not_renew_is_told_before_the_next_one_leads)
{
    auto first = candidate("first", idle_for(10s));
    ASSERT_TRUE(seen_.wait_for_leaders(1));
    clock().advance(9s);
    ASSERT_TRUE(seen_.wait_for_nobody()) << "nobody can lead yet";
    auto second = candidate("second", idle_for(10s));
    clock().advance(1s);
    ASSERT_TRUE(seen_.wait_for_leaders(2));
    EXPECT_EQ(seen_.most(), 1);
}

// Proves: LSE-03
TEST_P(elections, a_leader_who_has_enough_stands_again)
{
    std::stop_source stop;
    int terms = 0;
    const auto elected = lead(
        db(), "leader",
        [&](lease&, const std::stop_token&) {
            if (++terms == 3)
                stop.request_stop();
        },
        stop.get_token());
    EXPECT_EQ(elected, 3U);
    EXPECT_EQ(terms, 3);
}

// Proves: LSE-03
TEST_P(elections, what_a_leader_throws_ends_its_term_and_the_election)
{
    EXPECT_THROW(lead(db(), "leader",
                      [](lease&, const std::stop_token&) { throw std::runtime_error("no more"); },
                      {}),
                 std::runtime_error);
    EXPECT_FALSE(find("leader").held);
}

CONFORMANCE_SUITE(elections);

} // namespace
} // namespace posthorn::conformance
