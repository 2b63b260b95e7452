// Joins in one engine with members in another, whose workers are killed at random: every join comes
// to its end, has counted each of its members once, and is continued once.
//
// POSTHORN_TORTURE_REMOTE_JOINS=n is for people with time: n joins of six members instead of 200.
#include "torture/scene.hpp"
#include <posthorn/joins.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
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

class killed_remote_joins : public ::testing::TestWithParam<pair_of_engines> {
protected:
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

    std::string start()
    {
        return near_.start_worker({"--concurrency", "16", "--attempts-max", "8", "--among",
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

    scene near_{kind_named(GetParam().near)};
    scene far_{kind_named(GetParam().far)};
    std::map<join_id, std::vector<message_id>> near_members_;
    std::map<join_id, std::vector<message_id>> far_members_;
};

// Proves: JOIN-024, JOIN-025, I10, I11, I20, F1
TEST_P(killed_remote_joins, all_end_with_exact_counts_and_one_continuation_each)
{
    const auto count = remote_joins_wanted();
    for (std::size_t i = 0; i < count; ++i)
        open_one(i);
    std::vector<std::string> workers{start(), start()};
    std::mt19937 draw(static_cast<unsigned>(environment::system().random->bits()));
    const std::size_t kills = 6 + count / 50;
    for (std::size_t i = 0; i < kills && pending() > 0; ++i) {
        environment::system().clock->pause(std::chrono::milliseconds{50 + draw() % 450});
        auto& victim = workers[draw() % workers.size()];
        near_.kill(victim);
        victim = start();
    }
    const auto at_most = 60s + std::chrono::milliseconds{300 * count};
    EXPECT_TRUE(wait_until([&] { return pending() == 0; }, at_most))
        << pending() << " joins are pending\n"
        << near_.log();
    ASSERT_TRUE(wait_until([&] { return near_.is_drained() && far_.is_drained(); }, 60s))
        << near_.log();
    near_.stop_all();

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

INSTANTIATE_TEST_SUITE_P(stores, killed_remote_joins,
                         ::testing::Values(pair_of_engines{"sqlite_file", "postgres"},
                                           pair_of_engines{"postgres", "mariadb"},
                                           pair_of_engines{"mariadb", "sqlite_file"}),
                         [](const auto& each) { return each.param.near + "_" + each.param.far; });

} // namespace
} // namespace posthorn::torture
