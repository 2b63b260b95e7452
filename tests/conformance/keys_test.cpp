// Ordering keys under everything at once: producers that roll back, delay, expire and cancel;
// workers whose claims and outcomes differ; and operators who redrive and skip. No two messages of
// a key ever run together, the checker finds their order kept, and in the end nothing is stuck.
#include "checker/command.hpp"
#include "checker/history.hpp"
#include "checker/scratch_folder.hpp"
#include "conformance/conformance_test.hpp"

#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace posthorn::conformance {
namespace {

using namespace posthorn::checker;
using chance = std::mt19937;

constexpr int keys = 5;
constexpr int producers = 3;
constexpr int workers = 4;
constexpr int transactions = 300; ///< of each producer
constexpr int redrives_max = 60;
constexpr int attempts_max = 5;

/// Which message of each key is running, as its handlers know.
class runners {
public:
    void begin(const delivery& what)
    {
        if (what.ordering_key.empty())
            return;
        const std::lock_guard lock(mutex_);
        const auto [at, alone] = running_.emplace(what.ordering_key, what.receipt.id);
        EXPECT_TRUE(alone) << to_string(what.receipt.id) << " runs beside " << to_string(at->second)
                           << " of " << what.ordering_key;
    }

    void end(const delivery& what)
    {
        const std::lock_guard lock(mutex_);
        running_.erase(what.ordering_key);
    }

private:
    std::mutex mutex_;
    std::map<std::string, message_id> running_;
};

class key_stress : public conformance_test {
protected:
    /// Each thread has a handle of its own, as another process would.
    [[nodiscard]] store handle() { return under_test().open({}); }

    [[nodiscard]] history_writer notes_of(const std::string& name) const
    {
        return {notes_.file(name + ".jsonl"), name, real_.clock};
    }

    void rest(chance& draw, unsigned at_most_us) const
    {
        real_.clock->pause(duration{draw() % (at_most_us + 1)});
    }

    // ------------------------------------------------------------------------------- producers

    struct added_message {
        message_id id;
        bool with_key = false;
    };

    static outgoing random_message(chance& draw)
    {
        outgoing result{{"orders", "x"}, {}};
        if (draw() % 10 != 0)
            result.options.ordering_key = "key " + std::to_string(draw() % keys);
        if (draw() % 10 == 0)
            result.options.delay = duration{draw() % 20'000};
        if (draw() % 10 == 0)
            result.options.expires_after =
                result.options.delay.value_or(0ms) + duration{1'000 + draw() % 30'000};
        return result;
    }

    static std::vector<message_id> fill(transaction& tx, const history_writer& notes,
                                        const std::string& token, chance& draw)
    {
        std::vector<message_id> ids;
        for (auto count = 1 + draw() % 5; count > 0; --count) {
            const auto what = random_message(draw);
            const auto asked_at = notes.now();
            ids.push_back(enqueue(tx, what.message, what.options).id);
            enqueue_event note{.id = ids.back(),
                               .topic = "orders",
                               .key = what.options.ordering_key,
                               .transaction = token};
            if (what.options.delay)
                note.due_at = asked_at + *what.options.delay;
            if (what.options.expires_after)
                note.expires_at = notes.now() + *what.options.expires_after;
            notes.record(note, asked_at);
        }
        return ids;
    }

    void produce(const std::string& name, chance draw)
    {
        auto db = handle();
        const auto app = under_test().connect(real_);
        const auto notes = notes_of(name);
        for (int number = 0; number < transactions && !failed_.load(); ++number) {
            const auto token = name + "/" + std::to_string(number);
            const bool keeps = draw() % 7 != 0;
            std::vector<message_id> ids;
            timestamp asked_at;
            const auto end = [&](auto&& commit, auto&& roll_back) {
                rest(draw, 3'000);
                asked_at = notes.now();
                keeps ? commit() : roll_back();
            };
            if (draw() % 2 == 0) {
                app->begin();
                ids = fill(app->borrow(), notes, token, draw);
                end([&] { app->commit(); }, [&] { app->rollback(); });
            } else {
                auto tx = db.begin();
                ids = fill(tx, notes, token, draw);
                end([&] { tx.commit(); }, [&] { tx.rollback(); });
            }
            notes.record(transaction_event{token, keeps ? transaction_end::committed
                                                        : transaction_end::rolled_back},
                         asked_at);
            if (draw() % 5 == 0)
                take_back(db, notes, ids[draw() % ids.size()]);
            rest(draw, 10'000);
        }
    }

    static void take_back(store& db, const history_writer& notes, message_id id)
    {
        const auto asked_at = notes.now();
        const auto answer = cancel(db, id);
        notes.record(cancel_event{.id = id, .answer = answer}, asked_at);
    }

    // --------------------------------------------------------------------------------- workers

    static outcome random_outcome(chance& draw)
    {
        const auto drawn = draw() % 20;
        if (drawn < 2)
            return posthorn::fail("as chance has it");
        return drawn < 5 ? retry_in(0ms, "as chance has it") : done();
    }

    void work(const std::string& name, dead_key on_dead, chance draw)
    {
        const auto notes = notes_of(name);
        outbox own(handle(), steady_retries(1ms, attempts_max, on_dead));
        const auto me = owner::create(name, *real_.random);
        while (!drained_.load()) {
            const auto asked_at = notes.now();
            const auto claimed = own.claim(me, {.limit = 1 + draw() % 8});
            for (const auto& each : claimed.deliveries) {
                running_.begin(each);
                notes.record(start_event{each.receipt.id, each.receipt.fence, each.attempt},
                             asked_at);
            }
            if (claimed.empty())
                rest(draw, 3'000);
            else if (draw() % 2 == 0)
                settle(own, me, notes, claimed.deliveries, draw);
            else
                for (const auto& each : claimed.deliveries)
                    settle(own, me, notes, {each}, draw);
        }
    }

    void settle(outbox& own, const owner& me, const history_writer& notes,
                const std::vector<delivery>& what, chance& draw)
    {
        rest(draw, 2'000);
        std::vector<settlement> ends;
        for (const auto& each : what) {
            ends.push_back({each.receipt, random_outcome(draw)});
            running_.end(each); // the next may begin before we hear that this has ended
        }
        const auto asked_at = notes.now();
        const auto result = own.settle(me, ends);
        for (std::size_t i = 0; i < ends.size(); ++i) {
            EXPECT_NE(result.answers[i], settled_as::lost);
            notes.record(settle_event{ends[i].receipt.id, ends[i].receipt.fence,
                                      ends[i].outcome.verdict, result.answers[i]},
                         asked_at);
        }
    }

    // ------------------------------------------------------------------------------- operators

    void operate(const std::string& name, chance draw)
    {
        auto db = handle();
        const auto notes = notes_of(name);
        for (int redriven = 0; !drained_.load();) {
            for (const auto& each : list_blocked_keys(db)) {
                if (redriven < redrives_max && draw() % 2 == 0)
                    redriven += redrive_one(db, notes, each.dead_message);
                else
                    (void)skip_blocked_key(db, each.ordering_key);
            }
            const auto dead = list_messages(db, {.state = message_state::dead, .limit = 20});
            if (redriven < redrives_max && !dead.empty())
                redriven += redrive_one(db, notes, dead[draw() % dead.size()].id);
            rest(draw, 30'000);
        }
    }

    static int redrive_one(store& db, const history_writer& notes, message_id id)
    {
        const auto asked_at = notes.now();
        const bool changed = redrive(db, id);
        if (changed)
            notes.record(redrive_event{id}, asked_at);
        return changed ? 1 : 0;
    }

    // ------------------------------------------------------------------------------- judgement

    /// Returns: whether everything came to an end in time.
    bool drain()
    {
        auto db = handle();
        for (const auto end = real_.clock->monotonic() + 60s; real_.clock->monotonic() < end;) {
            const auto stats = count_messages(db);
            if (stats.ready + stats.delayed + stats.waiting + stats.claimed == 0)
                return true;
            real_.clock->pause(20ms);
        }
        return false;
    }

    /// A thread that fails says so, and lets the others stop.
    template <typename Action>
    [[nodiscard]] std::jthread in_thread(Action action)
    {
        return std::jthread([this, action] {
            try {
                action();
            } catch (const std::exception& failure) {
                ADD_FAILURE() << failure.what();
                failed_ = drained_ = true;
            }
        });
    }

    void run_all()
    {
        const auto seeded = static_cast<chance::result_type>(real_.random->bits());
        RecordProperty("seed", std::to_string(seeded));
        chance draw(seeded);
        std::vector<std::jthread> threads;
        for (int i = 0; i < workers; ++i)
            threads.push_back(in_thread([this, i, own = chance(draw())] {
                work("worker" + std::to_string(i), i % 2 == 0 ? dead_key::blocks : dead_key::skips,
                     own);
            }));
        threads.push_back(in_thread([this, own = chance(draw())] { operate("operator", own); }));
        std::vector<std::jthread> producing;
        for (int i = 0; i < producers; ++i)
            producing.emplace_back(
                [&, i, own = chance(draw())] { produce("producer" + std::to_string(i), own); });
        producing.clear();
        notes_of("judge").record(stop_event{});
        EXPECT_TRUE(failed_.load() || drain()) << "something is stuck; seed " << seeded;
        drained_ = true;
    }

    [[nodiscard]] std::vector<std::string> histories() const
    {
        std::vector<std::string> result;
        for (const auto& each : std::filesystem::directory_iterator(notes_.file("")))
            result.push_back(each.path().string());
        return result;
    }

    const environment real_ = environment::system();

private:
    scratch_folder notes_;
    runners running_;
    std::atomic<bool> drained_{false};
    std::atomic<bool> failed_{false};
};

} // namespace

// Proves: OUT-06, I1, I2, I3, I5, I6, I8, I17, I18, I20
TEST_P(key_stress, whatever_happens_at_once_each_key_keeps_its_order_and_nothing_is_stuck)
{
    run_all();
    auto arguments = histories();
    arguments.insert(arguments.end(),
                     {"--store", under_test().url(), "--attempts-max", std::to_string(attempts_max),
                      "--settle-within", "60s", "--clock-tolerance", "1ms"});
    std::ostringstream told;
    EXPECT_EQ(run_checker(arguments, told, told), 0) << told.str();
    for (const auto& each : diagnose(under_test().url()))
        if (each.check != "durability") { // the servers of the tests have none
            EXPECT_NE(each.level, severity::problem) << each.check << ": " << each.detail;
        }
}

TEST(ledger_of_skips_of_keys, every_entry_names_a_test_that_exists)
{
    EXPECT_THAT(
        entries_without_a_test([](std::string_view suite) { return suite == "key_stress"; }),
        ::testing::IsEmpty());
}

CONFORMANCE_SUITE(key_stress);

} // namespace posthorn::conformance
