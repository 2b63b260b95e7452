// What an answer means for the message in the outbox, and what a delivery looks like on its way.
#include <posthorn/transport.hpp>

#include <gtest/gtest.h>

namespace posthorn {
namespace {

using namespace std::chrono_literals;

// Proves: TRN-02
TEST(outcomes_of_answers, only_what_can_never_be_taken_is_dead)
{
    for (const auto why :
         {refusal::gone, refusal::too_large, refusal::malformed, refusal::denied}) {
        const auto said = outcome_of(publish_answer::no(why, "because"), 1s);
        EXPECT_EQ(said.verdict, outcome::kind::fail);
        EXPECT_EQ(said.error, std::string(to_string(why)) + ": because");
    }
    EXPECT_EQ(outcome_of(publish_answer::no(refusal::denied), 1s).error, "denied");
}

// Proves: TRN-02
TEST(outcomes_of_answers, what_is_declined_has_failed_and_the_retry_policy_decides)
{
    const auto said = outcome_of(publish_answer::no(refusal::declined, "because"), 1s);
    EXPECT_EQ(said.verdict, outcome::kind::retry);
    EXPECT_EQ(said.error, "declined: because");
    EXPECT_FALSE(said.delay);
}

// Proves: TRN-02
TEST(outcomes_of_answers, what_no_queue_would_get_has_failed_unless_it_is_to_be_dead)
{
    const auto answer = publish_answer::no(refusal::unroutable, "no queue");
    const auto said = outcome_of(answer, 1s);
    EXPECT_EQ(said.verdict, outcome::kind::retry);
    EXPECT_EQ(said.error, "unroutable: no queue");
    EXPECT_FALSE(said.delay);
    const auto strict = outcome_of(answer, 1s, when_unroutable::fail);
    EXPECT_EQ(strict.verdict, outcome::kind::fail);
    EXPECT_EQ(strict.error, "unroutable: no queue");
}

// Proves: TRN-02
TEST(outcomes_of_answers, whatever_may_pass_costs_no_attempt)
{
    for (const auto why : {refusal::rejected, refusal::held_back, refusal::busy,
                           refusal::unavailable, refusal::closed}) {
        const auto said = outcome_of(publish_answer::no(why), 3s);
        EXPECT_EQ(said.verdict, outcome::kind::postpone) << to_string(why);
        EXPECT_EQ(said.delay, 3s);
    }
    EXPECT_EQ(outcome_of(publish_answer::no_answer(), 3s).verdict, outcome::kind::postpone);
    auto later = publish_answer::no(refusal::busy);
    later.retry_in = 90s;
    EXPECT_EQ(outcome_of(later, 3s).delay, 90s);
    EXPECT_EQ(outcome_of(publish_answer::yes(), 3s).verdict, outcome::kind::done);
}

// Proves: TRN-01, COR-04
TEST(outcomes_of_answers, a_delivery_travels_with_all_of_its_headers)
{
    delivery which;
    which.receipt.id = message_id::parse("01890a5d-ac96-774b-bcce-b302099a8057").value();
    which.topic = "orders";
    which.payload = "hello";
    which.ordering_key = "k";
    which.headers = {{"lang", "de"}};
    const auto own = to_string(which.receipt.id);
    EXPECT_EQ(to_transport(which).headers, (headers{{"lang", "de"},
                                                    {"posthorn-msg-id", own},
                                                    {"posthorn-corr-id", own},
                                                    {"posthorn-corr-seq", "0"}}));
    which.correlation_id = "order-7";
    which.causation_id = "a click";
    which.headers["posthorn-corr-seq"] = "3";
    const auto made = to_transport(which);
    EXPECT_EQ(made.headers, (headers{{"lang", "de"},
                                     {"posthorn-msg-id", own},
                                     {"posthorn-corr-id", "order-7"},
                                     {"posthorn-corr-seq", "3"},
                                     {"posthorn-causation-id", "a click"}}));
    EXPECT_EQ(made.id, which.receipt.id);
    EXPECT_EQ(made.topic, "orders");
    EXPECT_EQ(made.key, "k");
    EXPECT_EQ(made.payload, "hello");
}

} // namespace
} // namespace posthorn
