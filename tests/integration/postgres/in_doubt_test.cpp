// A reply that is lost on its way: a commit in flight is called in doubt and can be looked up,
// never repeated blindly; everything else is a lost connection that left nothing behind.
#include "conformance/conformance_test.hpp"
#include "conformance/postgres_under_test.hpp"
#include "conformance/server_under_test.hpp"
#include "gate/tcp_gate.hpp"
#include <posthorn/postgres.hpp>
#include <posthorn/testing/manual_clock.hpp>
#include <posthorn/worker.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace posthorn::test {
namespace {

using namespace std::chrono_literals;
using conformance::thrown_by;
using ending = tcp_gate::ending;
using ::testing::HasSubstr;

/// How the store talks: with prepared statements, or with whole texts as behind a pooler.
enum class talk { prepared, texts };

class in_doubt : public ::testing::TestWithParam<talk> {
protected:
    in_doubt() : in_doubt(conformance::make_postgres()) {}

    /// What a request for that statement holds.
    [[nodiscard]] static std::string asking_for(const std::string& statement)
    {
        if (GetParam() == talk::prepared)
            return "posthorn_" + statement;
        // A whole text ends with a zero: READ COMMITTED is another word.
        if (statement == "commit")
            return {"COMMIT", 7};
        return statement == "settle_stretch" ? "cardinality(others) = 0" : "INSERT INTO";
    }

    /// Loses what comes next, once the far connection has prepared its statements: from then on a
    /// request for one is the request to run it.
    void lose_reply(const std::string& statement, const std::string& answer,
                    ending how = ending::reset)
    {
        prepare_statements();
        gate_.lose_reply(asking_for(statement), answer, how);
    }
    void lose_request(const std::string& statement, ending how = ending::reset)
    {
        prepare_statements();
        gate_.lose_request(asking_for(statement), how);
    }

    /// How often connections to the server were made: nobody who does not reconnect can repeat.
    [[nodiscard]] std::size_t connections() const { return gate_.seen().connections; }

    std::vector<message_record> all() { return list_messages(near_, {.with_payload = true}); }

    /// Runs `action` and expects it to end in doubt, without a second try.
    error expect_doubt(const std::function<void()>& action)
    {
        const auto before = connections();
        auto failure = thrown_by(action);
        EXPECT_EQ(failure.code(), error_code::connection_lost) << failure.what();
        EXPECT_TRUE(failure.in_doubt()) << failure.what();
        EXPECT_FALSE(failure.retryable()) << failure.what();
        EXPECT_TRUE(failure.poisons_connection()) << failure.what();
        EXPECT_THAT(failure.what(), HasSubstr("may or may not have happened"));
        EXPECT_FALSE(failure.statement().empty());
        EXPECT_EQ(connections(), before) << "somebody tried again";
        return failure;
    }

    /// Runs `action` and expects that nothing of it can have happened.
    void expect_lost(const std::function<void()>& action)
    {
        const auto failure = thrown_by(action);
        EXPECT_EQ(failure.code(), error_code::connection_lost) << failure.what();
        EXPECT_FALSE(failure.in_doubt()) << failure.what();
        EXPECT_TRUE(failure.retryable()) << failure.what();
        EXPECT_TRUE(failure.poisons_connection()) << failure.what();
    }

    void prepare_statements()
    {
        auto tx = far_.begin();
        enqueue(tx, {"orders", "x"});
        enqueue(tx, std::vector<outgoing>(2, {.message = {"orders", "x"}}));
        enqueue(tx, {"orders", "x"}, {.id = new_id()});
        tx.rollback();
        EXPECT_EQ(cancel(far_, new_id()), cancel_answer::not_found);
        const receipt of_nothing;
        EXPECT_EQ(outbox(far_).acknowledge(alice_, {&of_nothing, 1}).lost(), 1U);
    }

    receipt claim_one(store& where)
    {
        return outbox(where).claim(alice_, {.limit = 1}).receipts().at(0);
    }

    message_id new_id() { return message_id{uuid::version_7(clock_->now(), *world_.random)}; }

    static constexpr std::array both_endings{ending::reset, ending::close};

    std::shared_ptr<testing::manual_clock> clock_ = std::make_shared<testing::manual_clock>();
    environment world_{.clock = clock_, .random = environment::system().random, .log = {}};
    std::unique_ptr<conformance::store_under_test> under_test_;
    std::string server_;
    std::string name_ = conformance::unused_name(); ///< of far connections, for the server
    tcp_gate gate_;
    store near_; ///< straight to the server
    store far_;  ///< through the gate, on one connection
    owner alice_{.token = "token of alice", .worker = "alice"};

private:
    explicit in_doubt(std::unique_ptr<conformance::store_under_test> made)
        : under_test_(std::move(made)),
          server_(port_in(under_test_->url())),
          gate_("127.0.0.1", static_cast<std::uint16_t>(std::stoi(server_))),
          near_(under_test_->open({.environment = world_})),
          far_(postgres::open(gated_url(), {.environment = world_}))
    {}

    static std::string port_in(const std::string& url)
    {
        const auto colon = url.rfind(':') + 1;
        return url.substr(colon, url.find('/', colon) - colon);
    }

    [[nodiscard]] std::string gated_url() const
    {
        auto url = under_test_->url();
        url.replace(url.rfind(':') + 1, server_.size(), std::to_string(gate_.port()));
        return url + "&pool=1&application_name=" + name_ +
               (GetParam() == talk::texts ? "&pooler=transaction" : "");
    }
};

} // namespace

// Proves: I15, F4
TEST_P(in_doubt, a_commit_whose_reply_is_lost_has_happened_and_is_found_by_id)
{
    for (const auto how : both_endings) {
        prepare_statements();
        auto tx = far_.begin();
        const auto id = enqueue(tx, {"orders", "x"}).id;
        gate_.lose_reply(asking_for("commit"), "COMMIT", how);
        EXPECT_EQ(expect_doubt([&] { tx.commit(); }).statement(), "commit");
        EXPECT_EQ(find_message(near_, id)->state, message_state::ready);
    }
    EXPECT_EQ(all().size(), 2U);
    EXPECT_EQ(gate_.seen().replies_lost, 2U);
}

// Proves: I15, F4
TEST_P(in_doubt, a_commit_whose_request_is_lost_has_not_happened_and_nobody_can_tell_but_by_id)
{
    for (const auto how : both_endings) {
        prepare_statements();
        auto tx = far_.begin();
        const auto id = enqueue(tx, {"orders", "x"}).id;
        gate_.lose_request(asking_for("commit"), how);
        expect_doubt([&] { tx.commit(); });
        EXPECT_EQ(find_message(near_, id), std::nullopt);
    }
    EXPECT_EQ(all().size(), 0U);
    EXPECT_EQ(gate_.seen().requests_lost, 2U);
}

// Proves: I15, F4
TEST_P(in_doubt, an_enqueue_of_its_own_is_in_doubt_too_and_the_callers_id_tells)
{
    for (const auto how : both_endings) {
        const auto id = new_id();
        lose_reply("insert_any", "INSERT 0 1", how);
        expect_doubt([&] { enqueue(far_, {"orders", "x"}, {.id = id}); });
        EXPECT_EQ(find_message(near_, id)->state, message_state::ready);
        // Whoever repeats it with the same id learns that it was there, and adds no second one.
        const auto again = thrown_by([&] { enqueue(far_, {"orders", "x"}, {.id = id}); });
        EXPECT_EQ(again.code(), error_code::constraint);
    }
    EXPECT_EQ(all().size(), 2U);
}

// Proves: I15, F4
TEST_P(in_doubt, an_enqueue_that_never_arrived_can_be_repeated_with_its_id)
{
    for (const auto how : both_endings) {
        const auto id = new_id();
        lose_request("insert_any", how);
        expect_doubt([&] { enqueue(far_, {"orders", "x"}, {.id = id}); });
        EXPECT_EQ(find_message(near_, id), std::nullopt);
        EXPECT_EQ(enqueue(far_, {"orders", "x"}, {.id = id}).id, id);
    }
    EXPECT_EQ(all().size(), 2U);
}

// Proves: I15, F4
TEST_P(in_doubt, an_enqueue_without_an_id_is_found_by_looking_and_is_there_once)
{
    for (const auto how : both_endings) {
        lose_reply("insert_one_plain", "INSERT 0 1", how);
        expect_doubt([&] { enqueue(far_, {"orders", "one"}); });
    }
    lose_reply("insert_plain", "INSERT 0 3");
    expect_doubt([&] {
        enqueue(far_, std::vector<outgoing>(3, {.message = {"orders", "three"}}));
    });
    const auto found = all();
    EXPECT_EQ(std::ranges::count(found, "one", &message_record::payload), 2);
    EXPECT_EQ(std::ranges::count(found, "three", &message_record::payload), 3);
}

// Proves: I15, F4, OUT-07
TEST_P(in_doubt, a_dedup_key_makes_repeating_harmless)
{
    const std::vector<outgoing> bulk{{{"orders", "a"}, {.dedup_key = "a"}},
                                     {{"orders", "b"}, {.dedup_key = "b"}}};
    lose_reply("commit", "COMMIT");
    expect_doubt([&] { enqueue(far_, bulk); });
    for (const auto& each : enqueue(far_, bulk)) {
        EXPECT_TRUE(each.duplicate);
        EXPECT_TRUE(find_message(near_, each.id).has_value());
    }
    EXPECT_EQ(all().size(), 2U);
}

// Proves: I15, F4
TEST_P(in_doubt, an_acknowledgement_whose_reply_is_lost_has_ended_the_message)
{
    for (const auto how : both_endings) {
        const auto id = enqueue(near_, {"orders", "x"}).id;
        const auto held = claim_one(near_);
        lose_reply("settle_stretch", "SELECT 1", how);
        expect_doubt([&] { outbox(far_).acknowledge(alice_, {&held, 1}); });
        const auto found = find_message(near_, id).value();
        EXPECT_EQ(found.state, message_state::done);
        EXPECT_EQ(found.attempts, 1);
        // Once more changes nothing, and says so.
        EXPECT_EQ(outbox(far_).acknowledge(alice_, {&held, 1}).answers,
                  std::vector{settled_as::lost});
    }
}

// Proves: I15, F4
TEST_P(in_doubt, an_acknowledgement_that_never_arrived_can_be_repeated)
{
    const auto id = enqueue(near_, {"orders", "x"}).id;
    const auto held = claim_one(near_);
    lose_request("settle_stretch");
    expect_doubt([&] { outbox(far_).acknowledge(alice_, {&held, 1}); });
    EXPECT_EQ(find_message(near_, id)->state, message_state::claimed);
    EXPECT_EQ(outbox(far_).acknowledge(alice_, {&held, 1}).answers, std::vector{settled_as::done});
}

// Proves: I5, I15, F4
TEST_P(in_doubt, a_claim_whose_reply_is_lost_holds_its_messages_until_the_lease_ends)
{
    outbox box(far_);
    EXPECT_TRUE(box.claim(alice_).empty()); // her name is known from now on
    const auto id = enqueue(near_, {"orders", "x"}).id;
    for (const auto how : both_endings) {
        lose_reply("commit", "COMMIT", how);
        expect_doubt([&] { (void)box.claim(alice_, {.lease = 10s, .start = 0}); });
        EXPECT_EQ(find_message(near_, id)->state, message_state::claimed);
        EXPECT_TRUE(box.claim(alice_).empty());
        clock_->advance(11s);
        EXPECT_EQ(box.reap_expired().released, 1U);
    }
    const auto found = find_message(near_, id).value();
    EXPECT_EQ(found.state, message_state::ready);
    EXPECT_EQ(found.attempts, 0) << "what never started loses nothing";
    EXPECT_EQ(box.claim(alice_).size(), 1U);
}

// Proves: I15, F4, I18
TEST_P(in_doubt, a_cancel_whose_reply_is_lost_has_happened)
{
    const auto id = enqueue(near_, {"orders", "x"}).id;
    lose_reply("commit", "COMMIT");
    expect_doubt([&] { (void)cancel(far_, id); });
    EXPECT_EQ(find_message(near_, id)->state, message_state::cancelled);
    EXPECT_EQ(cancel(far_, id), cancel_answer::too_late);
}

// Proves: I1, I15
TEST_P(in_doubt, a_connection_cut_in_the_middle_of_a_transaction_leaves_nothing_and_no_doubt)
{
    for (const auto how : both_endings) {
        auto tx = far_.begin();
        const auto id = enqueue(tx, {"orders", "x"}).id;
        gate_.cut(how);
        expect_lost([&] { enqueue(tx, {"orders", "y"}); });
        EXPECT_EQ(find_message(near_, id), std::nullopt);
    }
    EXPECT_EQ(all().size(), 0U);
    enqueue(far_, {"orders", "afterwards"});
    EXPECT_EQ(all().size(), 1U);
}

// Proves: I1, I15
TEST_P(in_doubt, a_statement_before_the_commit_whose_reply_is_lost_leaves_nothing_and_no_doubt)
{
    prepare_statements();
    auto tx = far_.begin();
    enqueue(tx, {"orders", "x"});
    gate_.lose_reply(asking_for("insert_one_plain"), "INSERT 0 1");
    expect_lost([&] { enqueue(tx, {"orders", "y"}); });
    EXPECT_EQ(gate_.seen().replies_lost, 1U);
    EXPECT_EQ(all().size(), 0U);
}

// Proves: I1, I15
TEST_P(in_doubt, a_transaction_whose_connection_was_cut_cannot_be_committed)
{
    prepare_statements();
    auto tx = far_.begin();
    enqueue(tx, {"orders", "x"});
    gate_.cut();
    // The request may have left before the cut was noticed: from here nobody can tell.
    expect_doubt([&] { tx.commit(); });
    EXPECT_EQ(all().size(), 0U);
}

// Proves: I15
TEST_P(in_doubt, connections_that_end_while_nobody_uses_them_are_replaced_in_silence)
{
    enqueue(far_, {"orders", "x"});
    for (const auto how : both_endings) {
        gate_.cut(how);
        EXPECT_NO_THROW(enqueue(far_, {"orders", "x"}));
    }
    const auto direct = under_test_->connect(world_);
    EXPECT_EQ(outbox(far_).claim(alice_).size(), 3U);
    // With a last word from the server, which is there to be read before the end is.
    EXPECT_GE(direct->count("SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity "
                            "WHERE application_name = '" +
                            name_ + "'"),
              1);
    EXPECT_NO_THROW(enqueue(far_, {"orders", "x"}));
}

// Proves: OUT-16
TEST_P(in_doubt, one_pass_of_a_worker_says_that_its_store_is_away)
{
    worker one(far_);
    one.handle("*", [](const delivery_view&) {});
    gate_.refuse(true);
    gate_.cut();
    const auto failure = thrown_by([&] { one.process_outbox(); });
    EXPECT_TRUE(failure.retryable()) << failure.what();

    gate_.refuse(false);
    enqueue(near_, {"orders", "x"});
    EXPECT_EQ(one.process_outbox().done, 1U);
}

INSTANTIATE_TEST_SUITE_P(ways, in_doubt, ::testing::Values(talk::prepared, talk::texts),
                         [](const auto& way) {
                             return way.param == talk::prepared ? "prepared" : "texts";
                         });

} // namespace posthorn::test
