// A worker for the tests of the command line that does one thing and leaves:
//
//   cli_worker URL hold|claim|acknowledge|fail|park [ERROR]
//   cli_worker URL join EXPECTED MEMBERS
//   cli_worker URL wait JOIN
//   cli_worker URL member STORE JOIN
//   cli_worker URL receive SOURCE ID
//   cli_worker URL reserve|run COMMAND KEY
//   cli_worker URL lease NAME HOLDER
//
// `lease` holds a lease for as long as its input is open, and prints its fence.
// `receive` stores a message from outside, of the topic "orders"; `reserve` and `run` begin a
// command under a key, and run it with the result "paid". `join` and `wait` open a join of the
// group "customer-7" with so many members, whose ids it prints below the join's, and enqueue a wait
// for one; `member` enqueues a member of a join in another store. The others: claims what is due,
// starts it (unless it only holds it), and leaves, acknowledges, fails or parks it. Prints how many
// messages.
#include <posthorn/idempotency.hpp>
#include <posthorn/inbox.hpp>
#include <posthorn/joins.hpp>
#include <posthorn/leases.hpp>
#include <posthorn/outbox.hpp>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace posthorn;

void settle(outbox& queue, const owner& me, const batch& claimed, std::string_view deed,
            std::string_view error)
{
    if (deed == "acknowledge")
        queue.acknowledge(me, claimed.receipts());
    if (deed == "fail")
        queue.fail(me, claimed.receipts(), error);
    if (deed == "park")
        for (const auto& each : claimed.receipts())
            queue.settle(me, std::vector<settlement>{{each, park(park_reason::at_limit)}});
}

std::size_t work(const char* url, std::string_view deed, std::string_view error)
{
    auto where = open(url);
    const auto me = owner::create("cli-worker", *where.environment().random);
    outbox queue(where);
    claim_options how{.limit = 1'000};
    if (deed == "hold")
        how.start = 0;
    std::size_t count = 0;
    for (;;) {
        const auto claimed = queue.claim(me, how);
        if (claimed.empty())
            return count;
        settle(queue, me, claimed, deed, error);
        count += claimed.size();
    }
}

void open_join_with(store where, int expected, int members)
{
    auto tx = where.begin();
    const auto join = open_join(tx, {.expected = expected,
                                     .on_complete = message{"all.done", ""},
                                     .on_fail = message{"went.wrong", ""},
                                     .grouping_key = "customer-7"});
    std::printf("%s\n", to_string(join).c_str());
    for (int i = 0; i < members; ++i)
        std::printf("%s\n", to_string(enqueue(tx, {"extract", ""}, {.join = join}).id).c_str());
    tx.commit();
}

void wait_for(store where, const char* join)
{
    const auto id = join_id::parse(join).value();
    std::printf("%s\n", to_string(enqueue_join_wait(where, {.join = id}).id).c_str());
}

void add_member_of(store where, const char* of, const char* join)
{
    auto tx = where.begin();
    const auto id = enqueue(tx, {"extract", ""}).id;
    attach(tx, remote_join{.store = of, .join = join_id::parse(join).value()}, id);
    tx.commit();
    std::printf("%s\n", to_string(id).c_str());
}

void receive(store where, const char* source, const char* id)
{
    const auto got = enqueue_inbound(where, {.source = source, .id = id}, {"orders", "the order"},
                                     {.content_hash = "d41d8cd9"});
    std::printf("%s\n", to_string(got.message.value()).c_str());
}

void begin_command(store where, std::string_view deed, const command_key& which)
{
    const auto answer = deed == "run"
                            ? run_once(where, which, [] { return std::string("paid"); }).answer
                            : reserve(where, which).answer;
    std::printf("%s\n", std::string(to_string(answer)).c_str());
}

void hold_lease(store where, const char* name, const char* holder)
{
    using namespace std::chrono_literals;
    const auto held = try_lease(where, name, {.length = 1h, .holder = holder});
    std::printf("%lld\n", static_cast<long long>(held.value().fence()));
    std::fflush(stdout);
    while (std::getchar() != EOF) {}
}

} // namespace

int main(int argc, char** argv)
{
    if (argc < 3)
        return 2;
    const std::string_view deed = argv[2];
    try {
        if (deed == "join" && argc == 5)
            return open_join_with(open(argv[1]), std::atoi(argv[3]), std::atoi(argv[4])), 0;
        if (deed == "wait" && argc == 4)
            return wait_for(open(argv[1]), argv[3]), 0;
        if (deed == "member" && argc == 5)
            return add_member_of(open(argv[1]), argv[3], argv[4]), 0;
        if (deed == "receive" && argc == 5)
            return receive(open(argv[1]), argv[3], argv[4]), 0;
        if ((deed == "run" || deed == "reserve") && argc == 5)
            return begin_command(open(argv[1]), deed, {.command = argv[3], .key = argv[4]}), 0;
        if (deed == "lease" && argc == 5)
            return hold_lease(open(argv[1]), argv[3], argv[4]), 0;
        std::printf("%zu\n", work(argv[1], argv[2], argc > 3 ? argv[3] : "it failed"));
        return 0;
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "cli_worker: %s\n", failure.what());
        return 1;
    }
}
