// The words for states, answers and reasons: each has its own, and states are found by theirs.
#include <posthorn/delivery.hpp>
#include <posthorn/message_state.hpp>

#include <gtest/gtest.h>

#include <set>
#include <string_view>

namespace posthorn {
namespace {

TEST(words, every_reason_to_park_has_its_own)
{
    std::set<std::string_view> all;
    for (const auto each : {park_reason::no_handler, park_reason::paused, park_reason::at_limit})
        all.insert(to_string(each));
    EXPECT_EQ(all, (std::set<std::string_view>{"no_handler", "paused", "at_limit"}));
}

TEST(words, every_answer_to_a_settlement_has_its_own)
{
    std::set<std::string_view> all;
    for (const auto each : {settled_as::lost, settled_as::done, settled_as::retrying,
                            settled_as::dead, settled_as::released, settled_as::parked})
        all.insert(to_string(each));
    EXPECT_EQ(all.size(), 6U);
    EXPECT_FALSE(all.contains("unknown"));
}

TEST(words, a_parked_message_has_not_ended)
{
    EXPECT_EQ(to_string(message_state::parked), "parked");
    EXPECT_FALSE(is_terminal(message_state::parked));
}

} // namespace
} // namespace posthorn
