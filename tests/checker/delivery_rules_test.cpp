// Starts and settlements that no promise allows are found: I4, I5, I6.
#include "checker/rules_test.hpp"

namespace posthorn::checker {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class checker_delivery_rules : public rules_test {};

// I4

TEST_F(checker_delivery_rules, fences_must_grow)
{
    run.committed(1);
    run.started(1, 5);
    run.settled(1, 5, settled_as::retrying);
    run.handled(1, 6);
    run.row(1, done);
    expect_clean();
    for (auto& each : run.told.events)
        if (auto* start = std::get_if<start_event>(&each.what); start && start->fence == fence{6})
            start->fence = fence{4};
        else if (auto* end = std::get_if<settle_event>(&each.what); end && end->fence == fence{6})
            end->fence = fence{4};
    EXPECT_THAT(run.sentences(), Contains(HasSubstr("started under fence 4 after fence 5")));
}

TEST_F(checker_delivery_rules, one_fence_must_not_start_a_message_twice)
{
    run.committed(1);
    run.started(1, 1);
    run.hit({.kind = fault_kind::server});
    run.handled(1, 1);
    run.row(1, done);
    expect_broken("I4", "was started twice under fence 1");
}

TEST_F(checker_delivery_rules, settling_under_an_old_fence_must_be_answered_lost)
{
    run.committed(1);
    run.started(1, 1, "slow worker");
    run.hit({.kind = fault_kind::paused, .worker = "slow worker"});
    run.started(1, 2);
    run.settled(1, 1, settled_as::lost);
    run.settled(1, 2, settled_as::done);
    run.row(1, done);
    expect_clean();
    std::get<settle_event>(run.told.events[5].what).answer = settled_as::retrying;
    expect_broken("I4", "settled as retrying under the old fence 1");
}

TEST_F(checker_delivery_rules, a_fence_must_not_settle_twice)
{
    run.committed(1);
    run.started(1, 1);
    run.settled(1, 1, settled_as::retrying);
    run.settled(1, 1, settled_as::retrying);
    run.handled(1, 2);
    run.row(1, done);
    expect_broken("I4", "settled more than once under fence 1");
}

// I5

TEST_F(checker_delivery_rules, starts_must_not_exceed_the_attempts_allowed)
{
    run.committed(1);
    for (int fence = 1; fence <= 3; ++fence) {
        run.started(1, fence);
        run.settled(1, fence, fence < 3 ? settled_as::retrying : settled_as::dead);
    }
    run.row(1, dead);
    run.bounds.attempts_max = 3;
    expect_clean();
    run.bounds.attempts_max = 2;
    expect_broken("I5", "was started 3 times, and 2 are allowed");
    run.bounds.attempts_max = 0;
    expect_clean();
}

TEST_F(checker_delivery_rules, a_redrive_gives_new_attempts)
{
    run.bounds.attempts_max = 1;
    run.committed(1);
    run.started(1, 1);
    run.settled(1, 1, settled_as::dead);
    run.redriven(1);
    run.handled(1, 2);
    run.row(1, done).redrives = 1;
    expect_clean();
}

TEST_F(checker_delivery_rules, an_attempt_must_count_exactly_when_it_started)
{
    run.committed(1);
    run.handled(1, 1);
    run.row(1, done).attempts = 0;
    expect_broken("I5", "counts 0 attempts in the tables, but was started 1 times");
    run.found.messages[0].attempts = 2;
    expect_broken("I5", "has lost an attempt without a start");
    run.killed("another worker"); // it may have started the message, and not lived to tell
    expect_clean();
}

TEST_F(checker_delivery_rules, a_start_that_was_taken_back_must_not_count)
{
    run.bounds.attempts_max = 1;
    run.committed(1);
    run.started(1, 1);
    run.settled(1, 1, settled_as::released);
    run.started(1, 2);
    run.settled(1, 2, settled_as::parked);
    run.handled(1, 3);
    run.row(1, done).attempts = 1;
    expect_clean();
    run.found.messages[0].attempts = 2;
    expect_broken("I5", "has lost an attempt without a start: 2 are counted, 1 starts are known");
}

TEST_F(checker_delivery_rules, a_postponement_that_was_not_heard_of_may_have_happened)
{
    run.committed(1);
    run.started(1, 1);
    run.tell(settle_event{.id = id(1), .fence = fence{1}, .outcome = outcome::kind::postpone});
    run.handled(1, 2);
    for (const int counted : {1, 2}) {
        run.found.messages.clear();
        run.row(1, done).attempts = counted;
        expect_clean();
    }
    run.found.messages[0].attempts = 0;
    expect_broken("I5", "counts 0 attempts in the tables, but was started 2 times");
}

// I6

TEST_F(checker_delivery_rules, without_a_fault_a_message_must_not_start_again)
{
    run.committed(1);
    run.started(1, 1);
    run.handled(1, 2);
    run.row(1, done);
    expect_broken("I6", "started again under fence 2, though nothing had happened to the start "
                        "under fence 1");
}

TEST_F(checker_delivery_rules, faults_explain_only_the_starts_they_touched)
{
    run.committed(1);
    run.killed("first");
    run.started(1, 1, "first"); // its successor of the same name lives
    run.killed("second");
    run.handled(1, 2);
    run.row(1, done);
    expect_broken("I6", "started again under fence 2");
    auto with_kill = run;
    with_kill.killed("first");
    EXPECT_THAT(with_kill.sentences(), IsEmpty());
}

TEST_F(checker_delivery_rules, each_kind_of_fault_explains_a_further_start)
{
    const std::vector<fault_event> faults{
        {.kind = fault_kind::killed, .worker = "worker"},
        {.kind = fault_kind::paused, .worker = "worker"},
        {.kind = fault_kind::lease_expired, .id = id(1), .fence = fence{1}},
        {.kind = fault_kind::timed_out, .id = id(1), .fence = fence{1}},
        {.kind = fault_kind::server},
    };
    for (const auto& fault : faults) {
        run = {};
        run.committed(1);
        run.started(1, 1);
        run.hit(fault);
        run.handled(1, 2);
        run.row(1, done);
        expect_clean();
        EXPECT_EQ(run.judged().looked_at.faults, 1U);
    }
}

TEST_F(checker_delivery_rules, an_answer_that_never_came_explains_a_further_start)
{
    run.committed(1);
    run.started(1, 1);
    run.settled(1, 1, std::nullopt);
    run.handled(1, 2);
    run.row(1, done);
    expect_clean();
    EXPECT_EQ(run.judged().looked_at.faults, 1U);
}

TEST_F(checker_delivery_rules, a_done_message_must_have_been_started)
{
    run.committed(1);
    run.settled(1, 1, settled_as::done);
    run.row(1, done);
    expect_broken("I6", "is done, but was never started");
}

} // namespace
} // namespace posthorn::checker
