// What tests of jobs stand on: a worker that remembers what ran, and time that passes by hand.
#pragma once

#include "conformance/conformance_test.hpp"
#include <posthorn/schedules.hpp>
#include <posthorn/worker.hpp>

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

namespace posthorn::conformance {

class jobs_test : public conformance_test {
protected:
    void SetUp() override
    {
        conformance_test::SetUp();
        // A whole minute, at noon: instants of cron are easy to see.
        const auto today = std::chrono::floor<std::chrono::days>(now());
        clock().set(today + std::chrono::days{1} + 12h);
    }

    struct seen_run {
        job_run run;
        std::string payload;
        std::string correlation_id;
        timestamp at;
    };

    /// Handles "report": as the payload says.
    worker make_worker(worker_options how = {})
    {
        worker result(db(), std::move(how));
        result.handle("report", [this](const delivery_view& which) {
            const auto run = job_run_of(which.headers());
            if (!run)
                return posthorn::fail("not the run of a job");
            const std::lock_guard lock(mutex_);
            seen_.push_back({*run, which.payload(), which.message().correlation_id, now()});
            return which.payload() == "fails" ? posthorn::fail("as it was told") : done();
        });
        return result;
    }

    /// Lets time pass in steps, and has everything handled that is due after each.
    void pass(worker& with, duration length, duration step)
    {
        for (duration gone{}; gone < length; gone += step) {
            clock().advance(step);
            with.process_outbox();
        }
    }

    std::vector<seen_run> seen()
    {
        const std::lock_guard lock(mutex_);
        return seen_;
    }

    std::vector<timestamp> instants()
    {
        std::vector<timestamp> result;
        for (const auto& each : seen())
            result.push_back(each.run.nominal_at);
        return result;
    }

    /// All executions of a job, the oldest instant first.
    std::vector<execution_record> executions(const std::string& job = "nightly")
    {
        auto result = list_executions(db(), {.job = job, .limit = 100'000});
        std::ranges::sort(result, {}, &execution_record::nominal_at);
        return result;
    }

    std::vector<execution_state> states(const std::string& job = "nightly")
    {
        std::vector<execution_state> result;
        for (const auto& each : executions(job))
            result.push_back(each.state);
        return result;
    }

    job_options hourly(const std::string& payload = "body")
    {
        return {.run = {"report", payload}, .cron = "0 * * * *"};
    }

    /// The instants of a job from one to another, without the last: each is in one execution.
    void expect_accounted(const schedule& times, timestamp after, timestamp until)
    {
        auto next = times.next(after);
        for (const auto& each : executions()) {
            ASSERT_EQ(next, each.covers_from);
            for (std::int64_t i = 1; i < each.covers; ++i)
                next = times.next(*next);
            ASSERT_EQ(next, each.nominal_at);
            next = times.next(*next);
        }
        EXPECT_GT(*next, until) << "instants are missing";
    }

private:
    std::mutex mutex_;
    std::vector<seen_run> seen_;
};

} // namespace posthorn::conformance
