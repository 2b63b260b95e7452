// Workers that stand still past their lease, or die in the middle of a handler's transaction: what
// they come back with counts for nothing, and no effect is there twice.
#include "torture/effects.hpp"
#include "torture/scene.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace posthorn::torture {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const checker::bounds allowed_to_zombies{.attempts_max = 50, .clock_tolerance = 5ms};

class zombies : public ::testing::TestWithParam<conformance::store_kind> {
protected:
    /// A handler's open transaction keeps everybody else from writing, wherever it stands.
    [[nodiscard]] static bool one_writer_at_a_time() { return GetParam().name == "sqlite_file"; }

    static void open_gate(const std::string& path) { std::ofstream(path).put('\n'); }

    /// Waits until a handler has written its row and waits in its transaction.
    void wait_for_handler(message_id id, const std::string& gate)
    {
        ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(gate + ".inside"); }))
            << where_.log();
        ASSERT_EQ(where_.look(id).attempts, 1);
    }

    /// Stops a worker, but not in the middle of a claim or a renewal: everybody would wait for the
    /// locks of its transaction.
    bool pause_between_writes(const std::string& name)
    {
        return wait_until([&] {
            where_.pause(name);
            // Twice, for the server may still be about to do what it was told before.
            bool between = nobody_writes();
            if (between) {
                environment::system().clock->pause(150ms);
                between = nobody_writes();
            }
            if (!between)
                where_.resume(name);
            return between;
        });
    }

    bool nobody_writes()
    {
        try {
            auto tx = where_.db().begin(); // the only one, where one writes at a time
            const auto& kind = GetParam().name;
            if (kind == "postgres")
                return count_in(tx, where_.url(),
                                "SELECT count(*) FROM pg_locks JOIN pg_class c ON c.oid = relation "
                                "WHERE pid <> pg_backend_pid() AND mode LIKE 'Row%' AND "
                                "c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = '" +
                                    where_.url().substr(where_.url().find("schema=") + 7) + "')") ==
                       0;
            if (kind == "mariadb")
                return count_in(tx, where_.url(),
                                "SELECT count(*) FROM information_schema.innodb_trx JOIN "
                                "information_schema.processlist ON id = trx_mysql_thread_id "
                                "WHERE db = DATABASE() AND id <> CONNECTION_ID()") == 0;
            return true;
        } catch (const error& failure) {
            EXPECT_EQ(failure.code(), error_code::busy) << failure.what();
            return false;
        }
    }

    bool lease_is_over(message_id id)
    {
        const auto seen = where_.look(id);
        return seen.state == message_state::claimed && seen.lease_until &&
               *seen.lease_until < where_.now();
    }

    void expect_nothing_wrong()
    {
        const auto judged = where_.judged(allowed_to_zombies);
        EXPECT_THAT(judged.violations(), IsEmpty()) << to_text(judged) << where_.log();
        EXPECT_THAT(where_.wrong_effects(), IsEmpty()) << where_.log();
    }

    scene where_{GetParam()};
};

} // namespace

// Proves: OUT-10, I3, I4, F15
TEST_P(zombies, what_a_worker_says_after_its_lease_has_passed_on_changes_nothing)
{
    const auto gate = where_.file("gate");
    const auto id = where_.add({"gate", gate});
    // Long enough to stop it before it renews: who stands still in a transaction keeps its locks.
    const auto zombie = where_.start_worker({"--lease", "2000"});
    ASSERT_TRUE(wait_until([&] { return where_.starts_of(zombie) == 1; })) << where_.log();
    ASSERT_TRUE(pause_between_writes(zombie));

    const auto other = where_.start_worker();
    ASSERT_TRUE(wait_until([&] { return where_.is_done(id); })) << where_.log();
    const auto done_by_other = where_.look(id);
    EXPECT_EQ(done_by_other.worker, other);

    open_gate(gate);
    where_.resume(zombie);
    ASSERT_TRUE(wait_until([&] { return !where_.answers_to(zombie).empty(); })) << where_.log();
    EXPECT_THAT(where_.answers_to(zombie), ElementsAre(settled_as::lost));
    const auto after = where_.look(id);
    EXPECT_EQ(after.state, message_state::done);
    EXPECT_EQ(after.worker, other);
    EXPECT_EQ(after.attempts, 2);
    EXPECT_EQ(after.finished_at, done_by_other.finished_at);

    // It is a worker like any other again.
    where_.stop(other);
    const auto next = where_.add({"ordinary", "x"});
    EXPECT_TRUE(wait_until([&] { return where_.is_done(next); })) << where_.log();
    where_.stop_all();
    expect_nothing_wrong();
}

// Proves: OUT-19, I4, F15
TEST_P(zombies, a_transaction_that_ends_after_its_lease_has_passed_on_leaves_nothing)
{
    const auto gate = where_.file("gate");
    const auto id = where_.add({"inside", gate});
    const auto zombie = where_.start_worker();
    wait_for_handler(id, gate);
    where_.pause(zombie);

    where_.start_worker();
    if (one_writer_at_a_time()) {
        ASSERT_TRUE(wait_until([&] { return lease_is_over(id); })) << where_.log();
    } else {
        ASSERT_TRUE(wait_until([&] { return where_.is_done(id); })) << where_.log();
        EXPECT_EQ(where_.effects_of(id), 1);
    }
    open_gate(gate);
    where_.resume(zombie);
    ASSERT_TRUE(wait_until([&] { return !where_.answers_to(zombie).empty(); })) << where_.log();
    if (!one_writer_at_a_time()) {
        EXPECT_THAT(where_.answers_to(zombie), ElementsAre(settled_as::lost));
    }
    ASSERT_TRUE(wait_until([&] { return where_.is_drained(); })) << where_.log();
    where_.stop_all();
    EXPECT_EQ(where_.effects_of(id), 1);
    expect_nothing_wrong();
}

// Proves: OUT-19, I6, F1
TEST_P(zombies, a_worker_killed_in_a_handlers_transaction_leaves_no_effect)
{
    const auto gate = where_.file("gate");
    const auto id = where_.add({"inside", gate});
    const auto first = where_.start_worker();
    wait_for_handler(id, gate);
    where_.kill(first);
    EXPECT_EQ(where_.effects_of(id), 0);

    where_.start_worker();
    ASSERT_TRUE(wait_until([&] { return where_.is_drained(); })) << where_.log();
    where_.stop_all();
    EXPECT_EQ(where_.look(id).attempts, 2);
    EXPECT_EQ(where_.effects_of(id), 1);
    expect_nothing_wrong();
}

// The suite must be able to fail: the same kill finds a handler out that commits by itself.
TEST_P(zombies, an_effect_that_is_committed_apart_from_its_message_is_found_twice)
{
    const auto gate = where_.file("gate");
    const auto id = where_.add({"inside", gate});
    const auto first = where_.start_worker({"--broken", "apart"});
    wait_for_handler(id, gate);
    where_.kill(first);
    where_.start_worker({"--broken", "apart"});
    ASSERT_TRUE(wait_until([&] { return where_.is_drained(); })) << where_.log();
    where_.stop_all();
    EXPECT_EQ(where_.effects_of(id), 2);
    EXPECT_THAT(where_.wrong_effects(), Contains(HasSubstr("has taken effect 2 times")));
}

INSTANTIATE_TEST_SUITE_P(stores, zombies, ::testing::ValuesIn(kinds_for_processes()),
                         [](const auto& kind) { return kind.param.name; });

} // namespace posthorn::torture
