// Rules for failed messages: those of a handler, of a topic and of all topics.
#include "runtime/worker_test.hpp"

namespace posthorn::conformance {
namespace {

class failure_rules_of : public worker_test {
protected:
    static outcome fails(const delivery_view& /*which*/) { return posthorn::retry("no luck"); }
    static outcome dies(const delivery_view& /*which*/) { return posthorn::fail("never"); }

    static failure_rules starts(int most)
    {
        return {.retry = exponential_retry{.attempts_max = most, .jitter = 0}};
    }

    [[nodiscard]] message_id add_with_key(const std::string& topic)
    {
        return add(topic, {.ordering_key = "key of " + topic});
    }
};

// Proves: OUT-11
TEST_P(failure_rules_of, a_handler_come_before_those_of_its_topic_and_of_all)
{
    auto options = steady();
    options.outbox.retries.by_topic = {{"mail.*", *starts(2).retry}};
    worker one(db(), options);
    one.handle("mail.*", &fails, {.failures = starts(1)});
    one.handle("other", &fails);
    one.handle_if([](std::string_view topic) { return topic == "guessed"; }, &fails,
                  {.failures = starts(1)});
    const auto mail = add("mail.welcome");
    const auto other = add("other");
    const auto guessed = add("guessed");
    const auto report = one.process_outbox();
    EXPECT_EQ(report.dead, 2U);
    EXPECT_EQ(report.retrying, 1U);
    EXPECT_EQ(state_of(mail), message_state::dead);
    EXPECT_EQ(state_of(guessed), message_state::dead);
    EXPECT_EQ(look(other).due_at, clock().now() + 5s) << "three starts, as the worker says";
}

// Proves: OUT-11
TEST_P(failure_rules_of, a_handler_that_never_gives_up_stand_beside_others_that_do)
{
    auto options = steady();
    options.outbox.retries.fallback = *starts(1).retry;
    worker one(db(), options);
    one.handle("mail", &fails,
               {.failures = {.retry = persistent_retry{
                                 .first = 1s, .failures_max = 2, .then_every = 24h, .jitter = 0}}});
    one.handle("*", &fails);
    const auto mail = add("mail");
    EXPECT_EQ(state_of(add("other")), message_state::ready);
    EXPECT_EQ(one.process_outbox().dead, 1U);
    EXPECT_EQ(look(mail).due_at, clock().now() + 1s);
    for (int day = 0; day < 3; ++day) {
        clock().set(look(mail).due_at);
        EXPECT_EQ(one.process_outbox().retrying, 1U);
        EXPECT_EQ(look(mail).due_at, clock().now() + 24h);
    }
}

// Proves: OUT-12
TEST_P(failure_rules_of, a_handler_or_a_topic_say_whether_a_dead_message_blocks_its_key)
{
    auto options = steady();
    options.outbox.on_dead_by_topic = {{"loose.*", dead_key::skips}, {"loose.but", {}}};
    worker one(db(), options);
    one.handle("mine", &dies, {.failures = {.on_dead = dead_key::skips}});
    one.handle("worn", &fails,
               {.failures = {.retry = starts(1).retry, .on_dead = dead_key::skips}});
    one.handle("loose.strict", &dies, {.failures = {.on_dead = dead_key::blocks}});
    one.handle("*", &dies);
    const auto blocks = [&](message_id which) {
        EXPECT_EQ(state_of(which), message_state::dead);
        return look(which).blocks_key;
    };
    const auto mine = add_with_key("mine");
    const auto worn = add_with_key("worn");
    const auto strict = add_with_key("loose.strict");
    const auto loose = add_with_key("loose.other");
    const auto exact = add_with_key("loose.but");
    const auto usual = add_with_key("usual");
    EXPECT_EQ(one.process_outbox().dead, 6U);
    EXPECT_FALSE(blocks(mine));
    EXPECT_FALSE(blocks(worn));
    EXPECT_TRUE(blocks(strict)) << "the handler's word comes first";
    EXPECT_FALSE(blocks(loose));
    EXPECT_TRUE(blocks(exact)) << "an exact topic comes before a wildcard";
    EXPECT_TRUE(blocks(usual));
}

// Proves: OUT-11, I5
TEST_P(failure_rules_of, a_handler_hold_for_a_message_whose_worker_died)
{
    const auto once = add("once");
    const auto twice = add("twice");
    ASSERT_EQ(box().claim(bob).deliveries.size(), 2U);
    clock().advance(60s);
    worker one(db(), steady());
    one.handle("once", &dies, {.failures = starts(1)});
    one.handle("twice", &dies, {.failures = starts(2)});
    (void)one.process_outbox();
    EXPECT_EQ(state_of(once), message_state::dead);
    EXPECT_EQ(look(once).attempts, 1) << "it is not started again";
    EXPECT_NE(state_of(twice), message_state::dead);
}

CONFORMANCE_SUITE(failure_rules_of);

} // namespace
} // namespace posthorn::conformance
