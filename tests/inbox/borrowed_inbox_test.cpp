// The same within the application's own transaction, which Posthorn neither begins nor ends.
#include "conformance/conformance_test.hpp"
#include <posthorn/idempotency.hpp>
#include <posthorn/inbox.hpp>
#include <posthorn/unit_of_work.hpp>

#include <stdexcept>
#include <string>

namespace posthorn::conformance {
namespace {

class borrowed_inbox : public conformance_test {
protected:
    void SetUp() override
    {
        conformance_test::SetUp();
        if (IsSkipped())
            return;
        app_ = under_test().connect(world());
        app().execute("CREATE TABLE business (fact TEXT)");
    }

    native_connection& app() { return *app_; }
    transaction& lent() { return app_->borrow(); }

    void write_fact() { app().execute("INSERT INTO business VALUES ('a fact')"); }
    std::int64_t facts() { return app().count("SELECT count(*) FROM business"); }

private:
    std::unique_ptr<native_connection> app_;
};

} // namespace

// Proves: INB-04, I1, I7
TEST_P(borrowed_inbox, once_commits_with_the_business_or_not_at_all)
{
    const auto handle = [&] {
        return once(lent(), "shop", "1", [&](transaction& tx) {
            write_fact();
            enqueue(tx, {"effect", ""});
        });
    };
    app().begin();
    EXPECT_TRUE(handle());
    EXPECT_FALSE(handle());
    EXPECT_TRUE(app().in_transaction());
    app().rollback();
    EXPECT_EQ(facts(), 0);
    EXPECT_EQ(total(), 0U);
    EXPECT_FALSE(find_inbound(db(), {"shop", "1"}));

    app().begin();
    EXPECT_TRUE(handle());
    app().commit();
    app().begin();
    EXPECT_FALSE(handle());
    app().commit();
    EXPECT_EQ(facts(), 1);
    EXPECT_EQ(total(), 1U);
    EXPECT_TRUE(already_processed(db(), {"shop", "1"}));
}

// Proves: INB-02, I1, I7
TEST_P(borrowed_inbox, what_comes_from_outside_is_there_when_the_application_commits)
{
    app().begin();
    EXPECT_EQ(enqueue_inbound(lent(), {"shop", "1"}, {"orders", "one"}).answer,
              inbox_answer::added);
    EXPECT_EQ(enqueue_inbound(lent(), {"shop", "1"}, {"orders", "two"}).answer,
              inbox_answer::replaced);
    EXPECT_TRUE(app().in_transaction());
    app().rollback();
    EXPECT_EQ(total(), 0U);

    app().begin();
    write_fact();
    EXPECT_EQ(enqueue_inbound(lent(), {"shop", "1"}, {"orders", "one"}).answer,
              inbox_answer::added);
    app().commit();
    EXPECT_EQ(work_off().size(), 1U);
    EXPECT_EQ(find_inbound(db(), {"shop", "1"})->state, inbox_state::done);
    app().begin();
    EXPECT_EQ(enqueue_inbound(lent(), {"shop", "1"}, {"orders", "one"}).answer,
              inbox_answer::known);
    app().commit();
    EXPECT_EQ(total(), 1U);
}

// Proves: IDM-05, I1, I14
TEST_P(borrowed_inbox, a_key_shares_the_fate_of_the_business)
{
    const command_key charge{.command = "charge", .key = "k1"};
    const auto run = [&](const std::string& result) {
        return run_once(lent(), charge, [&] {
            write_fact();
            return result;
        });
    };
    app().begin();
    EXPECT_EQ(run("first").answer, command_answer::executed);
    EXPECT_TRUE(app().in_transaction());
    app().rollback();
    EXPECT_FALSE(find_key(db(), "charge", "k1"));

    app().begin();
    EXPECT_EQ(run("second").answer, command_answer::executed);
    app().commit();
    app().begin();
    EXPECT_EQ(run("third").value(), "second");
    app().commit();
    EXPECT_EQ(facts(), 1);
    EXPECT_EQ(run_once(db(), charge, [] { return std::string("fourth"); }).value(), "second");
}

// Proves: UOW-03, I1
TEST_P(borrowed_inbox, a_unit_of_work_leaves_the_end_to_the_application)
{
    domain_events events(world().clock);
    events.raise(message{"account.verified", "a"});
    const auto save = [&](store_unit_of_work& work) {
        work.write([&](transaction&) {
            write_fact();
            return std::size_t{1};
        });
        work.track(events);
        EXPECT_EQ(work.save_changes(), 2U);
        EXPECT_TRUE(app().in_transaction());
        EXPECT_EQ(events.pending().size(), 1U) << "nobody knows yet how it ends";
    };
    app().begin();
    store_unit_of_work first(lent());
    save(first);
    app().rollback();
    first.rolled_back();
    EXPECT_EQ(events.pending().size(), 1U);
    EXPECT_EQ(facts(), 0);
    EXPECT_EQ(total(), 0U);

    app().begin();
    store_unit_of_work second(lent());
    save(second);
    app().commit();
    second.committed();
    EXPECT_TRUE(events.empty());
    EXPECT_EQ(facts(), 1);
    EXPECT_EQ(total(), 1U);
}

CONFORMANCE_SUITE(borrowed_inbox);

} // namespace posthorn::conformance
