// The server is killed and comes back, twice, under producers and workers that keep their store:
// what was committed ends, what was not does not exist, and the checker finds every repeated start
// explained.
#include "checker/command.hpp"
#include "checker/history.hpp"
#include "integration/postgres/private_server.hpp"
#include <posthorn/postgres.hpp>
#include <posthorn/posthorn.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace posthorn::test {
namespace {

using namespace std::chrono_literals;
using namespace posthorn::checker;

class restart : public ::testing::Test {
protected:
    static constexpr int producers = 3;
    static constexpr int workers = 3;
    static constexpr duration lease = 3s;

    restart()
    {
        migrate(server_.url());
        store_.emplace(open(server_.url() + "?pool=4"));
    }

    [[nodiscard]] const clock& time() const { return *store_->environment().clock; }

    [[nodiscard]] history_writer notes_of(const std::string& name) const
    {
        return {notes_.file(name + ".jsonl"), name, store_->environment().clock};
    }

    /// Runs `action`; a fault that may pass is counted, any other fails the test.
    /// Returns: the fault, if there was one.
    template <typename Action>
    std::optional<error> attempt(Action&& action)
    {
        try {
            action();
            return std::nullopt;
        } catch (const error& failure) {
            EXPECT_TRUE(failure.retryable() || failure.in_doubt()) << failure.what();
            EXPECT_FALSE(failure.retryable() && failure.in_doubt()) << failure.what();
            ++(failure.in_doubt() ? doubts_ : losses_);
            return failure;
        }
    }

    // ------------------------------------------------------------------------------- producers

    static outgoing message_of(int number)
    {
        outgoing result{{"orders", number % 13 == 0   ? "retry"
                                   : number % 31 == 0 ? "fail"
                                                      : "x"},
                        {}};
        if (number % 3 == 0)
            result.options.ordering_key = "key " + std::to_string(number % 4);
        return result;
    }

    void produce(const std::string& name)
    {
        const auto notes = notes_of(name);
        for (int number = 0; !produced_.load(); ++number) {
            const auto token = name + "/" + std::to_string(number);
            number % 2 == 0 ? enqueue_alone(notes, token, message_of(number))
                            : enqueue_inside(notes, token, message_of(number));
            time().pause(1ms);
        }
    }

    /// One statement that commits by itself, under an id of the caller's.
    void enqueue_alone(const history_writer& notes, const std::string& token, outgoing what)
    {
        const message_id id{uuid::version_7(notes.now(), *store_->environment().random)};
        what.options.id = id;
        note_enqueued(notes, token, id, what, notes.now());
        const auto asked_at = notes.now();
        const auto fault = attempt([&] { enqueue(*store_, what.message, what.options); });
        note_end(notes, token, id, fault, asked_at);
    }

    /// A transaction of two messages, with ids that Posthorn makes.
    void enqueue_inside(const history_writer& notes, const std::string& token, const outgoing& what)
    {
        auto asked_at = notes.now();
        std::optional<transaction> tx;
        std::vector<message_id> ids;
        const auto early = attempt([&] {
            tx.emplace(store_->begin());
            for (int i = 0; i < 2; ++i) {
                ids.push_back(enqueue(*tx, what.message, what.options).id);
                note_enqueued(notes, token, ids.back(), what, asked_at);
            }
        });
        if (ids.empty())
            return;
        asked_at = notes.now();
        const auto fault = early ? early : attempt([&] { tx->commit(); });
        tx.reset();
        note_end(notes, token, ids.back(), fault, asked_at);
    }

    static void note_enqueued(const history_writer& notes, const std::string& token, message_id id,
                              const outgoing& what, timestamp asked_at)
    {
        notes.record(enqueue_event{.id = id,
                                   .topic = what.message.topic,
                                   .key = what.options.ordering_key,
                                   .transaction = token},
                     asked_at);
    }

    /// A doubt is looked up by the id, as soon as the server answers again.
    void note_end(const history_writer& notes, const std::string& token, message_id id,
                  const std::optional<error>& fault, timestamp asked_at)
    {
        auto end = fault ? transaction_end::rolled_back : transaction_end::committed;
        if (fault && fault->in_doubt()) {
            notes.record(transaction_event{token, transaction_end::unknown}, asked_at);
            std::optional<message_record> found;
            while (attempt([&] { found = find_message(*store_, id); }))
                time().pause(10ms);
            end = found ? transaction_end::committed : transaction_end::rolled_back;
            ++(found ? doubts_that_were_done_ : doubts_that_were_not_);
        }
        notes.record(transaction_event{token, end}, asked_at);
        if (end == transaction_end::committed)
            ++committed_;
    }

    // --------------------------------------------------------------------------------- workers

    static outcome handle(const delivery& what)
    {
        if (what.payload == "fail")
            return fail("as asked");
        return what.payload == "retry" && what.attempt == 1 ? retry_in(1ms, "as asked") : done();
    }

    void work(const std::string& name)
    {
        const auto notes = notes_of(name);
        outbox box(*store_, {.retries = {.fallback = exponential_retry{.first = 10ms, .cap = 50ms}},
                             .on_dead = dead_key::skips});
        const auto me = owner::create(name, *store_->environment().random);
        while (!drained_.load()) {
            batch claimed;
            const auto asked_at = notes.now();
            (void)attempt([&] { claimed = box.claim(me, {.lease = lease, .limit = 7}); });
            for (const auto& each : claimed.deliveries)
                notes.record(start_event{each.receipt.id, each.receipt.fence, each.attempt},
                             asked_at);
            if (claimed.empty()) {
                (void)attempt([&] { box.reap_expired(); });
                time().pause(2ms);
            } else {
                settle(notes, box, me, claimed, asked_at + lease);
            }
        }
    }

    void settle(const history_writer& notes, outbox& box, const owner& me, const batch& claimed,
                timestamp lease_until)
    {
        std::vector<settlement> ends;
        for (const auto& each : claimed.deliveries)
            ends.push_back({each.receipt, handle(each)});
        const auto asked_at = notes.now();
        settle_result result;
        // Repeating is safe: what has settled answers `lost`, and so it is told as unknown.
        auto fault = attempt([&] { result = box.settle(me, ends); });
        const bool uncertain = fault && fault->in_doubt();
        while (fault && !uncertain)
            fault = attempt([&] { result = box.settle(me, ends); });
        if (notes.now() > lease_until)
            for (const auto& each : ends)
                notes.record(fault_event{.kind = fault_kind::lease_expired,
                                         .id = each.receipt.id,
                                         .fence = each.receipt.fence});
        for (std::size_t i = 0; i < ends.size(); ++i)
            notes.record(settle_event{ends[i].receipt.id, ends[i].receipt.fence,
                                      ends[i].outcome.verdict,
                                      fault ? std::nullopt : std::optional{result.answers[i]}},
                         asked_at);
    }

    // ---------------------------------------------------------------------------------- faults

    void kill_and_restart(const history_writer& notes)
    {
        const auto asked_at = notes.now();
        server_.kill();
        server_.start();
        // Some notice only now: a connection that waits for its turn to come back.
        time().pause(100ms);
        notes.record(fault_event{.kind = fault_kind::server}, asked_at);
    }

    bool is_drained()
    {
        const auto stats = count_messages(*store_);
        return stats.ready + stats.delayed + stats.waiting + stats.claimed == 0;
    }

    void run_with_faults()
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < workers; ++i)
            threads.emplace_back([&, i] { work("worker" + std::to_string(i)); });
        std::vector<std::jthread> producing;
        for (int i = 0; i < producers; ++i)
            producing.emplace_back([&, i] { produce("producer" + std::to_string(i)); });
        const auto notes = notes_of("injector");
        for (int i = 0; i < 2; ++i) {
            const auto before = committed_.load();
            const auto enough = before + 150;
            while (committed_.load() < enough)
                time().pause(5ms);
            kill_and_restart(notes);
        }
        const auto enough = committed_.load() + 100; // it goes on afterwards
        while (committed_.load() < enough)
            time().pause(5ms);
        notes.record(stop_event{});
        produced_ = true;
        producing.clear();
        while (!is_drained())
            time().pause(20ms);
        drained_ = true;
    }

    private_server server_{"-c fsync=on -c full_page_writes=on"};
    scratch_folder notes_;
    std::optional<store> store_;
    std::atomic<bool> produced_{false};
    std::atomic<bool> drained_{false};
    std::atomic<int> committed_{0};
    std::atomic<int> doubts_{0};
    std::atomic<int> losses_{0};
    std::atomic<int> doubts_that_were_done_{0};
    std::atomic<int> doubts_that_were_not_{0};
};

} // namespace

// Proves: F2, I1, I2, I6, I8, I15, I20
TEST_F(restart, a_server_that_is_killed_under_load_and_comes_back_loses_and_invents_nothing)
{
    run_with_faults();

    std::vector<std::string> arguments;
    for (const auto& each : std::filesystem::directory_iterator(notes_.file("")))
        arguments.push_back(each.path().string());
    arguments.insert(arguments.end(),
                     {"--store", server_.url(), "--attempts-max", "10", "--settle-within", "20s"});
    std::ostringstream told;
    EXPECT_EQ(run_checker(arguments, told, told), 0) << told.str();

    EXPECT_GT(doubts_ + losses_, 0) << "nobody noticed that the server was gone";
    RecordProperty("in doubt and done", doubts_that_were_done_);
    RecordProperty("in doubt and not done", doubts_that_were_not_);
    for (const auto& each : diagnose(server_.url()))
        EXPECT_NE(each.level, severity::problem) << each.check << ": " << each.detail;
}

} // namespace posthorn::test
