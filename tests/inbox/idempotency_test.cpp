// Keys of commands on every store: who runs, who waits, who gets the stored bytes.
#include "conformance/conformance_test.hpp"
#include <posthorn/idempotency.hpp>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace posthorn::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const command_key charge{.command = "charge", .key = "k1", .fingerprint = "f1"};

command_key but(command_key which, const std::string& fingerprint)
{
    which.fingerprint = fingerprint;
    return which;
}

class command_keys : public conformance_test {
protected:
    /// Runs a command whose effect can be counted.
    command_result<std::string> run(const command_key& which, const std::string& result = "paid")
    {
        return run_once(db(), which, [&](transaction& tx) {
            enqueue(tx, message{"effect", "payload"});
            return result;
        });
    }

    std::size_t effects() { return list_messages(db(), {.topic = "effect", .limit = 100}).size(); }

    key_record look_at(const command_key& which = charge)
    {
        auto found = find_key(db(), which.command, which.key);
        if (!found)
            throw std::runtime_error("no key " + which.key);
        return *found;
    }

    bool complete_alone(const command_key& which, const reservation& held, std::string_view result)
    {
        auto tx = db().begin();
        const bool completed = complete(tx, which, held, result);
        tx.commit();
        return completed;
    }
};

} // namespace

// Proves: IDM-01, IDM-02, I14
TEST_P(command_keys, a_command_runs_once_and_answers_the_same_bytes_again)
{
    const std::string bytes("paid\0\xff\n", 7);
    const auto first = run(charge, bytes);
    EXPECT_EQ(first.answer, command_answer::executed);
    EXPECT_EQ(first.value(), bytes);
    const auto again = run(charge, "something else");
    EXPECT_EQ(again.answer, command_answer::replayed);
    EXPECT_TRUE(again.replayed());
    EXPECT_EQ(again.value(), bytes);
    EXPECT_EQ(effects(), 1U);

    const auto found = look_at();
    EXPECT_EQ(found.state, key_state::completed);
    EXPECT_EQ(found.result, bytes);
    EXPECT_EQ(found.epoch, 1);
    EXPECT_EQ(found.fingerprint, "f1");
    EXPECT_EQ(found.created_at, now());
    EXPECT_EQ(found.ended_at, now());
    EXPECT_EQ(found.expires_at, now() + 24h);
}

// Proves: IDM-01
TEST_P(command_keys, the_same_key_of_another_command_is_another)
{
    EXPECT_EQ(run(charge).answer, command_answer::executed);
    EXPECT_EQ(run({.command = "refund", .key = "k1", .fingerprint = "f1"}).answer,
              command_answer::executed);
    EXPECT_EQ(run({.command = "charge", .key = "K1", .fingerprint = "f1"}).answer,
              command_answer::executed);
    EXPECT_EQ(effects(), 3U);
}

// Proves: IDM-02
TEST_P(command_keys, nothing_and_an_empty_result_are_results)
{
    int runs = 0;
    EXPECT_EQ(run_once(db(), charge, [&] { ++runs; }).answer, command_answer::executed);
    const auto again = run_once(db(), charge, [&] { ++runs; });
    EXPECT_EQ(again.answer, command_answer::replayed);
    EXPECT_EQ(again.value(), "");
    EXPECT_EQ(runs, 1);
}

// Proves: IDM-02, IDM-03
TEST_P(command_keys, while_it_runs_others_are_told_so_and_another_request_is_refused_first)
{
    const auto held = reserve(db(), charge);
    ASSERT_EQ(held.answer, command_answer::executed);
    const auto second = run(charge);
    EXPECT_EQ(second.answer, command_answer::in_progress);
    const auto busy = thrown_by([&] { (void)second.value(); });
    EXPECT_EQ(busy.code(), error_code::busy);
    EXPECT_TRUE(busy.retryable());
    const auto other = run(but(charge, "f2"));
    EXPECT_EQ(other.answer, command_answer::mismatch);
    EXPECT_EQ(thrown_by([&] { (void)other.value(); }).code(), error_code::constraint);

    EXPECT_TRUE(complete_alone(charge, held, "paid"));
    EXPECT_EQ(run(charge).value(), "paid");
    EXPECT_EQ(run(but(charge, "f2")).answer, command_answer::mismatch);
    EXPECT_EQ(effects(), 0U);
}

// Proves: IDM-04, I14
TEST_P(command_keys, a_holder_that_is_late_is_replaced_and_cannot_complete)
{
    const auto late = reserve(db(), charge);
    clock().advance(60s - 1us);
    EXPECT_EQ(reserve(db(), charge).answer, command_answer::in_progress);
    clock().advance(1us);
    EXPECT_EQ(reserve(db(), but(charge, "f2")).answer, command_answer::mismatch);
    const auto next = reserve(db(), charge);
    ASSERT_EQ(next.answer, command_answer::executed);
    EXPECT_EQ(next.epoch, 2);
    EXPECT_FALSE(complete_alone(charge, late, "late"));
    EXPECT_FALSE(give_up(db(), charge, late, "late"));
    EXPECT_EQ(look_at().state, key_state::in_progress);
    EXPECT_TRUE(complete_alone(charge, next, "next"));
    EXPECT_FALSE(complete_alone(charge, late, "late"));
    EXPECT_FALSE(complete_alone(charge, next, "twice"));
    EXPECT_EQ(run(charge).value(), "next");
}

// Proves: IDM-04, I14
TEST_P(command_keys, a_holder_whose_key_was_forgotten_cannot_complete_its_successors)
{
    const auto late = reserve(db(), charge);
    clock().advance(24h);
    EXPECT_EQ(clean(db()).command_keys, 1U);
    const auto next = reserve(db(), charge);
    ASSERT_EQ(next.answer, command_answer::executed);
    EXPECT_EQ(next.epoch, late.epoch) << "the epoch does not tell them apart";
    EXPECT_FALSE(complete_alone(charge, late, "late"));
    EXPECT_TRUE(complete_alone(charge, next, "next"));
}

// Proves: IDM-02, IDM-05
TEST_P(command_keys, what_throws_is_marked_as_failed_and_may_be_tried_again)
{
    const auto fails = [&] {
        return run_once(db(), charge, [&](transaction& tx) -> std::string {
            enqueue(tx, message{"effect", ""});
            throw std::runtime_error("no money");
        });
    };
    EXPECT_THROW(fails(), std::runtime_error);
    EXPECT_EQ(effects(), 0U);
    EXPECT_EQ(look_at().state, key_state::failed);
    EXPECT_EQ(look_at().error, "no money");
    EXPECT_EQ(run(but(charge, "f2")).answer, command_answer::mismatch);
    EXPECT_EQ(run(charge).answer, command_answer::executed);
    EXPECT_EQ(look_at().epoch, 2);
    EXPECT_EQ(look_at().error, "");
    EXPECT_EQ(effects(), 1U);
}

// Proves: IDM-02, IDM-06
TEST_P(command_keys, what_has_expired_may_run_again_as_another_request)
{
    auto brief = charge;
    brief.keep = 1h;
    EXPECT_EQ(run(brief).answer, command_answer::executed);
    clock().advance(1h - 1us);
    EXPECT_EQ(run(brief).answer, command_answer::replayed);
    clock().advance(1us);
    EXPECT_EQ(run(but(brief, "f2"), "again").answer, command_answer::executed);
    EXPECT_EQ(run(but(brief, "f2")).value(), "again");
    EXPECT_EQ(effects(), 2U);
}

// Proves: IDM-02, IDM-04
TEST_P(command_keys, a_lock_that_holds_outlives_the_time_to_keep)
{
    auto odd = charge;
    odd.keep = 1s;
    const auto held = reserve(db(), odd);
    clock().advance(10s);
    EXPECT_EQ(reserve(db(), odd).answer, command_answer::in_progress);
    EXPECT_EQ(clean(db()).command_keys, 0U);
    EXPECT_TRUE(complete_alone(odd, held, "done"));
}

// Proves: IDM-06
TEST_P(command_keys, expired_keys_are_removed_a_few_at_a_time)
{
    for (int i = 0; i < 5; ++i)
        run({.command = "charge", .key = std::to_string(i)});
    clock().advance(12h);
    run({.command = "charge", .key = "young"});
    clock().advance(12h);
    EXPECT_EQ(clean(db(), {.batch = 2}, 1).command_keys, 2U);
    EXPECT_EQ(clean(db(), {.batch = 2}).command_keys, 3U);
    const auto left = list_keys(db());
    ASSERT_THAT(left, SizeIs(1));
    EXPECT_EQ(left[0].key, "young");
}

// Proves: IDM-05, I14
TEST_P(command_keys, within_a_given_transaction_the_key_shares_its_fate)
{
    {
        auto tx = db().begin();
        const auto first = run_once(tx, charge, [&] { return std::string("paid"); });
        EXPECT_EQ(first.answer, command_answer::executed);
        EXPECT_EQ(run_once(tx, charge, [&] { return std::string("again"); }).value(), "paid");
        tx.rollback();
    }
    EXPECT_FALSE(find_key(db(), "charge", "k1"));
    {
        auto tx = db().begin();
        EXPECT_EQ(run_once(tx, charge, [&] { return std::string("paid"); }).answer,
                  command_answer::executed);
        tx.commit();
    }
    EXPECT_EQ(run(charge).value(), "paid");
    EXPECT_EQ(look_at().state, key_state::completed);
}

// Proves: IDM-05
TEST_P(command_keys, what_throws_within_a_given_transaction_is_marked_if_that_commits)
{
    auto tx = db().begin();
    EXPECT_THROW(
        run_once(tx, charge, []() -> std::string { throw std::runtime_error("no money"); }),
        std::runtime_error);
    tx.commit();
    EXPECT_EQ(look_at().state, key_state::failed);
    EXPECT_EQ(run(charge).answer, command_answer::executed);
}

// Proves: IDM-01, IDM-02, IDM-03, IDM-05, I14
TEST_P(command_keys, of_two_to_eight_at_once_one_runs_and_the_others_have_its_bytes)
{
    for (int clients = 2; clients <= 8; ++clients) {
        SCOPED_TRACE(std::to_string(clients) + " clients");
        const command_key key{
            .command = "charge", .key = "of " + std::to_string(clients), .fingerprint = "f1"};
        std::mutex mutex;
        std::multiset<command_answer> answers;
        std::set<std::string> bytes;
        command_answer other{};
        {
            std::vector<std::jthread> threads;
            for (int i = 0; i < clients; ++i)
                threads.emplace_back([&, i] {
                    const auto got = run(key, "by " + std::to_string(i));
                    const std::lock_guard lock(mutex);
                    answers.insert(got.answer);
                    if (got.result)
                        bytes.insert(*got.result);
                });
            threads.emplace_back([&] {
                while (!find_key(db(), key.command, key.key)) // until somebody has begun
                    std::this_thread::yield();
                other = run(but(key, "f2")).answer;
            });
        }
        EXPECT_EQ(answers.count(command_answer::executed), 1U);
        EXPECT_EQ(answers.count(command_answer::executed) +
                      answers.count(command_answer::replayed) +
                      answers.count(command_answer::in_progress),
                  static_cast<std::size_t>(clients));
        EXPECT_THAT(bytes, SizeIs(1));
        EXPECT_EQ(other, command_answer::mismatch);
        EXPECT_EQ(effects(), static_cast<std::size_t>(clients) - 1);
    }
}

// Proves: IDM-05, I14
TEST_P(command_keys, within_given_transactions_duplicates_wait_and_have_the_result)
{
    constexpr int clients = 6;
    std::atomic<int> executed{0};
    std::atomic<int> replayed{0};
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < clients; ++i)
            threads.emplace_back([&] {
                for (;;) {
                    try {
                        auto tx = db().begin();
                        const auto got = run_once(tx, charge, [&] {
                            enqueue(tx, message{"effect", ""});
                            return std::string("paid");
                        });
                        tx.commit();
                        EXPECT_EQ(got.value(), "paid");
                        ++(got.replayed() ? replayed : executed);
                        return;
                    } catch (const error& failure) {
                        ASSERT_TRUE(failure.retryable()) << failure.what();
                    }
                }
            });
    }
    EXPECT_EQ(executed, 1);
    EXPECT_EQ(replayed, clients - 1);
    EXPECT_EQ(effects(), 1U);
}

// Proves: IDM-02
TEST_P(command_keys, who_waits_long_enough_takes_over_from_the_dead)
{
    auto patient = charge;
    patient.wait = 2min;
    ASSERT_EQ(reserve(db(), charge).answer, command_answer::executed); // and dies
    const auto begun = now();
    EXPECT_EQ(run(patient).answer, command_answer::executed);
    EXPECT_GE(now() - begun, 60s);
    EXPECT_LT(now() - begun, 61s);
    EXPECT_EQ(look_at().epoch, 2);
}

// Proves: IDM-01
TEST_P(command_keys, they_can_be_listed_and_released)
{
    run({.command = "a", .key = "2"});
    run({.command = "a", .key = "1"});
    const auto held = reserve(db(), {.command = "b", .key = "1"});
    const auto names = [](const std::vector<key_record>& page) {
        std::vector<std::string> result;
        for (const auto& each : page)
            result.push_back(each.command + each.key);
        return result;
    };
    EXPECT_THAT(names(list_keys(db())), ElementsAre("a1", "a2", "b1"));
    EXPECT_THAT(names(list_keys(db(), {.limit = 1})), ElementsAre("a1"));
    EXPECT_THAT(names(list_keys(db(), {.after_command = "a", .after_key = "1"})),
                ElementsAre("a2", "b1"));
    EXPECT_THAT(names(list_keys(db(), {.command = "b"})), ElementsAre("b1"));
    EXPECT_THAT(names(list_keys(db(), {.state = key_state::completed})), ElementsAre("a1", "a2"));

    EXPECT_TRUE(release_key(db(), "b", "1"));
    EXPECT_FALSE(release_key(db(), "b", "1"));
    EXPECT_FALSE(complete_alone({.command = "b", .key = "1"}, held, "late"));
    EXPECT_FALSE(find_key(db(), "b", "1"));
}

// Proves: IDM-01
TEST_P(command_keys, names_and_times_out_of_bounds_are_refused)
{
    const auto refused = [&](const command_key& which) {
        return thrown_by([&] { (void)reserve(db(), which); }).code();
    };
    EXPECT_EQ(refused({.command = "", .key = "k"}), error_code::invalid_argument);
    EXPECT_EQ(refused({.command = "c", .key = ""}), error_code::invalid_argument);
    EXPECT_EQ(refused({.command = std::string(501, 'c'), .key = "k"}),
              error_code::invalid_argument);
    EXPECT_EQ(refused({.command = "c", .key = std::string(201, 'k')}),
              error_code::invalid_argument);
    EXPECT_EQ(refused({.command = "c", .key = "k", .fingerprint = std::string(256, 'f')}),
              error_code::invalid_argument);
    EXPECT_EQ(refused({.command = "c", .key = "k", .lock = 0s}), error_code::invalid_argument);
    EXPECT_EQ(refused({.command = "c", .key = "k", .keep = -1s}), error_code::invalid_argument);
    EXPECT_THAT(list_keys(db()), IsEmpty());
    EXPECT_EQ(reserve(db(), {.command = std::string(500, 'c'),
                             .key = std::string(200, 'k'),
                             .fingerprint = std::string(255, 'f')})
                  .answer,
              command_answer::executed);
}

// Proves: IDM-01, I14
TEST_P(command_keys, a_stop_ends_the_wait_for_another_holder)
{
    auto patient = charge;
    patient.wait = 10h;
    auto where = under_test().open({.environment = environment::system()}); // whose time passes
    const auto held = reserve(where, patient);
    ASSERT_EQ(held.answer, command_answer::executed);
    const auto no_effect = [](transaction&) { return std::string("never"); };
    std::stop_source stop;
    command_result<std::string> told;
    {
        const std::jthread waits(
            [&] { told = run_once(where, patient, no_effect, stop.get_token()); });
        stop.request_stop();
    }
    EXPECT_EQ(told.answer, command_answer::stopped);
    EXPECT_FALSE(told.result);
    EXPECT_EQ(thrown_by([&] { (void)told.value(); }).code(), error_code::stopped);
    // The holder goes on as if there had been no wait.
    auto tx = where.begin();
    EXPECT_TRUE(complete(tx, patient, held, "paid"));
    tx.commit();
    EXPECT_EQ(run_once(where, patient, no_effect).value(), "paid");
}

// Proves: IDM-01, I14
TEST_P(command_keys, a_stop_keeps_a_command_from_beginning_and_one_that_has_begun_ends)
{
    std::stop_source stop;
    const auto pay = [&](transaction& tx) {
        stop.request_stop();
        enqueue(tx, message{"effect", ""});
        return std::string("paid");
    };
    EXPECT_EQ(run_once(db(), charge, pay, stop.get_token()).answer, command_answer::executed);
    EXPECT_EQ(effects(), 1U);

    auto other = charge;
    other.key = "k2";
    EXPECT_EQ(run_once(db(), other, pay, stop.get_token()).answer, command_answer::stopped);
    auto tx = db().begin();
    EXPECT_EQ(run_once(tx, other, pay, stop.get_token()).answer, command_answer::stopped);
    tx.commit();
    EXPECT_EQ(effects(), 1U);
    EXPECT_FALSE(find_key(db(), other.command, other.key)) << "nothing is reserved either";
    EXPECT_EQ(run_once(db(), other, pay).answer, command_answer::executed);
    EXPECT_EQ(to_string(command_answer::stopped), "stopped");
}

CONFORMANCE_SUITE(command_keys);

} // namespace posthorn::conformance
