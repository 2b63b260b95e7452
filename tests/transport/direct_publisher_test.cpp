// Publishing past the outbox: the same rule for correlation, and answers for the caller.
#include <posthorn/correlation.hpp>
#include <posthorn/error.hpp>
#include <posthorn/in_process.hpp>
#include <posthorn/publisher.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace posthorn {
namespace {

using ::testing::StartsWith;

class direct_publishing : public ::testing::Test {
protected:
    const headers& sent(const publish_options& how = {})
    {
        answer = publisher.publish(message{"orders", "hello"}, how);
        EXPECT_TRUE(answer.accepted());
        return arrived.back().headers;
    }

    std::shared_ptr<in_process_transport> bus = std::make_shared<in_process_transport>();
    std::vector<transport_message> arrived;
    in_process_transport::subscription listening =
        bus->subscribe("*", [this](const transport_message& what) { arrived.push_back(what); });
    direct_publisher publisher{bus};
    published answer;
};

// Proves: COR-04, TRN-05
TEST_F(direct_publishing, without_a_scope_the_correlation_is_the_message_itself)
{
    const auto& got = sent();
    EXPECT_EQ(got.at("posthorn-msg-id"), to_string(answer.id));
    EXPECT_EQ(got.at("posthorn-corr-id"), to_string(answer.id));
    EXPECT_EQ(got.at("posthorn-corr-seq"), "0");
    EXPECT_FALSE(got.contains("posthorn-causation-id"));
    EXPECT_EQ(arrived.back().id, answer.id);
    EXPECT_EQ(arrived.back().payload, "hello");
}

// Proves: COR-04, TRN-05
TEST_F(direct_publishing, in_a_scope_it_is_the_scopes_with_its_next_number)
{
    const auto scope = correlation_scope::begin_from({.id = "order-7", .cause = "message 1"});
    EXPECT_EQ(sent().at("posthorn-corr-seq"), "1");
    const auto& got = sent();
    EXPECT_EQ(got.at("posthorn-corr-id"), "order-7");
    EXPECT_EQ(got.at("posthorn-corr-seq"), "2");
    EXPECT_EQ(got.at("posthorn-causation-id"), "message 1");
}

// Proves: COR-01, COR-04, I22
TEST_F(direct_publishing, what_is_refused_uses_up_no_number)
{
    const auto scope = correlation_scope::begin("order-7");
    listening = bus->subscribe("orders",
                               [this](const transport_message& what) { arrived.push_back(what); });
    const auto number = [](const transport_message& of) {
        return of.headers.at("posthorn-corr-seq");
    };
    EXPECT_THROW((void)publisher.publish(message{"", ""}), error);
    EXPECT_EQ(publisher.publish(message{"elsewhere", ""}).verdict, publish_answer::kind::refused);
    EXPECT_EQ(correlation_scope::current()->sequence(), 0);
    const std::vector<direct_message> several{
        {{"orders", ""}}, {{"elsewhere", ""}}, {{"orders", ""}}, {{"elsewhere", ""}}};
    EXPECT_TRUE(publisher.publish(several).at(2).accepted());
    EXPECT_EQ(number(arrived.at(0)), "1");
    EXPECT_EQ(number(arrived.at(1)), "3") << "a gap before others cannot be closed";
    EXPECT_EQ(sent().at("posthorn-corr-seq"), "4");
}

// Proves: COR-04, TRN-05
TEST_F(direct_publishing, what_is_given_wins)
{
    const auto scope = correlation_scope::begin("order-7");
    const auto& got = sent({.headers = {{"posthorn-corr-id", "theirs"}, {"lang", "de"}}});
    EXPECT_EQ(got.at("posthorn-corr-id"), "theirs");
    EXPECT_FALSE(got.contains("posthorn-corr-seq"));
    EXPECT_EQ(got.at("lang"), "de");
    EXPECT_EQ(sent({.correlation_id = "mine"}).at("posthorn-corr-id"), "mine");
    EXPECT_EQ(correlation_scope::current()->sequence(), 0);
    const auto id = message_id::parse("01890a5d-ac96-774b-bcce-b302099a8057");
    EXPECT_EQ(sent({.id = id}).at("posthorn-msg-id"), to_string(*id));
}

// Proves: COR-05
TEST_F(direct_publishing, a_trace_travels_on)
{
    const auto scope = correlation_scope::begin_from(
        {.id = "x", .traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"});
    EXPECT_THAT(sent().at("traceparent"), StartsWith("00-0af7651916cd43dd8448eb211c80319c-"));
}

// Proves: TRN-05
TEST_F(direct_publishing, what_no_store_would_take_is_refused_before_it_is_sent)
{
    EXPECT_THROW((void)publisher.publish(message{"", "x"}), error);
    EXPECT_THROW((void)publisher.publish(message{"t", "x"}, {.headers = {{"posthorn-x", "1"}}}),
                 error);
    EXPECT_THROW((void)publisher.publish(message{"t", "x"}, {.headers = {{"a", "b\n"}}}), error);
    EXPECT_THROW(direct_publisher(nullptr), error);
    EXPECT_TRUE(arrived.empty());
}

// Proves: TRN-05
TEST_F(direct_publishing, the_caller_gets_the_answers_in_order)
{
    listening = {};
    const auto only = bus->subscribe("b", [](const transport_message&) {});
    const std::vector<direct_message> all{{{"a", ""}}, {{"b", ""}}};
    const auto answers = publisher.publish(all);
    ASSERT_EQ(answers.size(), 2U);
    EXPECT_EQ(answers.at(0).why, refusal::unroutable);
    EXPECT_TRUE(answers.at(1).accepted());
    EXPECT_NE(answers.at(0).id, answers.at(1).id);
}

} // namespace
} // namespace posthorn
