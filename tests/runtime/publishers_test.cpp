// The outbox publisher on every store: what is given wins, else the scope, else its own id.
#include "runtime/worker_test.hpp"
#include <posthorn/correlation.hpp>
#include <posthorn/error.hpp>
#include <posthorn/joins.hpp>
#include <posthorn/publisher.hpp>

#include <algorithm>
#include <map>
#include <set>

namespace posthorn::conformance {
namespace {

using ::testing::HasSubstr;

class publishers : public worker_test {
protected:
    enqueued publish(const enqueue_options& how = {})
    {
        return outbox_publisher(db()).publish(message{"orders", "payload"}, how);
    }
    message_record published(const enqueue_options& how = {}) { return look(publish(how).id); }
};

// Proves: COR-04
TEST_P(publishers, without_a_scope_the_correlation_is_the_message_itself_and_the_sequence_zero)
{
    const auto found = published();
    EXPECT_EQ(found.correlation_id, to_string(found.id));
    EXPECT_EQ(found.causation_id, "");
    EXPECT_EQ(found.headers, (headers{{"posthorn-corr-seq", "0"}}));
    const auto other = published({.dedup_key = "d"});
    EXPECT_EQ(other.correlation_id, to_string(other.id));
    EXPECT_TRUE(publish({.dedup_key = "d"}).duplicate);
    EXPECT_EQ(total(), 2U);
}

// Proves: COR-04
TEST_P(publishers, in_a_scope_the_correlation_is_the_scopes_and_the_sequence_its_next)
{
    const auto scope = correlation_scope::begin("order-7");
    for (const auto* number : {"1", "2", "3"}) {
        const auto found = published({.ordering_key = "k", .headers = {{"lang", "de"}}});
        EXPECT_EQ(found.correlation_id, "order-7");
        EXPECT_EQ(found.headers, (headers{{"lang", "de"}, {"posthorn-corr-seq", number}}));
    }
}

// Proves: COR-04
TEST_P(publishers, what_is_given_wins_over_the_scope)
{
    const auto scope = correlation_scope::begin("order-7");
    EXPECT_EQ(published({.correlation_id = "mine"}).correlation_id, "mine");
    const auto found = published({.headers = {{"posthorn-corr-id", "theirs"},
                                              {"posthorn-corr-seq", "5"},
                                              {"posthorn-causation-id", "a click"}}});
    EXPECT_EQ(found.correlation_id, "theirs");
    EXPECT_EQ(found.causation_id, "a click");
    EXPECT_EQ(found.headers, (headers{{"posthorn-corr-seq", "5"}}));
    EXPECT_EQ(correlation_scope::current()->sequence(), 0);
    EXPECT_EQ(published().headers.at("posthorn-corr-seq"), "1");
}

// Proves: COR-04
TEST_P(publishers, a_handler_sees_what_was_published)
{
    {
        const auto scope = correlation_scope::begin("order-7");
        (void)publish();
    }
    const auto report = pass([&](const delivery_view& which) {
        EXPECT_EQ(which.message().correlation_id, "order-7");
        EXPECT_EQ(which.headers().at("posthorn-corr-seq"), "1");
        EXPECT_EQ(which.payload(), "payload");
    });
    EXPECT_EQ(report.done, 1U);
}

// Proves: COR-04, I1
TEST_P(publishers, a_message_exists_if_its_transaction_commits_and_many_go_together)
{
    const auto scope = correlation_scope::begin("order-7");
    outbox_publisher publisher(db());
    const std::vector<outgoing> both{{{"a", ""}}, {{"b", ""}, {.correlation_id = "mine"}}};
    {
        auto tx = db().begin();
        EXPECT_EQ(publisher.publish(tx, both).size(), 2U);
        publisher.publish(tx, message{"c", ""});
    }
    EXPECT_EQ(total(), 0U);
    auto tx = db().begin();
    const auto added = publisher.publish(tx, both);
    tx.commit();
    EXPECT_EQ(look(added.at(0).id).correlation_id, "order-7");
    EXPECT_EQ(look(added.at(1).id).correlation_id, "mine");
    EXPECT_EQ(publisher.publish(both).size(), 2U);
    EXPECT_TRUE(publisher.publish(std::vector<outgoing>{}).empty());
    EXPECT_EQ(total(), 4U);
}

// Proves: COR-04, OUT-02
TEST_P(publishers, other_names_of_ours_are_refused_as_everywhere)
{
    for (const auto* name : {"posthorn-anything", "Posthorn-Id"}) {
        const auto thrown = thrown_by([&] { (void)publish({.headers = {{name, "x"}}}); });
        EXPECT_EQ(thrown.code(), error_code::invalid_argument);
        EXPECT_THAT(thrown.what(), HasSubstr("reserved"));
    }
    EXPECT_EQ(total(), 0U);
}

// Proves: COR-01, COR-04
TEST_P(publishers, eight_threads_of_one_scope_number_their_messages_without_gap_or_double)
{
    constexpr int threads = 8;
    constexpr int each = 5;
    {
        const auto scope = correlation_scope::begin("order-7");
        std::vector<std::jthread> all;
        for (int i = 0; i < threads; ++i)
            all.emplace_back(bind_context([&] {
                for (int k = 0; k < each; ++k)
                    (void)publish();
            }));
    }
    std::set<int> numbers;
    for (const auto& found : list_messages(db(), {.limit = 100})) {
        EXPECT_EQ(found.correlation_id, "order-7");
        numbers.insert(std::stoi(found.headers.at("posthorn-corr-seq")));
    }
    EXPECT_EQ(numbers.size(), static_cast<std::size_t>(threads * each));
    EXPECT_EQ(*numbers.begin(), 1);
    EXPECT_EQ(*numbers.rbegin(), threads * each);
}

// Proves: COR-01, COR-04, I22
TEST_P(publishers, what_is_refused_or_known_already_uses_up_no_number)
{
    const auto scope = correlation_scope::begin("order-7");
    outbox_publisher publisher(db());
    const auto number = [&](const enqueued& of) {
        return look(of.id).headers.at("posthorn-corr-seq");
    };
    EXPECT_EQ(number(publish({.dedup_key = "d"})), "1");
    EXPECT_THROW((void)publisher.publish(message{"", ""}), error);
    const std::vector<outgoing> one_is_bad{{{"a", ""}}, {{"", ""}}};
    EXPECT_THROW((void)publisher.publish(one_is_bad), error);
    const enqueue_options reserved{.headers = {{"posthorn-anything", "x"}}};
    EXPECT_THROW((void)publish(reserved), error);
    const enqueue_options unknown{.join = join_id{uuid::version_7(now(), *world().random)}};
    EXPECT_THROW((void)publish(unknown), error);
    EXPECT_TRUE(publish({.dedup_key = "d"}).duplicate);
    EXPECT_EQ(correlation_scope::current()->sequence(), 1);

    const std::vector<outgoing> some_are_known{{{"a", ""}},
                                               {{"orders", ""}, {.dedup_key = "d"}},
                                               {{"c", ""}, {.dedup_key = "e"}},
                                               {{"f", ""}}};
    const auto added = publisher.publish(some_are_known);
    EXPECT_EQ(number(added.at(0)), "2");
    EXPECT_TRUE(added.at(1).duplicate);
    EXPECT_EQ(number(added.at(2)), "3");
    EXPECT_EQ(number(added.at(3)), "4");
    auto tx = db().begin();
    EXPECT_TRUE(publisher.publish(tx, message{"c", ""}, {.dedup_key = "e"}).duplicate);
    const auto again = publisher.publish(tx, some_are_known);
    tx.commit();
    EXPECT_EQ(number(again.at(0)), "5");
    EXPECT_EQ(number(again.at(3)), "6");
    EXPECT_EQ(correlation_scope::current()->sequence(), 6);
    EXPECT_EQ(total(), 6U);
}

// Proves: COR-01, COR-04, I22
TEST_P(publishers,
       a_transaction_that_is_rolled_back_gives_its_numbers_back_unless_later_ones_are_out)
{
    const auto scope = correlation_scope::begin("order-7");
    outbox_publisher publisher(db());
    const std::vector<outgoing> two{{{"a", ""}}, {{"b", ""}}};
    const auto last = [] { return correlation_scope::current()->sequence(); };
    {
        auto left = db().begin();
        publisher.publish(left, two);
        publisher.publish(left, message{"c", ""});
        EXPECT_EQ(last(), 3);
    }
    EXPECT_EQ(last(), 0);
    auto told = db().begin();
    publisher.publish(told, two);
    told.rollback();
    EXPECT_EQ(last(), 0);
    auto kept = db().begin();
    publisher.publish(kept, two);
    auto moved = std::move(kept);
    moved.commit();
    EXPECT_EQ(last(), 2);
    EXPECT_EQ(published().headers.at("posthorn-corr-seq"), "3");
    {
        auto overtaken = db().begin();
        publisher.publish(overtaken, message{"a", ""});
        (void)correlation_scope::current()->increment_sequence();
    }
    EXPECT_EQ(last(), 5) << "a number is never given out twice";
}

// Proves: COR-04
TEST_P(publishers, a_plain_enqueue_outside_of_any_scope_stays_as_it_is)
{
    const auto found = look(enqueue(db(), message{"orders", ""}).id);
    EXPECT_EQ(found.correlation_id, "");
    EXPECT_EQ(found.causation_id, "");
    EXPECT_EQ(found.headers, headers{});
}

CONFORMANCE_SUITE(publishers);

} // namespace
} // namespace posthorn::conformance
