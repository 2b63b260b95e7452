// A message exists if and only if its transaction commits: one that Posthorn opened, or one that
// the application lends and goes on to own. Until then nobody else sees anything of it.
#include "conformance/conformance_test.hpp"

#include <stdexcept>
#include <utility>

namespace posthorn::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const message some{.topic = "orders", .payload = "payload"};

// A bulk that the database refuses in its middle: everything before has been written by then.
std::vector<outgoing> failing_bulk(message_id taken)
{
    return {{some},
            {some, {.ordering_key = "customer"}},
            {some, {.priority = 5, .dedup_key = "once"}},
            {some, {.id = taken}},
            {some}};
}

class owned_transactions : public conformance_test {};

// Proves: OUT-01, I1
TEST_P(owned_transactions, what_is_committed_is_there)
{
    auto tx = db().begin();
    const auto plain = enqueue(tx, some).id;
    const auto keyed = enqueue(tx, some, {.ordering_key = "k"}).id;
    tx.commit();
    EXPECT_THAT(ids_of(list_messages(db())), ElementsAre(plain, keyed));
    EXPECT_THAT(claimed_ids(), ElementsAre(plain, keyed));
}

// Proves: OUT-01, I1
TEST_P(owned_transactions, what_is_rolled_back_never_was)
{
    auto tx = db().begin();
    const auto id = enqueue(tx, some, {.ordering_key = "k"}).id;
    enqueue(tx, some);
    enqueue(tx, std::vector<outgoing>(10, {some}));
    tx.rollback();
    EXPECT_EQ(total(), 0U);
    EXPECT_EQ(find_message(db(), id), std::nullopt);
    EXPECT_THAT(claimed_ids(), IsEmpty());
    EXPECT_EQ(state_of(add_keyed("k")), message_state::ready);
}

// Proves: OUT-01, I1
TEST_P(owned_transactions, a_transaction_that_nobody_commits_rolls_back)
{
    {
        auto tx = db().begin();
        enqueue(tx, some);
    }
    EXPECT_EQ(total(), 0U);
    EXPECT_THROW(
        {
            auto tx = db().begin();
            enqueue(tx, some);
            throw std::runtime_error("the application's own trouble");
        },
        std::runtime_error);
    EXPECT_EQ(total(), 0U);
    EXPECT_THAT(claimed_ids(), ElementsAre());
}

// Proves: OUT-01
TEST_P(owned_transactions, a_transaction_sees_its_own_messages)
{
    auto tx = db().begin();
    const auto id = enqueue(tx, some).id;
    const auto seen = find_message(tx, id);
    ASSERT_TRUE(seen.has_value());
    EXPECT_EQ(seen->payload, "payload");
    tx.rollback();
    EXPECT_EQ(find_message(db(), id), std::nullopt);
}

// Proves: OUT-01
TEST_P(owned_transactions, a_transaction_that_ended_takes_nothing)
{
    auto committed = db().begin();
    committed.commit();
    auto rolled_back = db().begin();
    rolled_back.rollback();
    for (auto* ended : {&committed, &rolled_back}) {
        EXPECT_EQ(thrown_by([&] { enqueue(*ended, some); }).code(), error_code::no_transaction);
        EXPECT_EQ(thrown_by([&] { enqueue(*ended, std::vector<outgoing>{{some}}); }).code(),
                  error_code::no_transaction);
        EXPECT_EQ(thrown_by([&] { (void)cancel(*ended, message_id{}); }).code(),
                  error_code::no_transaction);
        EXPECT_EQ(thrown_by([&] { (void)find_message(*ended, message_id{}); }).code(),
                  error_code::no_transaction);
        EXPECT_EQ(thrown_by([&] { ended->commit(); }).code(), error_code::no_transaction);
        EXPECT_EQ(thrown_by([&] { ended->rollback(); }).code(), error_code::no_transaction);
    }
    EXPECT_EQ(total(), 0U);
}

// Proves: OUT-01
TEST_P(owned_transactions, a_transaction_can_be_moved_and_only_the_new_one_works)
{
    auto first = db().begin();
    const auto one = enqueue(first, some).id;
    auto second = std::move(first);
    // NOLINTNEXTLINE(bugprone-use-after-move): that is the question
    EXPECT_EQ(thrown_by([&] { enqueue(first, some); }).code(), error_code::no_transaction);
    EXPECT_EQ(thrown_by([&] { first.commit(); }).code(), error_code::no_transaction);
    const auto two = enqueue(second, some).id;
    second.commit();
    EXPECT_THAT(ids_of(list_messages(db())), ElementsAre(one, two));
}

// Proves: OUT-01, I1
TEST_P(owned_transactions, a_transaction_that_is_replaced_rolls_back)
{
    auto ended = db().begin();
    ended.commit();
    auto tx = db().begin();
    enqueue(tx, some);
    tx = std::move(ended);
    EXPECT_EQ(thrown_by([&] { enqueue(tx, some); }).code(), error_code::no_transaction);
    EXPECT_EQ(total(), 0U);
    EXPECT_EQ(state_of(add()), message_state::ready);
}

// Proves: OUT-08, I1
TEST_P(owned_transactions, a_bulk_that_fails_in_the_middle_leaves_nothing_even_if_the_rest_commits)
{
    const auto taken = add();
    auto tx = db().begin();
    const auto before = enqueue(tx, some).id;
    EXPECT_EQ(thrown_by([&] { enqueue(tx, failing_bulk(taken)); }).code(), error_code::constraint);
    const auto after = enqueue(tx, some).id;
    tx.commit();
    EXPECT_THAT(ids_of(list_messages(db())), ElementsAre(taken, before, after));
    // Neither the key nor the dedup key of the failed bulk is in use.
    EXPECT_EQ(state_of(add_keyed("customer")), message_state::ready);
    EXPECT_FALSE(enqueue(db(), some, {.dedup_key = "once"}).duplicate);
}

// Proves: OUT-01, OUT-09
TEST_P(owned_transactions, enqueueing_and_cancelling_share_a_transaction)
{
    const auto old = add();
    {
        auto tx = db().begin();
        EXPECT_EQ(cancel(tx, old), cancel_answer::cancelled);
        enqueue(tx, some);
        tx.rollback();
    }
    EXPECT_EQ(state_of(old), message_state::ready);
    auto tx = db().begin();
    EXPECT_EQ(cancel(tx, old), cancel_answer::cancelled);
    const auto replacement = enqueue(tx, some).id;
    tx.commit();
    EXPECT_EQ(state_of(old), message_state::cancelled);
    EXPECT_THAT(claimed_ids(), ElementsAre(replacement));
}

CONFORMANCE_SUITE(owned_transactions);

class borrowing : public conformance_test {
protected:
    void SetUp() override
    {
        conformance_test::SetUp();
        if (IsSkipped())
            return;
        app_ = under_test().connect(world());
        app().execute("CREATE TABLE business (fact TEXT)");
    }

    /// The application, on a connection of its own.
    native_connection& app() { return *app_; }

    std::int64_t facts() { return app().count("SELECT count(*) FROM business"); }

private:
    std::unique_ptr<native_connection> app_;
};

// Proves: OUT-01, I1
TEST_P(borrowing, a_message_and_the_business_write_commit_together)
{
    app().begin();
    app().execute("INSERT INTO business VALUES ('order 1')");
    const auto plain = enqueue(app().borrow(), some).id;
    const auto keyed = enqueue(app().borrow(), some, {.ordering_key = "k"}).id;
    app().commit();
    EXPECT_EQ(facts(), 1);
    EXPECT_THAT(ids_of(list_messages(db())), ElementsAre(plain, keyed));
    EXPECT_THAT(work_off(), ElementsAre(plain, keyed));
}

// Proves: OUT-01, I1
TEST_P(borrowing, a_message_and_the_business_write_roll_back_together)
{
    app().begin();
    app().execute("INSERT INTO business VALUES ('order 1')");
    const auto id = enqueue(app().borrow(), some).id;
    enqueue(app().borrow(), some, {.ordering_key = "k"});
    enqueue(app().borrow(), std::vector<outgoing>(10, {some}));
    app().rollback();
    EXPECT_EQ(facts(), 0);
    EXPECT_EQ(total(), 0U);
    EXPECT_EQ(find_message(db(), id), std::nullopt);
    EXPECT_THAT(claimed_ids(), IsEmpty());
}

// Proves: OUT-01
TEST_P(borrowing, no_call_begins_or_ends_the_transaction)
{
    app().begin();
    const auto id = enqueue(app().borrow(), some).id;
    EXPECT_TRUE(app().in_transaction());
    enqueue(app().borrow(), some, {.ordering_key = "k", .priority = 1, .delay = 1s});
    EXPECT_TRUE(app().in_transaction());
    enqueue(app().borrow(), std::vector<outgoing>(50, {some}));
    EXPECT_TRUE(app().in_transaction());
    EXPECT_THAT(enqueue(app().borrow(), std::vector<outgoing>{}), IsEmpty());
    EXPECT_TRUE(app().in_transaction());
    EXPECT_TRUE(find_message(app().borrow(), id).has_value());
    EXPECT_TRUE(app().in_transaction());
    EXPECT_EQ(cancel(app().borrow(), id), cancel_answer::cancelled);
    EXPECT_TRUE(app().in_transaction());
    // Still everything can be undone: none of it was committed on the way.
    app().rollback();
    EXPECT_FALSE(app().in_transaction());
    EXPECT_EQ(total(), 0U);
}

// Proves: OUT-01
TEST_P(borrowing, without_an_open_transaction_nothing_is_done)
{
    const auto id = add();
    auto& lent = app().borrow();
    EXPECT_EQ(thrown_by([&] { enqueue(lent, some); }).code(), error_code::no_transaction);
    EXPECT_EQ(thrown_by([&] { enqueue(lent, some, {.ordering_key = "k"}); }).code(),
              error_code::no_transaction);
    EXPECT_EQ(thrown_by([&] {
                  enqueue(lent, std::vector<outgoing>{{some}, {some}});
              }).code(),
              error_code::no_transaction);
    EXPECT_EQ(thrown_by([&] { (void)cancel(lent, id); }).code(), error_code::no_transaction);
    const auto said = thrown_by([&] { (void)find_message(lent, id); });
    EXPECT_EQ(said.code(), error_code::no_transaction);
    EXPECT_FALSE(said.retryable());
    EXPECT_FALSE(app().in_transaction());
    EXPECT_THAT(ids_of(list_messages(db())), ElementsAre(id));
    EXPECT_EQ(state_of(id), message_state::ready);
}

// Proves: OUT-01
TEST_P(borrowing, a_transaction_that_has_ended_is_not_reopened)
{
    app().begin();
    const auto id = enqueue(app().borrow(), some).id;
    app().commit();
    EXPECT_EQ(thrown_by([&] { enqueue(app().borrow(), some); }).code(), error_code::no_transaction);
    app().begin();
    app().rollback();
    EXPECT_EQ(thrown_by([&] { enqueue(app().borrow(), some); }).code(), error_code::no_transaction);
    EXPECT_FALSE(app().in_transaction());
    EXPECT_THAT(ids_of(list_messages(db())), ElementsAre(id));
}

// Proves: OUT-01, I1
TEST_P(borrowing, one_loan_serves_many_transactions)
{
    auto& lent = app().borrow();
    std::vector<message_id> committed;
    for (int i = 0; i < 6; ++i) {
        app().begin();
        const auto id = enqueue(lent, some).id;
        if (i % 2 == 0) {
            app().commit();
            committed.push_back(id);
        } else {
            app().rollback();
        }
    }
    EXPECT_EQ(ids_of(list_messages(db())), committed);
    EXPECT_EQ(committed.size(), 3U);
}

// Proves: OUT-01
TEST_P(borrowing, posthorn_refuses_to_end_a_transaction_that_is_not_its_own)
{
    app().begin();
    enqueue(app().borrow(), some);
    for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(thrown_by([&] { app().borrow().commit(); }).code(), error_code::invalid_argument);
        EXPECT_EQ(thrown_by([&] { app().borrow().rollback(); }).code(),
                  error_code::invalid_argument);
        EXPECT_TRUE(app().in_transaction());
    }
    EXPECT_EQ(total(), 0U);
    const auto id = enqueue(app().borrow(), some).id;
    app().commit();
    EXPECT_EQ(total(), 2U);
    EXPECT_EQ(state_of(id), message_state::ready);
}

// Proves: OUT-01
TEST_P(borrowing, giving_the_loan_up_neither_ends_the_transaction_nor_closes_the_connection)
{
    app().begin();
    auto& lent = app().borrow();
    {
        transaction taken_away = std::move(lent);
        enqueue(taken_away, some);
    }
    // NOLINTNEXTLINE(bugprone-use-after-move): that is the question
    EXPECT_EQ(thrown_by([&] { enqueue(lent, some); }).code(), error_code::no_transaction);
    EXPECT_TRUE(app().in_transaction());
    app().execute("INSERT INTO business VALUES ('still alive')");
    app().commit();
    EXPECT_EQ(facts(), 1);
    EXPECT_EQ(total(), 1U);
}

// Proves: OUT-01, I1
TEST_P(borrowing, a_savepoint_of_the_application_takes_messages_back_too)
{
    app().begin();
    const auto kept = enqueue(app().borrow(), some).id;
    app().execute("SAVEPOINT attempt");
    enqueue(app().borrow(), some);
    enqueue(app().borrow(), some, {.ordering_key = "k"});
    enqueue(app().borrow(), std::vector<outgoing>(5, {some}));
    app().execute("ROLLBACK TO SAVEPOINT attempt");
    const auto later = enqueue(app().borrow(), some, {.ordering_key = "k"}).id;
    app().execute("RELEASE SAVEPOINT attempt");
    app().commit();
    EXPECT_THAT(ids_of(list_messages(db())), ElementsAre(kept, later));
    EXPECT_EQ(state_of(later), message_state::ready);
}

// Proves: OUT-01, OUT-08, I1
TEST_P(borrowing, a_bulk_that_fails_in_the_middle_leaves_nothing_even_if_the_rest_commits)
{
    const auto taken = add();
    app().begin();
    app().execute("INSERT INTO business VALUES ('order 1')");
    const auto before = enqueue(app().borrow(), some).id;
    EXPECT_EQ(thrown_by([&] { enqueue(app().borrow(), failing_bulk(taken)); }).code(),
              error_code::constraint);
    EXPECT_TRUE(app().in_transaction());
    const auto after = enqueue(app().borrow(), some).id;
    app().commit();
    EXPECT_EQ(facts(), 1);
    EXPECT_THAT(ids_of(list_messages(db())), ElementsAre(taken, before, after));
    EXPECT_EQ(state_of(add_keyed("customer")), message_state::ready);
    EXPECT_FALSE(enqueue(db(), some, {.dedup_key = "once"}).duplicate);
}

// Proves: OUT-01, OUT-02
TEST_P(borrowing, a_refused_message_leaves_the_transaction_as_it_was)
{
    app().begin();
    app().execute("INSERT INTO business VALUES ('order 1')");
    const std::vector<outgoing> bulk{{some}, {{"", ""}}, {some}};
    EXPECT_EQ(thrown_by([&] {
                  enqueue(app().borrow(), {"", ""});
              }).code(),
              error_code::invalid_argument);
    EXPECT_EQ(thrown_by([&] { enqueue(app().borrow(), bulk); }).code(),
              error_code::invalid_argument);
    EXPECT_TRUE(app().in_transaction());
    app().commit();
    EXPECT_EQ(facts(), 1);
    EXPECT_EQ(total(), 0U);
}

// Proves: OUT-01
TEST_P(borrowing, the_transaction_sees_its_own_messages_and_nobody_else_does)
{
    app().begin();
    const auto id = enqueue(app().borrow(), some, {.headers = {{"a", "b"}}}).id;
    const auto seen = find_message(app().borrow(), id);
    ASSERT_TRUE(seen.has_value());
    EXPECT_EQ(seen->payload, "payload");
    EXPECT_EQ(seen->headers, (headers{{"a", "b"}}));
    EXPECT_EQ(find_message(db(), id), std::nullopt);
    app().commit();
    EXPECT_TRUE(find_message(db(), id).has_value());
}

// Proves: OUT-01, OUT-06
TEST_P(borrowing, keys_hold_across_owned_and_borrowed_transactions)
{
    const auto first = add_keyed("k");
    app().begin();
    const auto second = enqueue(app().borrow(), some, {.ordering_key = "k"}).id;
    app().commit();
    const auto third = add_keyed("k");
    EXPECT_THAT(states_of({first, second, third}),
                ElementsAre(message_state::ready, message_state::waiting, message_state::waiting));
    EXPECT_THAT(work_off(), ElementsAre(first));
    EXPECT_THAT(work_off(), ElementsAre(second));
    EXPECT_THAT(work_off(), ElementsAre(third));
}

// Proves: OUT-01, OUT-09
TEST_P(borrowing, a_cancel_counts_when_the_application_commits)
{
    const auto id = add();
    app().begin();
    EXPECT_EQ(cancel(app().borrow(), id), cancel_answer::cancelled);
    app().rollback();
    EXPECT_EQ(state_of(id), message_state::ready);
    app().begin();
    EXPECT_EQ(cancel(app().borrow(), id), cancel_answer::cancelled);
    app().commit();
    EXPECT_EQ(state_of(id), message_state::cancelled);
    EXPECT_THAT(claimed_ids(), IsEmpty());
}

// Proves: OUT-01, OUT-10
TEST_P(borrowing, an_acknowledgement_counts_when_the_application_commits)
{
    const auto id = add();
    const auto receipt = claim_one();
    app().begin();
    app().execute("INSERT INTO business VALUES ('handled')");
    EXPECT_THAT(box().acknowledge(app().borrow(), alice, {&receipt, 1}).answers,
                ElementsAre(settled_as::done));
    EXPECT_TRUE(app().in_transaction());
    app().rollback();
    EXPECT_EQ(state_of(id), message_state::claimed);

    app().begin();
    app().execute("INSERT INTO business VALUES ('handled')");
    EXPECT_THAT(box().acknowledge(app().borrow(), alice, {&receipt, 1}).answers,
                ElementsAre(settled_as::done));
    app().commit();
    EXPECT_EQ(state_of(id), message_state::done);
    EXPECT_EQ(facts(), 1);
}

// Proves: OUT-01, I1
TEST_P(borrowing, a_connection_that_closes_without_commit_leaves_nothing)
{
    auto another = under_test().connect(world());
    another->begin();
    enqueue(another->borrow(), some);
    enqueue(another->borrow(), std::vector<outgoing>(10, {some}));
    another.reset();
    EXPECT_EQ(total(), 0U);
    EXPECT_EQ(state_of(add()), message_state::ready);
}

CONFORMANCE_SUITE(borrowing);

class isolation : public conformance_test {};

// Proves: I1
TEST_P(isolation, uncommitted_messages_are_invisible_to_other_handles)
{
    auto other = second_handle();
    auto tx = db().begin();
    const auto id = enqueue(tx, some).id;
    enqueue(tx, some, {.ordering_key = "k"});
    enqueue(tx, std::vector<outgoing>(5, {some}));
    EXPECT_EQ(find_message(other, id), std::nullopt);
    EXPECT_THAT(list_messages(other), IsEmpty());
    EXPECT_EQ(count_messages(other).ready, 0);
    tx.commit();
    EXPECT_TRUE(find_message(other, id).has_value());
    EXPECT_EQ(list_messages(other).size(), 7U);
    EXPECT_EQ(count_messages(other).ready, 7);
}

// Proves: I1
TEST_P(isolation, uncommitted_messages_are_invisible_to_other_calls_on_the_same_handle)
{
    auto tx = db().begin();
    const auto id = enqueue(tx, some).id;
    EXPECT_EQ(find_message(db(), id), std::nullopt);
    EXPECT_EQ(total(), 0U);
    tx.commit();
    EXPECT_EQ(total(), 1U);
}

// Proves: I1, I9
TEST_P(isolation, claims_see_committed_messages_only)
{
    outbox other(second_handle());
    auto tx = db().begin();
    const auto plain = enqueue(tx, some).id;
    const auto urgent = enqueue(tx, some, {.priority = 9}).id;
    EXPECT_TRUE(other.claim(bob).empty());
    tx.commit();
    EXPECT_THAT(ids_of(other.claim(bob)), ElementsAre(urgent, plain));
}

// Proves: I9
TEST_P(isolation, a_message_that_commits_after_many_looks_is_delivered)
{
    outbox other(second_handle());
    const auto early = add();
    EXPECT_THAT(ids_of(other.claim(bob)), ElementsAre(early));
    auto slow = db().begin();
    const auto late = enqueue(slow, some).id;
    for (int i = 0; i < 5; ++i) {
        clock().advance(1min);
        EXPECT_TRUE(other.claim(bob).empty());
    }
    slow.commit();
    EXPECT_THAT(ids_of(other.claim(bob)), ElementsAre(late));
}

// Proves: I1, I9
TEST_P(isolation, a_rolled_back_message_leaves_no_hole_to_fall_into)
{
    outbox other(second_handle());
    auto tx = db().begin();
    enqueue(tx, std::vector<outgoing>(10, {some}));
    EXPECT_TRUE(other.claim(bob).empty());
    tx.rollback();
    EXPECT_TRUE(other.claim(bob).empty());
    const auto next = add();
    EXPECT_THAT(ids_of(other.claim(bob)), ElementsAre(next));
}

// Proves: OUT-09, I1
TEST_P(isolation, an_uncommitted_cancel_is_invisible)
{
    auto other = second_handle();
    const auto id = add();
    auto tx = db().begin();
    EXPECT_EQ(cancel(tx, id), cancel_answer::cancelled);
    EXPECT_EQ(find_message(other, id).value().state, message_state::ready);
    tx.commit();
    EXPECT_EQ(find_message(other, id).value().state, message_state::cancelled);
    EXPECT_TRUE(outbox(other).claim(bob).empty());
}

// Proves: OUT-01
TEST_P(isolation, a_reading_transaction_sees_one_moment)
{
    auto other = second_handle();
    const auto before = add();
    auto view = other.read();
    EXPECT_EQ(find_message(view, before).value().state, message_state::ready);
    const auto after = add();
    EXPECT_EQ(cancel(db(), before), cancel_answer::cancelled);
    EXPECT_EQ(find_message(view, after), std::nullopt);
    EXPECT_EQ(find_message(view, before).value().state, message_state::ready);
    view.rollback();
    EXPECT_TRUE(find_message(other, after).has_value());
    EXPECT_EQ(find_message(other, before).value().state, message_state::cancelled);
}

// Proves: OUT-01, I1
TEST_P(isolation, the_applications_uncommitted_messages_are_invisible_to_every_handle)
{
    auto app = under_test().connect(world());
    auto other = second_handle();
    app->begin();
    const auto id = enqueue(app->borrow(), some).id;
    for (auto* handle : {&db(), &other}) {
        EXPECT_EQ(find_message(*handle, id), std::nullopt);
        EXPECT_TRUE(outbox(*handle).claim(bob).empty());
    }
    app->commit();
    EXPECT_THAT(ids_of(outbox(other).claim(bob)), ElementsAre(id));
    EXPECT_TRUE(claim().empty());
}

// Proves: OUT-01
TEST_P(isolation, a_transaction_outlives_the_handle_that_began_it)
{
    auto tx = second_handle().begin();
    const auto kept = enqueue(tx, some).id;
    tx.commit();
    EXPECT_TRUE(find_message(db(), kept).has_value());
    tx = second_handle().begin();
    tx = second_handle().read();
    EXPECT_TRUE(find_message(tx, kept).has_value());
}

CONFORMANCE_SUITE(isolation);

} // namespace
} // namespace posthorn::conformance
