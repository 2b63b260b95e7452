// Errors carry what may be done about them.
#include <posthorn/error.hpp>

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace posthorn {
namespace {

TEST(error, a_plain_error_promises_nothing)
{
    const error plain(error_code::invalid_argument, "the topic is empty");
    EXPECT_EQ(plain.code(), error_code::invalid_argument);
    EXPECT_STREQ(plain.what(), "the topic is empty");
    EXPECT_FALSE(plain.retryable());
    EXPECT_FALSE(plain.in_doubt());
    EXPECT_FALSE(plain.poisons_connection());
    EXPECT_EQ(plain.native_code(), 0);
    EXPECT_EQ(plain.statement(), "");
}

TEST(error, properties_survive_a_copy_and_a_catch_as_a_standard_exception)
{
    const error original(error_code::unavailable, "gone",
                         {.retryable = true,
                          .in_doubt = true,
                          .poisons_connection = true,
                          .native_code = 10,
                          .statement = "commit"});
    try {
        throw error(original);
    } catch (const std::runtime_error& caught) {
        const auto& same = dynamic_cast<const error&>(caught);
        EXPECT_TRUE(same.retryable());
        EXPECT_TRUE(same.in_doubt());
        EXPECT_TRUE(same.poisons_connection());
        EXPECT_EQ(same.native_code(), 10);
        EXPECT_EQ(same.statement(), "commit");
        EXPECT_STREQ(same.what(), "gone");
    }
}

TEST(error, every_code_has_a_name_of_its_own)
{
    std::set<std::string> names;
    const auto count = static_cast<int>(error_code::internal) + 1;
    for (int i = 0; i < count; ++i)
        names.insert(std::string(to_string(static_cast<error_code>(i))));
    EXPECT_EQ(names.size(), static_cast<std::size_t>(count));
    EXPECT_EQ(names.count("unknown"), 0U);
    EXPECT_EQ(to_string(error_code::storage_full), "storage_full");
}

} // namespace
} // namespace posthorn
