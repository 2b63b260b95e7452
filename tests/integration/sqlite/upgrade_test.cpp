// A store of the first version, with messages in every state, is migrated and goes on.
#include "conformance/conformance_test.hpp"
#include "integration/sqlite/temporary_store.hpp"
#include "store/contract/backend.hpp"
#include "store/sqlite/connection.hpp"
#include "store/sqlite/statements.hpp"

#include <string>

namespace posthorn::test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class sqlite_upgrade : public ::testing::Test {
protected:
    sqlite_upgrade()
    {
        sqlite::connection db(path(), sqlite::connection::access::create,
                              {.prefix = "posthorn_", .environment = environment::system()});
        db.execute(db.with_prefix(sqlite::sql::migrations[0].text), "make version 1");
        // What the library of that time had left behind, down to a batch that somebody holds.
        db.execute(R"(
            INSERT INTO posthorn_schema (version, name, applied_at) VALUES (1, '0001_outbox', 0);
            INSERT INTO posthorn_enqueue (topic, payload) VALUES ('held', ''), ('plain', '');
            INSERT INTO posthorn_enqueue (topic, ordering_key, expires_after_ms)
                VALUES ('head', 'k', NULL), ('behind', 'k', NULL), ('dead', 'd', NULL),
                       ('blocked', 'd', NULL), ('retrying', NULL, 3600000);
            UPDATE posthorn_queue SET state = 3, finished_at = due_at, attempts = 1, errors = 1,
                                      last_error = 'broken' WHERE seq = 5;
            UPDATE posthorn_queue SET attempts = 2, errors = 2, last_error = 'twice' WHERE seq = 7;
            UPDATE posthorn_log SET claimed_to = 1, last_fence = 1;
            INSERT INTO posthorn_batch (fence, owner, worker, claimed_at, lease_until, open,
                                        members, settled, starts)
                SELECT 1, 'token', 'worker', created_at, created_at + 3600000000, 1, X'04', X'00',
                       CAST('A' AS BLOB) FROM posthorn_message WHERE seq = 1;)",
                   "fill version 1");
    }

    [[nodiscard]] std::string path() const { return folder_.file("store.db"); }
    [[nodiscard]] std::string url() const { return "sqlite:" + path(); }

    const owner me{.token = "token", .worker = "worker"};

private:
    temporary_folder folder_;
};

// Proves: OPS-02
TEST_F(sqlite_upgrade, an_old_store_is_not_opened_before_it_is_migrated)
{
    const auto said = conformance::thrown_by([&] { (void)sqlite::open(url()); });
    EXPECT_EQ(said.code(), error_code::schema_outdated);
}

// Proves: OPS-02, I2
TEST_F(sqlite_upgrade, everything_is_where_it_was_and_the_store_is_well)
{
    const auto report = sqlite::migrate(url());
    EXPECT_EQ(report.version_before, 1);
    EXPECT_EQ(report.version_after, 10);
    EXPECT_THAT(report.applied,
                ElementsAre("0002_runtime", "0003_joins", "0004_inbox", "0005_leases",
                            "0006_schedules", "0007_utf8", "0008_join_traces", "0009_remote_joins",
                            "0010_long_topics"));
    EXPECT_THAT(sqlite::migrate(url()).applied, IsEmpty());
    for (const auto& each : sqlite::diagnose(url()))
        EXPECT_NE(each.level, severity::problem) << each.check << ": " << each.detail;

    auto db = sqlite::open(url());
    std::vector<std::pair<std::string, message_state>> seen;
    for (const auto& each : list_messages(db)) {
        seen.emplace_back(each.topic, each.state);
        EXPECT_EQ(each.parked_for, std::nullopt);
    }
    EXPECT_EQ(seen, (std::vector<std::pair<std::string, message_state>>{
                        {"held", message_state::claimed},
                        {"plain", message_state::ready},
                        {"head", message_state::ready},
                        {"behind", message_state::waiting},
                        {"dead", message_state::dead},
                        {"blocked", message_state::waiting},
                        {"retrying", message_state::ready}}));
    EXPECT_EQ(count_messages(db).parked, 0);
    EXPECT_THAT(list_pauses(db), IsEmpty());
}

// Proves: OPS-02, OUT-02, OUT-20
TEST_F(sqlite_upgrade, the_view_takes_long_topics_then)
{
    sqlite::migrate(url());
    sqlite::connection app(path(), sqlite::connection::access::existing,
                           {.prefix = "posthorn_", .environment = environment::system()});
    const auto send = [&](const std::string& topic) {
        app.execute("INSERT INTO posthorn_enqueue (topic) VALUES ('" + topic + "')", "send");
    };
    send(std::string(500, 'x'));
    EXPECT_THROW(send(std::string(501, 'x')), error);
    EXPECT_THROW(send("inbox:forged"), error);
    EXPECT_THROW(send("\xff"), error) << "text must still be UTF-8";
    auto db = sqlite::open(url());
    EXPECT_THAT(list_messages(db, {.topic = std::string(500, 'x')}), SizeIs(1));
    EXPECT_EQ(count_messages(db).ready, 4) << "one more than before";
}

// Proves: OPS-02, OUT-15
TEST_F(sqlite_upgrade, what_is_new_works_on_what_is_old)
{
    sqlite::migrate(url());
    auto db = sqlite::open(url());
    outbox box(db);
    EXPECT_TRUE(pause(db, "head"));
    EXPECT_TRUE(db.backend().outlook().due);

    // The batch that was claimed before, and everything that is due now.
    auto all = box.claim(me).receipts();
    ASSERT_THAT(all, SizeIs(3));
    all.push_back({.id = list_messages(db, {.topic = "held"}).at(0).id,
                   .position = 1,
                   .fence = fence{1},
                   .ordinal = 0});
    std::vector<settlement> aside;
    for (const auto& each : all)
        aside.push_back({each, park(park_reason::paused)});
    EXPECT_THAT(box.settle(me, aside).answers, Each(settled_as::parked));
    EXPECT_EQ(count_messages(db).parked, 4);
    EXPECT_THAT(db.backend().outlook().parked, SizeIs(4));

    const auto back =
        box.claim(me, {.unpark = {"held", "plain", "head", "retrying", "behind", "nothing"}});
    std::vector<std::pair<std::string, int>> attempts;
    for (const auto& each : back.deliveries)
        attempts.emplace_back(each.topic, each.attempt);
    EXPECT_THAT(attempts,
                ::testing::UnorderedElementsAre(std::pair("held", 1), std::pair("plain", 1),
                                                std::pair("head", 1), std::pair("retrying", 3)));
    EXPECT_THAT(box.acknowledge(me, back.receipts()).answers, Each(settled_as::done));
    EXPECT_THAT(box.claim(me).deliveries, SizeIs(1)) << "what waited behind the head";
    EXPECT_TRUE(resume(db, "head"));
}

} // namespace
} // namespace posthorn::test
