// Strategies are values without a store behind them: lists go in, turns come out.
#include <posthorn/error.hpp>
#include <posthorn/selection.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace posthorn {
namespace {

using namespace std::chrono_literals;

/// Stores by their names; the position is that in the alphabet, whoever else is there.
std::vector<store_view> listed(std::string_view names, std::map<char, duration> lags = {})
{
    std::vector<store_view> all;
    for (std::size_t i = 0; i < names.size(); ++i)
        all.push_back({.name = names.substr(i, 1),
                       .position = static_cast<std::uint64_t>(names[i] - 'a'),
                       .lag = lags[names[i]]});
    return all;
}

/// Chooses again and again, and says who it was.
class chooser {
public:
    explicit chooser(selection_strategy by) : by_(std::move(by)) {}

    /// One turn; the chosen store then gives so many messages.
    std::string next(const std::vector<store_view>& stores, std::size_t count = 0)
    {
        const auto index = by_.select_next(
            stores, last_ ? std::optional<std::string_view>(*last_) : std::nullopt, count_);
        if (!index)
            return "nobody";
        EXPECT_LT(*index, stores.size());
        last_ = std::string(stores.at(*index).name);
        count_ = count;
        return *last_;
    }
    std::string turns(std::size_t count, const std::vector<store_view>& stores,
                      std::size_t each = 0)
    {
        std::string all;
        for (std::size_t i = 0; i < count; ++i)
            all += next(stores, each);
        return all;
    }
    void reset()
    {
        by_.reset();
        last_.reset();
    }

private:
    selection_strategy by_;
    std::optional<std::string> last_;
    std::size_t count_ = 0;
};

// Proves: MDB-02
TEST(selection, with_no_stores_nobody_is_chosen)
{
    EXPECT_EQ(chooser(round_robin{}).next({}), "nobody");
    EXPECT_EQ(chooser(drain_first{}).next({}), "nobody");
    EXPECT_EQ(chooser(lag_aware{}).next({}), "nobody");
}

// Proves: MDB-02
TEST(selection, round_robin_cycles_through_stores)
{
    EXPECT_EQ(chooser(round_robin{}).turns(7, listed("abc")), "abcabca");
    EXPECT_EQ(chooser(round_robin{}).turns(6, listed("abc"), 50), "abcabc");
}

// Proves: MDB-02
TEST(selection, drain_first_sticks_to_the_same_store_while_it_gives_messages)
{
    chooser by(drain_first{});
    const auto all = listed("abc");
    EXPECT_EQ(by.next(all, 5), "a");
    EXPECT_EQ(by.next(all, 5), "a");
    EXPECT_EQ(by.next(all, 1), "a");
    EXPECT_EQ(by.next(all, 0), "a");
    EXPECT_EQ(by.next(all, 3), "b");
    EXPECT_EQ(by.next(all, 0), "b");
}

// Proves: MDB-02
TEST(selection, drain_first_moves_on_when_a_store_gives_nothing)
{
    EXPECT_EQ(chooser(drain_first{}).turns(6, listed("abc"), 0), "abcabc");
}

// Proves: MDB-02
TEST(selection, drain_first_is_capped_so_that_no_store_starves)
{
    EXPECT_EQ(chooser(drain_first{3}).turns(12, listed("abc"), 100), "aaabbbcccaaa");
    EXPECT_THROW(drain_first{0}, error);
}

// Proves: MDB-02
TEST(selection, reset_begins_with_the_first_store)
{
    for (const selection_strategy& each :
         {selection_strategy(round_robin{}), selection_strategy(drain_first{}),
          selection_strategy(lag_aware{})}) {
        chooser by(each);
        EXPECT_EQ(by.turns(2, listed("abc")), "ab");
        by.reset();
        EXPECT_EQ(by.turns(2, listed("abc")), "ab");
    }
}

// Proves: MDB-02
TEST(selection, lag_decides_and_those_behind_equally_far_take_turns)
{
    chooser by(lag_aware{});
    EXPECT_EQ(by.next(listed("abc", {{'b', 3s}, {'c', 2s}})), "b");
    EXPECT_EQ(by.next(listed("abc", {{'b', 1s}, {'c', 2s}})), "c");
    EXPECT_EQ(by.turns(4, listed("abc", {{'a', 1s}, {'b', 1s}})), "abab");
}

// Proves: MDB-02
TEST(selection, a_list_that_shrinks_or_grows_costs_nobody_a_turn)
{
    for (const selection_strategy& each :
         {selection_strategy(round_robin{}), selection_strategy(drain_first{})}) {
        chooser by(each);
        EXPECT_EQ(by.turns(3, listed("abcde")), "abc");
        EXPECT_EQ(by.next(listed("abde")), "d") << "the last one has gone";
        EXPECT_EQ(by.next(listed("ab")), "a") << "so has all that would come next";
        EXPECT_EQ(by.turns(3, listed("abxyz")), "bxy") << "others have come";
        EXPECT_EQ(by.next(listed("x")), "x");
        EXPECT_EQ(by.next({}), "nobody");
        EXPECT_EQ(by.next(listed("ay")), "y");
    }
}

/// Always the last one: a strategy of somebody's own.
struct backwards {
    std::optional<std::size_t> select_next(std::span<const store_view> stores,
                                           std::optional<std::string_view>, std::size_t)
    {
        return stores.empty() ? std::nullopt : std::optional{stores.size() - 1};
    }
    void reset() {}
};
static_assert(SelectionStrategy<backwards> && SelectionStrategy<lag_aware>);

// Proves: MDB-06
TEST(selection, a_strategy_of_ones_own_is_a_value_like_the_others)
{
    selection_strategy one = backwards{};
    const auto copy = one;
    one = round_robin{};
    EXPECT_EQ(chooser(one).turns(2, listed("abc")), "ab");
    EXPECT_EQ(chooser(copy).turns(2, listed("abc")), "cc");
}

} // namespace
} // namespace posthorn
