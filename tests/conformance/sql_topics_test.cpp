// Topics in the contract for every other language: how long they may be, and which of them the
// inbox keeps for itself.
#include "conformance/sql_application.hpp"
#include <posthorn/inbox.hpp>

namespace posthorn::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class sql_topics : public sql_application {
protected:
    static std::string letters(std::size_t bytes) { return std::string(bytes, 'x'); }
};

} // namespace

// Proves: OUT-02, OUT-20
TEST_P(sql_topics, a_topic_has_1_to_500_bytes_of_text)
{
    for (const sql_value& missing : {sql_value(nullptr), sql_value("")})
        expect_refused({{"topic", missing}, {"payload", "payload"}}, "topic");
    expect_refused({{"topic", letters(501)}}, "topic must be text of 1 to 500 bytes");
    std::string umlauts;
    for (int i = 0; i < 251; ++i)
        umlauts += "ä";
    expect_refused({{"topic", umlauts}}, "topic"); // 251 characters, 502 bytes
    expect_wrong_type({{"topic", std::string("a\0b", 3)}}, "topic");
    for (const std::size_t size : {255, 256, 500})
        EXPECT_EQ(look(send({{"topic", letters(size)}})).topic, std::string(size, 'x'));
    EXPECT_EQ(look(send({{"topic", umlauts.substr(2)}})).topic, umlauts.substr(2));
    EXPECT_EQ(look(send({{"topic", "Ünïcode/注文"}})).topic, "Ünïcode/注文");
}

// Proves: OUT-20, INB-01
TEST_P(sql_topics, a_topic_of_the_inbox_is_refused)
{
    for (const auto* topic : {"inbox:payments.paid", "inbox:"})
        expect_refused({{"topic", topic}, {"payload", "x"}}, "must not begin with inbox:");
    for (const auto* topic : {"inbox", "Inbox:x", "an inbox:", "inbox.x"})
        EXPECT_EQ(look(send({{"topic", topic}})).topic, topic);
    const auto from_outside = enqueue_inbound(db(), {"bank", "1"}, {"payments.paid", ""});
    EXPECT_EQ(from_outside.answer, inbox_answer::added);
    catch_up();
    EXPECT_THAT(claimed_ids(), SizeIs(5));
}

// Older tables have taken such topics, and a role that may write to the tables still can.
// Proves: OUT-20, INB-01
TEST_P(sql_topics, a_message_that_claims_to_come_from_outside_is_dead_and_no_handler_meets_it)
{
    const auto forged = send({{"topic", "forged"}});
    const auto good = send();
    auto tx = db().begin();
    under_test().run_in(tx, "UPDATE " + under_test().table_of_messages() +
                                " SET topic = 'inbox:payments.paid' WHERE topic = 'forged'");
    tx.commit();
    catch_up();
    EXPECT_THAT(claimed_ids(), ElementsAre(good));
    EXPECT_EQ(state_of(forged), message_state::dead);
    EXPECT_THAT(look(forged).last_error, HasSubstr("the inbox has not stored it"));
}

CONFORMANCE_SUITE(sql_topics);

} // namespace posthorn::conformance
