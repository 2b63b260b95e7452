// Joins whose members are in other stores, on every engine with another one beside it: each member
// counts once, whatever is away meanwhile and in whatever order its reports arrive.
#include "joins/joining_test.hpp"
#include "store/contract/join_book.hpp"
#include "store/contract/session.hpp"
#include <posthorn/dead_letters.hpp>
#include <posthorn/error.hpp>
#include <posthorn/retention.hpp>
#include <posthorn/worker.hpp>

#include <algorithm>
#include <atomic>

namespace posthorn::conformance {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// The next engine in the list, whose store is no memory of one handle.
const store_kind& kind_beside(const store_kind& near)
{
    const auto& all = store_kinds();
    const auto at = std::ranges::find(all, near.name, &store_kind::name) - all.begin();
    for (std::size_t i = 1;; ++i) {
        const auto& next = all[(static_cast<std::size_t>(at) + i) % all.size()];
        if (next.can.second_handle)
            return next;
    }
}

class remote_joins : public joining<conformance_test> {
protected:
    void SetUp() override
    {
        joining::SetUp();
        if (IsSkipped())
            return;
        elsewhere_ = kind_beside(GetParam()).make();
        far_.emplace(elsewhere_->open({.environment = world()}));
    }

    store& far() { return *far_; }

    store_provider both()
    {
        return stores({{.name = "near", .at = db()}, {.name = "far", .at = far()}});
    }

    /// A member in the other store, which is due after an hour.
    message_id add_far(join_id join, duration delay = 1h)
    {
        auto tx = far().begin();
        const auto id = enqueue(tx, {"orders", "payload"}, {.delay = delay}).id;
        EXPECT_EQ(attach(tx, remote_join{"near", join}, id), attach_answer::attached);
        tx.commit();
        return id;
    }

    /// Works off what is due in the other store, and carries its reports over.
    run_report work_far(std::optional<store_provider> among = {})
    {
        worker own(far(), {.concurrency = 1});
        own.handle(join_report_topic,
                   join_reports(among.value_or(both()), {.own_name = "far", .pause = 1min}));
        own.handle("*", [this](const delivery_view&) {
            return broken_ ? posthorn::fail("broken") : done();
        });
        return own.process_outbox();
    }

    std::vector<remote_member> remotes(join_id join) { return list_remote_members(db(), join); }

    std::vector<message_record> reports(std::optional<message_state> state = {})
    {
        return list_messages(far(), {.state = state, .topic = std::string(join_report_topic)});
    }

    contract::counted_report report(join_id join, message_id member, member_state state,
                                    std::int64_t version)
    {
        auto tx = db().begin();
        auto result = tx.session().joins().count_report(
            join, {.member = member, .state = state, .store = "far", .version = version});
        tx.commit();
        return result;
    }

    std::int64_t rows_in(store_under_test& where, const std::string& table,
                         const std::string& condition = "1 = 1")
    {
        auto name = where.table_of_messages();
        name.replace(name.rfind("message"), 7, table);
        std::string sql = "SELECT count(*) FROM ";
        sql.append(name).append(" WHERE ").append(condition);
        return where.connect(world())->count(sql);
    }

    store_under_test& elsewhere() { return *elsewhere_; }

    std::atomic<bool> broken_ = false;

private:
    std::unique_ptr<store_under_test> elsewhere_;
    std::optional<store> far_;
};

// Proves: JOIN-025, JOIN-018, I10, I11
TEST_P(remote_joins, count_members_of_two_stores_once_each)
{
    const auto join = open(3);
    add_to(join);
    const auto one = add_far(join);
    const auto two = add_far(join);
    EXPECT_EQ(look_at(join).attached, 1);
    work_far();
    EXPECT_EQ(look_at(join).attached, 3) << "the join learns of them before they end";
    EXPECT_EQ(look_at(join).completed, 0);
    EXPECT_THAT(remotes(join), AllOf(SizeIs(2), Each(Field(&remote_member::store, "far"))));
    work_off();
    EXPECT_EQ(look_at(join).completed, 1);
    clock().advance(1h);
    work_far();
    EXPECT_EQ(look_at(join).completed, 3);
    EXPECT_EQ(end_of(join), join_state::completed);
    EXPECT_EQ(continuations(), 1U);
    for (const auto& each : remotes(join)) {
        EXPECT_TRUE(each.id == one || each.id == two);
        EXPECT_EQ(each.state, member_state::completed);
    }
    work_far();
    EXPECT_EQ(look_at(join).completed, 3);
    EXPECT_THAT(reports(message_state::dead), IsEmpty());
}

// Proves: JOIN-025
TEST_P(remote_joins, are_told_by_a_worker_that_has_both_stores)
{
    const auto join = open(2);
    add_to(join);
    add_far(join, duration::zero());
    worker all(both(), {.concurrency = 2});
    all.handle("*", [](const delivery_view&) {});
    all.run({}, {.until_empty = true});
    EXPECT_EQ(end_of(join), join_state::completed);
    EXPECT_THAT(remotes(join), ElementsAre(Field(&remote_member::store, "far")));
}

// Proves: JOIN-025, I5, I20
TEST_P(remote_joins, wait_without_an_attempt_while_their_store_is_away)
{
    bool is_up = false;
    const auto among = discover(
        [&] {
            return is_up ? std::vector<named_store>{{.name = "near", .at = db()}}
                         : std::vector<named_store>{
                               {.name = "near", .url = "sqlite:/no/such/folder/near.db"}};
        },
        {.every = 1ms, .with = {.open = {.environment = world()}}});
    const auto join = open(1);
    add_far(join, duration::zero());
    for (int i = 0; i < 30; ++i) { // more often than a message may be tried
        work_far(among);
        clock().advance(1min);
    }
    EXPECT_THAT(reports(), SizeIs(2));
    for (const auto& each : reports()) {
        EXPECT_EQ(each.attempts, 0);
    }
    EXPECT_EQ(look_at(join).attached, 0);
    is_up = true;
    work_far(among);
    EXPECT_EQ(end_of(join), join_state::completed);
}

// Proves: JOIN-024, JOIN-025, I10
TEST_P(remote_joins, count_a_report_once_however_often_and_in_whatever_order_it_arrives)
{
    const auto join = open(3);
    const message_id member{uuid::version_7(now(), *world().random)};
    EXPECT_EQ(report(join, member, member_state::completed, 9).answer, report_answer::counted);
    EXPECT_EQ(report(join, member, member_state::completed, 9).answer, report_answer::known);
    EXPECT_EQ(report(join, member, member_state::pending, 1).answer, report_answer::known)
        << "its first report came last";
    EXPECT_EQ(report(join, member, member_state::failed, 5).answer, report_answer::known);
    EXPECT_EQ(look_at(join).attached, 1);
    EXPECT_EQ(look_at(join).completed, 1);
    EXPECT_EQ(look_at(join).failed, 0);
    const message_id by_hand{uuid::version_7(now(), *world().random)};
    EXPECT_EQ(report(join, by_hand, member_state::pending, 1).answer, report_answer::counted);
    EXPECT_EQ(report_step_completed(db(), join, by_hand), report_answer::counted);
    EXPECT_EQ(report_step_completed(db(), join, by_hand), report_answer::known);
    EXPECT_EQ(report(join, by_hand, member_state::failed, 7).answer, report_answer::known);
    EXPECT_EQ(look_at(join).failed, 0) << "the first word counts";
    EXPECT_EQ(look_at(join).completed, 2);
    const message_id third{uuid::version_7(now(), *world().random)};
    EXPECT_EQ(report(join, third, member_state::completed, 3).answer, report_answer::counted);
    EXPECT_EQ(report(join, third, member_state::completed, 3).answer, report_answer::known);
    EXPECT_EQ(end_of(join), join_state::completed);
    EXPECT_EQ(continuations(), 1U);
}

// Proves: JOIN-023, JOIN-025
TEST_P(remote_joins, follow_a_dead_member_that_comes_back)
{
    const auto join = open(2);
    const auto member = add_far(join, duration::zero());
    add_to(join);
    broken_ = true;
    work_far();
    EXPECT_EQ(look_at(join).failed, 1);
    EXPECT_EQ(end_of(join), join_state::pending);
    EXPECT_TRUE(posthorn::redrive(far(), member));
    clock().advance(1h);
    broken_ = false;
    work_far();
    EXPECT_EQ(look_at(join).failed, 0);
    EXPECT_EQ(look_at(join).completed, 1);
    work_off();
    EXPECT_EQ(end_of(join), join_state::completed);
    EXPECT_EQ(continuations(), 1U);
}

// Proves: JOIN-023, JOIN-025
TEST_P(remote_joins, have_another_chance_when_their_members_were_redriven)
{
    const auto join = open(2);
    const auto member = add_far(join, duration::zero());
    add_to(join);
    work_off();
    broken_ = true;
    work_far();
    EXPECT_EQ(end_of(join), join_state::failed);
    EXPECT_EQ(redrive_join(db(), join), 0U) << "it is dead where it is";
    EXPECT_TRUE(posthorn::redrive(far(), member));
    broken_ = false;
    work_far();
    EXPECT_EQ(end_of(join), join_state::failed) << "what has ended stays so";
    EXPECT_EQ(remotes(join).at(0).state, member_state::failed);
    EXPECT_EQ(remotes(join).at(0).reported, member_state::completed);
    EXPECT_EQ(redrive_join(db(), join), 1U);
    EXPECT_EQ(end_of(join), join_state::completed);
    EXPECT_EQ(look_at(join).completed, 2);
    EXPECT_EQ(look_at(join).failed, 0);
    EXPECT_EQ(enqueued_of(complete_topic), 1U);
}

// Proves: JOIN-023, JOIN-025
TEST_P(remote_joins, leave_members_that_come_too_late_and_count_them_when_redriven)
{
    const auto enough = open({.expected = 2, .needed = 1});
    add_to(enough);
    work_off();
    add_far(enough, duration::zero());
    const auto late = open({.expected = 1, .deadline = 10min});
    add_far(late, duration::zero());
    clock().advance(10min);
    work_off();
    work_far();
    EXPECT_EQ(end_of(enough), join_state::completed);
    EXPECT_EQ(remotes(enough).at(0).state, member_state::left);
    EXPECT_EQ(end_of(late), join_state::failed);
    EXPECT_EQ(look_at(late).attached, 0);
    EXPECT_EQ(redrive_join(db(), late), 1U);
    EXPECT_EQ(end_of(late), join_state::completed);
    EXPECT_EQ(look_at(late).attached, 1);
}

// Proves: JOIN-025
TEST_P(remote_joins, refuse_members_beyond_those_they_expect_as_dead_letters)
{
    const auto join = open(1);
    add_far(join, duration::zero());
    work_far();
    const auto second = add_far(join, duration::zero());
    const auto unknown = add_far(join_id{uuid::version_7(now(), *world().random)}, 0s);
    work_far();
    EXPECT_EQ(look_at(join).attached, 1);
    EXPECT_EQ(end_of(join), join_state::completed);
    EXPECT_THAT(remotes(join), SizeIs(1));
    const auto dead = reports(message_state::dead);
    EXPECT_THAT(dead, SizeIs(4)) << "both reports of both members";
    for (const auto& each : dead) {
        const bool is_second = each.causation_id == to_string(second);
        EXPECT_TRUE(is_second || each.causation_id == to_string(unknown));
        EXPECT_THAT(each.last_error, HasSubstr(is_second ? "too many" : "there is no join"));
    }
}

// Proves: JOIN-025, I1
TEST_P(remote_joins, learn_of_members_that_exist_however_they_end)
{
    const auto join = open(3);
    {
        auto left = far().begin();
        const auto id = enqueue(left, {"orders", ""}).id;
        attach(left, remote_join{"near", join}, id);
    }
    EXPECT_THAT(reports(), IsEmpty());
    const auto cancelled = add_far(join);
    EXPECT_EQ(attach(far(), remote_join{"near", join}, cancelled), attach_answer::known);
    EXPECT_EQ(cancel(far(), cancelled), cancel_answer::cancelled);
    const auto done = enqueue(far(), {"orders", ""}).id;
    const auto dead = enqueue(far(), {"orders", ""}).id;
    outbox queue(far());
    for (const auto& each : queue.claim(alice, {.limit = 100}).deliveries) {
        if (each.receipt.id == done)
            queue.acknowledge(alice, {&each.receipt, 1});
        else if (each.receipt.id == dead)
            queue.fail(alice, {&each.receipt, 1}, "broken");
        else
            queue.abandon(alice, {&each.receipt, 1}, duration::zero());
    }
    EXPECT_EQ(attach(far(), remote_join{"near", join}, done), attach_answer::counted);
    EXPECT_EQ(attach(far(), remote_join{"near", join}, dead), attach_answer::counted);
    clock().advance(1min);
    work_far();
    EXPECT_EQ(look_at(join).completed, 1);
    EXPECT_EQ(look_at(join).failed, 2);
    EXPECT_EQ(end_of(join), join_state::failed);
    const message_id nobody{uuid::version_7(now(), *world().random)};
    EXPECT_EQ(thrown_by([&] {
                  attach(far(), remote_join{"near", join}, nobody);
              }).code(),
              error_code::not_found);
    EXPECT_EQ(thrown_by([&] {
                  attach(far(), remote_join{"", join}, done);
              }).code(),
              error_code::invalid_argument);
}

// Proves: JOIN-025
TEST_P(remote_joins, leave_nothing_behind)
{
    const auto join = open(2);
    add_far(join, duration::zero());
    add_far(join, duration::zero());
    work_far();
    EXPECT_EQ(rows_in(elsewhere(), "join_report"), 0);
    EXPECT_EQ(rows_in(elsewhere(), "join_member", "role = 6"), 0);
    if (!GetParam().can.native_connections)
        return;
    EXPECT_EQ(rows_in(under_test(), "join_remote"), 2);
    clock().advance(1min);
    clean(db(), {.finished = 0s, .joins = 0s});
    EXPECT_FALSE(find_join(db(), join));
    EXPECT_EQ(rows_in(under_test(), "join_remote"), 0);
}

CONFORMANCE_SUITE(remote_joins);

} // namespace
} // namespace posthorn::conformance
