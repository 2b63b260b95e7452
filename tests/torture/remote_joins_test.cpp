// Joins in one engine with members in another, whose workers are killed at random, or whose servers
// are away for a while: every join comes to its end, has counted each of its members once, and is
// continued once.
//
// POSTHORN_TORTURE_REMOTE_JOINS=n is for people with time: n joins of six members instead of 200.
#include "torture/own_server.hpp"
#include "torture/scene.hpp"
#include <posthorn/joins.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace posthorn::torture {
namespace {

using namespace std::chrono_literals;

constexpr int members_here = 3;
constexpr int members_there = 3;

std::size_t remote_joins_wanted()
{
    const char* told = std::getenv("POSTHORN_TORTURE_REMOTE_JOINS");
    return told != nullptr ? static_cast<std::size_t>(std::atoll(told)) : 200;
}

struct pair_of_engines {
    std::string near;
    std::string far;

    friend void PrintTo(const pair_of_engines& which, std::ostream* out)
    {
        *out << which.near << " and " << which.far;
    }
};

conformance::store_kind kind_named(const std::string& name)
{
    for (const auto& each : kinds_for_processes())
        if (each.name == name)
            return each;
    throw std::runtime_error("no store of the kind " + name);
}

// Joins in one scene with members in both.
class two_scenes {
public:
    two_scenes(scene& near, scene& far) : near_(near), far_(far) {}

    void open_one(std::size_t number)
    {
        auto here = near_.db().begin();
        const auto join = open_join(here, {.expected = members_here + members_there,
                                           .on_complete = message{"ordinary", "completed"},
                                           .on_fail = message{"ordinary", "failed"}});
        for (int i = 0; i < members_here; ++i)
            near_members_[join].push_back(enqueue(here, what_for(number, i), {.join = join}).id);
        here.commit();
        auto there = far_.db().begin();
        for (int i = members_here; i < members_here + members_there; ++i) {
            const auto id = enqueue(there, what_for(number, i)).id;
            attach(there, remote_join{"near", join}, id);
            far_members_[join].push_back(id);
        }
        there.commit();
    }

    // Some that always fail, on either side, and some that fail once.
    static message what_for(std::size_t number, int member)
    {
        const bool fails = (number % 20 == 0 && member == 1) || (number % 20 == 7 && member == 4);
        const bool limps = number % 7 == 0 && member >= 4;
        return {.topic = fails || limps ? "failing" : "ordinary", .payload = fails ? "1000" : "1"};
    }

    std::size_t pending()
    {
        return list_joins(near_.db(), {.state = join_state::pending, .limit = 100'000}).size();
    }

    // At either of them: its store must be there when the worker begins.
    std::string start_at(scene& where)
    {
        return where.start_worker({"--concurrency", "16", "--attempts-max", "8", "--among",
                                   "near=" + near_.url(), "--among", "far=" + far_.url()});
    }

    static std::pair<std::int64_t, std::int64_t> ends_of(store& where,
                                                         const std::vector<message_id>& ids)
    {
        std::pair<std::int64_t, std::int64_t> done_and_dead;
        for (const auto& id : ids) {
            const auto found = find_message(where, id);
            const auto state = found ? found->state : message_state::ready;
            done_and_dead.first += state == message_state::done ? 1 : 0;
            done_and_dead.second += state == message_state::dead ? 1 : 0;
        }
        return done_and_dead;
    }

    std::map<std::string, int> continuations()
    {
        std::map<std::string, int> result;
        for (std::int64_t after = 0;;) {
            const auto page = list_messages(near_.db(), {.after_position = after, .limit = 5'000});
            for (const auto& each : page) {
                after = each.position;
                if (const auto join = each.headers.find(join_header); join != each.headers.end())
                    ++result[join->second];
            }
            if (page.size() < 5'000)
                return result;
        }
    }

    /// Of the members in the other store.
    std::size_t ended_far()
    {
        std::size_t result = 0;
        for (const auto& [join, ids] : far_members_) {
            const auto [done, dead] = ends_of(far_.db(), ids);
            result += static_cast<std::size_t>(done + dead);
        }
        return result;
    }

    /// Joins of which all members in their own store have been counted.
    std::size_t counted_near()
    {
        const auto all = list_joins(near_.db(), {.limit = 100'000});
        return static_cast<std::size_t>(std::ranges::count_if(
            all, [](const auto& join) { return join.completed + join.failed >= members_here; }));
    }

    void expect_exact_ends(std::size_t count);

private:
    scene& near_;
    scene& far_;
    std::map<join_id, std::vector<message_id>> near_members_;
    std::map<join_id, std::vector<message_id>> far_members_;
};

void two_scenes::expect_exact_ends(std::size_t count)
{
    auto continued = continuations();
    std::size_t wrong = 0;
    for (const auto& join : list_joins(near_.db(), {.limit = 100'000})) {
        const auto here = ends_of(near_.db(), near_members_.at(join.id));
        const auto there = ends_of(far_.db(), far_members_.at(join.id));
        const bool well = join.state == join_state::completed;
        const bool exact = join.completed == here.first + there.first &&
                           join.failed == here.second + there.second &&
                           join.attached == members_here + members_there &&
                           well == (join.failed == 0) && continued[to_string(join.id)] == 1 &&
                           list_remote_members(near_.db(), join.id).size() == members_there;
        wrong += exact ? 0U : 1U;
    }
    EXPECT_EQ(wrong, 0U) << "of " << count << " joins";
    EXPECT_EQ(continued.size(), count);
    const auto dead = list_messages(
        far_.db(), {.state = message_state::dead, .topic = std::string(join_report_topic)});
    EXPECT_EQ(dead.size(), 0U) << "a report was refused: "
                               << (dead.empty() ? "" : dead[0].last_error);
}

// A connection of before may fail once.
bool comes_true(const std::function<bool()>& condition, duration at_most)
{
    return wait_until(
        [&] {
            try {
                return condition();
            } catch (const error&) {
                return false;
            }
        },
        at_most);
}

class killed_remote_joins : public ::testing::TestWithParam<pair_of_engines> {
protected:
    scene near_{kind_named(GetParam().near)};
    scene far_{kind_named(GetParam().far)};
};

// Proves: JOIN-024, JOIN-025, I10, I11, I20, F1
TEST_P(killed_remote_joins, all_end_with_exact_counts_and_one_continuation_each)
{
    const auto count = remote_joins_wanted();
    two_scenes both(near_, far_);
    for (std::size_t i = 0; i < count; ++i)
        both.open_one(i);
    std::vector<std::string> workers{both.start_at(near_), both.start_at(near_)};
    std::mt19937 draw(static_cast<unsigned>(environment::system().random->bits()));
    const std::size_t kills = 6 + count / 50;
    for (std::size_t i = 0; i < kills && both.pending() > 0; ++i) {
        environment::system().clock->pause(std::chrono::milliseconds{50 + draw() % 450});
        auto& victim = workers[draw() % workers.size()];
        near_.kill(victim);
        victim = both.start_at(near_);
    }
    const auto at_most = 60s + std::chrono::milliseconds{300 * count};
    EXPECT_TRUE(wait_until([&] { return both.pending() == 0; }, at_most))
        << both.pending() << " joins are pending\n"
        << near_.log();
    ASSERT_TRUE(wait_until([&] { return near_.is_drained() && far_.is_drained(); }, 60s))
        << near_.log();
    near_.stop_all();
    both.expect_exact_ends(count);
}

INSTANTIATE_TEST_SUITE_P(stores, killed_remote_joins,
                         ::testing::Values(pair_of_engines{"sqlite_file", "postgres"},
                                           pair_of_engines{"postgres", "mariadb"},
                                           pair_of_engines{"mariadb", "sqlite_file"}),
                         [](const auto& each) { return each.param.near + "_" + each.param.far; });

// Proves: JOIN-025, I10, I11, I20, F2
TEST(remote_joins_of_servers, end_exactly_though_each_server_is_away_for_a_while)
{
    constexpr std::size_t each = 30;
    own_server near_server("postgres");
    own_server far_server("mariadb");
    migrate(near_server.url());
    migrate(far_server.url());
    scene near(near_server.url(), near_server.table());
    scene far(far_server.url(), far_server.table());
    two_scenes both(near, far);
    for (std::size_t i = 0; i < each; ++i)
        both.open_one(i);
    near_server.kill();
    both.start_at(far);
    EXPECT_TRUE(comes_true([&] { return both.ended_far() == each * members_there; }, 60s))
        << far.log();
    EXPECT_FALSE(far.is_drained()) << "reports wait for the server of the joins";
    near_server.start();
    EXPECT_TRUE(comes_true([&] { return both.pending() == 0; }, 120s)) << far.log();

    for (std::size_t i = each; i < 2 * each; ++i)
        both.open_one(i);
    far_server.kill();
    EXPECT_TRUE(comes_true([&] { return both.counted_near() == 2 * each; }, 120s)) << far.log();
    far_server.start();
    EXPECT_TRUE(comes_true([&] { return both.pending() == 0; }, 120s)) << far.log();
    EXPECT_TRUE(comes_true([&] { return near.is_drained() && far.is_drained(); }, 60s))
        << far.log();
    far.stop_all();
    both.expect_exact_ends(2 * each);
}

} // namespace
} // namespace posthorn::torture
