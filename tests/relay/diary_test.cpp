// What a log hears of a transport: enough to know what is wrong, and no more.
#include "relay/diary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace posthorn::runtime {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class transport_diaries : public ::testing::Test {
protected:
    void note(std::vector<publish_answer> answers, duration at)
    {
        diary_.note_answers(answers, monotonic_time{at});
    }

    std::vector<std::string> lines_;
    transport_diary diary_{"the broker", [this](log_level level, std::string_view line) {
                               lines_.push_back(
                                   (level == log_level::warning ? "warning: " : "info: ") +
                                   std::string(line));
                           }};
};

const auto full = publish_answer::no(refusal::rejected, "the stream is full");

// Proves: TRN-02
TEST_F(transport_diaries, tell_each_trouble_once_and_when_it_is_over)
{
    note({publish_answer::yes()}, 1s);
    EXPECT_THAT(lines_, IsEmpty());
    note({full, publish_answer::no(refusal::held_back), full}, 2s);
    note({full, publish_answer::yes()}, 3s);
    EXPECT_THAT(lines_, ElementsAre("warning: the relay to the broker: messages are refused for "
                                    "now (rejected): the stream is full; they are sent again"));
    note({publish_answer::no_answer("no acknowledgement in time")}, 4s);
    ASSERT_EQ(lines_.size(), 2U);
    EXPECT_THAT(lines_.back(), AllOf(HasSubstr("warning"), HasSubstr("nobody says"),
                                     HasSubstr("no acknowledgement in time")));
    note({publish_answer::yes()}, 5s);
    EXPECT_EQ(lines_.size(), 2U) << "others may be refused still";
    note({publish_answer::yes()}, 4s + transport_diary::calm);
    ASSERT_EQ(lines_.size(), 3U);
    EXPECT_EQ(lines_.back(), "info: the relay to the broker: messages are accepted again");
    note({full}, 60s);
    EXPECT_EQ(lines_.size(), 4U);
}

TEST_F(transport_diaries, leave_out_what_has_failed_with_its_reason)
{
    note({publish_answer::no(refusal::unroutable, "no queue"), publish_answer::yes()}, 1s);
    note({publish_answer::no(refusal::declined, "no secret"), publish_answer::yes()}, 1s);
    EXPECT_THAT(lines_, IsEmpty());
}

// Proves: TRN-02
TEST_F(transport_diaries, tell_of_an_absence_that_is_no_hiccup)
{
    diary_.note_absence(1s);
    diary_.note_presence();
    EXPECT_THAT(lines_, IsEmpty());
    for (const auto so_far : {1s, 5s, 6s, 60s})
        diary_.note_absence(so_far);
    EXPECT_THAT(lines_, ElementsAre(AllOf(HasSubstr("warning"), HasSubstr("away"))));
    diary_.note_presence();
    diary_.note_presence();
    ASSERT_EQ(lines_.size(), 2U);
    EXPECT_EQ(lines_.back(), "info: the relay to the broker: it is there again");
}

} // namespace
} // namespace posthorn::runtime
