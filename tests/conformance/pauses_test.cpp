// Pauses: rows that say what workers must not start. Stores keep them; they hold nothing back.
#include "conformance/conformance_test.hpp"

#include <array>

namespace posthorn::conformance {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class pauses : public conformance_test {
protected:
    static auto is_pause(const std::string& topic, timestamp since)
    {
        return AllOf(Field("topic", &pause_record::topic, topic),
                     Field("since", &pause_record::since, since));
    }
};

TEST_P(pauses, a_store_begins_without_any)
{
    EXPECT_THAT(list_pauses(db()), IsEmpty());
    EXPECT_FALSE(is_paused(list_pauses(db()), "orders"));
}

TEST_P(pauses, a_paused_topic_is_listed_with_its_time)
{
    const auto first = now();
    EXPECT_TRUE(pause(db(), "orders"));
    clock().advance(3s + 7us);
    EXPECT_TRUE(pause(db(), "mails.*"));
    EXPECT_THAT(list_pauses(db()),
                UnorderedElementsAre(is_pause("orders", first), is_pause("mails.*", now())));
}

TEST_P(pauses, pausing_twice_changes_nothing)
{
    const auto first = now();
    EXPECT_TRUE(pause(db(), "orders"));
    clock().advance(1min);
    EXPECT_FALSE(pause(db(), "orders"));
    EXPECT_THAT(list_pauses(db()), ElementsAre(is_pause("orders", first)));
}

TEST_P(pauses, resuming_ends_a_pause_once)
{
    EXPECT_FALSE(resume(db(), "orders"));
    ASSERT_TRUE(pause(db(), "orders"));
    ASSERT_TRUE(pause(db(), "mails"));
    EXPECT_TRUE(resume(db(), "orders"));
    EXPECT_FALSE(resume(db(), "orders"));
    EXPECT_THAT(list_pauses(db()), ElementsAre(is_pause("mails", now())));
    clock().advance(1s);
    EXPECT_TRUE(pause(db(), "orders"));
    EXPECT_THAT(list_pauses(db()),
                UnorderedElementsAre(is_pause("mails", now() - 1s), is_pause("orders", now())));
}

TEST_P(pauses, without_a_topic_everything_is_paused)
{
    EXPECT_TRUE(pause(db()));
    EXPECT_FALSE(pause(db(), ""));
    EXPECT_TRUE(is_paused(list_pauses(db()), "orders"));
    EXPECT_TRUE(is_paused(list_pauses(db()), "anything else"));
    EXPECT_FALSE(resume(db(), "orders")) << "the topic is the one that was paused";
    EXPECT_TRUE(resume(db()));
    EXPECT_FALSE(is_paused(list_pauses(db()), "orders"));
}

TEST_P(pauses, a_closing_star_stands_for_every_ending)
{
    ASSERT_TRUE(pause(db(), "mails.*"));
    const auto all = list_pauses(db());
    EXPECT_TRUE(is_paused(all, "mails.welcome"));
    EXPECT_TRUE(is_paused(all, "mails."));
    EXPECT_FALSE(is_paused(all, "mails"));
    EXPECT_FALSE(is_paused(all, "other.mails.x"));
    EXPECT_FALSE(resume(db(), "mails.welcome"));
    EXPECT_FALSE(resume(db(), "mails."));
    EXPECT_TRUE(resume(db(), "mails.*"));
}

TEST_P(pauses, a_topic_is_meant_exactly)
{
    for (const auto* topic : {"orders", "Orders", "orders ", "order_", "ord%", "ordérs"})
        EXPECT_TRUE(pause(db(), topic)) << topic;
    EXPECT_FALSE(is_paused(list_pauses(db()), "ORDERS"));
    EXPECT_FALSE(is_paused(list_pauses(db()), "orders  "));
    EXPECT_FALSE(is_paused(list_pauses(db()), "order"));
    EXPECT_FALSE(is_paused(list_pauses(db()), "orderx"));
    EXPECT_TRUE(is_paused(list_pauses(db()), "orders "));
    EXPECT_TRUE(resume(db(), "Orders"));
    EXPECT_TRUE(is_paused(list_pauses(db()), "orders"));
    EXPECT_FALSE(is_paused(list_pauses(db()), "Orders"));
    EXPECT_EQ(list_pauses(db()).size(), 5U);
}

TEST_P(pauses, a_topic_that_no_message_could_have_is_refused)
{
    using namespace std::string_view_literals;
    const std::string longest(limits::topic_bytes_max, 'x');
    for (const auto& topic :
         {longest + "x", longest + "*", std::string("a\0b"sv), std::string("\xff\xfe")}) {
        EXPECT_EQ(thrown_by([&] { pause(db(), topic); }).code(), error_code::invalid_argument);
        EXPECT_EQ(thrown_by([&] { resume(db(), topic); }).code(), error_code::invalid_argument);
    }
    EXPECT_THAT(list_pauses(db()), IsEmpty());
    EXPECT_TRUE(pause(db(), longest));
    EXPECT_TRUE(resume(db(), longest));
}

TEST_P(pauses, the_store_itself_holds_nothing_back)
{
    ASSERT_TRUE(pause(db()));
    ASSERT_TRUE(pause(db(), "orders"));
    const auto id = add();
    EXPECT_EQ(state_of(id), message_state::ready);
    EXPECT_THAT(work_off(), ElementsAre(id));
    EXPECT_EQ(state_of(id), message_state::done);
}

TEST_P(pauses, other_handles_see_them)
{
    auto other = second_handle();
    ASSERT_TRUE(pause(db(), "orders"));
    EXPECT_THAT(list_pauses(other), ElementsAre(is_pause("orders", now())));
    EXPECT_TRUE(resume(other, "orders"));
    EXPECT_THAT(list_pauses(db()), IsEmpty());
}

CONFORMANCE_SUITE(pauses);

} // namespace
} // namespace posthorn::conformance
