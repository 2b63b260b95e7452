// What it costs to have one effect of what comes twice: how much longer somebody waits for the
// server than without.
#include "conformance/conformance_test.hpp"
#include "conformance/meters.hpp"
#include <posthorn/idempotency.hpp>
#include <posthorn/inbox.hpp>

#include <functional>
#include <string>

namespace posthorn::conformance {
namespace {

class inbox_costs : public conformance_test {
protected:
    void SetUp() override
    {
        conformance_test::SetUp();
        if (IsSkipped())
            return;
        watched_ = store_to_watch(GetParam(), under_test(), db(), world());
        meter_ = meter_of(GetParam(), *watched_, under_test(), {"inbox", "command_key"});
    }

    void TearDown() override
    {
        watched_.reset();
        meter_.reset();
        conformance_test::TearDown();
    }

    store& watched() { return *watched_; }

    /// What is sent once all statements have been prepared: each time with a number of its own.
    cost of(const std::function<void(const std::string&)>& action)
    {
        for (int i = 0; i < 2; ++i) {
            (void)count_messages(watched()); // connected, whatever came before
            meter_->reset();
            action(std::to_string(++number_));
        }
        return meter_->read();
    }

    /// The same work without any protection.
    cost plainly()
    {
        return of([&](const std::string&) {
            auto tx = watched().begin();
            work(tx);
            tx.commit();
        });
    }

    static void work(transaction& tx) { enqueue(tx, {"effect", "payload"}); }

    /// Compares what a client waits for; on SQLite, which has no server, the statements on the
    /// tables concerned.
    void expect_at_most(int more, int more_statements, const cost& with, const cost& without)
    {
        const bool server = GetParam().name == "postgres" || GetParam().name == "mariadb";
        EXPECT_GT(server ? without.waits : with.statements, 0) << "the meter hears nothing";
        if (server) {
            EXPECT_LE(with.waits - without.waits, more);
        } else {
            EXPECT_LE(with.statements - without.statements, more_statements);
        }
    }

private:
    std::optional<store> watched_;
    std::unique_ptr<meter> meter_;
    int number_ = 0;
};

} // namespace

// Proves: IDM-02, IDM-05
TEST_P(inbox_costs, an_idempotent_command_costs_two_round_trips_more)
{
    const auto plain = plainly();
    const auto keyed = of([&](const std::string& key) {
        (void)run_once(watched(), {.command = "charge", .key = key}, &work).value();
    });
    expect_at_most(2, 3, keyed, plain);
    EXPECT_GT(keyed.waits + keyed.statements, plain.waits + plain.statements)
        << "the meter does not hear the key";
    const auto inside = of([&](const std::string& key) {
        auto tx = watched().begin();
        (void)run_once(tx, {.command = "charge", .key = "inside " + key}, &work).value();
        tx.commit();
    });
    expect_at_most(2, 3, inside, plain);
    const auto replayed = of([&](const std::string&) {
        (void)run_once(watched(), {.command = "charge", .key = "1"}, &work).value();
    });
    expect_at_most(2, 3, replayed, plain);
}

// Proves: INB-04
TEST_P(inbox_costs, handling_something_once_costs_one_round_trip_more)
{
    const auto plain = plainly();
    const auto first =
        of([&](const std::string& id) { EXPECT_TRUE(once(watched(), "shop", id, &work)); });
    expect_at_most(1, 1, first, plain);
    EXPECT_GT(first.waits + first.statements, plain.waits + plain.statements)
        << "the meter does not hear the inbox";
    const auto again =
        of([&](const std::string&) { (void)once(watched(), "shop", "known", &work); });
    expect_at_most(1, 1, again, plain);
}

CONFORMANCE_SUITE(inbox_costs);

} // namespace posthorn::conformance
