// The connection of a transaction: what the application writes through it shares the fate of what
// Posthorn writes.
#include "conformance/conformance_test.hpp"
#include "store/contract/session.hpp"

#include <stdexcept>

namespace posthorn::conformance {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

const message some{.topic = "orders", .payload = "payload"};

class native_handles : public conformance_test {
protected:
    void SetUp() override
    {
        conformance_test::SetUp();
        if (IsSkipped())
            return;
        const auto create = "CREATE TABLE " + table() + " (fact TEXT)";
        if (GetParam().can.native_connections)
            return under_test().connect(world())->execute(create);
        auto tx = db().begin();
        (void)under_test().run_in(tx, create);
        tx.commit();
    }

    std::string table() { return under_test().table_of_application(); }

    /// A business write on the connection of the transaction.
    void write(transaction& tx, const std::string& fact = "order 1")
    {
        (void)under_test().run_in(tx, "INSERT INTO " + table() + " VALUES ('" + fact + "')");
    }

    int facts(transaction& tx)
    {
        return std::stoi(under_test().run_in(tx, "SELECT count(*) FROM " + table()).value());
    }

    int facts()
    {
        auto tx = db().begin();
        return facts(tx);
    }
};

// Proves: OUT-01, I1
TEST_P(native_handles, a_business_write_and_a_message_commit_together)
{
    auto tx = db().begin();
    write(tx);
    const auto first = enqueue(tx, some).id;
    write(tx, "order 2");
    const auto second = enqueue(tx, some, {.ordering_key = "k"}).id;
    tx.commit();
    EXPECT_EQ(facts(), 2);
    EXPECT_THAT(claimed_ids(), ElementsAre(first, second));
}

// Proves: OUT-01, I1
TEST_P(native_handles, a_business_write_and_a_message_roll_back_together)
{
    {
        auto tx = db().begin();
        write(tx);
        enqueue(tx, some);
        tx.rollback();
    }
    EXPECT_EQ(facts(), 0);
    EXPECT_EQ(total(), 0U);
    {
        auto tx = db().begin();
        enqueue(tx, some);
        write(tx);
    }
    EXPECT_EQ(facts(), 0) << "nobody committed";
    EXPECT_EQ(total(), 0U);
}

// Proves: OUT-01, I1
TEST_P(native_handles, a_business_write_alone_is_enough_of_a_transaction)
{
    {
        auto tx = db().begin();
        write(tx);
        tx.rollback();
    }
    EXPECT_EQ(facts(), 0);
    auto tx = db().begin();
    write(tx);
    EXPECT_EQ(facts(tx), 1);
    tx.commit();
    EXPECT_EQ(facts(), 1);
}

// Proves: OUT-01, OUT-08
TEST_P(native_handles, both_can_take_turns_as_often_as_they_like)
{
    const auto old = add();
    auto tx = db().begin();
    EXPECT_EQ(cancel(tx, old), cancel_answer::cancelled);
    for (int i = 1; i <= 5; ++i) {
        write(tx);
        EXPECT_EQ(enqueue(tx, std::vector<outgoing>(20, {some})).size(), 20U);
        EXPECT_EQ(facts(tx), i);
        EXPECT_TRUE(find_message(tx, enqueue(tx, some, {.priority = i}).id).has_value());
    }
    tx.commit();
    EXPECT_EQ(facts(), 5);
    EXPECT_EQ(total(), 106U);
    EXPECT_EQ(claim(1'000).size(), 105U);
    EXPECT_EQ(state_of(old), message_state::cancelled);
}

// Proves: OUT-10, OUT-19
TEST_P(native_handles, an_acknowledgement_and_its_effect_commit_together)
{
    const auto ids = add_many(2);
    const auto r = claim().receipts();
    {
        auto tx = db().begin();
        write(tx, "handled");
        EXPECT_THAT(box().acknowledge(tx, alice, r).answers, Each(settled_as::done));
        tx.rollback();
    }
    EXPECT_EQ(facts(), 0);
    EXPECT_THAT(states_of(ids), Each(message_state::claimed));
    auto tx = db().begin();
    write(tx, "handled");
    EXPECT_THAT(box().acknowledge(tx, alice, r).answers, Each(settled_as::done));
    tx.commit();
    EXPECT_EQ(facts(), 1);
    EXPECT_THAT(states_of(ids), Each(message_state::done));
}

// Proves: OUT-01
TEST_P(native_handles, a_transaction_that_ended_has_no_connection)
{
    auto tx = db().begin();
    tx.commit();
    EXPECT_EQ(thrown_by([&] { write(tx); }).code(), error_code::no_transaction);
    EXPECT_EQ(facts(), 0);
}

/// A session of an engine that nobody knows.
class foreign_session final : public contract::session {
public:
    contract::message_writer& writer() override { throw std::logic_error("not this one"); }
    contract::message_queue& queue() override { throw std::logic_error("not this one"); }
    contract::message_reader& reader() override { throw std::logic_error("not this one"); }
    contract::message_keeper& keeper() override { throw std::logic_error("not this one"); }
    contract::join_book& joins() override { throw std::logic_error("not this one"); }
    contract::inbox_book& inbox() override { throw std::logic_error("not this one"); }
    contract::key_table& command_keys() override { throw std::logic_error("not this one"); }
    contract::lease_table& leases() override { throw std::logic_error("not this one"); }
    contract::job_book& jobs() override { throw std::logic_error("not this one"); }
    contract::settlement_follower& follower() override { throw std::logic_error("not this one"); }
    const posthorn::environment& environment() const override { return world_; }
    const posthorn::limits& limits() const override { return bounds_; }
    void commit() override {}
    void rollback() override {}

private:
    posthorn::environment world_ = posthorn::environment::system();
    posthorn::limits bounds_;
};

// Proves: OUT-01
TEST_P(native_handles, a_transaction_on_another_kind_of_store_is_refused)
{
    transaction foreign(std::make_unique<foreign_session>());
    EXPECT_EQ(thrown_by([&] { write(foreign); }).code(), error_code::invalid_argument);
    EXPECT_EQ(facts(), 0);
}

CONFORMANCE_SUITE(native_handles);

class native_handles_of_loans : public native_handles {};

// Proves: OUT-01
TEST_P(native_handles_of_loans, the_connection_is_the_one_that_was_lent)
{
    const auto app = under_test().connect(world());
    app->begin();
    write(app->borrow());
    EXPECT_EQ(app->count("SELECT count(*) FROM " + table()), 1) << "before anybody commits";
    const auto id = enqueue(app->borrow(), some).id;
    write(app->borrow());
    EXPECT_TRUE(app->in_transaction());
    app->rollback();
    EXPECT_EQ(facts(), 0);
    EXPECT_EQ(find_message(db(), id), std::nullopt);
}

// Proves: OUT-01
TEST_P(native_handles_of_loans, a_loan_without_a_transaction_has_none)
{
    const auto app = under_test().connect(world());
    EXPECT_EQ(thrown_by([&] { write(app->borrow()); }).code(), error_code::no_transaction);
    EXPECT_EQ(facts(), 0);
}

CONFORMANCE_SUITE(native_handles_of_loans);

} // namespace
} // namespace posthorn::conformance
