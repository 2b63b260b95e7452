// kill -9 at any moment: whatever was committed is there, whatever was not is not, nothing hangs.
#include "integration/sqlite/child_process.hpp"
#include "integration/sqlite/temporary_store.hpp"
#include <posthorn/testing/manual_clock.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <fcntl.h>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace posthorn::test {
namespace {

using namespace std::chrono_literals;

constexpr int rounds = 30;
constexpr auto lease = 50ms;

// A file to which each process adds whole lines. A line that was written survives kill -9.
class notebook {
public:
    explicit notebook(const std::string& path)
        : file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600))
    {}
    notebook(const notebook&) = delete;
    notebook& operator=(const notebook&) = delete;
    ~notebook() { close(file_); }

    void write(const std::string& line) const
    {
        const auto text = line + "\n";
        if (::write(file_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
            _exit(2);
    }

private:
    int file_;
};

// Enqueues pairs in one transaction each, and notes before and after it what it does.
void enqueue_pairs(const std::string& url, const notebook& notes, int round)
{
    auto where = sqlite::open(url);
    for (int i = 0;; ++i) {
        const auto pair = std::to_string(round) + "/" + std::to_string(i);
        const std::vector<outgoing> both{
            {{"order", pair + "a"}, {.ordering_key = i % 3 == 0 ? "k" : ""}},
            {{"order", pair + "b"}, {}}};
        notes.write("intended " + pair);
        enqueue(where, both);
        notes.write("committed " + pair);
    }
}

// Claims, starts part by part and settles in all ways.
void work(const std::string& url, const notebook& notes, std::mt19937::result_type seed)
{
    std::mt19937 chance(seed);
    const auto world = environment::system();
    outbox worker(sqlite::open(url),
                  {.retries = {.fallback = exponential_retry{
                                   .first = 1ms, .cap = 1ms, .attempts_max = 1'000}}});
    const auto me = owner::create("worker", *world.random);
    for (;;) {
        const auto batch =
            worker.claim(me, {.lease = lease, .limit = 1 + chance() % 8, .start = 1});
        for (const auto& each : batch.deliveries) {
            if (worker.start(me, {{each.receipt}})[0] != start_answer::started)
                continue;
            const bool succeeds = chance() % 3 != 0;
            const settlement how{each.receipt, succeeds ? done() : retry("another time")};
            const auto answer = worker.settle(me, {{how}}).answers[0];
            if (answer == settled_as::done)
                notes.write("done " + each.payload);
        }
        worker.reap_expired();
    }
}

struct history {
    std::set<std::string> intended;
    std::set<std::string> committed;
    std::map<std::string, int> done;

    explicit history(const std::string& path)
    {
        std::ifstream lines(path);
        for (std::string verb, what; lines >> verb >> what;) {
            if (verb == "intended")
                intended.insert(what);
            else if (verb == "committed")
                committed.insert(what);
            else
                ++done[what];
        }
    }
};

// Finishes everything that is left, as a healthy worker would.
void drain(const temporary_store& where)
{
    auto world = environment::system();
    const auto future = std::make_shared<testing::manual_clock>(world.clock->now() + 1h);
    world.clock = future;
    outbox worker(where.open({.environment = world}),
                  {.retries = {.fallback = exponential_retry{.attempts_max = 1'000}}});
    const auto me = owner::create("drain", *world.random);
    for (int idle = 0; idle < 3;) {
        const auto reaped = worker.reap_expired().batches;
        const auto batch = worker.claim(me, {.limit = 1'000});
        worker.acknowledge(me, batch.receipts());
        idle = reaped == 0 && batch.empty() ? idle + 1 : 0;
        future->advance(10min);
    }
}

// Every message of the store by its payload, and how many there are of each.
std::map<std::string, int> contents(const temporary_store& where)
{
    auto store = where.open();
    std::map<std::string, int> found;
    message_filter page{.limit = 1'000, .with_payload = true};
    for (;;) {
        const auto messages = list_messages(store, page);
        for (const auto& each : messages) {
            ++found[each.payload];
            EXPECT_EQ(each.state, message_state::done) << each.payload;
        }
        if (messages.size() < page.limit)
            return found;
        page.after_position = messages.back().position;
    }
}

// Proves: I1, I2, I4, F1
TEST(crash, processes_killed_at_random_moments_lose_and_invent_nothing)
{
    const temporary_store where;
    const auto notes_path = where.path() + ".notes";
    std::mt19937 chance(20'260'103);
    const auto world = environment::system();
    for (int round = 0; round < rounds; ++round) {
        const notebook notes(notes_path);
        std::vector<child_process> children;
        children.emplace_back([&] { enqueue_pairs(where.url(), notes, round); });
        for (int i = 0; i < 2; ++i)
            children.emplace_back([&, seed = chance()] { work(where.url(), notes, seed); });
        world.clock->pause(5ms + duration{chance() % 100'000}); // real processes need real time
        for (auto& each : children) {
            each.kill_now();
            world.clock->pause(duration{chance() % 3'000});
        }
        ASSERT_EQ(where.problems(), "") << "after round " << round;
    }
    drain(where);
    EXPECT_EQ(where.problems(), "");

    const history told(notes_path);
    const auto found = contents(where);
    EXPECT_GT(told.committed.size(), 0U) << "nothing happened: the run shows nothing";
    for (const auto& pair : told.committed) {
        EXPECT_EQ(found.count(pair + "a"), 1U) << pair << " was lost";
        EXPECT_EQ(found.count(pair + "b"), 1U) << pair << " was lost";
    }
    for (const auto& [payload, count] : found) {
        const auto pair = payload.substr(0, payload.size() - 1);
        EXPECT_EQ(count, 1) << payload;
        EXPECT_EQ(told.intended.count(pair), 1U) << payload << " was invented";
        EXPECT_EQ(found.count(pair + "a") + found.count(pair + "b"), 2U)
            << pair << " is half there";
    }
    for (const auto& [payload, count] : told.done)
        EXPECT_EQ(count, 1) << payload << " was told done twice";
}

} // namespace
} // namespace posthorn::test
