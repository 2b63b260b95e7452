// Both sides in turns within one run, with the server's full durability.
#include "bench/server_bench.hpp"

#include "bench/worker_bench.hpp"
#include "bench/workload.hpp"

#include <fmt/format.h>

#include <utility>

namespace bench {
namespace {

// The two sides take turns within a round as well: the speed of a disk drifts.
constexpr std::size_t turns = 10;

void enqueue_round(const server_under_bench& which, const server_plan& plan,
                   std::size_t per_transaction, figures& into)
{
    const auto messages = per_transaction == 1 ? plan.single_messages : plan.bulk_messages;
    const auto each_turn = messages / turns;
    const auto metric = fmt::format("{} enqueue {}/tx 1c", which.name, per_transaction);
    const auto log_metric = fmt::format("{} wal enqueue {}/tx", which.name, per_transaction);
    const auto other = which.other_side();
    posthorn_side own(which.fresh_url());
    own.enqueue(per_transaction, per_transaction); // both have their statements prepared
    other->plain_insert(per_transaction, per_transaction);

    struct tally {
        double seconds = 0;
        std::int64_t log_bytes = 0;
    };
    const auto take_turn = [&](tally& of, const std::function<void()>& work) {
        const auto before = other->log_bytes().value_or(0);
        of.seconds += static_cast<double>(each_turn) / rate(each_turn, work);
        of.log_bytes += other->log_bytes().value_or(0) - before;
    };
    tally raw;
    tally posthorn;
    for (std::size_t turn = 0; turn < turns; ++turn) {
        take_turn(raw, [&] { other->plain_insert(each_turn, per_transaction); });
        take_turn(posthorn, [&] { own.enqueue(each_turn, per_transaction); });
    }
    const auto count = static_cast<double>(each_turn * turns);
    for (const auto& [peer, of] : {std::pair{"raw", raw}, {"posthorn", posthorn}}) {
        into.add(peer, metric, count / of.seconds);
        if (of.log_bytes > 0)
            into.add(peer, log_metric, static_cast<double>(of.log_bytes) / count, "B/msg");
    }
}

void drain_round(const server_under_bench& which, const server_plan& plan, std::size_t batch,
                 figures& into)
{
    const auto metric = batch == 1'000 ? fmt::format("{} drain 100k", which.name)
                                       : fmt::format("{} drain 100k batch {}", which.name, batch);
    const auto log_metric = fmt::format("{} wal drain batch {}", which.name, batch);
    const auto messages = plan.bulk_messages;
    const auto other = which.other_side();
    const auto measure = [&](const std::string& peer, const std::function<void()>& work) {
        other->settle_down();
        const auto before = other->log_bytes();
        into.add(peer, metric, rate(messages, work));
        if (before)
            into.add(peer, log_metric,
                     static_cast<double>(*other->log_bytes() - *before) /
                         static_cast<double>(messages),
                     "B/msg");
    };
    other->fill_queue(messages);
    measure("hand-written", [&] { other->claim_and_mark_done(messages, batch); });
    posthorn_side own(which.fresh_url());
    own.enqueue(messages, 1'000);
    measure("posthorn", [&] { own.claim_and_acknowledge(messages, batch); });
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
        worker_round(which.name, which.fresh_url(), plan.bulk_messages, into);
    }
    expect_worker(which.name, into);
    worker_memory(which.name, which.fresh_url(), plan.long_drain_messages, into);
}

} // namespace bench
