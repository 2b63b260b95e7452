// Joins whose workers are killed at random: every one comes to its end, has counted each of its
// members once, and is continued once.
//
// POSTHORN_TORTURE_JOINS=n is for people with time: n joins of ten members instead of 2,000.
#include "torture/scene.hpp"
#include <posthorn/joins.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace posthorn::torture {
namespace {

using namespace std::chrono_literals;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::size_t members_each = 10;

std::size_t joins_wanted()
{
    const char* told = std::getenv("POSTHORN_TORTURE_JOINS");
    return told != nullptr ? static_cast<std::size_t>(std::atoll(told)) : 2'000;
}

class killed_joins : public ::testing::TestWithParam<conformance::store_kind> {
protected:
    /// Some of them in several joins, some that fail once, and some that always do.
    void open_joins(scene& where, std::size_t count)
    {
        for (std::size_t i = 0; i < count; i += 100) {
            auto tx = where.db().begin();
            for (std::size_t j = i; j < std::min(i + 100, count); ++j)
                open_one(tx, j);
            tx.commit();
        }
    }

    /// How many have not ended.
    static std::size_t pending(scene& where)
    {
        return list_joins(where.db(), {.state = join_state::pending, .limit = 100'000}).size();
    }

    std::map<join_id, std::vector<message_id>> opened_;

private:
    void open_one(transaction& tx, std::size_t number)
    {
        const auto join = open_join(tx, {.expected = members_each,
                                         .on_complete = message{"ordinary", "completed"},
                                         .on_fail = message{"ordinary", "failed"}});
        const bool shares = number % 10 == 1;
        std::vector<outgoing> all;
        for (std::size_t i = shares ? 1 : 0; i < members_each; ++i) {
            const bool fails = number % 50 == 0 && i == 3;
            const bool limps = number % 7 == 0 && i == 5;
            all.push_back({.message = {.topic = fails || limps ? "failing" : "ordinary",
                                       .payload = fails ? "1000" : "1"},
                           .options = {.join = join}});
        }
        auto& members = opened_[join];
        for (const auto& each : enqueue(tx, all))
            members.push_back(each.id);
        if (shares) {
            attach(tx, join, last_);
            members.push_back(last_);
        }
        last_ = members.front();
    }

    message_id last_;
};

// Proves: JOIN-001, JOIN-003, JOIN-018, JOIN-019, I10, I11, I20, F1
TEST_P(killed_joins, all_end_with_exact_counts_and_one_continuation_each)
{
    const auto count = joins_wanted();
    scene where(GetParam());
    open_joins(where, count);
    const std::vector<std::string> options{"--concurrency", "64", "--attempts-max", "12"};
    std::vector<std::string> workers{where.start_worker(options), where.start_worker(options)};
    std::mt19937 draw(static_cast<unsigned>(environment::system().random->bits()));
    const std::size_t kills = 4 + count / 50;
    for (std::size_t i = 0; i < kills && pending(where) > 0; ++i) {
        environment::system().clock->pause(std::chrono::milliseconds{50 + draw() % 450});
        auto& victim = workers[draw() % workers.size()];
        where.kill(victim);
        victim = where.start_worker(options);
    }
    EXPECT_TRUE(wait_until([&] { return pending(where) == 0; },
                           60s + std::chrono::milliseconds{150 * count}))
        << pending(where) << " joins are pending\n"
        << where.log();
    ASSERT_TRUE(wait_until([&] { return where.is_drained(); }, 60s)) << where.log();
    where.stop_all();
    std::map<std::string, std::vector<std::string>> continued; // by join
    std::map<message_id, message_state> states;
    for (std::int64_t after = 0;;) {
        const auto page = list_messages(
            where.db(), {.after_position = after, .limit = 5'000, .with_payload = true});
        for (const auto& each : page) {
            states.emplace(each.id, each.state);
            if (const auto join = each.headers.find(join_header); join != each.headers.end())
                continued[join->second].push_back(each.payload);
        }
        if (page.size() < 5'000)
            break;
        after = page.back().position;
    }
    std::size_t wrong = 0;
    for (const auto& join : list_joins(where.db(), {.limit = 100'000})) {
        std::int64_t done = 0;
        std::int64_t dead = 0;
        for (const auto& id : opened_.at(join.id))
            (states.at(id) == message_state::done ? done : dead) += 1;
        const bool well = join.state == join_state::completed;
        const std::vector<std::string> expected{well ? "completed" : "failed"};
        if (join.completed != done || join.failed != dead || well != (dead == 0) ||
            continued[to_string(join.id)] != expected)
            ++wrong;
    }
    EXPECT_EQ(wrong, 0U) << "of " << count << " joins";
    EXPECT_EQ(continued.size(), count);
    EXPECT_THAT(where.log(), Not(AnyOf(HasSubstr("deadlock"), HasSubstr("serializ"))));
}

INSTANTIATE_TEST_SUITE_P(stores, killed_joins, ::testing::ValuesIn(kinds_for_processes()),
                         [](const auto& kind) { return kind.param.name; });

} // namespace
} // namespace posthorn::torture
