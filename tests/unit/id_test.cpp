// Ids: their bits, their order, and their written form.
#include <posthorn/delivery.hpp>
#include <posthorn/id.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <unordered_set>
#include <vector>

namespace posthorn {
namespace {

constexpr timestamp some_time{duration{1'800'000'000'123'456}};

class id : public ::testing::Test {
protected:
    environment world = environment::system();
    uuid made_at(timestamp when) { return uuid::version_7(when, *world.random); }
};

// Proves: OUT-03
TEST_F(id, a_new_id_is_a_version_7_uuid_of_the_rfc_variant)
{
    for (int i = 0; i < 1'000; ++i) {
        const auto made = made_at(some_time + duration{i * 37});
        EXPECT_EQ(made.bytes[6] >> 4U, 7U);
        EXPECT_EQ(made.bytes[8] >> 6U, 2U);
    }
}

TEST_F(id, the_first_six_bytes_are_milliseconds_since_1970)
{
    const auto made = made_at(some_time);
    std::uint64_t millis = 0;
    for (std::size_t i = 0; i < 6; ++i)
        millis = millis << 8U | made.bytes[i];
    EXPECT_EQ(millis, 1'800'000'000'123U);
}

TEST_F(id, ids_are_ordered_by_the_microsecond_of_their_making)
{
    auto before = made_at(some_time);
    for (int i = 1; i < 5'000; ++i) {
        const auto next = made_at(some_time + duration{i});
        ASSERT_LT(before, next) << "after " << i << " microseconds";
        before = next;
    }
}

TEST_F(id, a_hundred_thousand_ids_of_one_moment_are_all_different)
{
    std::unordered_set<message_id> seen;
    for (int i = 0; i < 100'000; ++i)
        seen.insert(message_id{made_at(some_time)});
    EXPECT_EQ(seen.size(), 100'000U);
}

TEST_F(id, a_child_process_makes_other_ids_than_its_parent)
{
    constexpr std::size_t count = 100;
    (void)made_at(some_time); // so that random bytes are buffered when the process forks
    std::array<int, 2> pipe_ends{};
    ASSERT_EQ(pipe(pipe_ends.data()), 0);
    const auto child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        for (std::size_t i = 0; i < count; ++i) {
            const auto made = made_at(some_time);
            if (write(pipe_ends[1], made.bytes.data(), made.bytes.size()) != 16)
                _exit(1);
        }
        _exit(0);
    }
    close(pipe_ends[1]);
    std::vector<uuid> of_both;
    for (uuid each; read(pipe_ends[0], each.bytes.data(), each.bytes.size()) == 16;)
        of_both.push_back(each);
    close(pipe_ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_EQ(status, 0);
    ASSERT_EQ(of_both.size(), count);

    for (std::size_t i = 0; i < count; ++i)
        of_both.push_back(made_at(some_time));
    std::ranges::sort(of_both);
    EXPECT_EQ(std::ranges::adjacent_find(of_both), of_both.end());
}

TEST_F(id, what_is_written_reads_back_as_the_same_id)
{
    for (int i = 0; i < 1'000; ++i) {
        const auto made = made_at(some_time + duration{i});
        const auto text = to_string(made);
        EXPECT_EQ(text.size(), 36U);
        EXPECT_EQ(uuid::parse(text), made);
    }
}

TEST_F(id, the_written_form_has_dashes_after_8_12_16_and_20_lower_case_digits)
{
    const auto parsed = uuid::parse("0123456789ABCDEFfedcba9876543210");
    ASSERT_TRUE(parsed);
    EXPECT_EQ(to_string(*parsed), "01234567-89ab-cdef-fedc-ba9876543210");
    EXPECT_EQ(uuid::parse("01234567-89AB-cdef-FEDC-ba9876543210"), parsed);
}

TEST_F(id, anything_else_is_not_an_id)
{
    for (const std::string bad :
         {"", "0", "0123456789abcdef0123456789abcde", "0123456789abcdef0123456789abcdef0",
          "0123456789abcdef0123456789abcdeg", "01234567-89ab-cdef-fedc-ba987654321",
          "01234567-89ab-cdef-fedc-ba9876543210 ", "0123456-789ab-cdef-fedc-ba9876543210",
          "01234567+89ab-cdef-fedc-ba9876543210", "01234567-89ab-cdef-fedcba98765432100",
          "{1234567-89ab-cdef-fedc-ba987654321}"})
        EXPECT_FALSE(uuid::parse(bad)) << bad;
    EXPECT_FALSE(uuid::parse(std::string_view("01234567-89ab-cdef-fedc-ba98765\0003210", 36)));
}

TEST_F(id, the_nil_id_is_nobodys)
{
    EXPECT_TRUE(message_id{}.is_nil());
    EXPECT_TRUE(message_id::parse("00000000-0000-0000-0000-000000000000")->is_nil());
    EXPECT_FALSE(message_id{made_at(some_time)}.is_nil());
}

TEST_F(id, random_fractions_lie_between_zero_and_one_and_spread)
{
    double sum = 0;
    for (int i = 0; i < 10'000; ++i) {
        const auto drawn = world.random->fraction();
        ASSERT_GE(drawn, 0.0);
        ASSERT_LT(drawn, 1.0);
        sum += drawn;
    }
    EXPECT_NEAR(sum / 10'000, 0.5, 0.03); // ten standard deviations
}

TEST_F(id, owners_get_tokens_that_nobody_guesses)
{
    const auto a = owner::create("a", *world.random);
    const auto b = owner::create("a", *world.random);
    EXPECT_EQ(a.worker, "a");
    EXPECT_EQ(a.token.size(), 36U);
    EXPECT_NE(a.token, b.token);
}

} // namespace
} // namespace posthorn
