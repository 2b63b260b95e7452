// What is ready: due now, later, later because it has failed, or waiting for a handler's limit.
#include "conformance/parking_fixture.hpp"

namespace posthorn::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ready_states : public parking_test {
protected:
    std::vector<message_id> ready_ids(std::optional<ready_state> which, message_filter filter = {})
    {
        filter.state = message_state::ready;
        filter.ready_as = which;
        return ids_of(list_messages(db(), filter));
    }
};

// Proves: OUT-12, OUT-15, OPS-01
TEST_P(ready_states, what_waits_for_a_limit_is_ready_and_not_parked)
{
    const auto plain = add_parked("orders", {}, park_reason::at_limit);
    const auto urgent = add_parked("mail", {.priority = 1}, park_reason::at_limit);
    const auto head = add_keyed("k");
    park_all(park_reason::at_limit);
    const auto behind = add_keyed("k");
    const auto parked = add_parked("strange");
    clock().advance(1min);

    const auto stats = count_messages(db());
    EXPECT_EQ(stats.ready, 3);
    EXPECT_EQ(stats.parked, 1);
    EXPECT_EQ(stats.delayed, 0);
    EXPECT_EQ(stats.waiting, 1);
    EXPECT_EQ(stats.oldest_ready, 1min);
    EXPECT_THAT(states_of({plain, urgent, head, behind, parked}),
                ElementsAre(message_state::ready, message_state::ready, message_state::ready,
                            message_state::waiting, message_state::parked));
    EXPECT_THAT(parked_ids(), ElementsAre(parked));
    for (const auto& which : {std::optional<ready_state>{}, std::optional{ready_state::ready}})
        EXPECT_THAT(ready_ids(which), ElementsAre(plain, urgent, head));
    EXPECT_THAT(ready_ids({}, {.topic = "mail"}), ElementsAre(urgent));
    EXPECT_THAT(ready_ids({}, {.limit = 2}), ElementsAre(plain, urgent));
    EXPECT_THAT(ready_ids({}, {.after_position = look(urgent).position}), ElementsAre(head));
    EXPECT_THAT(ready_ids(ready_state::delayed), IsEmpty());
    EXPECT_EQ(look(plain).parked_for, park_reason::at_limit);
    EXPECT_EQ(look(plain).ready_as, ready_state::ready);
    EXPECT_THAT(claimed_ids(), IsEmpty()) << "it is still left to those that ask for its topic";
}

// Proves: OUT-12, OPS-01
TEST_P(ready_states, messages_are_told_apart_by_why_they_are_due_later)
{
    auto patient = box_with(steady_retries(1h, 10));
    const auto failed = add("orders", {.priority = 2});
    const auto failed_plain = add();
    const auto put_off = add();
    const auto r = patient.claim(alice).receipts();
    ASSERT_EQ(r.size(), 3U);
    const std::vector<settlement> all{
        {r[0], retry("away")}, {r[1], retry("away")}, {r[2], postpone(1h)}};
    patient.settle(alice, all);
    const auto delayed = add("orders", {.delay = 1h});
    const auto delayed_head = add("orders", {.ordering_key = "k", .delay = 1h});
    const auto due = add();
    const auto due_head = add_keyed("other");

    EXPECT_THAT(ready_ids(ready_state::retrying), ElementsAre(failed, failed_plain));
    EXPECT_THAT(ready_ids(ready_state::delayed), ElementsAre(put_off, delayed, delayed_head));
    EXPECT_THAT(ready_ids(ready_state::ready), ElementsAre(due, due_head));
    EXPECT_THAT(ready_ids({}),
                ElementsAre(failed, failed_plain, put_off, delayed, delayed_head, due, due_head));
    EXPECT_EQ(look(failed).ready_as, ready_state::retrying);
    EXPECT_EQ(look(delayed).ready_as, ready_state::delayed);
    EXPECT_EQ(look(due).ready_as, ready_state::ready);
    EXPECT_EQ(count_messages(db()).delayed, 5);
    EXPECT_EQ(count_messages(db()).retrying, 2);

    clock().advance(1h);
    EXPECT_THAT(ready_ids(ready_state::retrying), IsEmpty());
    EXPECT_THAT(ready_ids(ready_state::delayed), IsEmpty());
    EXPECT_THAT(ready_ids(ready_state::ready),
                ElementsAre(failed, failed_plain, put_off, delayed, delayed_head, due, due_head));
    EXPECT_EQ(look(failed).ready_as, ready_state::ready) << "it has failed, and is due";
    EXPECT_EQ(count_messages(db()).delayed, 0);
    EXPECT_EQ(count_messages(db()).retrying, 0);
}

CONFORMANCE_SUITE(ready_states);

} // namespace
} // namespace posthorn::conformance
