// An application keeps its transaction open. Workers claim and settle everything that it has not
// touched.
#include "integration/postgres/server_fixture.hpp"
#include <posthorn/enqueue.hpp>
#include <posthorn/inbox.hpp>
#include <posthorn/joins.hpp>
#include <posthorn/outbox.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <set>
#include <string>

namespace posthorn::test {
namespace {

using namespace std::chrono_literals;

// What the application finds before it begins.
struct scene {
    store& at;
    join_id join;
    message_id first;  // of the key
    message_id second; // behind it
};

struct held_lock {
    std::string name;
    bool admitted; ///< the messages of the key have found their places before
    std::function<void(transaction&, const scene&)> take;
};

std::ostream& operator<<(std::ostream& out, const held_lock& what)
{
    return out << what.name;
}

class postgres_open_transaction : public server_fixture {
protected:
    // A lock that is waited for is an error long before the test is cut off.
    store store_ = open_with("&lock_timeout=2s");
    outbox queue_{store_};
    owner who_ = owner::create("alice", *system_.random);
};

class postgres_open_transactions : public postgres_open_transaction,
                                   public ::testing::WithParamInterface<held_lock> {};

std::vector<held_lock> locks_of_applications()
{
    const auto cancels_first = [](transaction& tx, const scene& s) { (void)cancel(tx, s.first); };
    const auto cancels_second = [](transaction& tx, const scene& s) { (void)cancel(tx, s.second); };
    const auto attaches_first = [](transaction& tx, const scene& s) {
        (void)attach(tx, s.join, s.first);
    };
    const auto attaches_second = [](transaction& tx, const scene& s) {
        (void)attach(tx, s.join, s.second);
    };
    return {
        {"cancels_one_not_admitted", false, cancels_first},
        {"cancels_the_second_not_admitted", false, cancels_second},
        {"attaches_one_not_admitted", false, attaches_first},
        {"attaches_the_second_not_admitted", false, attaches_second},
        {"cancels_the_head", true, cancels_first},
        {"cancels_one_behind_the_head", true, cancels_second},
        {"attaches_the_head", true, attaches_first},
        {"attaches_one_behind_the_head", true, attaches_second},
    };
}

} // namespace

// Proves: I20
TEST_P(postgres_open_transactions, do_not_hold_up_other_messages)
{
    const auto join = open_join(store_, {.expected = 5});
    const auto first = enqueue(store_, {"orders", "first"}, {.ordering_key = "held"}).id;
    const auto second = enqueue(store_, {"orders", "second"}, {.ordering_key = "held"}).id;
    if (GetParam().admitted) { // a claim gives them their places, and the head goes back
        const auto head = queue_.claim(who_, {.limit = 10});
        ASSERT_EQ(head.size(), 1U);
        (void)queue_.abandon(who_, head.receipts());
    }
    admin_->begin();
    GetParam().take(admin_->borrow(), {store_, join, first, second});

    enqueue(store_, {"orders", "third"}, {.ordering_key = "held"});
    enqueue(store_, {"orders", "other key"}, {.ordering_key = "other"});
    enqueue(store_, {"orders", "plain"});
    std::set<std::string> handled;
    for (int i = 0; i < 4; ++i) {
        const auto claimed = queue_.claim(who_, {.limit = 10});
        for (const auto& each : claimed.deliveries)
            handled.insert(each.payload);
        if (!claimed.empty())
            (void)queue_.acknowledge(who_, claimed.receipts());
    }
    EXPECT_TRUE(handled.contains("plain"));
    EXPECT_TRUE(handled.contains("other key"));

    // After its end the key goes on, in its order and to its end.
    admin_->commit();
    wait_until(
        [&] {
            const auto claimed = queue_.claim(who_, {.limit = 10});
            for (const auto& each : claimed.deliveries)
                handled.insert(each.payload);
            if (!claimed.empty())
                (void)queue_.acknowledge(who_, claimed.receipts());
            return handled.contains("third");
        },
        60s);
    EXPECT_EQ(admin_->count("SELECT count(*) FROM " + schema_ + ".key_head"), 0);
    EXPECT_EQ(admin_->count("SELECT count(*) FROM " + schema_ + ".stale_head"), 0);
}

INSTANTIATE_TEST_SUITE_P(of_an_application_that, postgres_open_transactions,
                         ::testing::ValuesIn(locks_of_applications()),
                         [](const auto& each) { return each.param.name; });

// Proves: I20
TEST_F(postgres_open_transaction, that_holds_the_head_does_not_hold_up_its_settlement)
{
    enqueue(store_, {"orders", "first"}, {.ordering_key = "held"});
    const auto second = enqueue(store_, {"orders", "second"}, {.ordering_key = "held"}).id;
    enqueue(store_, {"orders", "third"}, {.ordering_key = "held"});
    const auto head = queue_.claim(who_, {.limit = 10});
    ASSERT_EQ(head.size(), 1U);
    admin_->begin();
    EXPECT_EQ(cancel(admin_->borrow(), second), cancel_answer::cancelled);
    EXPECT_EQ(queue_.acknowledge(who_, head.receipts()).answers.front(), settled_as::done);
    EXPECT_TRUE(queue_.claim(who_, {.limit = 10}).empty());
    admin_->commit();
    std::string next;
    wait_until(
        [&] {
            const auto claimed = queue_.claim(who_, {.limit = 10});
            if (!claimed.empty())
                next = claimed.deliveries.front().payload;
            return !claimed.empty();
        },
        60s);
    EXPECT_EQ(next, "third");
}

} // namespace posthorn::test
