// Bringing the tables up to date: a store of the first version keeps everything it holds, and can
// do afterwards what only the newest version can.
#include "integration/postgres/server_fixture.hpp"
#include "store/postgres/connection.hpp"
#include "store/postgres/statements.hpp"
#include <posthorn/outbox.hpp>
#include <posthorn/pauses.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace posthorn::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// What a busy store of version 1 held: finished, claimed, dead, waiting behind a key and late ones,
// besides those that its own function adds below.
constexpr const char* old_contents = R"sql(
INSERT INTO {p}message (seq, id, created_at, due_at, finished_at, failed_at, state, place, attempts,
                        fence, started_at, expires_at, ordering_key, topic, payload)
SELECT nextval('{p}message_seq'), gen_random_uuid(), now, now, finished, failed, state, place,
       attempts, fence, now, expires, key, topic, ''
  FROM (SELECT {p}clock(NULL) - 1000000 AS now OFFSET 0) c,
       LATERAL (VALUES ('finished', 6, 0, 1, 0, '', now, 0, 0),
                       ('claimed', 3, 0, 1, 1, '', 0, 0, 0),
                       ('dead', 5, 6, 3, 0, '', now, now, 0),
                       ('head', 0, 1, 0, 0, 'key', 0, 0, 0),
                       ('behind', 0, 4, 0, 0, 'key', 0, 0, 0),
                       ('late', 0, 1, 0, 0, '', 0, 0, now))
               AS v (topic, state, place, attempts, fence, key, finished, failed, expires);
UPDATE {p}message SET own_id = true;
INSERT INTO {p}key_head (ordering_key, seq)
SELECT ordering_key, seq FROM {p}message WHERE topic = 'head';
INSERT INTO {p}batch (fence, owner, claimed_at, lease_until, open, plain_from, plain_to, others)
SELECT nextval('{p}fence_seq'), 'alice', 0, {p}clock(NULL) + 60000000, 1, seq, seq, '{}'
  FROM {p}message WHERE topic = 'claimed';
SELECT {p}enqueue('plain'), {p}enqueue('urgent', priority => 5),
       {p}enqueue('later', delay_ms => 3600000),
       {p}enqueue('arrived', ordering_key => 'other'))sql";

class postgres_schema_versions : public server_fixture {
protected:
    postgres_schema_versions()
    {
        run("CREATE SCHEMA " + old_);
        run(postgres::sql::migrations.front().text);
        run("INSERT INTO {p}schema (version, name, applied_at) VALUES (1, '0001_outbox', 0)");
        run(old_contents);
    }
    ~postgres_schema_versions() override { run("DROP SCHEMA " + old_ + " CASCADE"); }

    void run(std::string_view text) { db_.execute(db_.with_prefix(text), "test"); }

    std::vector<std::string> claimed_topics(outbox& from, const claim_options& how)
    {
        last_ = from.claim(owner_, how);
        std::vector<std::string> topics;
        for (const auto& each : last_.deliveries)
            topics.push_back(each.topic);
        return topics;
    }

    std::string old_ = conformance::unused_name();
    std::string old_url_ =
        under_test_->url().substr(0, under_test_->url().find('?')) + "?schema=" + old_;
    postgres::connection db_{postgres::location::parse(old_url_)};
    posthorn::owner owner_ = owner::create("bob", *system_.random);
    batch last_;
};

} // namespace

// Proves: OPS-02, I2
TEST_F(postgres_schema_versions, a_store_of_the_first_version_keeps_what_it_holds)
{
    EXPECT_THROW(open(old_url_), error) << "until it is brought up to date";
    const auto report = migrate(old_url_);
    EXPECT_EQ(report.version_before, 1);
    EXPECT_EQ(report.version_after, 15);
    EXPECT_THAT(report.applied,
                ElementsAre("0002_runtime", "0003_joins", "0004_inbox", "0005_leases",
                            "0006_schedules", "0007_offers", "0008_places",
                            "0009_guarded_hand_over", "0010_free_workers", "0011_trusted_names",
                            "0012_at_the_commit", "0013_join_traces", "0014_remote_joins",
                            "0015_long_topics"));
    EXPECT_THAT(migrate(old_url_).applied, IsEmpty());

    auto store = open(old_url_);
    const auto counts = count_messages(store);
    EXPECT_EQ(counts.ready, 5); // head, late, plain, urgent, arrived
    EXPECT_EQ(counts.waiting, 1);
    EXPECT_EQ(counts.delayed, 1);
    EXPECT_EQ(counts.claimed, 1);
    EXPECT_EQ(counts.dead, 1);
    EXPECT_EQ(counts.done, 1);
    EXPECT_EQ(counts.parked, 0);
    for (const auto& each : diagnose(old_url_)) {
        const bool of_the_server = each.check == "durability";
        EXPECT_TRUE(of_the_server || each.level != severity::problem) << each.detail;
    }
}

TEST_F(postgres_schema_versions, messages_of_the_first_version_are_parked_and_come_back)
{
    migrate(old_url_);
    auto store = open(old_url_);
    outbox queue(store);
    EXPECT_THAT(claimed_topics(queue, {.limit = 10}),
                ElementsAre("urgent", "head", "plain", "arrived"));
    std::vector<settlement> all;
    for (const auto& each : last_.receipts())
        all.push_back({each, park(park_reason::paused)});
    EXPECT_EQ(queue.settle(owner_, all).lost(), 0U);
    EXPECT_EQ(count_messages(store).parked, 4);
    EXPECT_THAT(claimed_topics(queue, {.limit = 10}), IsEmpty()) << "the key is still held";

    EXPECT_THAT(claimed_topics(queue, {.limit = 10, .unpark = {"head", "plain", "urgent"}}),
                ElementsAre("urgent", "head", "plain"));
    EXPECT_EQ(queue.acknowledge(owner_, last_.receipts()).settled(), 3U);
    EXPECT_THAT(claimed_topics(queue, {.limit = 10}), ElementsAre("behind"));

    EXPECT_TRUE(pause(store, "orders.*"));
    EXPECT_EQ(list_pauses(store).size(), 1U);
}

// Proves: OPS-02, OUT-02, OUT-20
TEST_F(postgres_schema_versions, a_store_of_the_first_version_takes_long_topics_then)
{
    run("SELECT {p}enqueue('inbox:forged')");
    EXPECT_THROW(run("SELECT {p}enqueue(repeat('x', 256))"), error);
    migrate(old_url_);
    run("SELECT {p}enqueue(repeat('x', 500), 'text'), {p}enqueue(repeat('y', 500), '{}'::jsonb)");
    EXPECT_THROW(run("SELECT {p}enqueue(repeat('x', 501))"), error);
    EXPECT_THROW(run("SELECT {p}enqueue('inbox:forged')"), error);
    auto store = open(old_url_);
    EXPECT_EQ(list_messages(store, {.topic = std::string(500, 'x')}).size(), 1U);
    EXPECT_EQ(list_messages(store, {.topic = "inbox:forged"}).size(), 1U) << "of before";
}

// Proves: OPS-02, OUT-20
TEST_F(postgres_schema_versions, roles_may_do_after_a_migration_what_they_could_before)
{
    const scratch_role worker(*admin_);
    const scratch_role app(*admin_);
    for (const auto& each : postgres::sql::migrations)
        if (each.version > 1 && each.version <= 10) {
            run(each.text);
            run("INSERT INTO {p}schema (version, name, applied_at) VALUES (" +
                std::to_string(each.version) + ", 'x', 0)");
        }
    run("GRANT USAGE ON SCHEMA " + old_ + " TO " + worker.name() + ", " + app.name());
    run("GRANT ALL ON ALL TABLES IN SCHEMA " + old_ + " TO " + worker.name());
    run("GRANT ALL ON ALL SEQUENCES IN SCHEMA " + old_ + " TO " + worker.name());
    run("GRANT EXECUTE ON FUNCTION {p}enqueue(text, text, text, integer, bigint, bigint, text, "
        "bigint, text, text, jsonb, uuid, boolean) TO " +
        app.name());
    run("GRANT EXECUTE ON FUNCTION {p}enqueue(text, bytea, text, integer, bigint, bigint, text, "
        "bigint, text, text, jsonb, uuid, boolean) TO " +
        app.name());
    migrate(old_url_);

    auto url = url_as(worker.name());
    auto store = open(url.replace(url.find(schema_), schema_.size(), old_));
    outbox queue(store);
    EXPECT_THAT(claimed_topics(queue, {.limit = 1}), ElementsAre("urgent"));
    run("SET ROLE " + app.name());
    run("SELECT {p}enqueue('text', 'x'), {p}enqueue('json', '{}'::jsonb), "
        "{p}enqueue('json', '{}'::json)");
    EXPECT_THROW(run("SELECT {p}clock(NULL)"), error);
    run("RESET ROLE");
}

} // namespace posthorn::test
