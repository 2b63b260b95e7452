// Both sides in turns within one run, with the server's full durability.
#include "bench/server_bench.hpp"

#include "bench/worker_bench.hpp"
#include "bench/workload.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <string>

namespace bench {
namespace {

// The two sides take turns within a round as well: the speed of a disk drifts.
constexpr std::size_t turns = 10;

/// What one side has taken so far.
struct tally {
    double seconds = 0;
    std::int64_t log_bytes = 0;

    void take_turn(hand_written& server, std::size_t messages, const std::function<void()>& work)
    {
        const auto before = server.log_bytes().value_or(0);
        seconds += static_cast<double>(messages) / rate(messages, work);
        log_bytes += server.log_bytes().value_or(0) - before;
    }

    void tell(const std::string& peer, const std::string& metric, const std::string& log_metric,
              std::size_t messages, figures& into) const
    {
        const auto count = static_cast<double>(messages);
        into.add(peer, metric, count / seconds);
        if (log_bytes > 0)
            into.add(peer, log_metric, static_cast<double>(log_bytes) / count, "B/msg");
    }
};

void enqueue_round(const server_under_bench& which, const server_plan& plan,
                   std::size_t per_transaction, figures& into)
{
    const auto messages = per_transaction == 1 ? plan.single_messages : plan.bulk_messages;
    const auto each_turn = messages / turns;
    const auto metric = fmt::format("{} enqueue {}/tx 1c", which.name, per_transaction);
    const auto log_metric = fmt::format("{} wal enqueue {}/tx", which.name, per_transaction);
    const auto other = which.other_side();
    posthorn_side own(which.fresh_url("bench"));
    own.enqueue(per_transaction, per_transaction); // both have their statements prepared
    other->plain_insert(per_transaction, per_transaction);

    tally raw;
    tally posthorn;
    for (std::size_t turn = 0; turn < turns; ++turn) {
        raw.take_turn(*other, each_turn, [&] { other->plain_insert(each_turn, per_transaction); });
        posthorn.take_turn(*other, each_turn, [&] { own.enqueue(each_turn, per_transaction); });
    }
    raw.tell("raw", metric, log_metric, each_turn * turns, into);
    posthorn.tell("posthorn", metric, log_metric, each_turn * turns, into);
}

void drain_round(const server_under_bench& which, const server_plan& plan, std::size_t batch,
                 figures& into)
{
    const auto metric = batch == 1'000 ? fmt::format("{} drain 100k", which.name)
                                       : fmt::format("{} drain 100k batch {}", which.name, batch);
    const auto log_metric = fmt::format("{} wal drain batch {}", which.name, batch);
    const auto each_turn = plan.bulk_messages / turns;
    const auto other = which.other_side();
    posthorn_side own(which.fresh_url("bench"));
    other->fill_queue(each_turn * turns);
    own.enqueue(each_turn * turns, 1'000);
    other->settle_down();

    tally by_hand;
    tally posthorn;
    for (std::size_t turn = 0; turn < turns; ++turn) {
        by_hand.take_turn(*other, each_turn, [&] { other->claim_and_mark_done(each_turn, batch); });
        posthorn.take_turn(*other, each_turn, [&] { own.claim_and_acknowledge(each_turn, batch); });
    }
    by_hand.tell("hand-written", metric, log_metric, each_turn * turns, into);
    posthorn.tell("posthorn", metric, log_metric, each_turn * turns, into);
}

} // namespace

void run_server(const server_under_bench& which, const server_plan& plan, figures& into)
{
    for (std::size_t round = 1; round <= plan.rounds; ++round) {
        fmt::print(stderr, "{}: round {} of {}\n", which.name, round, plan.rounds);
        for (const std::size_t per_transaction : {1, 100, 1'000})
            enqueue_round(which, plan, per_transaction, into);
        for (const std::size_t batch : {100, 1'000})
            drain_round(which, plan, batch, into);
        worker_round(which.name, which.fresh_url("bench"), which.fresh_url("bench_worker"),
                     plan.bulk_messages, into);
    }
    expect_worker(which.name, into);
    worker_memory(which.name, which.fresh_url("bench"), plan.long_drain_messages, into);
}

} // namespace bench
