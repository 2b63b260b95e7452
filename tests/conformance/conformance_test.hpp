// What every test of the suite stands on: a fresh store, a clock it moves itself, and two workers.
#pragma once

#include "conformance/store_under_test.hpp"
#include <posthorn/testing/manual_clock.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::conformance {

using namespace std::chrono_literals;

/// Runs once per store: TEST_P(suite, sentence), and CONFORMANCE_SUITE(suite) below the tests.
class conformance_test : public ::testing::TestWithParam<store_kind> {
protected:
    void SetUp() override;

    [[nodiscard]] store& db() { return *store_; }
    [[nodiscard]] store_under_test& under_test() { return *under_test_; }
    [[nodiscard]] testing::manual_clock& clock() { return *clock_; }
    [[nodiscard]] timestamp now() const { return clock_->now(); }

    /// The clock of this test, and a chance that never shortens a wait.
    [[nodiscard]] const environment& world() const { return world_; }

    /// How many lines of the log contain this so far.
    [[nodiscard]] std::size_t logged(std::string_view part) const;

    /// Another handle to the same store.
    [[nodiscard]] store second_handle() { return under_test_->open({.environment = world_}); }

    [[nodiscard]] outbox& box() { return *box_; }
    [[nodiscard]] outbox box_with(outbox_options options)
    {
        return outbox(db(), std::move(options));
    }

    message_id add(const std::string& topic = "orders", const enqueue_options& how = {});
    message_id add_keyed(const std::string& key, enqueue_options how = {});
    std::vector<message_id> add_many(std::size_t count, const std::string& topic = "orders");

    /// Claims for alice.
    batch claim(std::size_t limit = 100, std::optional<std::size_t> start = {});
    /// Claims the only message that is due; fails the test if it is not one.
    receipt claim_one(const owner& who);
    receipt claim_one() { return claim_one(alice); }

    /// Claims what is due and says which messages it was.
    std::vector<message_id> claimed_ids(std::size_t limit = 100);

    /// Claims and acknowledges, once.
    std::vector<message_id> work_off(std::size_t limit = 100);

    /// Brings one message to its end as a dead letter.
    message_id add_dead(const std::string& reason = "broken", const std::string& topic = "orders",
                        const enqueue_options& how = {});

    [[nodiscard]] message_record look(message_id id);
    [[nodiscard]] message_state state_of(message_id id) { return look(id).state; }
    [[nodiscard]] std::vector<message_state> states_of(const std::vector<message_id>& ids);

    /// How many messages the store holds, in any state.
    [[nodiscard]] std::size_t total();

    settled_as acknowledge(const receipt& what) { return acknowledge(alice, what); }
    settled_as acknowledge(const owner& who, const receipt& what);
    settled_as abandon(const receipt& what, std::optional<duration> delay = {},
                       std::string_view error = {});
    settled_as fail(const receipt& what, std::string_view reason = "broken");
    start_answer start(const receipt& what) { return start(alice, what); }
    start_answer start(const owner& who, const receipt& what);

    owner alice{.token = "token of alice", .worker = "alice"};
    owner bob{.token = "token of bob", .worker = "bob"};

private:
    struct log_lines;

    std::shared_ptr<log_lines> log_;               // the same, and written by any thread
    std::shared_ptr<testing::manual_clock> clock_; // shared with the environment of every handle
    environment world_;
    std::unique_ptr<store_under_test> under_test_;
    std::optional<store> store_;
    std::optional<outbox> box_;
};

/// The error that `action` throws; fails the test if it throws none.
[[nodiscard]] error thrown_by(const std::function<void()>& action);

/// The ids of a page or a batch, in its order.
[[nodiscard]] std::vector<message_id> ids_of(const std::vector<message_record>& page);
[[nodiscard]] std::vector<message_id> ids_of(const batch& claimed);

/// The same wait after every failure, and dead after so many starts.
[[nodiscard]] outbox_options steady_retries(duration wait, int attempts_max,
                                            dead_key on_dead = dead_key::blocks);

/// Entries of the ledger of skips, for registered stores, that name no test of this program.
[[nodiscard]] std::vector<std::string> entries_without_a_test(
    const std::function<bool(std::string_view suite)>& concerned);

#define CONFORMANCE_SUITE(suite)                                                \
    INSTANTIATE_TEST_SUITE_P(stores, suite, ::testing::ValuesIn(store_kinds()), \
                             [](const auto& kind) { return kind.param.name; })

} // namespace posthorn::conformance
