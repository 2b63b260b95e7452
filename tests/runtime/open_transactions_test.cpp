// An application takes a lock and keeps its transaction open: every lock that it can take, against
// everything that a worker does. What it has not touched is handled and settled meanwhile; what it
// has touched goes on after its end. SQLite is not here: it has one lock, for the whole store.
#include "runtime/worker_test.hpp"
#include <posthorn/idempotency.hpp>
#include <posthorn/inbox.hpp>
#include <posthorn/joins.hpp>
#include <posthorn/leases.hpp>
#include <posthorn/schedules.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace posthorn::conformance {
namespace {

const message some{.topic = "orders", .payload = ""};
const inbound from_shop{.source = "shop", .id = "1"};
const job_options later{.run = {"report", ""}, .every = std::chrono::hours{1}};

// What the application finds before it begins.
struct scene {
    store at;
    join_id join{};
    join_id other_join{};
    message_id first{};        // of the key "held", never claimed
    message_id second{};       // behind it
    message_id running{};      // a worker has it
    message_id running_head{}; // the same, of the key "running"
    message_id behind{};       // waits behind that
    message_id waiting{};      // a plain one that is not due
};

struct held_lock {
    std::string name;
    std::function<void(transaction&, const scene&)> take;
    bool admitted = false; ///< the messages of the key "held" have found their places before
};

std::ostream& operator<<(std::ostream& out, const held_lock& what)
{
    return out << what.name;
}

std::vector<held_lock> locks_of_keys()
{
    const auto cancels = [](message_id scene::*which) {
        return [which](transaction& tx, const scene& s) { (void)cancel(tx, s.*which); };
    };
    const auto attaches = [](message_id scene::*which) {
        return [which](transaction& tx, const scene& s) { (void)attach(tx, s.join, s.*which); };
    };
    return {
        {"cancels_one_not_admitted", cancels(&scene::first)},
        {"cancels_the_second_not_admitted", cancels(&scene::second)},
        {"attaches_one_not_admitted", attaches(&scene::first)},
        {"attaches_the_second_not_admitted", attaches(&scene::second)},
        {"cancels_the_head", cancels(&scene::first), true},
        {"cancels_one_behind_the_head", cancels(&scene::second), true},
        {"attaches_the_head", attaches(&scene::first), true},
        {"attaches_one_behind_the_head", attaches(&scene::second), true},
        {"cancels_one_behind_a_running_one", cancels(&scene::behind)},
        {"attaches_one_behind_a_running_one", attaches(&scene::behind)},
        {"cancels_a_running_one", cancels(&scene::running)},
        {"attaches_a_running_one", attaches(&scene::running)},
        {"attaches_a_running_head", attaches(&scene::running_head)},
        {"attaches_one_that_is_not_due", attaches(&scene::waiting)},
        {"cancels_one_that_is_not_due", cancels(&scene::waiting)},
    };
}

std::vector<held_lock> locks_of_the_rest()
{
    using tx_t = transaction&;
    using seen = const scene&;
    return {
        {"enqueues_inbound_with_the_key",
         [](tx_t tx, seen) {
             (void)enqueue_inbound(tx, {.source = "shop", .id = "2"}, some,
                                   {.delivery = {.ordering_key = "held"}});
         }},
        {"enqueues_inbound_again",
         [](tx_t tx, seen) { (void)enqueue_inbound(tx, from_shop, some); }},
        {"enqueues_with_a_dedup_key",
         [](tx_t tx, seen) { (void)enqueue(tx, some, {.dedup_key = "d"}); }},
        {"enqueues_with_all_keys",
         [](tx_t tx, seen) {
             (void)enqueue(tx, some, {.ordering_key = "held"});
             (void)enqueue(tx, some, {.ordering_key = "running"});
             (void)enqueue(tx, some, {.ordering_key = "other"});
         }},
        {"opens_a_join", [](tx_t tx, seen) { (void)open_join(tx, {.expected = 1}); }},
        {"adds_a_member", [](tx_t tx, seen s) { (void)enqueue(tx, some, {.join = s.other_join}); }},
        {"seals_a_join", [](tx_t tx, seen s) { (void)seal_join(tx, s.other_join, 50); }},
        {"cancels_a_join", [](tx_t tx, seen s) { (void)cancel_join(tx, s.other_join); }},
        {"waits_for_a_join",
         [](tx_t tx, seen s) {
             (void)enqueue_join_wait(tx, {.join = s.other_join, .on_complete = some});
         }},
        {"holds_a_lease",
         [](tx_t tx, seen s) {
             const auto held = try_lease(const_cast<store&>(s.at), "leader");
             ASSERT_TRUE(held && hold_lease(tx, *held));
         }},
        {"reserves_a_command",
         [](tx_t tx, seen) { (void)reserve(tx, {.command = "pay", .key = "1"}); }},
        {"makes_a_job", [](tx_t tx, seen) { (void)put_job(tx, "new", later); }},
        {"changes_a_job",
         [](tx_t tx, seen) {
             auto changed = later;
             changed.every = std::chrono::hours{2};
             (void)put_job(tx, "nightly", changed);
         }},
        {"triggers_a_job", [](tx_t tx, seen) { (void)trigger_job(tx, "nightly"); }},
        {"deletes_a_job", [](tx_t tx, seen) { (void)delete_job(tx, "nightly"); }},
        {"pauses_a_job", [](tx_t tx, seen) { (void)pause_job(tx, "nightly"); }},
        {"sets_a_timer",
         [](tx_t tx, seen) { (void)set_timer(tx, "soon", std::chrono::hours{1}, some); }},
    };
}

using held_in_store = std::tuple<store_kind, held_lock>;

std::vector<held_in_store> locks_of_every_store()
{
    std::vector<held_in_store> result;
    for (const auto& kind : store_kinds())
        for (const auto& locks : {locks_of_keys(), locks_of_the_rest()})
            for (const auto& each : locks)
                if (kind.name == "postgres" || kind.name == "mariadb")
                    result.emplace_back(kind, each);
    return result;
}

class open_transactions : public ::testing::TestWithParam<held_in_store> {
protected:
    void SetUp() override
    {
        here_.join = open_join(db_, {});
        here_.other_join = open_join(db_, {});
        put_job(db_, "nightly", later);
        begin_to_run();
        here_.first =
            enqueue(db_, some, {.ordering_key = "held", .delay = lock_.admitted ? 1h : 0h}).id;
        here_.second = enqueue(db_, some, {.ordering_key = "held"}).id;
        here_.waiting = enqueue(db_, some, {.delay = 1h}).id;
        here_.behind = enqueue(db_, some, {.ordering_key = "running"}).id;
        if (lock_.admitted) { // a claim gives them their places
            EXPECT_TRUE(outbox(db_).claim({.token = "bob"}, {.limit = 1}).empty());
        }
    }

    // Messages that a handler keeps until the gate opens, each in a batch of its own; then the
    // worker is full.
    void begin_to_run()
    {
        worker_.handle("*", [this](delivery_view which) {
            if (which.topic().ends_with("slow"))
                (void)gate_.pass();
        });
        runner_.emplace(worker_);
        const message slow{.topic = "slow", .payload = ""};
        const auto runs = [&](message_id id) {
            ++running_;
            EXPECT_TRUE(eventually([&] { return gate_.arrived() == running_; }));
            return id;
        };
        here_.running = runs(enqueue(db_, slow).id);
        here_.running_head = runs(enqueue(db_, slow, {.ordering_key = "running"}).id);
        untouched_ = runs(enqueue(db_, slow).id);
        followed_.push_back(runs(enqueue(db_, slow, {.join = here_.other_join}).id));
        followed_.push_back(runs(enqueue_inbound(db_, from_shop, slow).message.value()));
        followed_.push_back(runs(enqueue(db_, slow, {.dedup_key = "d"}).id));
    }

    environment logging()
    {
        auto world = environment::system();
        world.log = [this](log_level, std::string_view line) { log_.add(std::string(line)); };
        return world;
    }

    void TearDown() override
    {
        if (HasFailure())
            for (const auto& line : log_.all())
                ADD_FAILURE() << "the worker has said: " << line;
    }

    [[nodiscard]] bool is_done(message_id id)
    {
        return find_message(db_, id)->state == message_state::done;
    }

    [[nodiscard]] bool eventually_done(message_id id)
    {
        // Idle workers look every ten seconds, and some of this takes several looks.
        const auto end = std::chrono::steady_clock::now() + 50s;
        while (!is_done(id))
            if (std::chrono::steady_clock::now() > end)
                return false;
        return true;
    }

    notes log_;
    held_lock lock_ = std::get<1>(GetParam());
    std::unique_ptr<store_under_test> under_test_ = std::get<0>(GetParam()).make();
    // A lock that is waited for is waited for longer than the test has patience.
    std::string url_ = under_test_->url();
    store db_ = posthorn::open(url_ + (url_.find('?') == std::string::npos ? "?" : "&") +
                                   "lock_timeout=60s",
                               {.environment = logging()});
    scene here_{.at = db_};
    message_id untouched_{};
    std::vector<message_id> followed_; ///< by a join, the inbox and a dedup key
    std::size_t running_ = 0;
    gate gate_;
    worker worker_{db_, {.name = "carol", .concurrency = 6}};
    std::optional<background> runner_;
};

} // namespace

// Proves: I20
TEST_P(open_transactions, hold_up_only_what_they_have_touched)
{
    const auto application = under_test_->connect(db_.environment());
    application->begin();
    lock_.take(application->borrow(), here_);

    // What runs is settled, and what comes is handled.
    gate_.open();
    const auto plain = enqueue(db_, some).id;
    const auto other_key = enqueue(db_, some, {.ordering_key = "other"}).id;
    const auto urgent = enqueue(db_, some, {.priority = 5}).id;
    const auto late = enqueue(db_, some, {.delay = 1h, .expires_after = 61min}).id;
    const auto third = enqueue(db_, some, {.ordering_key = "held"}).id;
    for (const auto id : {untouched_, plain, other_key, urgent})
        EXPECT_TRUE(eventually_done(id));
    EXPECT_EQ(cancel(db_, late), cancel_answer::cancelled);

    application->commit();
    for (const auto id : {here_.running, here_.running_head})
        EXPECT_TRUE(eventually_done(id));
    for (const auto id : followed_)
        EXPECT_TRUE(eventually_done(id));
    if (lock_.admitted) {
        EXPECT_NE(cancel(db_, here_.first), cancel_answer::not_found);
    }
    EXPECT_TRUE(eventually_done(third));
    const auto report = runner_->end();
    EXPECT_EQ(report.lost, 0U);
}

INSTANTIATE_TEST_SUITE_P(of_applications, open_transactions,
                         ::testing::ValuesIn(locks_of_every_store()), [](const auto& each) {
                             return std::get<0>(each.param).name + "_" +
                                    std::get<1>(each.param).name;
                         });

} // namespace posthorn::conformance
