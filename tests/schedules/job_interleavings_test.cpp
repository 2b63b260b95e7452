// Two who want something of the same job, in every order of their steps: an instant is fired once,
// or not at all where that was asked for, and no job is forgotten.
#include "conformance/interleaved_test.hpp"
#include "schedules/firing.hpp"
#include <posthorn/schedules.hpp>

namespace posthorn::conformance {
namespace {

using ::testing::AnyOf;
using ::testing::Eq;
using ::testing::SizeIs;

class job_interleavings : public interleaved_test {
protected:
    /// A new job whose instant has come; its tick is in the hands of alice.
    void make_due_job(overlap policy = overlap::skip)
    {
        name_ = "job " + std::to_string(++made_);
        options_ = {.run = {"orders", ""}, .every = 1h, .on_overlap = policy};
        put_job(db(), name_, options_);
        clock().advance(1h);
        claim_tick();
    }

    void claim_tick()
    {
        const auto claimed = claim();
        ASSERT_THAT(claimed.deliveries, SizeIs(1));
        tick_ = claimed.deliveries.front();
        ASSERT_EQ(tick_.topic, job_tick_topic);
    }

    /// What the worker does that has it.
    script ticking()
    {
        return in_a_transaction([this](transaction& tx) {
            EXPECT_EQ(schedules::handle_tick(tx, tick_.receipt.id, tick_.payload).verdict,
                      outcome::kind::done);
            EXPECT_EQ(box().acknowledge(tx, alice, {&tick_.receipt, 1}).lost(), 0U);
        });
    }

    std::vector<execution_record> executions() { return list_executions(db(), {.job = name_}); }

    /// Messages that wait for an instant of the job.
    std::size_t ticks()
    {
        std::size_t count = 0;
        for (const auto& each : list_messages(db(), {.state = message_state::ready,
                                                    .topic = std::string(job_tick_topic),
                                                    .limit = 1'000}))
            count += each.headers.at("posthorn-job") == name_ ? 1U : 0U;
        return count;
    }

    std::string name_;
    job_options options_;
    delivery tick_;

private:
    int made_ = 0;
};

// Proves: SCH-01, I16
TEST_P(job_interleavings, a_job_is_changed_while_its_instant_is_fired)
{
    in_every_order(
        {ticking(), in_a_transaction([&](transaction& tx) {
             auto other = options_;
             other.every = 2h;
             EXPECT_EQ(put_job(tx, name_, other), put_answer::changed);
         })},
        [&] { make_due_job(); },
        [&] {
            EXPECT_THAT(executions(), SizeIs(1));
            EXPECT_EQ(ticks(), 1U);
            EXPECT_EQ(find_job(db(), name_)->options.every, 2h);
        });
}

// Proves: SCH-01, I16
TEST_P(job_interleavings, a_job_is_paused_while_its_instant_is_fired)
{
    in_every_order(
        {ticking(), in_a_transaction([&](transaction& tx) { EXPECT_TRUE(pause_job(tx, name_)); })},
        [&] { make_due_job(); },
        [&] {
            EXPECT_THAT(executions(), SizeIs(1)) << "it had come before the pause";
            EXPECT_EQ(ticks(), 0U);
            EXPECT_TRUE(resume_job(db(), name_));
            EXPECT_EQ(ticks(), 1U);
        });
}

// Proves: SCH-01, I16
TEST_P(job_interleavings, a_job_is_deleted_while_its_instant_is_fired)
{
    in_every_order(
        {ticking(), in_a_transaction([&](transaction& tx) { EXPECT_TRUE(delete_job(tx, name_)); })},
        [&] { make_due_job(); },
        [&] {
            EXPECT_LE(executions().size(), 1U);
            EXPECT_EQ(ticks(), 0U);
            EXPECT_FALSE(find_job(db(), name_));
        });
}

// Proves: SCH-04, I18
TEST_P(job_interleavings, a_timer_fires_or_is_cancelled_and_never_both)
{
    bool cancelled = false;
    in_every_order(
        {ticking(),
         in_a_transaction([&](transaction& tx) { cancelled = cancel_timer(tx, name_); })},
        [&] {
            make_due_job();
            delete_job(db(), name_);
            acknowledge(tick_.receipt);
            set_timer(db(), name_, duration::zero(), {"orders", ""});
            claim_tick();
        },
        [&] {
            EXPECT_EQ(executions().size(), cancelled ? 0U : 1U);
            EXPECT_FALSE(find_timer(db(), name_));
        });
}

// Proves: SCH-02, I16
TEST_P(job_interleavings, a_run_ends_while_the_next_one_is_told_to_wait_for_it)
{
    receipt running;
    in_every_order(
        {ticking(), in_a_transaction([&](transaction& tx) {
             EXPECT_EQ(box().acknowledge(tx, bob, {&running, 1}).lost(), 0U);
         })},
        [&] {
            make_due_job(overlap::queue);
            auto tx = db().begin();
            (void)schedules::handle_tick(tx, tick_.receipt.id, tick_.payload);
            (void)box().acknowledge(tx, alice, {&tick_.receipt, 1});
            tx.commit();
            running = claim_one(bob);
            ASSERT_TRUE(box().renew(bob, running.fence, 24h));
            clock().advance(1h);
            claim_tick();
        },
        [&] {
            const auto all = executions();
            ASSERT_THAT(all, SizeIs(2));
            EXPECT_EQ(all[1].state, execution_state::done);
            EXPECT_EQ(all[0].state, execution_state::enqueued) << "nobody else would start it";
        });
}

// Proves: SCH-01
TEST_P(job_interleavings, two_make_the_same_job)
{
    int made = 0;
    std::vector<put_answer> answers(2);
    const auto making = [&](std::size_t who) {
        return in_a_transaction(
            [&, who](transaction& tx) { answers[who] = put_job(tx, name_, options_); });
    };
    in_every_order(
        {making(0), making(1)},
        [&] {
            name_ = "same " + std::to_string(++made);
            options_ = {.run = {"orders", ""}, .every = 1h};
        },
        [&] {
            EXPECT_EQ(ticks(), 1U);
            EXPECT_THAT(answers, ::testing::UnorderedElementsAre(put_answer::created,
                                                                 put_answer::unchanged));
        });
}

CONFORMANCE_SUITE(job_interleavings);

} // namespace
} // namespace posthorn::conformance
