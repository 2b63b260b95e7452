// Jobs on every store: when they run, what is kept of each run, and what operators do with them.
#include "schedules/jobs_testing.hpp"

#include <thread>

namespace posthorn::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class jobs : public jobs_test {};

} // namespace

// Proves: SCH-01, SCH-03
TEST_P(jobs, run_at_their_instants)
{
    const auto start = now();
    EXPECT_EQ(put_job(db(), "nightly", hourly()), put_answer::created);
    EXPECT_EQ(find_job(db(), "nightly")->next_at, start + 1h);
    auto own = make_worker();
    own.process_outbox();
    EXPECT_THAT(seen(), IsEmpty());
    pass(own, 3h, 30min);
    EXPECT_THAT(instants(), ElementsAre(start + 1h, start + 2h, start + 3h));
    const auto all = executions();
    ASSERT_THAT(all, SizeIs(3));
    EXPECT_EQ(all[0].state, execution_state::done);
    EXPECT_EQ(all[0].kind, execution_kind::scheduled);
    EXPECT_EQ(all[0].nominal_at, start + 1h);
    EXPECT_EQ(all[0].created_at, start + 1h);
    EXPECT_EQ(all[0].started_at, start + 1h);
    EXPECT_EQ(all[0].ended_at, start + 1h);
    EXPECT_EQ(all[0].attempts, 1);
    EXPECT_EQ(all[0].covers, 1);
    EXPECT_EQ(find_execution(db(), all[0].id)->job, "nightly");
    EXPECT_EQ(find_job(db(), "nightly")->next_at, start + 4h);
}

// Proves: SCH-01
TEST_P(jobs, with_an_interval_count_from_their_making_or_their_anchor)
{
    const auto start = now();
    put_job(db(), "own", {.run = {"report", ""}, .every = 90min});
    put_job(db(), "given", {.run = {"report", ""}, .every = 90min, .anchor = start - 30min});
    EXPECT_EQ(find_job(db(), "own")->next_at, start + 90min);
    EXPECT_EQ(find_job(db(), "given")->next_at, start + 60min);
}

// Proves: SCH-01
TEST_P(jobs, run_once_in_the_night_in_which_an_hour_comes_twice)
{
    using namespace std::chrono;
    const timestamp day = sys_days{year{2027} / 10 / 30};
    clock().set(day + 12h);
    put_job(db(), "nightly",
            {.run = {"report", ""}, .cron = "30 2 * * *", .zone = "Europe/Vienna"});
    auto own = make_worker();
    pass(own, 24h, 30min);
    EXPECT_THAT(instants(), ElementsAre(day + 24h + 30min));
}

// Proves: SCH-01
TEST_P(jobs, are_made_once_and_changed_by_putting_them_again)
{
    const auto start = now();
    EXPECT_EQ(put_job(db(), "nightly", hourly("one")), put_answer::created);
    EXPECT_EQ(put_job(db(), "nightly", hourly("one")), put_answer::unchanged);
    EXPECT_EQ(put_job(db(), "nightly", hourly("two")), put_answer::changed);
    EXPECT_EQ(find_job(db(), "nightly")->options.run.payload, "two");
    auto own = make_worker();
    clock().advance(90min); // an instant has come, and nobody was there
    auto other = hourly("three");
    other.cron = "30 * * * *";
    other.late_after = 1h;
    EXPECT_EQ(put_job(db(), "nightly", other), put_answer::changed);
    EXPECT_EQ(find_job(db(), "nightly")->next_at, start + 150min);
    own.process_outbox();
    EXPECT_THAT(instants(), ElementsAre(start + 1h)) << "by the old times";
    pass(own, 60min, 30min);
    EXPECT_THAT(instants(), ElementsAre(start + 1h, start + 150min));
    EXPECT_EQ(seen().back().payload, "three");
    EXPECT_THAT(list_jobs(db()), SizeIs(1));
}

// Proves: SCH-01
TEST_P(jobs, exist_if_their_transaction_commits)
{
    {
        auto tx = db().begin();
        put_job(tx, "nightly", hourly());
        tx.rollback();
    }
    EXPECT_FALSE(find_job(db(), "nightly"));
    {
        auto tx = db().begin();
        put_job(tx, "nightly", hourly());
        set_timer(tx, "later", 1h, {"report", ""});
        tx.commit();
    }
    EXPECT_TRUE(find_job(db(), "nightly"));
    EXPECT_TRUE(find_timer(db(), "later"));
    EXPECT_EQ(total(), 2U) << "a tick each";
}

// Proves: SCH-01
TEST_P(jobs, that_make_no_sense_are_refused_before_anything_is_written)
{
    const auto refused = [&](std::string_view name, const job_options& how) {
        const auto failure = thrown_by([&] { put_job(db(), name, how); });
        EXPECT_EQ(failure.code(), error_code::invalid_argument);
        return std::string(failure.what());
    };
    auto never = hourly();
    never.cron = "0 0 30 2 *";
    EXPECT_THAT(refused("nightly", never), HasSubstr("never comes"));
    auto nowhere = hourly();
    nowhere.zone = "Mars/Olympus";
    EXPECT_THAT(refused("nightly", nowhere), HasSubstr("time zone"));
    auto both = hourly();
    both.every = 1h;
    EXPECT_THAT(refused("nightly", both), HasSubstr("either"));
    EXPECT_THAT(refused("nightly", {.run = {"report", ""}}), HasSubstr("either"));
    EXPECT_THAT(refused("", hourly()), HasSubstr("name"));
    EXPECT_THAT(refused(std::string(201, 'x'), hourly()), HasSubstr("name"));
    EXPECT_THAT(refused("nightly", {.run = {"", ""}, .cron = "@daily"}), HasSubstr("topic"));
    EXPECT_THAT(refused("nightly", {.run = {"report", ""}, .every = 1ms}), HasSubstr("interval"));
    EXPECT_EQ(thrown_by([&] { trigger_job(db(), "nobody"); }).code(), error_code::not_found);
    EXPECT_EQ(total(), 0U);
    EXPECT_THAT(list_jobs(db()), IsEmpty());
}

// Proves: SCH-01, SCH-03
TEST_P(jobs, are_triggered_at_any_time)
{
    put_job(db(), "nightly", hourly());
    pause_job(db(), "nightly");
    const auto first = trigger_job(db(), "nightly");
    const auto second = trigger_job(db(), "nightly");
    EXPECT_NE(first, second);
    EXPECT_EQ(find_execution(db(), first)->state, execution_state::enqueued);
    auto own = make_worker();
    own.process_outbox();
    EXPECT_THAT(seen(), SizeIs(2));
    EXPECT_EQ(seen().front().run.kind, execution_kind::triggered);
    EXPECT_THAT(states(), ElementsAre(execution_state::done, execution_state::done));
}

// Proves: SCH-01, I16
TEST_P(jobs, leave_out_the_instants_of_a_pause_and_say_so)
{
    const auto start = now();
    put_job(db(), "nightly", hourly());
    EXPECT_TRUE(pause_job(db(), "nightly"));
    EXPECT_FALSE(pause_job(db(), "nightly"));
    EXPECT_FALSE(find_job(db(), "nightly")->next_at);
    auto own = make_worker();
    pass(own, 150min, 30min);
    EXPECT_TRUE(resume_job(db(), "nightly"));
    EXPECT_FALSE(resume_job(db(), "nightly"));
    pass(own, 60min, 30min);
    EXPECT_THAT(instants(), ElementsAre(start + 3h));
    const auto all = executions();
    ASSERT_THAT(all, SizeIs(2));
    EXPECT_EQ(all[0].state, execution_state::skipped);
    EXPECT_EQ(all[0].covers, 2);
    EXPECT_EQ(all[0].covers_from, start + 1h);
    EXPECT_THAT(all[0].reason, HasSubstr("paused"));
    expect_accounted(schedule::cron("0 * * * *"), start, now());
}

// Proves: SCH-01
TEST_P(jobs, that_are_deleted_run_no_more_and_are_remembered)
{
    put_job(db(), "nightly", hourly());
    auto own = make_worker();
    pass(own, 1h, 30min);
    EXPECT_TRUE(delete_job(db(), "nightly"));
    EXPECT_FALSE(delete_job(db(), "nightly"));
    pass(own, 3h, 30min);
    EXPECT_THAT(seen(), SizeIs(1));
    EXPECT_THAT(executions(), SizeIs(1));
    EXPECT_EQ(put_job(db(), "nightly", hourly()), put_answer::created);
    pass(own, 1h, 30min);
    EXPECT_THAT(seen(), SizeIs(2));
}

// Proves: SCH-03
TEST_P(jobs, that_fail_say_why_and_can_be_redriven)
{
    put_job(db(), "nightly", hourly("fails"));
    auto own = make_worker();
    pass(own, 1h, 30min);
    auto failed = executions().at(0);
    EXPECT_EQ(failed.state, execution_state::failed);
    EXPECT_THAT(failed.reason, HasSubstr("as it was told"));
    EXPECT_EQ(failed.attempts, 1);
    EXPECT_EQ(failed.ended_at, now());
    ASSERT_TRUE(failed.message);
    EXPECT_TRUE(redrive(db(), *failed.message));
    EXPECT_EQ(executions().at(0).state, execution_state::enqueued);
    EXPECT_FALSE(executions().at(0).ended_at);
    const auto claimed = claim_one();
    EXPECT_EQ(executions().at(0).state, execution_state::running);
    acknowledge(claimed);
    EXPECT_EQ(executions().at(0).state, execution_state::done);
}

// Proves: SCH-03
TEST_P(jobs, whose_messages_are_called_off_are_cancelled)
{
    put_job(db(), "nightly", hourly());
    const auto run = trigger_job(db(), "nightly");
    EXPECT_EQ(cancel(db(), *find_execution(db(), run)->message), cancel_answer::cancelled);
    EXPECT_EQ(find_execution(db(), run)->state, execution_state::cancelled);
}

// Proves: SCH-01, I16
TEST_P(jobs, go_on_when_somebody_has_cancelled_their_tick)
{
    const auto start = now();
    put_job(db(), "nightly", hourly());
    const auto ticks = list_messages(db(), {.topic = std::string(job_tick_topic)});
    ASSERT_THAT(ticks, SizeIs(1));
    EXPECT_EQ(cancel(db(), ticks.front().id), cancel_answer::cancelled);
    EXPECT_EQ(logged("was lost"), 1U);
    auto own = make_worker();
    pass(own, 2h, 30min);
    EXPECT_THAT(instants(), ElementsAre(start + 1h, start + 2h));
}

// Proves: SCH-03, I16
TEST_P(jobs, fire_each_instant_once_however_many_workers_there_are)
{
    const auto start = now();
    auto every_second = hourly();
    every_second.cron = "* * * * * *";
    every_second.on_overlap = overlap::allow;
    every_second.on_misfire = misfire::catch_up;
    put_job(db(), "nightly", every_second);
    for (int round = 0; round < 5; ++round) {
        clock().advance(2s);
        std::vector<std::jthread> threads;
        for (int i = 0; i < 4; ++i)
            threads.emplace_back([&] {
                auto own = make_worker({.concurrency = 2});
                own.process_outbox();
            });
    }
    make_worker().process_outbox();
    auto ran = instants();
    std::ranges::sort(ran);
    ASSERT_THAT(ran, SizeIs(10));
    for (std::size_t i = 0; i < ran.size(); ++i)
        EXPECT_EQ(ran[i], start + (static_cast<int>(i) + 1) * 1s);
    expect_accounted(schedule::cron("* * * * * *"), start, now());
}

// Proves: SCH-02
TEST_P(jobs, with_jitter_begin_a_little_later_and_keep_their_instants)
{
    const auto start = now();
    auto spread = hourly();
    spread.jitter = 10min;
    put_job(db(), "nightly", spread);
    auto own = make_worker();
    clock().advance(1h);
    own.process_outbox();
    const auto due = look(*executions().at(0).message).due_at;
    EXPECT_GE(due, start + 1h);
    EXPECT_LT(due, start + 70min);
    pass(own, 11min, 1min);
    ASSERT_THAT(seen(), SizeIs(1));
    EXPECT_EQ(seen().front().run.nominal_at, start + 1h);
    EXPECT_GE(seen().front().at, due);
    EXPECT_EQ(find_job(db(), "nightly")->next_at, start + 2h);
}

// Proves: SCH-03
TEST_P(jobs, forget_executions_after_a_while)
{
    put_job(db(), "nightly", hourly("fails"));
    auto own = make_worker();
    pass(own, 2h, 1h);
    ASSERT_THAT(executions(), SizeIs(2));
    pause_job(db(), "nightly");
    clock().advance(24h * 30 - 90min);
    EXPECT_EQ(clean(db()).executions, 0U);
    clock().advance(30min);
    EXPECT_EQ(clean(db()).executions, 1U);
    clock().advance(1h);
    EXPECT_EQ(clean(db()).executions, 1U);
    EXPECT_THAT(executions(), IsEmpty());
}

// Proves: SCH-01
TEST_P(jobs, are_listed_page_by_page)
{
    for (const auto* name : {"a", "b", "c"})
        put_job(db(), name, hourly());
    const auto first = list_jobs(db(), 0, 2);
    ASSERT_THAT(first, SizeIs(2));
    EXPECT_EQ(first[1].name, "b");
    EXPECT_EQ(first[1].options.cron, "0 * * * *");
    const auto rest = list_jobs(db(), first[1].position, 2);
    ASSERT_THAT(rest, SizeIs(1));
    EXPECT_EQ(rest[0].name, "c");
    for (int i = 0; i < 3; ++i)
        trigger_job(db(), "a");
    const auto newest = list_executions(db(), {.job = "a", .limit = 2});
    ASSERT_THAT(newest, SizeIs(2));
    EXPECT_GT(newest[0].position, newest[1].position);
    EXPECT_THAT(list_executions(db(), {.before_position = newest[1].position}), SizeIs(1));
    EXPECT_THAT(list_executions(db(), {.state = execution_state::done}), IsEmpty());
}

// Proves: MDB-04
TEST_P(jobs, are_reached_by_the_key_of_their_store)
{
    job_router router(stores({{.name = "tenant-7", .at = db()}}));
    EXPECT_EQ(router.put("tenant-7", "nightly", hourly()), put_answer::created);
    EXPECT_TRUE(router.find("tenant-7", "nightly"));
    (void)router.trigger("tenant-7", "nightly");
    EXPECT_EQ(router.set_timer("tenant-7", "later", now() + 1h, {"report", ""}),
              put_answer::created);
    EXPECT_TRUE(router.cancel_timer("tenant-7", "later"));
    EXPECT_TRUE(router.remove("tenant-7", "nightly"));
    EXPECT_EQ(thrown_by([&] { (void)router.find("tenant-8", "nightly"); }).code(),
              error_code::not_found);
}

CONFORMANCE_SUITE(jobs);

} // namespace posthorn::conformance
