// posthorn-bench: measures Posthorn next to raw SQL and says whether its bars are reached.
#include "bench/figures.hpp"
#include "bench/mariadb_bench.hpp"
#include "bench/postgres_bench.hpp"
#include "bench/relay_bench.hpp"
#include "bench/sqlite_bench.hpp"
#include "bench/worker_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr auto usage = R"(usage: posthorn-bench [ENGINE…] [--quick] [--rounds N] [--json FILE]

Measures enqueue and claim+acknowledge next to raw SQL in the same run, with full durability; and
relays next to the brokers' own clients. ENGINE is sqlite, postgres, mariadb, rabbitmq, nats or
redis; all that this build has unless given. bell is the part of postgres that is about waking up.
Servers are found through POSTHORN_BENCH_POSTGRESQL, …_MARIADB, …_RABBITMQ, …_NATS and …_REDIS;
`./dev bench` starts private ones and sets them.
Exits with 1 if a bar is missed. --quick takes seconds and says nothing about bars.

example: ./dev bench postgres --rounds 5 --json figures.jsonl
)";

constexpr std::array<std::string_view, 7> engines{"sqlite",   "postgres", "bell", "mariadb",
                                                  "rabbitmq", "nats",     "redis"};

struct request {
    std::vector<std::string> engines;
    bench::sqlite_plan sqlite;
    bench::server_plan server;
    bench::relay_plan relay;
    std::string json_path = "figures.jsonl";
    bool quick = false;

    [[nodiscard]] bool wants(const std::string& engine) const
    {
        return engines.empty() || std::ranges::find(engines, engine) != engines.end();
    }

    // One that is named and that this build lacks is wanted as well: that is an error.
    [[nodiscard]] bool wants_broker(const std::string& broker) const
    {
        return engines.empty() ? bench::has_broker(broker) : wants(broker);
    }
};

request read(const std::vector<std::string>& arguments)
{
    request result;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const auto& word = arguments[i];
        const auto value = [&]() -> const std::string& {
            if (i + 1 == arguments.size())
                throw std::invalid_argument(word + " needs a value");
            return arguments[++i];
        };
        if (word == "--quick") {
            result.quick = true;
            result.sqlite = {.rounds = 1,
                             .single_messages = 200,
                             .bulk_messages = 5'000,
                             .long_drain_messages = 0};
            result.server = {.rounds = 1,
                             .single_messages = 200,
                             .bulk_messages = 20'000,
                             .long_drain_messages = 20'000};
            result.relay = {.rounds = 1, .messages = 2'000};
        } else if (word == "--rounds") {
            result.sqlite.rounds = result.server.rounds = result.relay.rounds = std::stoul(value());
        } else if (word == "--json") {
            result.json_path = value();
        } else if (std::ranges::find(engines, word) != engines.end()) {
            result.engines.push_back(word);
        } else {
            throw std::invalid_argument("unknown argument " + word);
        }
    }
    return result;
}

// A quick run says nothing about speed, so the servers of the tests will do.
std::string server_url(const std::string& engine, bool quick)
{
    const char* url = std::getenv(("POSTHORN_BENCH_" + engine).c_str());
    if (url == nullptr && quick)
        url = std::getenv(("POSTHORN_TEST_" + engine).c_str());
    if (url == nullptr || *url == '\0')
        throw std::runtime_error("POSTHORN_BENCH_" + engine +
                                 " does not name a server; run this through ./dev bench");
    return url;
}

} // namespace

int main(int argc, char** argv)
{
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    if (!arguments.empty() && arguments[0] == "--help") {
        fmt::print("{}", usage);
        return EXIT_SUCCESS;
    }
    if (arguments.size() == 2 && arguments[0] == "--drain")
        return bench::drain_and_tell(arguments[1]);
    request plan;
    try {
        plan = read(arguments);
    } catch (const std::exception& failure) {
        fmt::print(stderr, "posthorn-bench: {}\n\n{}", failure.what(), usage);
        return 2;
    }
    try {
        bench::figures all;
        if (plan.wants("sqlite"))
            bench::run_sqlite(plan.sqlite, all);
        if (plan.wants("postgres"))
            bench::run_postgres(server_url("POSTGRESQL", plan.quick), plan.server, all);
        if (!plan.engines.empty() && plan.wants("bell"))
            bench::run_bell(server_url("POSTGRESQL", plan.quick), plan.server, all);
        if (plan.wants("mariadb"))
            bench::run_mariadb(server_url("MARIADB", plan.quick), plan.server, all);
        if (plan.wants_broker("rabbitmq"))
            bench::run_relay("rabbitmq", server_url("RABBITMQ", plan.quick), plan.relay, all);
        if (plan.wants_broker("nats"))
            bench::run_relay("nats", server_url("NATS", plan.quick), plan.relay, all);
        if (plan.wants_broker("redis"))
            bench::run_relay("redis", server_url("REDIS", plan.quick), plan.relay, all);
        const bool reached = all.print(plan.json_path);
        return reached || plan.quick ? EXIT_SUCCESS : EXIT_FAILURE;
    } catch (const std::exception& failure) {
        fmt::print(stderr, "posthorn-bench: {}\n", failure.what());
        return EXIT_FAILURE;
    }
}
