// The tree of a trace: whatever the causes say, each message is in it once.
#include <posthorn/trace.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace posthorn {
namespace {

message_id numbered(int number)
{
    uuid value;
    value.bytes[14] = static_cast<std::uint8_t>(number / 256);
    value.bytes[15] = static_cast<std::uint8_t>(number % 256);
    return message_id(value);
}

message_record caused(int number, int cause)
{
    message_record made;
    made.id = numbered(number);
    made.position = number;
    if (cause != 0)
        made.causation_id = to_string(numbered(cause));
    return made;
}

// `1 .2 ..3`: numbers in the order of the tree, a dot for each step down.
std::string drawn(const std::vector<traced_message>& tree)
{
    std::string text;
    for (const auto& each : tree)
        text += (text.empty() ? "" : " ") + std::string(each.depth, '.') +
                std::to_string(each.record.position);
    return text;
}

std::string arranged(std::vector<message_record> messages)
{
    const auto tree = arrange_by_cause(std::move(messages));
    for (std::size_t i = 0; i < tree.size(); ++i) {
        const auto& cause = tree[i].caused_by;
        EXPECT_EQ(tree[i].depth, cause ? tree.at(*cause).depth + 1 : 0);
        EXPECT_LT(cause.value_or(0), i + 1);
    }
    return drawn(tree);
}

// Proves: COR-06
TEST(trace_tree, messages_stand_below_their_causes_in_the_order_of_their_enqueueing)
{
    EXPECT_EQ(arranged({caused(1, 0), caused(2, 1), caused(3, 1), caused(4, 2), caused(5, 3),
                        caused(6, 2)}),
              "1 .2 ..4 ..6 .3 ..5");
    EXPECT_EQ(arranged({}), "");
}

// Proves: COR-06
TEST(trace_tree, messages_whose_cause_is_unknown_are_roots)
{
    EXPECT_EQ(arranged({caused(4, 99), caused(2, 4), caused(7, 0)}), "4 .2 7");
    auto by_a_click = caused(8, 0);
    by_a_click.causation_id = "a click";
    EXPECT_EQ(arranged({by_a_click, caused(9, 8)}), "8 .9");
}

// Proves: COR-06
TEST(trace_tree, circles_are_cut_at_their_earliest_message)
{
    EXPECT_EQ(arranged({caused(1, 1)}), "1");
    EXPECT_EQ(arranged({caused(1, 2), caused(2, 1)}), "1 .2");
    EXPECT_EQ(arranged({caused(5, 7), caused(6, 5), caused(7, 6), caused(8, 7), caused(9, 0)}),
              "9 5 .6 ..7 ...8");
}

// Proves: COR-06
TEST(trace_tree, a_long_chain_needs_no_deep_stack)
{
    constexpr int length = 20'000;
    std::vector<message_record> chain;
    for (int i = 1; i <= length; ++i)
        chain.push_back(caused(i, i - 1));
    std::ranges::reverse(chain);
    const auto tree = arrange_by_cause(std::move(chain));
    ASSERT_EQ(tree.size(), static_cast<std::size_t>(length));
    EXPECT_EQ(tree.back().depth, static_cast<std::size_t>(length) - 1);
}

} // namespace
} // namespace posthorn
