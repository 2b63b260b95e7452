// Where log lines go: a sink and its threshold, and standard error unless told otherwise.
#include "core/one_line.hpp"
#include <posthorn/environment.hpp>

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace posthorn {
namespace {

std::string said_by_system(std::optional<log_level> from)
{
    ::testing::internal::CaptureStderr();
    const auto world = environment::system(from);
    world.log(log_level::debug, "one");
    world.log(log_level::info, "two");
    world.log(log_level::warning, "three\nhundred\x1b[2J");
    world.log(log_level::error, "four");
    return ::testing::internal::GetCapturedStderr();
}

// Proves: OPS-04
TEST(logs, of_the_system_go_to_standard_error_a_line_each_from_warnings_on)
{
    const std::string bad = "posthorn: warning: three hundred [2J\nposthorn: error: four\n";
    EXPECT_EQ(said_by_system(log_level::warning), bad);
    EXPECT_EQ(said_by_system(log_level::debug),
              "posthorn: debug: one\nposthorn: info: two\n" + bad);
    EXPECT_EQ(said_by_system(log_level::error), "posthorn: error: four\n");
    EXPECT_EQ(said_by_system(std::nullopt), "");
    ::testing::internal::CaptureStderr();
    environment::system().log(log_level::warning, "by default");
    environment::system().log(log_level::info, "not by default");
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "posthorn: warning: by default\n");
}

// Proves: OPS-04
TEST(logs, take_every_level_unless_their_sink_says_otherwise)
{
    std::vector<std::string> lines;
    const auto note = [&](log_level, std::string_view line) { lines.emplace_back(line); };
    const log_sink all = note;
    const log_sink some(note, log_level::warning);
    const log_sink none;
    EXPECT_TRUE(all.takes(log_level::debug));
    EXPECT_FALSE(some.takes(log_level::info));
    EXPECT_TRUE(some.takes(log_level::error));
    EXPECT_FALSE(none.takes(log_level::error));
    EXPECT_FALSE(none);
    EXPECT_TRUE(some);
    all(log_level::debug, "a");
    some(log_level::info, "b");
    some(log_level::warning, "c");
    none(log_level::error, "d");
    EXPECT_EQ(lines, (std::vector<std::string>{"a", "c"}));
}

// Proves: OPS-04
TEST(logs, have_one_line_for_whatever_a_text_contains)
{
    using core::on_one_line;
    EXPECT_EQ(on_one_line("plain, with an ümlaut"), "plain, with an ümlaut");
    EXPECT_EQ(on_one_line("a\r\nb\tc\x7f"), "a  b c ");
    EXPECT_EQ(on_one_line("a\xc2\x9b"
                          "b"),
              "a b")
        << "a control character of two bytes";
    EXPECT_EQ(on_one_line("a\xff"
                          "b"),
              "a\xef\xbf\xbd"
              "b");
    EXPECT_EQ(on_one_line("abcdef", 3), "abc");
}

} // namespace
} // namespace posthorn
