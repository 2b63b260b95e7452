// Whichever statement fails: everything is there, or nothing, and events are still on their
// entities.
#include "conformance/conformance_test.hpp"
#include "conformance/meters.hpp"
#include "inbox/saboteur.hpp"
#include <posthorn/idempotency.hpp>
#include <posthorn/inbox.hpp>
#include <posthorn/unit_of_work.hpp>

#include <functional>
#include <string>

namespace posthorn::conformance {
namespace {

using ::testing::SizeIs;

class every_statement : public conformance_test {
protected:
    void SetUp() override
    {
        conformance_test::SetUp();
        if (IsSkipped())
            return;
        only_ = store_to_watch(GetParam(), under_test(), db(), world());
        table_ = under_test().table_of_application();
        auto tx = only().begin();
        under_test().run_in(tx, "CREATE TABLE " + table_ + " (fact VARCHAR(40))");
        if (GetParam().name != "mariadb") // there a new table commits, and ends the transaction
            tx.commit();
        else
            tx.rollback();
        saboteur_ = saboteur_of(GetParam(), under_test(), world());
    }

    void TearDown() override
    {
        only_.reset();
        conformance_test::TearDown();
    }

    /// A store with a single connection, so that who fails is known.
    store& only() { return *only_; }

    void write_fact(transaction& tx)
    {
        under_test().run_in(tx, "INSERT INTO " + table_ + " VALUES ('a fact')");
    }

    std::int64_t facts()
    {
        auto tx = only().begin();
        return std::stoll(under_test().run_in(tx, "SELECT count(*) FROM " + table_).value());
    }

    /// Runs an action again and again, and makes one statement after the other fail until none
    /// does any more. Returns: how many did.
    int fail_each(const std::function<void(int)>& action, const std::function<void()>& expect_none)
    {
        for (int statement = 1; statement < 100; ++statement) {
            bool failed = false;
            try {
                action(statement);
            } catch (const std::exception&) {
                failed = true;
            }
            disarm();
            if (!failed)
                return statement - 1;
            SCOPED_TRACE("statement " + std::to_string(statement) + " has failed");
            expect_none();
        }
        ADD_FAILURE() << "it always fails";
        return 0;
    }

    void arm(transaction& tx, int statement) { saboteur_->arm(tx, statement); }
    void disarm() { saboteur_->disarm(only()); }

private:
    std::optional<store> only_;
    std::string table_;
    std::unique_ptr<saboteur> saboteur_;
};

} // namespace

// Proves: UOW-01, I1
TEST_P(every_statement, of_saving_changes_may_fail_and_nothing_is_half_there)
{
    domain_events first(world().clock);
    domain_events second(world().clock);
    int actions = 0;
    const auto save = [&](int statement) {
        store_unit_of_work work(only());
        work.write([&](transaction& tx) {
            arm(tx, statement);
            write_fact(tx);
            return std::size_t{1};
        });
        work.write([&](transaction& tx) {
            write_fact(tx);
            return std::size_t{1};
        });
        work.track(first);
        work.track(second);
        work.on_commit([&] { ++actions; });
        EXPECT_EQ(work.save_changes(), 5U);
    };
    first.raise(message{"plain", "a"});
    first.raise(message{"keyed", "b"}, {.ordering_key = "k", .priority = 5, .dedup_key = "once"});
    second.raise(message{"late", "c"}, {.delay = 1h});

    const auto failed = fail_each(save, [&] {
        EXPECT_EQ(facts(), 0);
        EXPECT_EQ(total(), 0U);
        EXPECT_THAT(first.pending(), SizeIs(2));
        EXPECT_THAT(second.pending(), SizeIs(1));
        EXPECT_EQ(actions, 0);
    });
    EXPECT_GE(failed, 4) << "two rows and two kinds of messages at least";
    EXPECT_EQ(facts(), 2);
    EXPECT_EQ(total(), 3U);
    EXPECT_TRUE(first.empty());
    EXPECT_TRUE(second.empty());
    EXPECT_EQ(actions, 1);
}

// Proves: INB-04, I1, I7
TEST_P(every_statement, of_handling_something_once_may_fail_and_it_can_be_handled_again)
{
    const auto failed = fail_each(
        [&](int statement) {
            auto tx = only().begin();
            arm(tx, statement);
            EXPECT_TRUE(once(tx, "shop", "1", [&] {
                write_fact(tx);
                enqueue(tx, {"effect", ""});
            }));
            tx.commit();
        },
        [&] {
            EXPECT_EQ(facts(), 0);
            EXPECT_EQ(total(), 0U);
            EXPECT_FALSE(find_inbound(db(), {"shop", "1"}));
        });
    EXPECT_GE(failed, 3);
    EXPECT_EQ(facts(), 1);
    EXPECT_EQ(total(), 1U);
    EXPECT_TRUE(already_processed(db(), {"shop", "1"}));
}

// Proves: INB-02, I1, I7
TEST_P(every_statement, of_taking_something_in_may_fail_and_it_can_come_again)
{
    const auto failed = fail_each(
        [&](int statement) {
            auto tx = only().begin();
            arm(tx, statement);
            write_fact(tx);
            EXPECT_EQ(enqueue_inbound(tx, {"shop", "1"}, {"orders", ""}).answer,
                      inbox_answer::added);
            tx.commit();
        },
        [&] {
            EXPECT_EQ(facts(), 0);
            EXPECT_EQ(total(), 0U);
            EXPECT_FALSE(find_inbound(db(), {"shop", "1"}));
        });
    EXPECT_GE(failed, 4);
    EXPECT_EQ(facts(), 1);
    EXPECT_EQ(work_off().size(), 1U);
    EXPECT_EQ(find_inbound(db(), {"shop", "1"})->state, inbox_state::done);
}

// Proves: IDM-02, IDM-05, I1, I14
TEST_P(every_statement, of_a_command_may_fail_and_it_can_be_run_again)
{
    const auto failed = fail_each(
        [&](int statement) {
            const auto ran =
                run_once(only(), {.command = "charge", .key = "k1"}, [&](transaction& tx) {
                    arm(tx, statement);
                    write_fact(tx);
                    enqueue(tx, {"effect", ""});
                    return std::string("paid");
                });
            EXPECT_EQ(ran.answer, command_answer::executed);
        },
        [&] {
            EXPECT_EQ(facts(), 0);
            EXPECT_EQ(total(), 0U);
            EXPECT_EQ(find_key(db(), "charge", "k1")->state, key_state::failed);
        });
    EXPECT_GE(failed, 3);
    EXPECT_EQ(facts(), 1);
    EXPECT_EQ(total(), 1U);
    EXPECT_EQ(find_key(db(), "charge", "k1")->result, "paid");
}

// After some errors a database has rolled back by itself; what follows must not commit by itself.
// Proves: I1
TEST_P(every_statement, that_follows_one_that_failed_is_not_kept_either)
{
    {
        auto tx = only().begin();
        arm(tx, 1);
        EXPECT_ANY_THROW(write_fact(tx));
        try {
            enqueue(tx, {"effect", ""});
            mark_processed(tx, {"shop", "1"});
        } catch (const error& failure) {
            EXPECT_FALSE(failure.in_doubt()) << failure.what();
        }
        try {
            (void)reserve(tx, {.command = "charge", .key = "k1"});
        } catch (const error& failure) {
            EXPECT_FALSE(failure.in_doubt()) << failure.what();
        }
    }
    disarm();
    EXPECT_EQ(total(), 0U);
    EXPECT_FALSE(find_inbound(db(), {"shop", "1"}));
    EXPECT_FALSE(find_key(db(), "charge", "k1"));
}

CONFORMANCE_SUITE(every_statement);

} // namespace posthorn::conformance
