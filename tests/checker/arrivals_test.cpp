// What comes from outside has one effect, in the order of its sending, and whatever else becomes of
// it is found: I7, and what I1, I8 and I20 say about messages that a feed brought.
#include "checker/rules_test.hpp"
#include "checker/scratch_folder.hpp"

#include <algorithm>

namespace posthorn::checker {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class checker_arrivals : public rules_test {
protected:
    std::size_t checks_of(const std::string& promise)
    {
        const auto all = run.judged().verdicts;
        return std::ranges::find(all, promise, &verdict::promise)->checks();
    }

    /// Two of one key, sent and stored in this order.
    void send_two()
    {
        run.sent(1, "key");
        run.sent(2, "key");
    }
};

TEST_F(checker_arrivals, what_is_sent_stored_and_handled_once_is_clean_and_looked_at)
{
    run.sent(1, "key");
    run.stored(1, "key");
    run.handled(1, 1);
    run.row_of(1, 1, done, "key");
    run.effects({1});
    run.tell(stop_event{});
    expect_clean();
    EXPECT_EQ(run.judged().looked_at.arrivals, 1U);
    EXPECT_EQ(run.judged().looked_at.effects, 1U);
    EXPECT_THAT(to_text(run.judged()), HasSubstr("(1 from outside, 1 effect)"));
    for (const auto* promise : {"I1", "I2", "I3", "I4", "I5", "I6", "I7", "I17", "I20"})
        EXPECT_GT(checks_of(promise), 0U) << promise;
}

// I7

TEST_F(checker_arrivals, a_message_from_outside_must_have_one_effect_at_most)
{
    run.stored(1);
    run.handled(1, 1);
    run.row_of(1, 1, done);
    run.effects({1, 1});
    expect_broken("I7", "what 'shop' calls '1' has taken effect 2 times");
}

TEST_F(checker_arrivals, what_is_done_must_have_its_effect)
{
    run.stored(1);
    run.handled(1, 1);
    run.row_of(1, 1, done);
    run.effects({});
    expect_broken("I7", "is done, and has no effect");
    run.found.effects.reset(); // nobody has looked
    expect_clean();
}

TEST_F(checker_arrivals, what_is_not_done_must_have_no_effect)
{
    run.stored(1);
    run.started(1, 1);
    run.settled(1, 1, settled_as::dead);
    run.row_of(1, 1, dead);
    run.effects({1});
    expect_broken("I7", "has taken effect, though it is not done");
}

TEST_F(checker_arrivals, an_effect_must_be_of_something_that_came)
{
    run.stored(1);
    run.handled(1, 1);
    run.row_of(1, 1, done);
    run.effects({1, 2});
    expect_broken("I7", "what 'shop' calls '2' has taken effect, though it is not done");
}

TEST_F(checker_arrivals, a_name_must_not_be_handled_in_two_messages)
{
    run.stored(1);
    run.handled(1, 1);
    run.stored(1);
    run.handled(2, 2);
    run.row_of(1, 1, done);
    run.row_of(1, 2, done);
    expect_broken("I7", "was handled 2 times, in as many messages");
}

// I1

TEST_F(checker_arrivals, another_delivery_changes_nothing)
{
    run.stored(1);
    run.handled(1, 1);
    run.stored(1);
    run.fed(1, "last");
    run.ended("last", transaction_end::unknown);
    run.row_of(1, 1, done);
    expect_clean();
}

TEST_F(checker_arrivals, what_a_transaction_stored_must_exist)
{
    run.stored(1);
    expect_broken("I1", "what 'shop' calls '1' does not exist though its transaction committed");
    run.bounds.done_forgotten = true;
    expect_clean();
    EXPECT_EQ(run.judged().verdicts.front().open(), 1U);
}

TEST_F(checker_arrivals, what_exists_must_have_been_brought)
{
    run.stored(1);
    run.handled(1, 1);
    run.row_of(1, 1, done);
    run.handled(2, 2);
    run.row_of(2, 2, done);
    expect_broken("I1", "message " + to_string(id(2)) + " exists though nobody enqueued it");
}

TEST_F(checker_arrivals, what_was_rolled_back_must_not_exist)
{
    run.fed(1, "batch");
    run.ended("batch", transaction_end::rolled_back);
    run.handled(1, 1);
    run.row_of(1, 1, done);
    expect_broken("I1", "exists though its transaction was rolled back");
}

TEST_F(checker_arrivals, a_feed_that_was_killed_may_have_stored_what_it_brought_or_not)
{
    run.fed(1, "batch");
    EXPECT_THAT(run.sentences(), Contains(HasSubstr("feed was not killed, but its transaction")));
    run.killed("feed");
    expect_clean();
    run.handled(1, 1);
    run.row_of(1, 1, done);
    expect_clean();
    run.stored(1); // and it comes again
    expect_clean();
}

TEST_F(checker_arrivals, what_arrives_must_have_been_sent_if_senders_tell)
{
    run.stored(1);
    expect_broken("I1", "does not exist");
    run.handled(1, 1);
    run.row_of(1, 1, done);
    expect_clean();
    run.sent(2);
    run.stored(2);
    run.handled(2, 2);
    run.row_of(2, 2, done);
    expect_broken("I1", "what 'shop' calls '1' has arrived, though nobody sent it");
}

TEST_F(checker_arrivals, nothing_must_start_before_the_first_delivery_that_may_have_stored_it)
{
    run.handled(1, 1);
    run.fed(1, "first");
    run.killed("feed");
    run.stored(1);
    run.row_of(1, 1, done);
    expect_broken("I1", "was started under fence 1 before its transaction");
}

// I8

TEST_F(checker_arrivals, what_was_stored_first_must_start_first)
{
    for (const auto& order : {std::pair{1, 2}, std::pair{2, 1}}) {
        run = {};
        run.stored(1, "key");
        run.stored(2, "key");
        run.handled(order.first, 1);
        run.handled(order.second, 2);
        run.row_of(1, 1, done, "key");
        run.row_of(2, 2, done, "key");
        if (order.first == 1)
            expect_clean();
        else
            expect_broken("I8", "before the earlier message " + to_string(id(1)));
    }
}

TEST_F(checker_arrivals, within_a_batch_order_counts_unless_it_is_in_doubt_who_stored_it)
{
    const auto store_both = [&] {
        run.fed(1, "batch", "key");
        run.fed(2, "batch", "key");
        run.ended("batch", transaction_end::committed);
        run.handled(2, 1);
        run.handled(1, 2);
        run.row_of(1, 1, done, "key");
        run.row_of(2, 2, done, "key");
    };
    store_both();
    expect_broken("I8", "before the earlier message " + to_string(id(1)));

    run = {};
    run.fed(2, "batch of a dead one", "key", "dead feed");
    run.killed("dead feed");
    store_both();
    expect_clean();
}

TEST_F(checker_arrivals, what_was_sent_first_must_start_first_however_it_came)
{
    send_two();
    run.stored(2, "key");
    run.stored(1, "key");
    auto wrong = run;
    run.handled(1, 1);
    run.handled(2, 2);
    run.row_of(1, 1, done, "key");
    run.row_of(2, 2, done, "key");
    EXPECT_THAT(run.broken(), UnorderedElementsAre("I8")) << "the store's own order";

    run = wrong;
    run.handled(2, 1);
    run.handled(1, 2);
    run.row_of(1, 1, done, "key");
    run.row_of(2, 2, done, "key");
    expect_broken("I8", "message " + to_string(id(2)) +
                            " was started under fence 1 before the earlier message " +
                            to_string(id(1)) + " of key 'key' had ended");
}

TEST_F(checker_arrivals, the_order_of_sending_counts_where_it_is_in_doubt_who_stored_what)
{
    for (const bool right : {true, false}) {
        run = {};
        send_two();
        for (const int number : {1, 2})
            run.fed(number, "batch", "key");
        run.killed("feed");
        run.handled(right ? 1 : 2, 1);
        run.handled(right ? 2 : 1, 2);
        run.row_of(1, 1, done, "key");
        run.row_of(2, 2, done, "key");
        EXPECT_EQ(run.sentences().empty(), right);
    }
    EXPECT_THAT(run.broken(), UnorderedElementsAre("I8"));
}

TEST_F(checker_arrivals, what_was_sent_in_time_that_clocks_cannot_tell_apart_has_an_order)
{
    send_two();
    run.bounds.clock_tolerance = 1'500ms; // events are a second apart
    run.stored(1, "key");
    run.stored(2, "key");
    run.handled(2, 1);
    run.handled(1, 2);
    run.row_of(1, 1, done, "key");
    run.row_of(2, 2, done, "key");
    expect_broken("I8", "before the earlier message");
}

// I20

TEST_F(checker_arrivals, what_was_sent_must_arrive)
{
    run.sent(1);
    run.sent(2);
    run.stored(2);
    run.handled(2, 1);
    run.row_of(2, 2, done);
    run.tell(stop_event{});
    expect_clean(); // it is under way
    run.pass(2min);
    expect_broken("I20", "what 'shop' calls '1' was sent, and has not arrived in time");
}

TEST_F(checker_arrivals, what_a_dead_feed_had_in_hand_must_arrive_all_the_same)
{
    run.sent(1);
    run.fed(1, "batch");
    run.killed("feed");
    run.tell(stop_event{});
    expect_clean();
    run.pass(2min);
    expect_broken("I20", "what 'shop' calls '1' was sent, and has not arrived in time");
    run.bounds.done_forgotten = true; // it may have been stored, and be done
    expect_clean();
}

TEST_F(checker_arrivals, what_was_stored_must_end)
{
    run.stored(1);
    run.row_of(1, 1, message_state::ready);
    run.tell(stop_event{});
    run.pass(2min);
    expect_broken("I20", "is still ready");
    run.bounds.may_wait = {inbox_topic("orders")};
    expect_clean();
}

TEST_F(checker_arrivals, a_dump_keeps_where_messages_came_from_and_their_effects)
{
    run.stored(1);
    run.handled(1, 1);
    run.row_of(1, 1, done);
    run.effects({1, 1});
    const scratch_folder folder;
    write_final(run.found, folder.file("final"));
    run.found = read_final(folder.file("final"));
    expect_broken("I7", "has taken effect 2 times");
    EXPECT_EQ(origin_of(run.found.messages.front()), script::outside(1));
}

} // namespace
} // namespace posthorn::checker
