// What starts at the wrong time or ends too late is found: I8, I17, I18, I20.
#include "checker/rules_test.hpp"

namespace posthorn::checker {
namespace {

using namespace std::chrono_literals;
using ::testing::UnorderedElementsAre;

class checker_time_rules : public rules_test {};

// I8

TEST_F(checker_time_rules, within_a_key_messages_must_start_in_order)
{
    run.committed(1, "key");
    run.committed(2, "key");
    const auto both_committed = run;
    run.handled(1, 1);
    run.handled(2, 2);
    run.row(1, done);
    run.row(2, done);
    expect_clean();

    run = both_committed;
    run.handled(2, 1);
    run.handled(1, 2);
    run.row(1, done);
    run.row(2, done);
    expect_broken("I8", "was started under fence 1 before the earlier message " + to_string(id(1)) +
                            " of key 'key' had ended");
}

TEST_F(checker_time_rules, other_keys_and_no_key_have_no_order)
{
    run.committed(1, "key");
    run.committed(2, "another key");
    run.committed(3);
    for (const int number : {3, 2, 1})
        run.handled(number, 4 - number);
    for (const int number : {1, 2, 3})
        run.row(number, done);
    expect_clean();
}

TEST_F(checker_time_rules, a_message_behind_one_that_has_not_ended_must_not_start)
{
    run.committed(1, "key");
    run.committed(2, "key");
    run.handled(2, 1);
    run.row(1, message_state::ready);
    run.row(2, done);
    expect_broken("I8", "before the earlier message");
}

TEST_F(checker_time_rules, messages_of_one_transaction_must_start_in_the_order_of_their_enqueueing)
{
    for (const int number : {2, 1})
        run.enqueued(
            {.id = id(number), .topic = "orders", .key = "key", .transaction = "transaction 1"});
    run.ended(1, transaction_end::committed);
    const auto both_committed = run;
    run.handled(2, 1);
    run.handled(1, 2);
    run.row(1, done);
    run.row(2, done);
    expect_clean();

    run = both_committed;
    run.handled(1, 1);
    run.handled(2, 2);
    run.row(1, done);
    run.row(2, done);
    expect_broken("I8", "before the earlier message " + to_string(id(2)));
}

TEST_F(checker_time_rules, transactions_that_overlap_have_no_order)
{
    run.enqueued(1, "key");
    run.enqueued(2, "key");
    run.ended(1, transaction_end::committed);
    run.ended(2, transaction_end::committed);
    run.handled(2, 1);
    run.handled(1, 2);
    run.row(1, done);
    run.row(2, done);
    expect_clean();
}

TEST_F(checker_time_rules, a_redriven_message_has_given_up_its_place)
{
    run.committed(1, "key");
    run.committed(2, "key");
    run.started(1, 1);
    run.settled(1, 1, settled_as::dead);
    run.handled(2, 2);
    run.redriven(1);
    run.handled(1, 3);
    run.row(1, done).redrives = 1;
    run.row(2, done);
    expect_clean();
}

// I17

TEST_F(checker_time_rules, a_message_must_not_start_before_it_is_due)
{
    run.enqueued(
        {.id = id(1), .topic = "orders", .due_at = run.now() + 5s, .transaction = "transaction 1"});
    run.ended(1, transaction_end::committed);
    const auto waiting = run;
    run.pass(4s);
    run.handled(1, 1);
    run.row(1, done);
    expect_clean();

    run = waiting;
    run.handled(1, 1);
    run.row(1, done);
    expect_broken("I17", "was started 2.900 s before it was due");
    run.bounds.clock_tolerance = 3s;
    expect_clean();
    run.bounds.clock_tolerance = {};
    run.hit({.kind = fault_kind::clock, .shift = -3s});
    expect_clean();
}

TEST_F(checker_time_rules, a_message_must_not_start_after_it_has_expired)
{
    run.enqueued({.id = id(1),
                  .topic = "orders",
                  .expires_at = run.now() + 5s,
                  .transaction = "transaction 1"});
    run.ended(1, transaction_end::committed);
    const auto waiting = run;
    run.handled(1, 1);
    run.row(1, done);
    expect_clean();

    run = waiting;
    run.pass(4s);
    run.handled(1, 1);
    run.row(1, done);
    expect_broken("I17", "was started 1.000 s after it had expired");
}

TEST_F(checker_time_rules, a_redriven_message_may_start_after_it_would_have_expired)
{
    run.enqueued({.id = id(1),
                  .topic = "orders",
                  .expires_at = run.now() + 5s,
                  .transaction = "transaction 1"});
    run.ended(1, transaction_end::committed);
    run.started(1, 1);
    run.settled(1, 1, settled_as::dead);
    run.pass(10s);
    run.redriven(1);
    run.handled(1, 2);
    run.row(1, done).redrives = 1;
    expect_clean();
}

// I18

TEST_F(checker_time_rules, a_cancelled_message_must_not_start)
{
    run.committed(1);
    run.cancelled(1);
    run.row(1, message_state::cancelled);
    expect_clean();
    run.started(1, 1);
    run.found.messages[0].attempts = 1;
    expect_broken("I18", "was started under fence 1 after it had been cancelled");
}

TEST_F(checker_time_rules, a_running_message_must_not_be_cancelled)
{
    run.committed(1);
    run.started(1, 1);
    run.cancelled(1);
    run.settled(1, 1, settled_as::lost);
    run.row(1, message_state::cancelled);
    expect_broken("I18", "cancelled while its start under fence 1 was not over");
}

TEST_F(checker_time_rules, a_message_may_be_cancelled_between_two_attempts)
{
    run.committed(1);
    run.started(1, 1);
    run.settled(1, 1, settled_as::retrying);
    run.cancelled(1);
    run.row(1, message_state::cancelled);
    expect_clean();
}

TEST_F(checker_time_rules, a_cancelled_message_must_stay_cancelled)
{
    run.committed(1);
    run.cancelled(1);
    run.row(1, message_state::ready);
    expect_broken("I3", "had ended as cancelled, but is ready");
}

// I20

TEST_F(checker_time_rules, after_the_faults_everything_must_end_within_the_bound)
{
    run.committed(1);
    run.row(1, message_state::ready);
    run.tell(stop_event{});
    run.pass(58s);
    expect_clean();
    EXPECT_EQ(run.judged().verdicts.back().open(), 1U);
    run.pass(2s);
    expect_broken("I20", "is still ready 0.900 s after it had to end");
    run.bounds.may_wait = {"orders"};
    expect_clean();
}

TEST_F(checker_time_rules, an_end_after_the_bound_is_too_late)
{
    run.committed(1);
    run.tell(stop_event{});
    run.pass(60s);
    run.handled(1, 1);
    run.row(1, done);
    expect_broken("I20", "ended as done only 2.900 s after it had to");
}

TEST_F(checker_time_rules, what_is_due_later_and_what_is_behind_it_may_wait)
{
    run.enqueued({.id = id(1),
                  .topic = "orders",
                  .key = "key",
                  .due_at = run.now() + 1h,
                  .transaction = "transaction 1"});
    run.ended(1, transaction_end::committed);
    run.committed(2, "key");
    run.tell(stop_event{});
    run.pass(2min);
    run.row(1, message_state::ready);
    run.row(2, message_state::waiting);
    expect_clean();
    run.pass(1h);
    EXPECT_THAT(run.broken(), UnorderedElementsAre("I20"));
}

TEST_F(checker_time_rules, a_blocked_key_may_wait_for_ever)
{
    run.committed(1, "key");
    run.committed(2, "key");
    run.started(1, 1);
    run.settled(1, 1, settled_as::dead);
    run.tell(stop_event{});
    run.row(1, dead).blocks_key = true;
    run.row(2, message_state::waiting);
    run.pass(24h);
    expect_clean();
}

TEST_F(checker_time_rules, retries_without_end_may_wait)
{
    run.bounds.attempts_max = 0;
    run.committed(1);
    run.started(1, 1);
    run.settled(1, 1, settled_as::retrying);
    run.tell(stop_event{});
    run.pass(1h);
    run.row(1, message_state::ready).due_at = run.now() + 24h;
    expect_clean();
    run.bounds.attempts_max = 10;
    EXPECT_THAT(run.broken(), UnorderedElementsAre("I20"));
}

} // namespace
} // namespace posthorn::checker
