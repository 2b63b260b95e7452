// Posthorn on SQLite next to raw SQL: the same columns,
// the same durability, in turns within one run.
#include "bench/sqlite_bench.hpp"

#include "bench/sqlite_raw.hpp"
#include "bench/worker_bench.hpp"
#include "bench/workload.hpp"
#include "tests/integration/sqlite/child_process.hpp"
#include <posthorn/sqlite.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>

namespace bench {
namespace {

constexpr auto beside_a_writer = "longest of 100 settlements beside a busy writer";

// A file that starts fresh and is gone afterwards, with its log.
class scratch_file {
public:
    explicit scratch_file(std::string name) : name_(std::move(name)) { remove(); }
    scratch_file(const scratch_file&) = delete;
    scratch_file& operator=(const scratch_file&) = delete;
    ~scratch_file() { remove(); }

    [[nodiscard]] const std::string& path() const { return name_; }
    [[nodiscard]] std::string url() const { return "sqlite:" + name_; }

private:
    void remove() const
    {
        for (const auto* suffix : {"", "-wal", "-shm"})
            std::filesystem::remove(name_ + suffix);
    }

    std::string name_;
};

void enqueue_round(const sqlite_plan& plan, std::size_t per_transaction, figures& into)
{
    const auto messages = per_transaction == 1 ? plan.single_messages : plan.bulk_messages;
    const auto metric = fmt::format("enqueue {}/tx 1c", per_transaction);
    for (const bool id_index : {false, true}) {
        const scratch_file file("raw.db");
        sqlite_raw raw(file.path(), id_index);
        into.add(id_index ? "raw" : "raw without id index", metric,
                 rate(messages, [&] { raw.insert(messages, per_transaction, topic, payload); }));
    }
    const scratch_file own_file("posthorn.db");
    posthorn_side own(own_file.url());
    into.add("posthorn", metric, rate(messages, [&] { own.enqueue(messages, per_transaction); }));
}

void drain_round(const sqlite_plan& plan, std::size_t batch, figures& into)
{
    const std::string metric =
        batch == 1'000 ? "drain 100k" : fmt::format("drain 100k batch {}", batch);
    const auto messages = plan.bulk_messages;
    {
        const scratch_file file("raw.db");
        sqlite_raw raw(file.path(), true);
        raw.insert(messages, 1'000, topic, payload);
        into.add("raw", metric, rate(messages, [&] { raw.claim_and_delete(messages, batch); }));
    }
    const scratch_file own_file("posthorn.db");
    posthorn_side own(own_file.url());
    own.enqueue(messages, 1'000);
    into.add("posthorn", metric,
             rate(messages, [&] { own.claim_and_acknowledge(messages, batch); }));
}

void long_drain(const sqlite_plan& plan, figures& into)
{
    const scratch_file own_file("posthorn.db");
    posthorn_side own(own_file.url());
    own.enqueue(plan.long_drain_messages, 1'000);
    const auto tenth = plan.long_drain_messages / 10;
    for (int part = 1; part <= 10; ++part) {
        const auto value = rate(tenth, [&] { own.claim_and_acknowledge(tenth, 1'000); });
        if (part == 2)
            into.add("posthorn", "drain 1M second 100k", value);
        if (part == 10)
            into.add("posthorn", "drain 1M tenth 100k", value);
    }
}

// How long a settlement takes beside a process that writes without rest. SQLite's own busy time-out
// would let it wait for seconds.
void settle_beside_a_writer(std::size_t settlements, figures& into)
{
    const scratch_file file("posthorn.db");
    posthorn::sqlite::migrate(file.url());
    const posthorn::test::child_process writer([&] {
        auto store = posthorn::open(file.url());
        for (;;)
            posthorn::enqueue(store, {topic, payload});
    });
    posthorn::outbox outbox(posthorn::open(file.url()));
    const auto system = posthorn::environment::system();
    const auto me = posthorn::owner::create("bench", *system.random);
    posthorn::duration longest{};
    for (std::size_t settled = 0; settled < settlements;) {
        const auto batch = outbox.claim(me, {.limit = 100});
        if (batch.empty())
            continue;
        const auto start = system.clock->monotonic();
        outbox.acknowledge(me, batch.receipts());
        longest = std::max<posthorn::duration>(longest, system.clock->monotonic() - start);
        ++settled;
    }
    into.add("posthorn", beside_a_writer, static_cast<double>(longest.count()) / 1'000, "ms");
}

} // namespace

void run_sqlite(const sqlite_plan& plan, figures& into)
{
    for (std::size_t round = 1; round <= plan.rounds; ++round) {
        fmt::print(stderr, "round {} of {}\n", round, plan.rounds);
        for (const std::size_t per_transaction : {1, 100, 1'000})
            enqueue_round(plan, per_transaction, into);
        for (const std::size_t batch : {100, 1'000})
            drain_round(plan, batch, into);
        const scratch_file bare("posthorn.db");
        const scratch_file worker("posthorn-worker.db");
        worker_round("sqlite", bare.url(), worker.url(), plan.bulk_messages, into);
        settle_beside_a_writer(100, into);
    }
    into.expect_at_most(beside_a_writer, "posthorn", 200);
    expect_worker("sqlite", into);
    for (const auto* metric : {"enqueue 1/tx 1c", "enqueue 100/tx 1c", "enqueue 1000/tx 1c"})
        into.expect(metric, "posthorn", 0.8, metric, "raw");
    for (const auto* metric : {"drain 100k batch 100", "drain 100k"})
        into.expect(metric, "posthorn", 0.7, metric, "raw");

    if (plan.long_drain_messages > 0) {
        for (std::size_t round = 1; round <= std::min<std::size_t>(plan.rounds, 3); ++round) {
            fmt::print(stderr, "long drain {}\n", round);
            long_drain(plan, into);
        }
        const scratch_file own_file("posthorn.db");
        worker_memory("sqlite", own_file.url(), plan.long_drain_messages, into);
        into.expect("drain 1M tenth 100k", "posthorn", 0.85, "drain 1M second 100k", "posthorn");
    }
}

} // namespace bench
