// What becomes of instants that nobody was there for, and of runs that take longer than their turn.
#include "schedules/jobs_testing.hpp"

namespace posthorn::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class job_policies : public jobs_test {
protected:
    job_options every_minute(misfire policy)
    {
        return {.run = {"report", ""},
                .cron = "* * * * *",
                .on_misfire = policy,
                .catch_up_max = 100,
                .on_overlap = overlap::allow};
    }

    /// A day without workers.
    void miss_a_day(const job_options& how)
    {
        put_job(db(), "nightly", how);
        clock().advance(24h);
        auto own = make_worker();
        own.process_outbox();
    }
};

} // namespace

// Proves: SCH-02, I16, F29
TEST_P(job_policies, skip_leaves_out_what_was_missed)
{
    const auto start = now();
    miss_a_day(every_minute(misfire::skip));
    // Both run at once: which handler notes its instant first is chance.
    EXPECT_THAT(instants(), ::testing::UnorderedElementsAre(start + 24h - 1min, start + 24h));
    const auto all = executions();
    ASSERT_THAT(all, SizeIs(3));
    EXPECT_EQ(all[0].state, execution_state::skipped);
    EXPECT_EQ(all[0].covers, 24 * 60 - 2);
    EXPECT_THAT(all[0].reason, HasSubstr("nobody was there"));
    expect_accounted(schedule::cron("* * * * *"), start, now());
}

// Proves: SCH-02, I16, F29
TEST_P(job_policies, fire_once_runs_once_for_all_that_was_missed)
{
    const auto start = now();
    miss_a_day(every_minute(misfire::fire_once));
    EXPECT_THAT(instants(), ElementsAre(start + 24h));
    EXPECT_EQ(seen().at(0).run.covers, 24 * 60);
    EXPECT_EQ(executions().at(0).covers_from, start + 1min);
    expect_accounted(schedule::cron("* * * * *"), start, now());
}

// Proves: SCH-02, I16, F29
TEST_P(job_policies, catch_up_runs_the_last_ones_up_to_its_limit)
{
    const auto start = now();
    miss_a_day(every_minute(misfire::catch_up));
    ASSERT_THAT(seen(), SizeIs(100));
    auto ran = instants();
    std::ranges::sort(ran);
    EXPECT_EQ(ran.front(), start + 24h - 99min);
    EXPECT_EQ(ran.back(), start + 24h);
    EXPECT_EQ(executions().at(0).covers, 24 * 60 - 100);
    expect_accounted(schedule::cron("* * * * *"), start, now());
}

// Proves: SCH-02, I16, F29
TEST_P(job_policies, more_than_a_transaction_should_hold_is_dealt_with_in_several)
{
    const auto start = now();
    auto every_second = every_minute(misfire::fire_once);
    every_second.cron = "* * * * * *";
    miss_a_day(every_second);
    EXPECT_THAT(instants(), ElementsAre(start + 24h));
    ASSERT_THAT(executions(), SizeIs(9)) << "86,400 of them, 10,000 at a time";
    EXPECT_EQ(executions().at(0).state, execution_state::coalesced);
    EXPECT_EQ(executions().at(0).covers, 10'000);
    expect_accounted(schedule::cron("* * * * * *"), start, now());

    auto some = every_second;
    some.on_misfire = misfire::catch_up;
    some.catch_up_max = 5;
    EXPECT_EQ(put_job(db(), "other", some), put_answer::created);
    const auto again = now();
    clock().advance(24h);
    auto own = make_worker();
    own.process_outbox();
    const auto all = executions("other");
    std::int64_t covered = 0;
    std::size_t ran = 0;
    for (const auto& each : all) {
        covered += each.covers;
        ran += each.state == execution_state::done ? 1U : 0U;
    }
    EXPECT_EQ(covered, 86'400);
    EXPECT_EQ(ran, 5U);
    EXPECT_EQ(all.back().nominal_at, again + 24h);
}

// Proves: SCH-02
TEST_P(job_policies, what_is_only_a_little_late_was_not_missed)
{
    const auto start = now();
    auto often = every_minute(misfire::skip);
    often.late_after = 10min;
    put_job(db(), "nightly", often);
    clock().advance(5min);
    auto own = make_worker({.concurrency = 1});
    own.process_outbox();
    EXPECT_THAT(instants(), SizeIs(5));
    expect_accounted(schedule::cron("* * * * *"), start, now());
}

// Proves: SCH-02, I16
TEST_P(job_policies, overlapping_runs_are_skipped_by_default)
{
    const auto start = now();
    put_job(db(), "nightly", {.run = {"slow", ""}, .cron = "0 * * * *"});
    auto scheduler = make_worker();
    clock().advance(1h);
    scheduler.process_outbox(); // which has no handler for it: the run is put aside
    clock().advance(1h);
    scheduler.process_outbox();
    EXPECT_THAT(states(), ElementsAre(execution_state::enqueued, execution_state::skipped));
    EXPECT_THAT(executions().at(1).reason, HasSubstr("has not ended"));
    scheduler.handle("slow", [](const delivery_view&) {});
    clock().advance(1h);
    scheduler.process_outbox();
    scheduler.process_outbox();
    clock().advance(1h);
    scheduler.process_outbox();
    EXPECT_EQ(executions().at(0).state, execution_state::done);
    EXPECT_EQ(executions().back().state, execution_state::done);
    expect_accounted(schedule::cron("0 * * * *"), start, now());
}

// Proves: SCH-02, I16
TEST_P(job_policies, queued_runs_take_their_turn_one_after_the_other)
{
    const auto start = now();
    put_job(db(), "nightly",
            {.run = {"report", ""},
             .cron = "0 * * * *",
             .on_overlap = overlap::queue,
             .waiting_max = 2});
    worker scheduler(db(), {}); // without a handler
    for (int i = 0; i < 4; ++i) {
        clock().advance(1h);
        scheduler.process_outbox();
    }
    EXPECT_THAT(states(), ElementsAre(execution_state::enqueued, execution_state::waiting,
                                      execution_state::waiting, execution_state::skipped));
    auto own = make_worker();
    own.process_outbox();
    EXPECT_THAT(instants(), ElementsAre(start + 1h, start + 2h, start + 3h));
    EXPECT_THAT(states(), ElementsAre(execution_state::done, execution_state::done,
                                      execution_state::done, execution_state::skipped));
    expect_accounted(schedule::cron("0 * * * *"), start, now());
}

// Proves: SCH-02
TEST_P(job_policies, a_run_that_fails_lets_the_next_one_begin)
{
    put_job(db(), "nightly",
            {.run = {"report", "fails"}, .cron = "0 * * * *", .on_overlap = overlap::queue});
    worker scheduler(db(), {});
    for (int i = 0; i < 2; ++i) {
        clock().advance(1h);
        scheduler.process_outbox();
    }
    EXPECT_EQ(cancel(db(), *executions().at(0).message), cancel_answer::cancelled);
    EXPECT_THAT(states(), ElementsAre(execution_state::cancelled, execution_state::enqueued));
    auto own = make_worker();
    own.process_outbox();
    EXPECT_THAT(states(), ElementsAre(execution_state::cancelled, execution_state::failed));
}

// Proves: SCH-02
TEST_P(job_policies, runs_that_may_overlap_do)
{
    put_job(db(), "nightly",
            {.run = {"report", ""}, .cron = "0 * * * *", .on_overlap = overlap::allow});
    worker scheduler(db(), {});
    for (int i = 0; i < 2; ++i) {
        clock().advance(1h);
        scheduler.process_outbox();
    }
    EXPECT_THAT(states(), ElementsAre(execution_state::enqueued, execution_state::enqueued));
}

// Proves: SCH-02
TEST_P(job_policies, what_waits_for_its_turn_goes_with_its_job)
{
    put_job(db(), "nightly",
            {.run = {"report", ""}, .cron = "0 * * * *", .on_overlap = overlap::queue});
    worker scheduler(db(), {});
    for (int i = 0; i < 2; ++i) {
        clock().advance(1h);
        scheduler.process_outbox();
    }
    delete_job(db(), "nightly");
    EXPECT_THAT(states(), ElementsAre(execution_state::enqueued, execution_state::cancelled));
    auto own = make_worker();
    own.process_outbox();
    EXPECT_THAT(states(), ElementsAre(execution_state::done, execution_state::cancelled));
}

// Proves: SCH-03, I16
TEST_P(job_policies, a_backfill_runs_each_instant_of_the_past_once)
{
    const auto start = now();
    put_job(db(), "nightly", hourly());
    const auto first = backfill_job(db(), "nightly", start - 3h, start);
    EXPECT_EQ(first.added, 3U);
    EXPECT_EQ(first.known, 0U);
    EXPECT_FALSE(first.next);
    EXPECT_THAT(states(), ElementsAre(execution_state::enqueued, execution_state::waiting,
                                      execution_state::waiting));
    auto own = make_worker();
    own.process_outbox();
    EXPECT_THAT(instants(), ElementsAre(start - 3h, start - 2h, start - 1h));
    EXPECT_EQ(seen().at(0).run.kind, execution_kind::backfilled);
    const auto again = backfill_job(db(), "nightly", start - 4h, start);
    EXPECT_EQ(again.added, 1U);
    EXPECT_EQ(again.known, 3U);
    const auto bounded = backfill_job(db(), "nightly", start - 24h, start, 2);
    EXPECT_EQ(bounded.added, 2U);
    EXPECT_EQ(bounded.next, start - 22h);
    EXPECT_EQ(thrown_by([&] { backfill_job(db(), "nightly", start, start + 1h); }).code(),
              error_code::invalid_argument);
}

// Proves: SCH-04
TEST_P(job_policies, a_timer_fires_once)
{
    const auto start = now();
    EXPECT_EQ(set_timer(db(), "remind", 2h, {"report", "x"}), put_answer::created);
    EXPECT_EQ(set_timer(db(), "remind", start + 2h, {"report", "x"}), put_answer::unchanged);
    EXPECT_EQ(set_timer(db(), "remind", start + 1h, {"report", "y"}), put_answer::changed);
    EXPECT_EQ(find_timer(db(), "remind")->at, start + 1h);
    EXPECT_THAT(list_timers(db()), SizeIs(1));
    auto own = make_worker();
    pass(own, 3h, 30min);
    ASSERT_THAT(instants(), ElementsAre(start + 1h));
    EXPECT_EQ(seen().at(0).payload, "y");
    EXPECT_EQ(seen().at(0).run.kind, execution_kind::timer);
    EXPECT_EQ(seen().at(0).run.job, "remind");
    EXPECT_FALSE(find_timer(db(), "remind"));
    EXPECT_FALSE(cancel_timer(db(), "remind")) << "it has fired";
    EXPECT_EQ(executions("remind").at(0).state, execution_state::done);
    // The same name and instant again: in the past, so at once.
    EXPECT_EQ(set_timer(db(), "remind", start + 1h, {"report", "z"}), put_answer::created);
    own.process_outbox();
    EXPECT_THAT(seen(), SizeIs(2));
}

// Proves: SCH-04, I18
TEST_P(job_policies, a_cancelled_timer_never_fires)
{
    set_timer(db(), "remind", 1h, {"report", "x"});
    put_job(db(), "remind", hourly()); // a job may have the same name
    EXPECT_TRUE(cancel_timer(db(), "remind"));
    EXPECT_FALSE(cancel_timer(db(), "remind"));
    auto own = make_worker();
    pass(own, 2h, 30min);
    for (const auto& each : seen())
        EXPECT_EQ(each.run.kind, execution_kind::scheduled);
    EXPECT_EQ(thrown_by([&] {
                  set_timer(db(), "x", -1s, {"report", ""});
              }).code(),
              error_code::invalid_argument);
    EXPECT_EQ(thrown_by([&] {
                  set_timer(db(), "", 1s, {"report", ""});
              }).code(),
              error_code::invalid_argument);
}

CONFORMANCE_SUITE(job_policies);

} // namespace posthorn::conformance
