// Workers and producers are killed over and over, and stopped for longer than their leases, while
// messages of every kind come in. Nothing is lost, nothing invented, and no effect is there twice.
//
// POSTHORN_TORTURE_ROUNDS=n is for people with time: n kills instead of a few, with progress.
#include "torture/scene.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace posthorn::torture {
namespace {

using namespace std::chrono_literals;
using ::testing::IsEmpty;

constexpr int rounds_per_store = 100;
const checker::bounds allowed{.attempts_max = 50, .settle_within = 60s, .clock_tolerance = 5ms};

// Two workers and two producers; whoever is killed is replaced.
class tormentor {
public:
    tormentor(scene& where, unsigned seed) : where_(where), draw_(seed)
    {
        for (int i = 0; i < 2; ++i) {
            workers_.push_back(where_.start_worker());
            producers_.push_back(where_.start_producer(next_seed()));
        }
    }

    void round(int number)
    {
        environment::system().clock->pause(std::chrono::milliseconds{20 + draw_() % 130});
        if (number % 10 == 3)
            where_.pause(paused_ = workers_[draw_() % workers_.size()]);
        else if (number % 10 == 9)
            where_.resume(std::exchange(paused_, {}));
        else if (number % 4 == 0)
            replace(producers_[draw_() % producers_.size()], false);
        else
            replace(victim(), true);
    }

    /// Lets everything come to its end. Returns: whether it did.
    bool drain()
    {
        where_.resume_all();
        for (const auto& each : producers_)
            where_.stop(each);
        where_.tell(checker::stop_event{});
        const bool drained = wait_until([&] { return where_.is_drained(); }, 60s);
        where_.stop_all();
        return drained;
    }

private:
    unsigned next_seed() { return static_cast<unsigned>(draw_()); }

    /// Somebody who can be killed now: not who stands still.
    std::string& victim()
    {
        auto& first = workers_[draw_() % workers_.size()];
        return first != paused_ ? first : first == workers_[0] ? workers_[1] : workers_[0];
    }

    void replace(std::string& name, bool is_worker)
    {
        where_.kill(name);
        name = is_worker ? where_.start_worker() : where_.start_producer(next_seed());
    }

    scene& where_;
    std::mt19937 draw_;
    std::vector<std::string> workers_;
    std::vector<std::string> producers_;
    std::string paused_;
};

int rounds_wanted(const std::string& store)
{
    if (const char* told = std::getenv("POSTHORN_TORTURE_ROUNDS"))
        return std::atoi(told);
    return store == "sqlite_file" ? 40 : 20;
}

class kills : public ::testing::TestWithParam<conformance::store_kind> {
protected:
    /// One fresh store, so many kills, and the judgement.
    void torment(int rounds, unsigned seed)
    {
        scene where(GetParam());
        tormentor with(where, seed);
        for (int i = 0; i < rounds; ++i)
            with.round(i);
        EXPECT_TRUE(with.drain()) << "something is stuck; seed " << seed << "\n" << where.log();
        const auto judged = where.judged(allowed);
        EXPECT_THAT(judged.violations(), IsEmpty()) << "seed " << seed << "\n"
                                                    << to_text(judged) << where.log();
        EXPECT_THAT(where.wrong_effects(), IsEmpty()) << "seed " << seed;
        EXPECT_GT(judged.looked_at.starts, 0U) << "nothing was delivered: the run shows nothing";
        EXPECT_GE(judged.looked_at.faults, static_cast<std::size_t>(rounds) * 3 / 4);
        messages_ += judged.looked_at.messages;
    }

    std::size_t messages_ = 0;
};

} // namespace

// Proves: OUT-10, I1, I2, I3, I4, I5, I6, I8, I17, I20, F1, F15
TEST_P(kills, processes_that_are_killed_and_stopped_over_and_over_break_no_promise)
{
    const int rounds = rounds_wanted(GetParam().name);
    const bool shows_progress = std::getenv("POSTHORN_TORTURE_ROUNDS") != nullptr;
    const auto chance = environment::system().random;
    for (int over = 0; over < rounds && !HasFailure();) {
        const int now = std::min(rounds - over, rounds_per_store);
        torment(now, static_cast<unsigned>(chance->bits()));
        over += now;
        if (shows_progress)
            std::fprintf(stderr, "%s: %d of %d rounds, %zu messages, %s\n", GetParam().name.c_str(),
                         over, rounds, messages_, HasFailure() ? "broken" : "nothing found");
    }
}

// The suite must be able to fail: a worker that acknowledges first and handles later is found out.
TEST_P(kills, a_worker_that_acknowledges_before_it_handles_is_found_out)
{
    scene where(GetParam());
    const auto worker = where.start_worker({"--broken", "early"});
    std::vector<message_id> ids;
    for (int i = 0; i < 20; ++i)
        ids.push_back(where.add({"ordinary", "x"}));
    ASSERT_TRUE(wait_until([&] {
        return std::ranges::any_of(ids, [&](auto id) { return where.is_done(id); });
    })) << where.log();
    where.kill(worker);
    where.start_worker();
    ASSERT_TRUE(wait_until([&] { return where.is_drained(); })) << where.log();
    where.stop_all();
    EXPECT_THAT(where.judged(allowed).violations(), ::testing::Not(IsEmpty()));
}

INSTANTIATE_TEST_SUITE_P(stores, kills, ::testing::ValuesIn(kinds_for_processes()),
                         [](const auto& kind) { return kind.param.name; });

} // namespace posthorn::torture
