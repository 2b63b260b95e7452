// Nodes die one after the other while messages are published: nothing that was accepted is lost,
// nothing is refused for good, and each key keeps its order. POSTHORN_TORTURE_CLUSTERS says how
// often; `./dev torture clusters` runs it.
#include "torture/clusters/cluster.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <thread>

namespace posthorn::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t publishers = 2;
constexpr std::size_t messages_each = 3'000;
constexpr int keys_each = 30;

int rounds_wanted()
{
    const char* text = std::getenv("POSTHORN_TORTURE_CLUSTERS");
    return text == nullptr ? 1 : std::stoi(text);
}

/// How many messages were accepted so far.
class progress {
public:
    void add(std::size_t more)
    {
        const std::lock_guard lock(mutex_);
        accepted_ += more;
        changed_.notify_all();
    }

    /// Until it is at least so many.
    [[nodiscard]] bool reaches(std::size_t many)
    {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, 120s, [&] { return accepted_ >= many; });
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::size_t accepted_ = 0;
};

class clusters : public ::testing::TestWithParam<cluster_kind> {};

TEST_P(clusters, lose_one_node_after_the_other_and_no_message)
{
    cluster nodes(GetParam().name);
    for (int round = 0; round < rounds_wanted(); ++round) {
        const auto place = "place-" + std::to_string(round);
        GetParam().prepare(nodes, place);
        const int first = round % cluster::size + 1;
        const int second = first % cluster::size + 1;
        const auto way = GetParam().open(nodes.urls(first), place);
        std::vector<std::vector<transport_message>> sent;
        for (std::size_t i = 0; i < publishers; ++i)
            sent.push_back(numbered_messages(messages_each, keys_each,
                                             static_cast<std::uint64_t>(round) * publishers + i + 1,
                                             place));
        progress so_far;
        std::vector<stubborn_report> reports(publishers);
        {
            std::vector<std::jthread> threads;
            for (std::size_t i = 0; i < publishers; ++i)
                threads.emplace_back([&, i] {
                    reports[i] = publish_stubbornly(*way, sent[i], 100, 120s,
                                                    [&](std::size_t more) { so_far.add(more); });
                });
            constexpr auto all = publishers * messages_each;
            EXPECT_TRUE(so_far.reaches(all / 6));
            nodes.kill(first); // the one that it is connected to
            EXPECT_TRUE(so_far.reaches(all * 2 / 6)) << "two nodes of three are not enough";
            nodes.revive(first);
            EXPECT_TRUE(so_far.reaches(all * 3 / 6));
            nodes.kill(second); // which comes next in the list
            EXPECT_TRUE(so_far.reaches(all * 4 / 6)) << "two nodes of three are not enough";
            nodes.revive(second);
        }
        const auto got = GetParam().look(nodes, place);
        std::size_t unknown = 0;
        std::size_t refused = 0;
        for (std::size_t i = 0; i < publishers; ++i) {
            EXPECT_EQ(got.missing(sent[i]), 0U);
            unknown += reports[i].unknown;
            refused += reports[i].refused;
        }
        EXPECT_EQ(got.different(), publishers * messages_each);
        std::cout << GetParam().name << ", round " << round + 1 << ": "
                  << publishers * messages_each << " accepted, " << got.all() << " arrived, "
                  << unknown << " times unknown, " << refused << " times refused for now\n";
        if (HasFailure())
            return;
    }
}

INSTANTIATE_TEST_SUITE_P(kinds, clusters, ::testing::ValuesIn(cluster_kinds()),
                         [](const auto& each) { return each.param.name; });

} // namespace
} // namespace posthorn::test
