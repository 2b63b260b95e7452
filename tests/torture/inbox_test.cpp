// What comes from outside comes a thousand times, through processes that are killed: it has one
// effect. And who takes over a command from a dead or a late one is the only one to complete it.
//
// POSTHORN_TORTURE_INBOX=n is for people with time: n ids and n keys instead of five.
#include "torture/effects.hpp"
#include "torture/outsiders.hpp"
#include "torture/scene.hpp"
#include <posthorn/idempotency.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace posthorn::torture {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

int ids_wanted()
{
    const char* told = std::getenv("POSTHORN_TORTURE_INBOX");
    return told != nullptr ? std::atoi(told) : 5;
}

class outsiders : public ::testing::TestWithParam<conformance::store_kind> {
protected:
    outsiders() : where_(GetParam()) {}

    std::string start(const std::string& role, std::vector<std::string> options)
    {
        return where_.start_outsider(role, options);
    }

    /// Kills some of them at random moments, and starts another for each; then waits until the
    /// first `senders` of them have gone through everything.
    void kill_some(std::vector<std::string> running, std::size_t senders, int kills,
                   const std::function<std::string(std::size_t)>& start_again)
    {
        std::mt19937 draw(static_cast<unsigned>(environment::system().random->bits()));
        for (int i = 0; i < kills; ++i) {
            environment::system().clock->pause(std::chrono::milliseconds{20 + draw() % 300});
            const auto victim = draw() % running.size();
            where_.kill(running[victim]);
            running[victim] = start_again(victim);
        }
        running.resize(senders);
        EXPECT_TRUE(wait_until([&] { return all_are_through(running); },
                               std::chrono::seconds{120 + 2 * ids_wanted()}))
            << where_.log();
    }

    bool all_are_through(const std::vector<std::string>& who)
    {
        return std::ranges::all_of(who, [&](const std::string& each) {
            return std::filesystem::exists(where_.file(each + ".done"));
        });
    }

    /// How often they have delivered something, in all.
    std::uintmax_t deliveries(const std::vector<std::string>& who)
    {
        std::uintmax_t sum = 0;
        for (const auto& each : who)
            if (const auto path = where_.file(each + ".count"); std::filesystem::exists(path))
                sum += std::filesystem::file_size(path);
        return sum;
    }

    std::vector<std::string> replies_of(const std::string& who)
    {
        std::ifstream from(where_.file(who + ".replies"));
        std::vector<std::string> lines;
        for (std::string line; std::getline(from, line);)
            lines.push_back(line);
        return lines;
    }

    std::int64_t effects_of(const std::string& what) { return where_.effects_named(what); }

    /// Everything that did not have exactly one effect.
    std::vector<std::string> wrong(const std::string& prefix, int count)
    {
        std::vector<std::string> result;
        for (int i = 0; i < count; ++i) {
            const auto name = prefix + "-" + std::to_string(i);
            if (const auto effects = effects_of(name); effects != 1)
                result.push_back(name + ": " + std::to_string(effects));
        }
        return result;
    }

    scene where_;
};

} // namespace

// Proves: INB-04, I7, F1
TEST_P(outsiders, a_thousand_deliveries_at_once_have_one_effect_however_many_die)
{
    const auto ids = ids_wanted();
    std::vector<std::string> all;
    const auto another = [&](std::size_t = 0) {
        all.push_back(start("deliver",
                            {"--through", "once", "--ids", std::to_string(ids), "--times", "340"}));
        return all.back();
    };
    const std::vector<std::string> running{another(), another(), another()};
    kill_some(running, 3, 3 + ids / 2, another);
    where_.stop_all();
    EXPECT_GE(deliveries(all), 1'000U * static_cast<unsigned>(ids));
    EXPECT_THAT(wrong("once", ids), IsEmpty());
    EXPECT_THAT(list_inbound(where_.db(), {.state = inbox_state::seen}), IsEmpty());
}

// Proves: INB-02, INB-03, I6, I7, F1
TEST_P(outsiders, a_thousand_deliveries_through_the_queue_are_handled_once_however_many_die)
{
    const auto ids = ids_wanted();
    std::vector<std::string> senders;
    const auto another = [&](std::size_t which) {
        if (which > 1)
            return where_.start_worker();
        senders.push_back(start(
            "deliver", {"--through", "queue", "--ids", std::to_string(ids), "--times", "500"}));
        return senders.back();
    };
    const std::vector<std::string> running{another(0), another(1), another(2), another(3)};
    kill_some(running, 2, 4 + ids / 2, another);
    const auto all_done = [&] {
        return list_inbound(where_.db(), {.state = inbox_state::done,
                                          .limit = static_cast<std::size_t>(ids) + 1})
                   .size() == static_cast<std::size_t>(ids);
    };
    EXPECT_TRUE(wait_until(all_done, 60s)) << where_.log();
    where_.stop_all();
    EXPECT_GE(deliveries(senders), 1'000U * static_cast<unsigned>(ids));
    EXPECT_THAT(wrong("queue", ids), IsEmpty());
    EXPECT_TRUE(where_.is_drained());
}

// The suite must be able to fail: whoever looks first and marks afterwards is found out.
TEST_P(outsiders, deliveries_that_are_only_looked_up_before_have_more_effects_than_one)
{
    const auto sender = start("deliver", {"--through", "looking"});
    EXPECT_EQ(where_.see_end(sender, 60s), 0) << where_.log();
    EXPECT_GT(effects_of("looking-0"), 1);
}

// Proves: IDM-01, IDM-02, IDM-04, I14, F1, F15
TEST_P(outsiders, commands_run_once_per_key_however_many_clients_die_or_are_late)
{
    const auto keys = ids_wanted();
    std::vector<std::string> all;
    const auto another = [&](std::size_t = 0) {
        all.push_back(start("command", {"--ids", std::to_string(keys)}));
        return all.back();
    };
    const std::vector<std::string> running{another(), another(), another()};
    kill_some(running, 3, 3 + keys / 2, another);
    where_.stop_all();
    EXPECT_THAT(wrong("key", keys), IsEmpty());
    std::map<std::string, std::set<std::string>> answered;
    for (const auto& each : all)
        for (const auto& line : replies_of(each))
            answered[line.substr(0, line.find('\t'))].insert(line.substr(line.find('\t') + 1));
    EXPECT_EQ(answered.size(), static_cast<std::size_t>(keys));
    for (const auto& [key, replies] : answered)
        EXPECT_THAT(replies, ElementsAre(find_key(where_.db(), "charge", key)->result)) << key;
}

// Proves: IDM-04, I14, F1
TEST_P(outsiders, the_key_of_a_killed_holder_is_taken_over_when_its_lock_is_over)
{
    const auto gate = where_.file("gate");
    const auto first = start("command", {"--gate", gate, "--lock", "1000"});
    ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(gate + ".inside"); }))
        << where_.log();
    where_.kill(first);
    const auto held = find_key(where_.db(), "charge", "held").value();
    EXPECT_EQ(held.state, key_state::in_progress);
    const auto second = run_once(where_.db(), {.command = "charge", .key = "held", .wait = 60s},
                                 [] { return std::string("second"); });
    EXPECT_EQ(second.answer, command_answer::executed);
    const auto taken = find_key(where_.db(), "charge", "held").value();
    EXPECT_EQ(taken.epoch, 2);
    EXPECT_GE(taken.created_at, held.lock_until) << "not before its time was over";
    EXPECT_EQ(effects_of("held"), 0);
}

// Proves: IDM-04, I14, F15
TEST_P(outsiders, a_holder_that_stood_still_beyond_its_lock_is_refused_and_leaves_nothing)
{
    const auto gate = where_.file("gate");
    const auto late = start("command", {"--gate", gate, "--lock", "300"});
    ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(gate + ".inside"); }))
        << where_.log();
    where_.pause(late);
    const auto second = run_once(where_.db(), {.command = "charge", .key = "held", .wait = 60s},
                                 [] { return std::string("second"); });
    EXPECT_EQ(second.answer, command_answer::executed);
    std::ofstream(gate).put('\n');
    where_.resume(late);
    EXPECT_EQ(where_.see_end(late, 60s), 0) << where_.log();
    EXPECT_THAT(replies_of(late), ElementsAre("refused"));
    EXPECT_EQ(effects_of("held"), 0);
    EXPECT_EQ(find_key(where_.db(), "charge", "held")->result, "second");
}

INSTANTIATE_TEST_SUITE_P(stores, outsiders, ::testing::ValuesIn(kinds_for_processes()),
                         [](const auto& kind) { return kind.param.name; });

} // namespace posthorn::torture
