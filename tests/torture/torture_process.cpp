// A process to be killed, stopped and cut off: a worker or a producer, which writes its history, or
// somebody outside.
//
//   torture_process work URL HISTORY NAME [option…]
//   torture_process produce URL HISTORY NAME [option…]
//   torture_process deliver URL HISTORY NAME [option…]
//   torture_process command URL HISTORY NAME [option…]
//   torture_process relay URL HISTORY NAME --broker URL --place NAME
//   torture_process feed URL HISTORY NAME --broker URL --place NAME
//
// All of them end at SIGTERM; outsiders.hpp tells of the second two, couriers.hpp of the last. A
// worker knows these topics; what the payload means stands behind them:
//   ordinary  is done at once                    slow     takes that many milliseconds
//   failing   fails that often                   throws   throws no std::exception, that often
//   gate      waits for that file, once          effect   writes a row in the transaction
//   holding   the same, and keeps the transaction open for so many milliseconds
//   inside    writes a row, says so by creating that file with ".inside", and waits for it, once
//   poison    aborts the process after so many   deaf     never ends
//             milliseconds
//   hang      never ends, once; it is given up   polite   ends when it is asked to
//   watchful  creates that file with ".asked" when its time is over, with ".lost" when its lease
//             is, and ends then
//
// With --broken it does what no worker should, so that tests can see it found: `early` acknowledges
// before it handles, `apart` commits a handler's effect by itself.
#include "torture/couriers.hpp"
#include "torture/effects.hpp"
#include "torture/outsiders.hpp"
#include "torture/producer.hpp"
#include "torture/storyteller.hpp"
#include "torture/talking_feed.hpp"
#include <posthorn/posthorn.hpp>
#include <posthorn/relay.hpp>

#include <CLI/CLI.hpp>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <vector>

namespace posthorn::torture {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

struct request {
    std::string url;
    std::filesystem::path history;
    std::string name;

    // Of a worker; times in milliseconds.
    std::size_t concurrency = 4;
    int lease = 500;
    int grace = 5'000;
    int look_every = 10'000;
    int attempts_max = 50;
    std::string effects = {}; ///< the table
    std::string broken = {};
    bool until_empty = false;
    std::vector<std::string> among = {}; ///< NAME=URL of many stores, instead of the one

    unsigned seed = 1; ///< of a producer
    outsider_options outside = {};
    place between = {}; ///< of a relay and a feed
};

void say(log_level, std::string_view line)
{
    std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
}

void rest(duration length)
{
    environment::system().clock->pause(length);
}

[[noreturn]] void never_end()
{
    for (;;)
        rest(1h);
}

void wait_for_file(const std::string& path)
{
    while (!std::filesystem::exists(path))
        rest(2ms);
}

// Handlers of one worker process.
class handlers {
public:
    handlers(const request& what, store where, storyteller& story)
        : what_(what), store_(std::move(where)), story_(story)
    {}

    void register_at(worker& with)
    {
        with.handle("ordinary", [](const delivery_view&) {});
        with.handle("slow",
                    [](const delivery_view& d) { rest(milliseconds{std::stoi(d.payload())}); });
        with.handle("failing", [](const delivery_view& d) {
            return d.attempt() <= std::stoi(d.payload()) ? retry("as the message says") : done();
        });
        with.handle("throws", [](const delivery_view& d) {
            if (d.attempt() <= std::stoi(d.payload()))
                throw 42; // NOLINT: what no handler should throw
        });
        with.handle("gate", [](const delivery_view& d) {
            if (d.attempt() == 1)
                wait_for_file(d.payload());
        });
        with.handle("poison", [](const delivery_view& d) {
            rest(milliseconds{std::stoi(d.payload())});
            std::abort();
        });
        with.handle("deaf", [](const delivery_view&) { never_end(); });
        with.handle("polite", [](const delivery_view& d) {
            while (!d.stop_token().stop_requested())
                rest(2ms);
            return retry("asked to stop");
        });
        with.handle("watchful", &watch_own_time, {.timeout = 300ms});
        with.handle("hang",
                    [](const delivery_view& d) {
                        if (d.attempt() == 1)
                            never_end();
                    },
                    {.timeout = 200ms, .abandon_after = 200ms});
        what_.broken == "apart" ? register_apart(with) : register_effects(with);
        with.handle(inbox_topic("effect"), [this](transactional_delivery<>& d) {
            write(d.tx(), d.headers().at(std::string(inbox_id_header)));
            rest(5ms);
        });
    }

    /// Answers at once, and handles later.
    [[nodiscard]] middleware acknowledging_early()
    {
        return [this](const delivery_view& d, const std::function<outcome()>&) {
            std::thread([this, which = d.message()] {
                rest(10s);
                story_.tell_start(which);
            }).detach();
            return done();
        };
    }

private:
    void register_effects(worker& with)
    {
        with.handle("effect",
                    [this](transactional_delivery<>& d) { write(d.tx(), to_string(d.id())); });
        with.handle("holding", [this](transactional_delivery<>& d) {
            write(d.tx(), to_string(d.id()));
            rest(milliseconds{std::stoi(d.payload())});
        });
        with.handle("inside", [this](transactional_delivery<>& d) {
            write(d.tx(), to_string(d.id()));
            linger(d);
        });
    }

    void register_apart(worker& with)
    {
        const auto write_apart = [this](const delivery_view& d) {
            auto tx = store_.begin();
            write(tx, to_string(d.id()));
            tx.commit();
        };
        with.handle("effect", write_apart);
        with.handle("inside", [write_apart](const delivery_view& d) {
            write_apart(d);
            linger(d);
        });
    }

    static void watch_own_time(const delivery_view& d)
    {
        if (d.attempt() > 1)
            return;
        while (!d.stop_token().stop_requested())
            rest(2ms);
        std::ofstream(d.payload() + ".asked").put('\n');
        while (!d.is_lost())
            rest(2ms);
        std::ofstream(d.payload() + ".lost").put('\n');
    }

    void write(transaction& tx, const std::string& of)
    {
        execute_in(tx, what_.url,
                   "INSERT INTO " + what_.effects + " (message, worker) VALUES ('" + of + "', '" +
                       what_.name + "')");
    }

    static void linger(const delivery_view& d)
    {
        if (d.attempt() > 1)
            return;
        std::ofstream(d.payload() + ".inside").put('\n');
        wait_for_file(d.payload());
    }

    const request& what_;
    store store_;
    storyteller& story_;
};

environment talkative()
{
    auto world = environment::system();
    world.log = log_sink(&say, log_level::info);
    return world;
}

store_provider named_stores(const std::vector<std::string>& list, const environment& world)
{
    std::vector<named_store> result;
    for (const auto& each : list) {
        const auto split = each.find('=');
        result.push_back({.name = each.substr(0, split), .url = each.substr(split + 1)});
    }
    return stores(std::move(result), {.open = {.environment = world}});
}

int work(const request& what)
{
    const stop_on_signals stop; // before there are threads
    const auto world = talkative();
    auto where = open(what.url, {.environment = world});
    checker::history_writer notes(what.history, what.name, world.clock);
    storyteller story(notes, milliseconds{what.lease});
    handlers all(what, where, story);
    const bool early = what.broken == "early";

    worker_options options{.name = what.name,
                           .concurrency = what.concurrency,
                           .lease = milliseconds{what.lease},
                           .grace = milliseconds{what.grace},
                           .look_at_least_every = milliseconds{what.look_every},
                           .on = story.hooks(!early)};
    options.outbox.retries.fallback =
        exponential_retry{.first = 10ms, .cap = 100ms, .attempts_max = what.attempts_max};
    options.outbox.on_dead = dead_key::skips;
    options.around.push_back(story.around());
    if (early)
        options.around.push_back(all.acknowledging_early());
    auto mine = what.among.empty() ? worker(where, options)
                                   : worker(named_stores(what.among, world), options);
    all.register_at(mine);
    const auto report = mine.run(stop, {.until_empty = what.until_empty});
    std::fprintf(stderr, "%s: %zu done, %zu left running\n", what.name.c_str(), report.done,
                 report.left_running);
    return 0;
}

int produce(const request& what)
{
    const stop_on_signals stop;
    const auto world = talkative();
    checker::history_writer notes(what.history, what.name, world.clock);
    producer(open(what.url, {.environment = world}), notes, what.name, what.seed)
        .run(stop.request().drain);
    return 0;
}

// `HISTORY` is only the name of what they write beside it.
int be_outside(const request& what, bool commands)
{
    const stop_on_signals stop;
    auto how = what.outside;
    how.url = what.url;
    how.notes = what.history;
    how.name = what.name;
    how.effects = what.effects;
    auto where = open(what.url, {.environment = talkative()});
    if (!commands)
        deliver(where, how, stop.request().drain);
    else if (how.gate.empty())
        send_commands(where, how, stop.request().drain);
    else
        hold_command(where, how);
    return 0;
}

int relay(const request& what)
{
    const stop_on_signals stop;
    const auto world = talkative();
    checker::history_writer notes(what.history, what.name, world.clock);
    storyteller story(notes, milliseconds{what.lease});
    worker_options options{.name = what.name,
                           .concurrency = 50,
                           .lease = milliseconds{what.lease},
                           .grace = milliseconds{what.grace},
                           .on = story.hooks()};
    options.outbox.retries.fallback =
        exponential_retry{.first = 10ms, .cap = 100ms, .attempts_max = what.attempts_max};
    worker mine(open(what.url, {.environment = world}), options);
    mine.handle("effect", relay_to(way_to(what.between, world),
                                   {.destination = message_template(destination_of(what.between)),
                                    .answer_within = 2s,
                                    .pause = 50ms}));
    mine.run(stop);
    return 0;
}

int feed_one(const request& what)
{
    const stop_on_signals stop;
    const auto world = talkative();
    const auto from = way_from(what.between, world);
    const checker::history_writer notes(what.history, what.name, world.clock);
    talking_feed told(*from, outside_source, what.name, notes);
    feed_inbox(open(what.url, {.environment = world}), told,
               {.source = outside_source, .batch = 10}, stop.request().drain);
    return 0;
}

void describe(CLI::App& app, request& what)
{
    app.require_subcommand(1);
    const auto common = [&](CLI::App& role) {
        role.add_option("URL", what.url)->required();
        role.add_option("HISTORY", what.history)->required();
        role.add_option("NAME", what.name)->required();
    };
    auto& worker = *app.add_subcommand("work", "a worker");
    common(worker);
    worker.add_option("--concurrency", what.concurrency);
    worker.add_option("--lease", what.lease);
    worker.add_option("--grace", what.grace);
    worker.add_option("--look-every", what.look_every);
    worker.add_option("--attempts-max", what.attempts_max);
    worker.add_option("--effects", what.effects);
    worker.add_option("--broken", what.broken)->check(CLI::IsMember({"early", "apart"}));
    worker.add_flag("--until-empty", what.until_empty);
    worker.add_option("--among", what.among);
    auto& producer = *app.add_subcommand("produce", "a producer");
    common(producer);
    producer.add_option("--seed", what.seed);
    for (const auto* role : {"relay", "feed"}) {
        auto& courier = *app.add_subcommand(role, "somebody between two stores");
        common(courier);
        courier.add_option("--effects", what.effects);
        courier.add_option("--broker", what.between.broker)->required();
        courier.add_option("--place", what.between.name)->required();
    }
    for (const auto* role : {"deliver", "command"}) {
        auto& outsider = *app.add_subcommand(role, "somebody outside");
        common(outsider);
        outsider.add_option("--effects", what.effects);
        outsider.add_option("--ids", what.outside.ids);
        outsider.add_option("--times", what.outside.times);
        outsider.add_option("--through", what.outside.through)
            ->check(CLI::IsMember({"once", "queue", "looking"}));
        outsider.add_option("--lock", what.outside.lock);
        outsider.add_option("--gate", what.outside.gate);
    }
}

int run(int argc, char** argv)
{
    const rlimit no_core{}; // aborting is its trade
    setrlimit(RLIMIT_CORE, &no_core);
    CLI::App app("Somebody to be tortured.", "torture_process");
    request what;
    describe(app, what);
    CLI11_PARSE(app, argc, argv);
    if (app.got_subcommand("relay"))
        return relay(what);
    if (app.got_subcommand("feed"))
        return feed_one(what);
    if (app.got_subcommand("deliver") || app.got_subcommand("command"))
        return be_outside(what, app.got_subcommand("command"));
    return app.got_subcommand("work") ? work(what) : produce(what);
}

} // namespace
} // namespace posthorn::torture

int main(int argc, char** argv)
try {
    return posthorn::torture::run(argc, argv);
} catch (const std::exception& failure) {
    std::fprintf(stderr, "torture_process: %s\n", failure.what());
    return 1;
}
