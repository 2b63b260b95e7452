// Connections that break in the middle of a commit, or before it: what is in doubt is said to be,
// and whoever repeats it has one effect.
#include "conformance/conformance_test.hpp"
#include "gate/tcp_gate.hpp"
#include <posthorn/idempotency.hpp>
#include <posthorn/inbox.hpp>
#include <posthorn/unit_of_work.hpp>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace posthorn::conformance {
namespace {

using ::testing::SizeIs;

/// Which half of a commit does not arrive.
enum class lost { request, reply };

class lost_replies : public conformance_test {
protected:
    void SetUp() override
    {
        conformance_test::SetUp();
        if (IsSkipped())
            return;
        auto url = under_test().url();
        const auto from = url.rfind(':') + 1;
        const auto port = url.substr(from, url.find('/', from) - from);
        gate_ = std::make_unique<test::tcp_gate>("127.0.0.1",
                                                 static_cast<std::uint16_t>(std::stoi(port)));
        url.replace(from, port.size(), std::to_string(gate_->port()));
        url += url.find('?') == url.npos ? "?pool=1" : "&pool=1";
        far_ = posthorn::open(url, {.environment = world()});
    }

    void TearDown() override
    {
        far_.reset();
        gate_.reset();
        conformance_test::TearDown();
    }

    /// The store, on one connection that can break. `db()` leads straight to the server.
    store& far() { return *far_; }
    test::tcp_gate& wire() { return *gate_; }

    /// Breaks the next commit; what comes before it has been prepared.
    void lose_commit(lost which)
    {
        {
            auto tx = far().begin(); // from now on a request for a commit is one to run it
            enqueue(tx, {"warm-up", ""}, {.delay = 1h});
            tx.commit();
        }
        EXPECT_TRUE(cancel_warm_ups());
        const std::string commit = GetParam().name == "postgres" ? "posthorn_commit" : "COMMIT";
        if (which == lost::request)
            wire().lose_request(commit);
        else
            wire().lose_reply(commit);
    }

    void expect_doubt(const std::function<void()>& action)
    {
        const auto failure = thrown_by(action);
        EXPECT_EQ(failure.code(), error_code::connection_lost) << failure.what();
        EXPECT_TRUE(failure.in_doubt()) << failure.what();
        EXPECT_FALSE(failure.retryable()) << failure.what();
    }

    void expect_lost(const std::function<void()>& action)
    {
        const auto failure = thrown_by(action);
        EXPECT_EQ(failure.code(), error_code::connection_lost) << failure.what();
        EXPECT_FALSE(failure.in_doubt()) << failure.what();
    }

    std::size_t effects() { return list_messages(db(), {.topic = "effect"}).size(); }

    static void work(transaction& tx) { enqueue(tx, {"effect", ""}); }

private:
    bool cancel_warm_ups()
    {
        const auto all = list_messages(db(), {.topic = "warm-up"});
        return std::ranges::all_of(all, [&](const message_record& each) {
            return each.state == message_state::cancelled ||
                   cancel(db(), each.id) == cancel_answer::cancelled;
        });
    }

    std::unique_ptr<test::tcp_gate> gate_;
    std::optional<store> far_;
};

} // namespace

// Proves: INB-04, I7, I15, F4
TEST_P(lost_replies, who_handles_it_again_because_of_doubt_has_one_effect)
{
    int number = 0;
    for (const auto which : {lost::request, lost::reply}) {
        const auto id = std::to_string(++number);
        lose_commit(which);
        expect_doubt([&] { once(far(), "shop", id, &work); });
        const bool there = which == lost::reply;
        EXPECT_EQ(find_inbound(db(), {"shop", id}).has_value(), there);
        EXPECT_EQ(once(far(), "shop", id, &work), !there);
        EXPECT_EQ(effects(), static_cast<std::size_t>(number));
    }
}

// Proves: INB-02, I7, I15, F4
TEST_P(lost_replies, who_sends_it_again_because_of_doubt_sends_one_message)
{
    int number = 0;
    for (const auto which : {lost::request, lost::reply}) {
        const auto id = std::to_string(++number);
        const auto send = [&] { return enqueue_inbound(far(), {"shop", id}, {"orders", id}); };
        lose_commit(which);
        expect_doubt(send);
        EXPECT_EQ(send().answer,
                  which == lost::reply ? inbox_answer::replaced : inbox_answer::added);
        EXPECT_THAT(list_messages(db(), {.topic = "inbox:*"}), SizeIs(number));
    }
}

// Proves: IDM-02, IDM-04, IDM-05, I14, I15, F4
TEST_P(lost_replies, a_command_whose_commit_is_in_doubt_is_never_called_failed)
{
    std::size_t number = 0;
    for (const auto which : {lost::request, lost::reply}) {
        const command_key key{.command = "charge", .key = std::to_string(++number)};
        const auto run = [&] {
            return run_once(far(), key, [](transaction& tx) {
                work(tx);
                return std::string("paid");
            });
        };
        lose_commit(which);
        expect_doubt(run);
        if (which == lost::reply) {
            EXPECT_EQ(run().answer, command_answer::replayed);
        } else {
            EXPECT_EQ(find_key(db(), key.command, key.key)->state, key_state::in_progress);
            EXPECT_EQ(run().answer, command_answer::in_progress) << "it may still be under way";
            clock().advance(key.lock);
            EXPECT_EQ(run().answer, command_answer::executed);
        }
        EXPECT_EQ(run().value(), "paid");
        EXPECT_EQ(effects(), number);
    }
}

// Proves: UOW-01, I1, I15, F4
TEST_P(lost_replies, events_stay_on_their_entity_when_saving_is_in_doubt)
{
    for (const auto which : {lost::request, lost::reply}) {
        const auto before = effects();
        domain_events events(world().clock);
        events.raise(message{"effect", ""});
        store_unit_of_work work(far());
        work.track(events);
        bool acted = false;
        work.on_commit([&] { acted = true; });
        lose_commit(which);
        expect_doubt([&] { work.save_changes(); });
        EXPECT_THAT(events.pending(), SizeIs(1));
        EXPECT_FALSE(acted);
        EXPECT_EQ(effects(), before + (which == lost::reply ? 1 : 0));
    }
}

// Proves: INB-04, IDM-02, UOW-01, I1, F4
TEST_P(lost_replies, a_connection_that_breaks_before_the_commit_leaves_nothing_and_no_doubt)
{
    const auto breaking = [&](transaction& tx) {
        work(tx);
        wire().cut();
        work(tx);
    };
    expect_lost([&] { once(far(), "shop", "1", breaking); });
    EXPECT_FALSE(find_inbound(db(), {"shop", "1"}));
    EXPECT_TRUE(once(far(), "shop", "1", &work));

    const command_key key{.command = "charge", .key = "k1"};
    expect_lost([&] { (void)run_once(far(), key, breaking); });
    EXPECT_EQ(find_key(db(), key.command, key.key)->state, key_state::failed);
    EXPECT_EQ(run_once(far(), key, &work).answer, command_answer::executed);

    domain_events events(world().clock);
    events.raise(message{"effect", ""});
    store_unit_of_work saving(far());
    saving.track(events);
    bool broken = true;
    saving.write([&](transaction& tx) {
        broken ? breaking(tx) : work(tx);
        return std::size_t{1};
    });
    expect_lost([&] { saving.save_changes(); });
    EXPECT_THAT(events.pending(), SizeIs(1));
    broken = false;
    EXPECT_EQ(saving.save_changes(), 2U);
    EXPECT_TRUE(events.empty());
    EXPECT_EQ(effects(), 4U);
}

std::vector<store_kind> servers()
{
    std::vector<store_kind> result;
    for (const auto& each : store_kinds())
        if (each.name == "postgres" || each.name == "mariadb")
            result.push_back(each);
    return result;
}

INSTANTIATE_TEST_SUITE_P(stores, lost_replies, ::testing::ValuesIn(servers()),
                         [](const auto& kind) { return kind.param.name; });

} // namespace posthorn::conformance
