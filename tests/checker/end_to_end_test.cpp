// A real store, real threads and their histories: the checker finds nothing, until the evidence is
// tampered with.
#include "checker/command.hpp"
#include "checker/history.hpp"
#include "checker/scratch_folder.hpp"
#include <posthorn/posthorn.hpp>

#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

namespace posthorn::checker {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr std::size_t workers = 4;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int messages = 60;
#else
constexpr int messages = 200;
#endif

/// Handles by payload: "fail" fails for good, "retry" fails once, all else is done.
outcome handle(const delivery& what)
{
    if (what.payload == "fail")
        return fail("as asked");
    return what.payload == "retry" && what.attempt == 1 ? retry_in(1ms, "as asked")
                                                        : posthorn::done();
}

/// A worker that writes down what it does.
class worker {
public:
    worker(store where, const history_writer& notes, const std::string& name)
        : box_(where, {.retries = {.fallback = exponential_retry{.first = 1ms, .cap = 1ms}},
                       .on_dead = dead_key::skips}),
          who_(owner::create(name, *where.environment().random)),
          notes_(notes)
    {}

    batch start(duration lease = 30s)
    {
        const auto asked_at = notes_.now();
        auto claimed = box_.claim(who_, {.lease = lease, .limit = 5});
        for (const auto& each : claimed.deliveries)
            notes_.record(start_event{.id = each.receipt.id,
                                      .fence = each.receipt.fence,
                                      .attempt = each.attempt},
                          asked_at);
        return claimed;
    }

    void settle(const batch& claimed)
    {
        std::vector<settlement> ends;
        for (const auto& each : claimed.deliveries)
            ends.push_back({.receipt = each.receipt, .outcome = handle(each)});
        const auto asked_at = notes_.now();
        const auto result = box_.settle(who_, ends);
        for (std::size_t i = 0; i < ends.size(); ++i)
            notes_.record(settle_event{.id = ends[i].receipt.id,
                                       .fence = ends[i].receipt.fence,
                                       .outcome = ends[i].outcome.verdict,
                                       .answer = result.answers[i]},
                          asked_at);
    }

    void reap() { box_.reap_expired(); }

private:
    outbox box_;
    owner who_;
    const history_writer& notes_;
};

class checker_end_to_end : public ::testing::Test {
protected:
    void SetUp() override
    {
        migrate(url());
        store_.emplace(open(url()));
    }

    [[nodiscard]] std::string url() const { return "sqlite:" + folder.file("store.db").string(); }

    [[nodiscard]] std::unique_ptr<history_writer> notes_of(const std::string& name) const
    {
        return std::make_unique<history_writer>(folder.file(name + ".jsonl"), name,
                                                store_->environment().clock);
    }

    /// Enqueues message `number` in a transaction that may be rolled back, and may cancel it then.
    void produce(const history_writer& notes, int number)
    {
        const auto token = "transaction " + std::to_string(number);
        auto asked_at = notes.now();
        auto tx = store_->begin();
        const auto added = enqueue(tx, {"orders", payload_of(number)}, options_of(number));
        const auto due_at = number % 17 == 0 ? std::optional{asked_at + delay} : std::nullopt;
        notes.record(enqueue_event{.id = added.id,
                                   .topic = "orders",
                                   .key = options_of(number).ordering_key,
                                   .due_at = due_at,
                                   .transaction = token},
                     asked_at);
        asked_at = notes.now();
        const bool keeps = number % 10 != 0;
        keeps ? tx.commit() : tx.rollback();
        notes.record(transaction_event{.transaction = token,
                                       .end = keeps ? transaction_end::committed
                                                    : transaction_end::rolled_back},
                     asked_at);
        if (number % 11 == 0)
            take_back(notes, added.id);
    }

    void take_back(const history_writer& notes, message_id id)
    {
        const auto asked_at = notes.now();
        const auto answer = cancel(*store_, id);
        notes.record(cancel_event{.id = id, .answer = answer}, asked_at);
    }

    void work_until(const std::atomic<bool>& produced, const std::string& name)
    {
        const auto notes = notes_of(name);
        worker me(*store_, *notes, name);
        for (;;) {
            const bool last_round = produced.load();
            const auto claimed = me.start();
            me.settle(claimed);
            if (!claimed.empty())
                continue;
            if (last_round && is_drained())
                return;
            me.reap();
            store_->environment().clock->pause(1ms);
        }
    }

    void produce_and_work()
    {
        std::atomic<bool> produced{false};
        std::vector<std::jthread> threads;
        for (std::size_t i = 1; i <= workers; ++i)
            threads.emplace_back([&, i] { work_until(produced, "worker" + std::to_string(i)); });
        const auto notes = notes_of("producer");
        for (int number = 1; number <= messages; ++number)
            produce(*notes, number);
        notes->record(stop_event{});
        produced = true;
    }

    bool is_drained()
    {
        const auto stats = count_messages(*store_);
        return stats.ready + stats.delayed + stats.waiting + stats.claimed == 0;
    }

    int check(const std::vector<std::string>& tables)
    {
        std::vector<std::string> arguments;
        for (const auto& each : std::filesystem::directory_iterator(folder.file("")))
            if (each.path().extension() == ".jsonl")
                arguments.push_back(each.path().string());
        arguments.insert(arguments.end(), tables.begin(), tables.end());
        told_.str("");
        return run_checker(arguments, told_, told_);
    }
    int check() { return check({"--store", url()}); }

    /// The file of a worker that got something to do; not every thread needs to.
    [[nodiscard]] std::string busy_worker() const
    {
        for (std::size_t i = 1; i <= workers; ++i) {
            auto name = "worker" + std::to_string(i) + ".jsonl";
            if (!folder.read(name).empty())
                return name;
        }
        throw std::logic_error("no worker has done anything");
    }

    /// Changes the first line of a file that contains `words`: leaves it out, or doubles it.
    enum class change { leave_out, twice };
    void tamper(const std::string& name, const std::string& words, change how) const
    {
        const auto text = folder.read(name);
        const auto hit = text.find(words);
        ASSERT_NE(hit, std::string::npos);
        const auto begin = hit == 0 ? 0 : text.rfind('\n', hit) + 1;
        const auto line = text.substr(begin, text.find('\n', hit) + 1 - begin);
        const auto before = text.substr(0, begin);
        const auto after = text.substr(begin + line.size());
        folder.write(name, before + (how == change::twice ? line + line : "") + after);
    }

    scratch_folder folder;
    std::optional<store> store_;
    std::ostringstream told_;

private:
    static constexpr duration delay = 5ms;

    static std::string payload_of(int number)
    {
        if (number % 23 == 0)
            return "fail";
        return number % 7 == 0 ? "retry" : "x";
    }

    static enqueue_options options_of(int number)
    {
        enqueue_options result;
        if (number % 3 != 0)
            result.ordering_key = "key" + std::to_string(number % 4);
        if (number % 17 == 0)
            result.delay = delay;
        return result;
    }
};

} // namespace

// Proves: I1, I2, I3, I4, I5, I6, I8, I17, I18, I20
TEST_F(checker_end_to_end, a_busy_store_keeps_its_promises)
{
    produce_and_work();
    EXPECT_EQ(check(), 0) << told_.str();
    EXPECT_THAT(told_.str(), HasSubstr(std::to_string(messages) + " messages"));
    EXPECT_THAT(told_.str(), HasSubstr("0 violations"));
}

// Proves: F15, I4, I6
TEST_F(checker_end_to_end, a_worker_that_sleeps_through_its_lease_breaks_no_promise)
{
    const auto notes = notes_of("sleeper");
    const auto injector = notes_of("injector");
    const auto producer = notes_of("early producer");
    for (const int number : {1'201, 1'202, 1'203})
        produce(*producer, number);
    worker sleeper(*store_, *notes, "sleeper");
    const auto claimed = sleeper.start(1us);
    ASSERT_EQ(claimed.size(), 3U);
    const auto asleep_at = injector->now();
    produce_and_work();
    injector->record(fault_event{.kind = fault_kind::paused, .worker = "sleeper"}, asleep_at);
    sleeper.settle(claimed);
    EXPECT_THAT(folder.read("sleeper.jsonl"), HasSubstr("\"lost\""));
    EXPECT_EQ(check(), 0) << told_.str();
    EXPECT_THAT(told_.str(), HasSubstr(" 1 fault,"));

    // Without the fault nothing explains why the three were started again.
    tamper("injector.jsonl", "paused", change::leave_out);
    EXPECT_EQ(check(), 1);
    EXPECT_THAT(told_.str(),
                HasSubstr("I6: message " + to_string(claimed.deliveries[0].receipt.id) +
                          " was started again"));
}

TEST_F(checker_end_to_end, evidence_that_is_tampered_with_is_noticed)
{
    produce_and_work();
    const auto busy = busy_worker();
    const auto told_by_producer = folder.read("producer.jsonl");
    const auto told_by_worker = folder.read(busy);
    const auto dump = folder.file("dump").string();
    ASSERT_EQ(check({"--store", url(), "--save-final", dump}), 0) << told_.str();
    ASSERT_EQ(check({"--final", dump}), 0) << told_.str();

    for (const auto* kind : {"\"enqueued\"", "\"committed\""}) {
        tamper("producer.jsonl", kind, change::leave_out);
        EXPECT_EQ(check(), 1) << kind;
        EXPECT_THAT(told_.str(), HasSubstr("I1: "));
        folder.write("producer.jsonl", told_by_producer);
    }

    tamper(busy, "\"started\"", change::leave_out);
    EXPECT_EQ(check(), 1);
    EXPECT_THAT(told_.str(), HasSubstr("I5: "));
    folder.write(busy, told_by_worker);

    tamper(busy, "\"started\"", change::twice);
    EXPECT_EQ(check(), 1);
    EXPECT_THAT(told_.str(), HasSubstr("was started twice under fence"));
    folder.write(busy, told_by_worker);

    tamper("dump", "\"done\"", change::leave_out);
    EXPECT_EQ(check({"--final", dump}), 1);
    EXPECT_THAT(told_.str(), HasSubstr("I2: "));
}

} // namespace posthorn::checker
