// Eight processes that want the same lease, killed and stopped at random, while its row is deleted.
// Triggers write down what really happened to the row, and the processes what they believed.
//
// POSTHORN_TORTURE_LEASES=n is for people with time: n rounds instead of 30.
#include "checker/scratch_folder.hpp"
#include "conformance/store_under_test.hpp"
#include "torture/process.hpp"
#include "torture/scene.hpp"
#include <posthorn/leases.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace posthorn::torture {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t contenders = 8;
constexpr auto lease_ms = "400";
const std::string wanted = "the lease";

int rounds_of_leases()
{
    const char* told = std::getenv("POSTHORN_TORTURE_LEASES");
    return told != nullptr ? std::atoi(told) : 30;
}

/// A store whose lease table is watched by triggers.
class watched_leases {
public:
    explicit watched_leases(const conformance::store_kind& kind)
        : kind_(kind.name), made_(kind.make()), client_(made_->connect(environment::system()))
    {
        const auto url = made_->url();
        if (kind_ == "postgres")
            prefix_ = url.substr(url.find("schema=") + 7) + ".";
        if (kind_ != "sqlite_file") // whoever was stopped while writing is not waited for
            client_->execute(kind_ == "postgres" ? "SET lock_timeout = '1s'"
                                                 : "SET innodb_lock_wait_timeout = 1");
        create_tables();
        create_triggers();
    }

    [[nodiscard]] std::string url() const { return made_->url(); }
    [[nodiscard]] std::string effects() const { return prefix_ + "effects"; }
    [[nodiscard]] std::int64_t count(const std::string& sql) { return client_->count(named(sql)); }

    /// As a clean-up would: only what nobody has.
    void delete_free_rows() { client_->execute(named("DELETE FROM LEASE WHERE owner = ''")); }

    [[nodiscard]] std::int64_t grants()
    {
        return count("SELECT count(DISTINCT fence) FROM AUDIT WHERE owner <> ''");
    }

    /// Each should be 0.
    std::map<std::string, std::int64_t> violations()
    {
        return {
            {"fences that became smaller",
             count("SELECT count(*) FROM (SELECT fence, lag(fence) OVER (ORDER BY id) AS earlier "
                   "FROM AUDIT) t WHERE fence < earlier")},
            {"fences that two had",
             count("SELECT count(*) FROM (SELECT fence FROM AUDIT WHERE owner <> '' "
                   "GROUP BY fence HAVING count(DISTINCT owner) > 1) t")},
            {"grants that began before the one before had ended",
             count("SELECT count(*) FROM (SELECT g.granted, lag(b.expires) OVER (ORDER BY g.fence) "
                   "AS ended FROM (SELECT fence, min(granted) AS granted, max(id) AS last "
                   "FROM AUDIT WHERE granted > 0 GROUP BY fence) g "
                   "JOIN AUDIT b ON b.id = g.last) t WHERE granted < ended")},
            {"writes of earlier holders after those of later ones",
             count("SELECT count(*) FROM (SELECT fence, lag(fence) OVER (ORDER BY id) AS earlier "
                   "FROM EFFECTS) t WHERE fence < earlier")},
        };
    }

    /// One of each kind, for a test of the test.
    void forge()
    {
        // 902 is granted to two, and before 901 is over; then the row has an earlier fence.
        for (const std::string row :
             {"(901, 'a', 9000000000000000000, 9000000000000000100)",
              "(902, 'b', 9000000000000000050, 9000000000000000200)",
              "(902, 'c', 9000000000000000050, 9000000000000000200)", "(899, '', 0, 0)"})
            client_->execute(
                named("INSERT INTO AUDIT (fence, owner, granted, expires) VALUES " + row));
        for (const std::string fence : {"902", "901"})
            client_->execute(named("INSERT INTO EFFECTS (fence) VALUES (" + fence + ")"));
    }

private:
    /// The SQL, with the names that the tables have on this engine.
    [[nodiscard]] std::string named(std::string sql) const
    {
        const std::pair<std::string, std::string> names[] = {
            {"EFFECTS", effects()}, {"AUDIT", prefix_ + "audit"}, {"LEASE", lease()}};
        for (const auto& [word, name] : names)
            for (auto at = sql.find(word); at != std::string::npos; at = sql.find(word))
                sql.replace(at, word.size(), name);
        return sql;
    }

    [[nodiscard]] std::string lease() const
    {
        return kind_ == "postgres" ? prefix_ + "lease" : "posthorn_lease";
    }

    void create_tables()
    {
        const std::string id = kind_ == "postgres"  ? "id bigserial PRIMARY KEY"
                               : kind_ == "mariadb" ? "id BIGINT AUTO_INCREMENT PRIMARY KEY"
                                                    : "id INTEGER PRIMARY KEY AUTOINCREMENT";
        client_->execute(named("CREATE TABLE EFFECTS (" + id + ", fence BIGINT NOT NULL)"));
        client_->execute(named("CREATE TABLE AUDIT (" + id +
                               ", fence BIGINT, owner VARCHAR(64), granted BIGINT, "
                               "expires BIGINT)"));
    }

    void create_triggers()
    {
        const std::string granted = kind_ == "sqlite_file" ? "granted_at" : "acquired_at";
        const auto note = named("INSERT INTO AUDIT (fence, owner, granted, expires) VALUES "
                                "(NEW.fence, NEW.owner, NEW." +
                                granted + ", NEW.expires_at)");
        if (kind_ == "postgres") {
            client_->execute("CREATE FUNCTION " + prefix_ +
                             "note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN " + note +
                             "; RETURN NULL; END $$");
            client_->execute("CREATE TRIGGER note AFTER INSERT OR UPDATE ON " + lease() +
                             " FOR EACH ROW EXECUTE FUNCTION " + prefix_ + "note()");
            return;
        }
        for (const std::string when : {"INSERT", "UPDATE"})
            client_->execute("CREATE TRIGGER note_" + when + " AFTER " + when + " ON " + lease() +
                             " FOR EACH ROW " +
                             (kind_ == "mariadb" ? note : "BEGIN " + note + "; END"));
    }

    std::string kind_;
    std::unique_ptr<conformance::store_under_test> made_;
    std::unique_ptr<conformance::native_connection> client_;
    std::string prefix_;
};

struct belief {
    std::int64_t fence = 0;
    std::int64_t when = 0;
};

class contended_leases : public ::testing::TestWithParam<conformance::store_kind> {
protected:
    struct one {
        std::string history;
        std::unique_ptr<process> runs;
        bool paused = false;
    };

    std::unique_ptr<process> start(const std::string& history, const std::string& gate = {})
    {
        std::vector<std::string> arguments{LEASE_CONTENDER, where_.url(),     wanted,
                                           lease_ms,        where_.effects(), history};
        if (!gate.empty())
            arguments.push_back(gate);
        return std::make_unique<process>(arguments, folder_.file("log"));
    }

    void start_all()
    {
        for (std::size_t i = 0; i < contenders; ++i) {
            const auto history = folder_.file("history" + std::to_string(i)).string();
            all_.push_back({.history = history, .runs = start(history)});
        }
    }

    void torture_one(std::mt19937& chance)
    {
        auto& victim = all_[chance() % all_.size()];
        switch (chance() % 5) {
        case 0:
        case 1:
            victim.runs->send(SIGKILL);
            victim.runs = start(victim.history);
            break;
        case 2:
        case 3:
            victim.runs->send(victim.paused ? SIGCONT : SIGSTOP);
            victim.paused = !victim.paused;
            break;
        default: delete_row(); break;
        }
        world_.clock->pause(std::chrono::milliseconds{chance() % 150});
        // Somebody must be left to take the lease; and where one writes at a time, whoever was
        // stopped while writing keeps all others waiting.
        if (chance() % 4 == 0)
            resume_all();
    }

    void delete_row()
    {
        try {
            where_.delete_free_rows();
        } catch (const std::exception& busy) {
            RecordProperty("busy", busy.what()); // somebody was stopped while writing
        }
    }

    void resume_all()
    {
        for (auto& each : all_)
            if (std::exchange(each.paused, false))
                each.runs->send(SIGCONT);
    }

    void stop_all()
    {
        resume_all();
        for (auto& each : all_)
            each.runs->send(SIGTERM);
        for (auto& each : all_)
            EXPECT_EQ(each.runs->wait(60s), 0) << folder_.read("log");
    }

    /// What all of them were sure of.
    std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>> beliefs()
    {
        std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>> result;
        for (const auto& each : all_) {
            std::ifstream lines(each.history);
            std::string what;
            for (belief next; lines >> what >> next.fence >> next.when;) {
                if (what != "held")
                    continue;
                auto& [first, last] =
                    result.try_emplace(next.fence, next.when, next.when).first->second;
                first = std::min(first, next.when);
                last = std::max(last, next.when);
            }
        }
        return result;
    }

    void expect_no_two_believers()
    {
        std::int64_t fence_before = 0;
        std::int64_t believed_until = 0;
        for (const auto& [fence, times] : beliefs()) {
            EXPECT_GT(times.first, believed_until)
                << "the holder with fence " << fence_before << " still believed when the one with "
                << fence << " began";
            fence_before = fence;
            believed_until = times.second;
        }
    }

    void expect_nothing_wrong()
    {
        for (const auto& [what, count] : where_.violations())
            EXPECT_EQ(count, 0) << what;
        expect_no_two_believers();
    }

    environment world_ = environment::system();
    watched_leases where_{GetParam()};
    checker::scratch_folder folder_;
    std::vector<one> all_;
};

} // namespace

// Proves: LSE-01, LSE-02, LSE-04, I12, I13, F1, F15
TEST_P(contended_leases, never_have_two_holders_whoever_is_killed_or_stopped)
{
    const auto seed = static_cast<unsigned>(world_.random->bits());
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 chance(seed);
    start_all();
    ASSERT_TRUE(wait_until([&] { return where_.grants() >= 3; }, 60s)) << folder_.read("log");
    const auto rounds = rounds_of_leases();
    for (int i = 0; i < rounds && !HasFailure(); ++i)
        torture_one(chance);
    resume_all();
    const auto so_far = where_.grants();
    ASSERT_TRUE(wait_until([&] { return where_.grants() >= so_far + 5; }, 60s))
        << "nobody gets the lease any more: " << folder_.read("log");
    stop_all();
    expect_nothing_wrong();
    EXPECT_GT(where_.count("SELECT count(*) FROM EFFECTS"), 0);
}

// Proves: LSE-02, LSE-04, I12, I13, F15
TEST_P(contended_leases, a_holder_that_stood_still_is_refused_whatever_it_believes)
{
    const auto gate = folder_.file("gate").string();
    const auto history = folder_.file("history").string();
    const auto zombie = start(history, gate);
    ASSERT_TRUE(wait_until([&] { return folder_.read("history").starts_with("held"); }))
        << folder_.read("log");
    zombie->stop_and_wait();

    auto db = open(where_.url());
    const auto next = acquire_lease(db, wanted, 60s);
    ASSERT_TRUE(next);
    std::ofstream(gate).put('\n');
    zombie->send(SIGCONT);
    EXPECT_EQ(zombie->wait(60s), 0) << folder_.read("log");
    const auto told = folder_.read("history");
    EXPECT_THAT(told, ::testing::MatchesRegex("held [0-9]+ [0-9]+\nrefused [0-9]+ 0\n"))
        << "and it knew: 0 is that it did not believe";
    EXPECT_EQ(where_.count("SELECT count(*) FROM EFFECTS"), 0);
    EXPECT_TRUE(next->is_held());
    expect_nothing_wrong();
}

// The suite must be able to fail: rows like these would be found.
TEST_P(contended_leases, what_must_not_be_is_found)
{
    auto db = open(where_.url());
    (void)try_lease(db, wanted);
    expect_nothing_wrong();
    where_.forge();
    const auto found = where_.violations();
    for (const auto& [what, count] : found)
        EXPECT_EQ(count, 1) << what;
}

INSTANTIATE_TEST_SUITE_P(stores, contended_leases, ::testing::ValuesIn(kinds_for_processes()),
                         [](const auto& kind) { return kind.param.name; });

} // namespace posthorn::torture
