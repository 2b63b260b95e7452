// A worker with nothing to do, and one whose store is away: it sleeps, wakes up in time, and goes
// on.
#include "conformance/sqlite_under_test.hpp"
#include "runtime/dispatcher.hpp"
#include "runtime/outbox_source.hpp"
#include "runtime/worker_test.hpp"

#include <atomic>
#include <memory>

namespace posthorn::conformance {
namespace {

/// A real source that counts what it is asked, and may refuse to be claimed from or looked up in.
class counting_source final : public runtime::claimable {
public:
    explicit counting_source(const store& where, outbox_options options = {})
        : real_(where, std::move(options))
    {}

    batch claim(const owner& who, const claim_options& how) override
    {
        ++claims;
        if (refuse_claims.load() > 0 && refuse_claims-- > 0)
            throw error(why.load(), "refused", {.retryable = true});
        auto claimed = real_.claim(who, how);
        claims_of_parked += how.unpark.empty() ? 0 : 1;
        return claimed;
    }
    settle_result settle(const owner& who, std::span<const settlement> what) override
    {
        if (refuse_settlements.load() > 0 && refuse_settlements-- > 0)
            throw error(error_code::unavailable, "refused", {.retryable = true});
        if (park_late && std::ranges::any_of(what, parks)) {
            EXPECT_TRUE(eventually([&] { return claims_of_parked > 0; }));
        }
        return real_.settle(who, what);
    }
    settle_result settle(transaction& tx, const owner& who,
                         std::span<const settlement> what) override
    {
        auto answers = real_.settle(tx, who, what);
        if (cut_at_commit == cut::none)
            return answers;
        if (cut_at_commit == cut::after)
            tx.commit();
        else
            tx.rollback();
        throw error(error_code::connection_lost, "cut", {.retryable = true, .in_doubt = true});
    }
    bool renew(const owner& who, fence which, duration lease) override
    {
        return real_.renew(who, which, lease);
    }
    reap_report reap() override { return real_.reap(); }
    contract::outlook outlook() override
    {
        ++looks;
        return real_.outlook();
    }
    std::unique_ptr<contract::bell> make_bell() override { return real_.make_bell(); }
    transaction begin() override
    {
        if (refuse_begins.load() > 0 && refuse_begins-- > 0)
            throw error(error_code::unavailable, "refused", {.retryable = true});
        return real_.begin();
    }
    std::optional<message_record> find(message_id id) override
    {
        if (refuse_finds.load() > 0 && refuse_finds-- > 0)
            throw error(error_code::unavailable, "refused", {.retryable = true});
        return real_.find(id);
    }
    [[nodiscard]] std::size_t batch_max() const override { return real_.batch_max(); }
    [[nodiscard]] const posthorn::environment& environment() const override
    {
        return real_.environment();
    }

    /// Whether the connection ends while a handler's transaction commits.
    enum class cut { none, before, after };
    std::atomic<cut> cut_at_commit = cut::none;

    /// Whether messages are parked only after a claim has asked for them.
    std::atomic<bool> park_late = false;

    std::atomic<int> claims = 0;
    std::atomic<int> claims_of_parked = 0;
    std::atomic<int> looks = 0;
    std::atomic<int> refuse_claims = 0;
    std::atomic<int> refuse_settlements = 0;
    std::atomic<int> refuse_begins = 0;
    std::atomic<int> refuse_finds = 0;
    std::atomic<error_code> why = error_code::unavailable;

private:
    static bool parks(const settlement& each)
    {
        return each.outcome.verdict == outcome::kind::park;
    }

    runtime::outbox_source real_;
};

class idle_workers : public worker_test {
protected:
    template <typename Function>
    background run(const std::shared_ptr<counting_source>& from, Function handler,
                   worker_options options = {}, run_options how = {},
                   handler_options of_handler = {})
    {
        options.look_at_least_every = 120s; // longer than a test may take
        const auto shared = std::make_shared<const worker_options>(std::move(options));
        const auto table = std::make_shared<runtime::handler_table>();
        table->add({"*"}, {make(handler)}, of_handler);
        return background([=](const stop_request& stop) {
            const owner carol{.token = "token of carol", .worker = "carol"};
            return runtime::dispatcher(
                       std::make_shared<runtime::engine>(from, table, shared, carol))
                .run(stop, how);
        });
    }

private:
    static runtime::any_handler::plain make(const std::function<outcome(const delivery_view&)>& f)
    {
        return f;
    }
    static runtime::any_handler::transactional make(
        const std::function<outcome(const delivery_view&, transaction&)>& f)
    {
        return f;
    }
};

// Proves: OUT-10
TEST_P(idle_workers, an_enqueue_wakes_a_sleeping_worker)
{
    auto real = under_test().open({});
    const auto source = std::make_shared<counting_source>(real);
    std::atomic<int> handled = 0;
    auto running = run(source, [&](const delivery_view&) {
        ++handled;
        return done();
    });
    EXPECT_TRUE(eventually([&] { return source->looks > 0; }));
    for (int i = 1; i <= 5; ++i) {
        enqueue(real, {"orders", ""});
        EXPECT_TRUE(eventually([&] { return handled == i; }));
    }
    EXPECT_EQ(running.end().done, 5U);
}

// Proves: I17
TEST_P(idle_workers, a_delayed_message_starts_when_it_is_due_without_anybody_asking_all_the_time)
{
    auto real = under_test().open({});
    const auto source = std::make_shared<counting_source>(real);
    const auto id = enqueue(real, {"orders", ""}, {.delay = 1s}).id;
    std::atomic<int> handled = 0;
    auto running = run(source, [&](const delivery_view&) {
        ++handled;
        return done();
    });
    EXPECT_TRUE(eventually([&] { return handled == 1; }));
    EXPECT_LE(source->looks, 15);
    EXPECT_LE(source->claims, 15);
    EXPECT_EQ(running.end().done, 1U);
    const auto seen = find_message(real, id).value();
    EXPECT_GE(seen.started_at, seen.due_at);
}

// Proves: I20
TEST_P(idle_workers, a_store_that_is_away_for_a_while_is_waited_for)
{
    const auto id = add();
    const auto source = std::make_shared<counting_source>(db());
    source->refuse_claims = 3;
    source->refuse_settlements = 3;
    auto running = run(source, [](const delivery_view&) { return done(); });
    EXPECT_TRUE(eventually_done(id));
    EXPECT_EQ(running.end().done, 1U);
    EXPECT_EQ(look(id).attempts, 1);
    EXPECT_EQ(logged("cannot claim, will try again"), 3U);
    EXPECT_EQ(logged("cannot settle, will try again"), 3U);
}

// Proves: I20
TEST_P(idle_workers, what_no_waiting_will_cure_is_thrown)
{
    const auto source = std::make_shared<counting_source>(db());
    source->refuse_claims = 1;
    source->why = error_code::schema_missing;
    auto running = run(source, [](const delivery_view&) { return done(); });
    EXPECT_EQ(thrown_by([&] { running.wait(); }).code(), error_code::schema_missing);
}

// Proves: I2, OUT-10
TEST_P(idle_workers, a_topic_is_not_forgotten_while_its_messages_are_being_parked)
{
    const auto ids = add_many(4);
    const auto source = std::make_shared<counting_source>(db());
    source->park_late = true;
    auto running = run(source, [](const delivery_view&) { return done(); }, {.concurrency = 3},
                       {.until_empty = true}, {.concurrency = 1});
    EXPECT_EQ(running.wait().done, ids.size());
    EXPECT_GT(source->claims_of_parked, 0);
}

// Proves: OUT-19
TEST_P(idle_workers, a_transaction_that_cannot_begin_costs_no_attempt)
{
    const auto id = add();
    const auto source = std::make_shared<counting_source>(db());
    source->refuse_begins = 1;
    auto running = run(source, [](const delivery_view&, transaction&) { return done(); });
    // Time stands still until it is given back, or its lease would be over on a busy machine.
    EXPECT_TRUE(eventually(
        [&] { return source->refuse_begins == 0 && state_of(id) == message_state::ready; }));
    clock().advance(2s);
    EXPECT_TRUE(eventually_done(id));
    EXPECT_EQ(look(id).attempts, 1);
    EXPECT_EQ(running.end().released, 1U);
}

// Proves: OUT-19, I15
TEST_P(idle_workers, a_commit_in_doubt_is_looked_up_and_neither_repeated_nor_forgotten)
{
    const auto source = std::make_shared<counting_source>(db());
    const auto handle_one = [&](counting_source::cut when) {
        source->cut_at_commit = when;
        return run(source,
                   [](const delivery_view&, transaction& tx) {
                       enqueue(tx, {"next", ""}, {.delay = 1h});
                       return done();
                   },
                   {}, {.until_empty = true, .limit = 1})
            .wait();
    };
    const auto further = [&] { return list_messages(db(), {.topic = "next"}).size(); };

    const auto lost = add();
    EXPECT_EQ(handle_one(counting_source::cut::before).retrying, 1U);
    EXPECT_EQ(look(lost).last_error, "the outcome of the handler's transaction is unknown");
    EXPECT_EQ(further(), 0U);
    const auto kept = add();
    EXPECT_EQ(handle_one(counting_source::cut::after).lost, 1U);
    EXPECT_EQ(state_of(kept), message_state::done);
    EXPECT_EQ(further(), 1U);
}

// Proves: I20
TEST_P(idle_workers, messages_that_cannot_be_looked_up_come_back_and_none_is_forgotten)
{
    const auto ids = add_many(3);
    ASSERT_EQ(claim().size(), 3U);
    clock().advance(31s);
    ASSERT_EQ(box().reap_expired().retrying, 3U);
    clock().advance(1h);
    const auto source = std::make_shared<counting_source>(db());
    source->refuse_finds = 1;
    auto running = run(source, [](const delivery_view&) { return done(); });
    // Time moves only for one that waits for it: else the worker may be about to claim, and a lease
    // counts from when it asks.
    for (const auto id : ids)
        EXPECT_TRUE(eventually([&] {
            const auto found = look(id);
            if (found.state == message_state::ready && found.due_at > clock().now())
                clock().advance(100ms);
            return found.state == message_state::done;
        }));
    EXPECT_EQ(look(ids.front()).attempts, 2);
}

CONFORMANCE_SUITE(idle_workers);

// Proves: F17, I20
TEST(locked_files, are_waited_for)
{
    const auto under_test = make_sqlite_file();
    std::atomic<int> warnings = 0;
    auto world = environment::system();
    world.log = log_sink([&](log_level, std::string_view) { ++warnings; }, log_level::warning);
    auto impatient = under_test->open_impatient({.environment = world});
    const auto id = enqueue(impatient, {"orders", ""}).id;
    const auto app = under_test->connect(environment::system());
    app->begin();
    worker one(impatient);
    one.handle("orders", [](const delivery_view&) {});
    background running(one);
    EXPECT_TRUE(eventually([&] { return warnings >= 3; }));
    EXPECT_EQ(find_message(impatient, id)->state, message_state::ready);
    app->rollback();
    EXPECT_TRUE(
        eventually([&] { return find_message(impatient, id)->state == message_state::done; }));
    EXPECT_EQ(running.end().done, 1U);
}

} // namespace
} // namespace posthorn::conformance
