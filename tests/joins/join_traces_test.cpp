// Joins in a trace: members and continuations are found together, without a word from the user.
#include "joins/joining_test.hpp"
#include <posthorn/correlation.hpp>
#include <posthorn/trace.hpp>
#include <posthorn/worker.hpp>

#include <algorithm>

namespace posthorn::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr auto traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

class join_traces : public joining<conformance_test> {
protected:
    message_record only(const std::string& topic)
    {
        const auto all = list_messages(db(), {.topic = topic});
        EXPECT_THAT(all, SizeIs(1)) << topic;
        return all.empty() ? message_record{} : all.front();
    }

    std::vector<std::string> topics_of(const std::string& correlation)
    {
        std::vector<std::string> result;
        for (const auto& each : trace_messages(db(), correlation).messages)
            result.push_back(std::string(2 * each.depth, ' ') + each.record.topic);
        return result;
    }

    static bool goes_on(const message_record& of)
    {
        const auto own = of.headers.find("traceparent");
        return own != of.headers.end() && own->second != traceparent &&
               own->second.substr(0, 36) == std::string(traceparent).substr(0, 36);
    }
};

// Proves: COR-05, COR-06, JOIN-018
TEST_P(join_traces, a_continuation_belongs_to_its_join_and_was_caused_by_the_last_member)
{
    join_id join;
    {
        const auto scope = correlation_scope::begin_from(
            {.id = "order-7", .traceparent = traceparent, .tracestate = "vendor=1"});
        join = open(2);
        add_to(join);
        add_to(join);
    }
    const auto members = work_off();
    EXPECT_THAT(topics_of("order-7"),
                ::testing::UnorderedElementsAre("orders", "orders", "  " + complete_topic));
    const auto next = only(complete_topic);
    EXPECT_EQ(next.correlation_id, "order-7");
    EXPECT_EQ(std::ranges::count(members, next.causation_id, [](auto id) { return to_string(id); }),
              1);
    EXPECT_TRUE(goes_on(next));
    EXPECT_EQ(next.headers.at("tracestate"), "vendor=1");
    EXPECT_EQ(next.headers.at(std::string(join_header)), to_string(join));
}

// Proves: COR-05, COR-06, JOIN-018
TEST_P(join_traces, outside_of_any_scope_a_join_and_its_new_members_belong_to_the_join_itself)
{
    auto tx = db().begin();
    const auto join = open_join(tx, {.expected = 3, .on_complete = message{complete_topic, ""}});
    enqueue(tx, {"orders", ""}, {.join = join});
    tx.commit();
    add_to(join); // in another transaction
    const auto mine = add_to(join, {.correlation_id = "mine"});
    EXPECT_EQ(look_at(join).correlation_id, to_string(join));
    work_off();
    EXPECT_EQ(only(complete_topic).correlation_id, to_string(join));
    EXPECT_EQ(look(mine).correlation_id, "mine") << "what is given wins";
    EXPECT_THAT(topics_of(to_string(join)), SizeIs(3));
    EXPECT_THAT(topics_of(to_string(only(complete_topic).id)), SizeIs(3));
    EXPECT_FALSE(only(complete_topic).headers.contains("traceparent"));
}

// Proves: COR-05, COR-06, JOIN-014
TEST_P(join_traces, a_handler_that_opens_a_join_is_the_root_of_all_that_follows)
{
    add("start", {.correlation_id = "order-7", .headers = {{"traceparent", traceparent}}});
    worker own(db(), {.concurrency = 1});
    own.handle("start", [](transactional_delivery<>& which) {
        const auto join =
            open_join(which.tx(), {.expected = 2, .on_complete = message{complete_topic, ""}});
        enqueue(which.tx(), {"orders", ""}, {.join = join});
        enqueue(which.tx(), {"orders", ""}, {.join = join});
        enqueue_join_wait(which.tx(), {.join = join, .on_complete = message{"waited", ""}});
    });
    own.handle("*", [](const delivery_view&) {});
    own.process_outbox();
    const auto topics = topics_of("order-7");
    EXPECT_THAT(topics, ::testing::UnorderedElementsAre("start", "  orders", "  orders",
                                                        "    " + complete_topic, "  join.wait",
                                                        "    waited"));
    for (const auto* topic : {"all.done", "join.wait", "waited"})
        EXPECT_TRUE(goes_on(only(topic))) << topic;
}

// Proves: COR-05, COR-06, JOIN-023
TEST_P(join_traces, a_join_that_a_handler_ends_names_its_message_as_the_cause)
{
    const auto join = open_join(db(), {.on_complete = message{complete_topic, ""}});
    add_to(join);
    work_off();
    const auto seals =
        add("seal", {.correlation_id = "order-8", .headers = {{"traceparent", traceparent}}});
    worker own(db(), {.concurrency = 1});
    own.handle("seal", [&](transactional_delivery<>& which) { seal_join(which.tx(), join); });
    own.handle("*", [](const delivery_view&) {});
    own.process_outbox();
    const auto next = only(complete_topic);
    EXPECT_EQ(next.correlation_id, to_string(join));
    EXPECT_EQ(next.causation_id, to_string(seals));
    EXPECT_TRUE(goes_on(next)) << "the join was opened in no trace, so this one goes on";
}

CONFORMANCE_SUITE(join_traces);

} // namespace
} // namespace posthorn::conformance
