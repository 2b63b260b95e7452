// Clean runs pass, and what exists wrongly, vanished or did not stay ended is found: I1, I2, I3.
#include "checker/rules_test.hpp"
#include <posthorn/error.hpp>

namespace posthorn::checker {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class checker_existence_rules : public rules_test {};

TEST_F(checker_existence_rules, a_message_that_is_handled_once_breaks_nothing)
{
    run.committed(1);
    run.handled(1, 1);
    run.row(1, done);
    run.tell(stop_event{});
    expect_clean();
    EXPECT_GT(run.judged().checks(), 10U);
    EXPECT_EQ(run.judged().looked_at.messages, 1U);
    EXPECT_EQ(run.judged().looked_at.starts, 1U);
    EXPECT_EQ(run.judged().looked_at.faults, 0U);
}

// I1

TEST_F(checker_existence_rules, a_message_of_a_rolled_back_transaction_must_not_exist)
{
    run.enqueued(1);
    run.ended(1, transaction_end::rolled_back);
    expect_clean();
    run.row(1, message_state::ready);
    expect_broken("I1", "exists though its transaction was rolled back");
}

TEST_F(checker_existence_rules, a_message_that_nobody_enqueued_must_not_exist)
{
    run.row(1, message_state::ready);
    expect_broken("I1", "exists though nobody enqueued it");
}

TEST_F(checker_existence_rules, a_committed_message_must_exist)
{
    run.committed(1);
    expect_broken("I1", "does not exist though its transaction committed");
}

TEST_F(checker_existence_rules, an_unknown_commit_may_have_happened_or_not)
{
    run.enqueued(1);
    run.ended(1, transaction_end::unknown);
    run.enqueued(2);
    run.ended(2, transaction_end::unknown);
    run.row(2, message_state::ready);
    expect_clean();
    run.ended(1, transaction_end::committed); // looked up later
    expect_broken("I1", "does not exist");
}

TEST_F(checker_existence_rules, only_a_killed_producer_may_leave_a_transaction_without_an_end)
{
    run.enqueued(1);
    expect_broken("I1", "producer was not killed");
    run.killed("producer");
    expect_clean();
}

TEST_F(checker_existence_rules, a_message_must_not_start_before_its_transaction_commits)
{
    run.enqueued(1);
    run.handled(1, 1);
    run.ended(1, transaction_end::committed);
    run.row(1, done);
    expect_broken("I1", "before its transaction 'transaction 1' committed");
}

TEST_F(checker_existence_rules, a_transaction_that_is_told_to_have_ended_twice_is_refused)
{
    run.committed(1);
    run.ended(1, transaction_end::rolled_back);
    EXPECT_THROW((void)run.judged(), error);
}

// I2

TEST_F(checker_existence_rules, a_started_message_must_not_vanish)
{
    run.committed(1);
    run.handled(1, 1);
    expect_broken("I2", "has vanished");
}

TEST_F(checker_existence_rules, a_purged_message_and_in_a_forgetting_store_a_done_one_may_be_gone)
{
    run.committed(1);
    run.handled(1, 1);
    run.bounds.done_forgotten = true;
    expect_clean();
    run.bounds.done_forgotten = false;
    run.tell(purge_event{id(1)});
    expect_clean();
}

TEST_F(checker_existence_rules, a_message_must_be_listed_once)
{
    run.committed(1);
    run.row(1, message_state::ready);
    run.row(1, message_state::ready);
    expect_broken("I2", "is listed 2 times");
}

TEST_F(checker_existence_rules, what_waits_for_its_key_must_have_something_to_wait_for)
{
    run.committed(1, "key");
    run.committed(2, "key");
    run.started(1, 1);
    run.settled(1, 1, settled_as::dead);
    run.row(1, dead).blocks_key = true;
    run.row(2, message_state::waiting);
    expect_clean();
    run.found.messages[0].blocks_key = false;
    expect_broken("I2", "waits for key 'key', which nothing holds");
    run.found.messages[0].state = message_state::parked;
    EXPECT_FALSE(run.broken().contains("I2"));
}

// I3

TEST_F(checker_existence_rules, the_tables_must_keep_an_acknowledged_end)
{
    run.committed(1);
    run.handled(1, 1);
    run.row(1, message_state::ready);
    expect_broken("I3", "had ended as done, but is ready");
}

TEST_F(checker_existence_rules, a_message_must_not_end_twice)
{
    run.committed(1);
    run.started(1, 1);
    run.hit({.kind = fault_kind::lease_expired, .id = id(1), .fence = fence{1}});
    run.started(1, 2);
    run.settled(1, 2, settled_as::done);
    run.settled(1, 1, settled_as::done);
    run.row(1, done);
    EXPECT_THAT(run.broken(), UnorderedElementsAre("I3", "I4"));
    EXPECT_THAT(run.sentences(), Contains(HasSubstr("ended 2 times, with 0 redrives")));
}

TEST_F(checker_existence_rules, a_message_must_not_start_after_its_end_unless_redriven)
{
    run.committed(1);
    run.started(1, 1);
    run.settled(1, 1, settled_as::dead);
    const auto before_redrive = run;
    run.redriven(1);
    run.handled(1, 2);
    run.row(1, done).redrives = 1;
    expect_clean();

    run = before_redrive;
    run.handled(1, 2);
    run.row(1, done);
    EXPECT_THAT(run.broken(), UnorderedElementsAre("I3", "I6"));
    EXPECT_THAT(run.sentences(), Contains(HasSubstr("fence 2 after it had ended as dead")));
}

TEST_F(checker_existence_rules, the_tables_must_not_count_redrives_that_nobody_made)
{
    run.committed(1);
    run.handled(1, 1);
    run.row(1, done).redrives = 1;
    expect_broken("I3", "counts 1 redrives in the tables, but only 0 were made");
}

} // namespace
} // namespace posthorn::checker
