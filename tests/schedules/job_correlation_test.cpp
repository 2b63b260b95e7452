// What a job's handler publishes belongs to its execution, without the handler doing anything.
#include "schedules/jobs_testing.hpp"
#include <posthorn/correlation.hpp>
#include <posthorn/in_process.hpp>
#include <posthorn/publisher.hpp>
#include <posthorn/trace.hpp>

namespace posthorn::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class job_correlation : public jobs_test {
protected:
    void run_with(std::function<outcome(const delivery_view&)> handler, worker_options how = {})
    {
        put_job(db(), "nightly", hourly());
        execution_ = trigger_job(db(), "nightly");
        worker own(db(), std::move(how));
        own.handle("report", std::move(handler));
        own.handle("mail.*", [](const delivery_view&) {});
        own.process_outbox();
    }

    std::vector<message_record> mails()
    {
        return list_messages(db(), {.topic = "mail.*", .with_payload = true});
    }

    static std::string header_of(const message_record& of, std::string_view name)
    {
        const auto found = of.headers.find(name);
        return found == of.headers.end() ? std::string{} : found->second;
    }

    [[nodiscard]] std::string execution() const { return to_string(execution_); }

private:
    execution_id execution_;
};

} // namespace

// Proves: COR-03, I22
TEST_P(job_correlation, should_set_correlation_to_the_execution_id_when_a_job_is_dispatched)
{
    std::string correlation;
    std::string cause;
    run_with([&](const delivery_view& run) {
        correlation = run.message().correlation_id;
        cause = run.message().causation_id;
        return done();
    });
    EXPECT_EQ(correlation, execution());
    EXPECT_EQ(cause, execution());
}

// Proves: COR-03
TEST_P(job_correlation, should_populate_headers_with_job_metadata_when_a_job_is_dispatched)
{
    headers all;
    run_with([&](const delivery_view& run) {
        all = run.headers();
        return done();
    });
    EXPECT_EQ(all.at(std::string(header::job)), "nightly");
    EXPECT_EQ(all.at(std::string(header::execution)), execution());
    EXPECT_EQ(all.at(std::string(header::job_kind)), "triggered");
    EXPECT_EQ(all.at(std::string(header::correlation_sequence)), "0");
    const auto run = job_run_of(all);
    ASSERT_TRUE(run);
    EXPECT_EQ(run->nominal_at, executions().at(0).nominal_at);
    EXPECT_FALSE(job_run_of({}));
}

// Proves: COR-03
TEST_P(job_correlation, should_open_the_scope_around_handler_and_hooks_when_a_job_runs)
{
    std::vector<std::string> ambient;
    const auto note = [&] {
        const auto scope = correlation_scope::current();
        ambient.push_back(scope ? scope->id() : "none");
    };
    worker_options how;
    how.on.starting = [&](const delivery_view& run) {
        if (run.topic() == "report")
            note();
    };
    how.on.ended = [&](const delivery_view& run, const outcome&, duration) {
        if (run.topic() == "report")
            note();
    };
    run_with(
        [&](const delivery_view&) {
            note();
            return done();
        },
        how);
    EXPECT_THAT(ambient, ElementsAre(execution(), execution(), execution()));
    EXPECT_FALSE(correlation_scope::current());
}

// Proves: COR-03
TEST_P(job_correlation, should_close_the_scope_when_the_handler_throws)
{
    std::vector<std::string> ambient;
    worker_options how{.concurrency = 1};
    how.on.ended = [&](const delivery_view&, const outcome&, duration) {
        const auto scope = correlation_scope::current();
        ambient.push_back(scope ? scope->id() : "none");
    };
    put_job(db(), "nightly", hourly());
    const auto first = to_string(trigger_job(db(), "nightly"));
    const auto second = to_string(trigger_job(db(), "nightly"));
    worker own(db(), how);
    own.handle("report",
               [&](const delivery_view&) -> outcome { throw permanent_failure("as every time"); });
    own.process_outbox();
    EXPECT_THAT(ambient, ElementsAre(first, second)) << "each its own, on one thread";
}

// Proves: COR-03, COR-04, I22
TEST_P(job_correlation, should_number_what_the_handler_publishes_when_no_headers_are_given)
{
    outbox_publisher publisher(db());
    run_with([&](const delivery_view&) {
        for (const auto* each : {"a", "b", "c"})
            publisher.publish(message{"mail.report", each});
        return done();
    });
    const auto sent = mails();
    ASSERT_THAT(sent, SizeIs(3));
    for (std::size_t i = 0; i < sent.size(); ++i) {
        EXPECT_EQ(sent[i].correlation_id, execution());
        EXPECT_EQ(header_of(sent[i], header::correlation_sequence), std::to_string(i + 1));
        EXPECT_EQ(sent[i].causation_id, to_string(*executions().at(0).message));
    }
}

// Proves: COR-03, COR-04, I22
TEST_P(job_correlation, should_number_what_the_handler_publishes_directly_in_the_same_line)
{
    std::vector<headers> arrived;
    const auto bus = std::make_shared<in_process_transport>();
    const auto listening = bus->subscribe(
        "mail.*", [&](const transport_message& what) { arrived.push_back(what.headers); });
    direct_publisher directly(bus, world());
    outbox_publisher through_outbox(db());
    run_with([&](const delivery_view&) {
        through_outbox.publish(message{"mail.first", ""});
        EXPECT_TRUE(directly.publish(message{"mail.second", ""}).accepted());
        return done();
    });
    ASSERT_THAT(arrived, SizeIs(1));
    EXPECT_EQ(arrived[0].at(std::string(header::correlation_id)), execution());
    EXPECT_EQ(arrived[0].at(std::string(header::correlation_sequence)), "2");
}

// Proves: COR-03, COR-05
TEST_P(job_correlation, should_carry_the_execution_when_the_handler_only_enqueues)
{
    run_with([&](const delivery_view& run) {
        enqueue(db(), {"mail.report", ""});
        enqueue(db(), {"mail.passed_on", ""}, {.headers = run.headers()});
        return done();
    });
    for (const auto& each : mails()) {
        EXPECT_EQ(each.correlation_id, execution());
        EXPECT_FALSE(job_run_of(each.headers)) << "it is no run of the job";
    }
    EXPECT_THAT(mails(), SizeIs(2));
}

// Proves: COR-03, COR-04
TEST_P(job_correlation, should_keep_explicit_headers_when_the_handler_gives_them)
{
    outbox_publisher publisher(db());
    run_with([&](const delivery_view&) {
        publisher.publish(message{"mail.report", ""},
                          {.headers = {{std::string(header::correlation_id), "my own"}}});
        return done();
    });
    ASSERT_THAT(mails(), SizeIs(1));
    EXPECT_EQ(mails().at(0).correlation_id, "my own");
}

// Proves: COR-03, COR-06
TEST_P(job_correlation, should_be_traced_from_the_execution_to_its_effects)
{
    run_with([&](const delivery_view&) {
        enqueue(db(), {"mail.report", ""});
        return done();
    });
    const auto trace = trace_messages(db(), execution());
    ASSERT_THAT(trace.messages, SizeIs(2));
    EXPECT_EQ(trace.messages[0].record.topic, "report");
    EXPECT_EQ(trace.messages[0].record.causation_id, execution());
    EXPECT_EQ(trace.messages[1].record.topic, "mail.report");
    EXPECT_EQ(trace.messages[1].caused_by, 0U);
}

CONFORMANCE_SUITE(job_correlation);

} // namespace posthorn::conformance
