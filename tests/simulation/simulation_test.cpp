// Random stories, played on the model and on each kind of store, which must agree word for word.
//
// The seed is printed first. `--seed N` or POSTHORN_SEED=N plays the story of that seed first.
#include "conformance/store_under_test.hpp"
#include "integration/sqlite/temporary_store.hpp"
#include "simulation/story.hpp"
#include <posthorn/sqlite.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::simulation {
namespace {

std::uint64_t base_seed = 0;

const stage in_memory{"sqlite_memory", POSTHORN_STORIES, [](const environment& world) {
                          return sqlite::open("sqlite::memory:", {.environment = world});
                      }};

const stage in_a_file{"sqlite_file", POSTHORN_STORIES / 20, [](const environment& world) {
                          // The store keeps no hold on its folder, so one folder serves them all.
                          static const test::temporary_folder folder;
                          static int number = 0;
                          const auto url = "sqlite:" + folder.file(std::to_string(++number)) +
                                           "?synchronous=normal&prefix=played_";
                          sqlite::migrate(url, {.environment = world});
                          return sqlite::open(url, {.environment = world});
                      }};

// Servers play as the conformance suite finds them; a fresh store for each story takes its time.
stage on_a_server(const conformance::store_kind& kind)
{
    return {kind.name, POSTHORN_STORIES / 20, [make = kind.make](const environment& world) {
                // One store at a time: the story before has ended when the next one opens.
                static std::unique_ptr<conformance::store_under_test> current;
                current.reset();
                current = make();
                return current->open({.environment = world});
            }};
}

std::vector<stage> stages()
{
    std::vector<stage> all{in_memory, in_a_file};
    for (const auto& kind : conformance::store_kinds())
        if (!kind.name.starts_with("sqlite"))
            all.push_back(on_a_server(kind));
    return all;
}

class simulation : public ::testing::TestWithParam<stage> {};

// Proves: OUT-03, OUT-04, OUT-05, OUT-06, OUT-07, OUT-08, OUT-09, OUT-10, OUT-11, OUT-12, OUT-13
// Proves: OUT-15
// Proves: I2, I3, I4, I5, I8, I17, I18
TEST_P(simulation, a_store_answers_like_the_model_in_every_story)
{
    for (std::uint64_t i = 0; i < GetParam().stories; ++i)
        if (const auto story = disagreement(GetParam(), base_seed + i))
            FAIL() << *story << "\nReplay with --seed " << base_seed + i << "\n";
}

INSTANTIATE_TEST_SUITE_P(stores, simulation, ::testing::ValuesIn(stages()),
                         [](const auto& chosen) { return chosen.param.name; });

class seed_line : public ::testing::Environment {
public:
    void SetUp() override
    {
        std::cout << "simulation: seed " << base_seed << " (--seed " << base_seed << " replays)"
                  << std::endl;
    }
};

// The seed that was asked for, else one from chance.
std::uint64_t chosen_seed(int argc, char** argv)
{
    for (int i = 1; i + 1 < argc; ++i)
        if (std::string_view(argv[i]) == "--seed")
            return std::strtoull(argv[i + 1], nullptr, 10);
    if (const char* given = std::getenv("POSTHORN_SEED"); given != nullptr)
        return std::strtoull(given, nullptr, 10);
    return environment::system().random->bits() % 1'000'000'000;
}

} // namespace
} // namespace posthorn::simulation

int main(int argc, char** argv)
{
    ::testing::InitGoogleTest(&argc, argv);
    posthorn::simulation::base_seed = posthorn::simulation::chosen_seed(argc, argv);
    ::testing::AddGlobalTestEnvironment(new posthorn::simulation::seed_line);
    return RUN_ALL_TESTS();
}
