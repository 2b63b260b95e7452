// Starting and ending what a configuration describes: a worker with its handlers, and beside it the
// threads of chores and feeds.
#include "app/daemon/generation.hpp"

#include "app/cli/command_handler.hpp"
#include <posthorn/error.hpp>
#include <posthorn/relay.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace posthorn::daemon {
namespace {

using namespace std::chrono_literals;

// What one relay may keep in memory while the other side is away, beside what all others have.
constexpr std::size_t relay_bytes_max = std::size_t{16} << 20U;

environment with_log(const surroundings& around)
{
    auto world = environment::system();
    world.log = around.log->sink();
    return world;
}

std::size_t at_once(const handler_settings& of, const configuration& what)
{
    return of.concurrency == 0 ? what.daemon.concurrency : of.concurrency;
}

std::size_t commands_at_once(const configuration& what)
{
    std::size_t all = 0;
    for (const auto& each : what.handlers)
        all += at_once(each, what);
    return all;
}

std::size_t relayed_at_once(const configuration& what)
{
    return what.relays.size() * what.daemon.in_flight;
}

// Room for every rule at its limit, so that one that is stuck costs the others nothing. What is
// relayed only waits: its places cost little.
std::size_t concurrency_of(const configuration& what)
{
    return std::max<std::size_t>(relayed_at_once(what) + commands_at_once(what), 1);
}

// Of many stores one may have half of all commands, and all that is relayed: if other systems are
// away that may be its own messages alone, and they must not keep its commands from running.
// 0: the half that is usual.
std::size_t share_of_a_store(const configuration& what)
{
    return what.relays.empty()
               ? 0
               : relayed_at_once(what) + std::max<std::size_t>(commands_at_once(what) / 2, 1);
}

outbox_options outbox_of(const configuration& what)
{
    const auto& for_all = what.daemon.failures;
    outbox_options result{.retries = {.fallback = policy_of(for_all)},
                          .on_dead = for_all.on_dead.value_or(dead_key::blocks)};
    for (const auto& each : what.topics) {
        const auto rules = rules_of(each.failures);
        for (const auto& pattern : each.on) {
            if (rules.retry)
                result.retries.by_topic.emplace(pattern, *rules.retry);
            if (rules.on_dead)
                result.on_dead_by_topic.emplace(pattern, *rules.on_dead);
        }
    }
    return result;
}

} // namespace

generation::generation(configuration what, surroundings around, const generation* before)
    : what_(std::move(what)),
      around_(std::move(around)),
      world_(with_log(around_)),
      book_(std::make_shared<store_book>(what_.stores, around_.log,
                                         before == nullptr ? nullptr : before->book_.get())),
      provider_(discover([book = book_] { return book->list(); },
                         {.every = book_->every(), .with = {.open = {.environment = world_}}})),
      router_(provider_)
{
    open_transports();
    open_feeds();
    make_worker();
}

generation::~generation()
{
    drain();
    stop_now();
    threads_.clear();
    const auto until = world_.clock->monotonic() + 1s; // for all of them
    for (const auto& [name, each] : transports_)
        each->close({.until = until});
}

bool generation::look_for_stores()
{
    book_->look();
    return book_->has_looked();
}

// What is wrong with all of them is told at once.
void generation::open_transports()
{
    bad_configuration wrong{.file = what_.file, .problems = {}, .warnings = {}};
    for (const auto& [name, each] : what_.transports) {
        try {
            const auto opened = each.open(world_, [numbers = around_.numbers, name = name](
                                                      const std::string& endpoint, bool is_left) {
                numbers->noted(name, endpoint, is_left);
            });
            transports_.emplace(name, measured(opened, around_.numbers, name));
        } catch (const error& failure) {
            wrong.problems.push_back(
                {each.at, each.key, around_.log->without_secrets(failure.what())});
        }
    }
    if (!wrong.problems.empty())
        throw wrong;
}

void generation::open_feeds()
{
    bad_configuration wrong{.file = what_.file, .problems = {}, .warnings = {}};
    for (const auto& each : what_.feeds) {
        try {
            feeds_.push_back(each.open(world_));
        } catch (const error& failure) {
            wrong.problems.push_back(
                {each.at, each.key, around_.log->without_secrets(failure.what())});
        }
    }
    if (!wrong.problems.empty())
        throw wrong;
}

void generation::open_endpoints()
{
    std::map<std::string, std::vector<endpoint_settings>> by_address;
    for (const auto& each : what_.endpoints)
        by_address[to_string(each.listen)].push_back(each);
    std::vector<std::unique_ptr<listening>> opened;
    for (const auto& [address, paths] : by_address) {
        try {
            opened.push_back(listen_for_webhooks(paths, router_, around_.numbers, world_));
        } catch (const error& failure) {
            if (failure.code() != error_code::invalid_argument)
                throw;
            throw bad_configuration{.file = what_.file,
                                    .problems = {{paths.front().at, paths.front().key,
                                                  around_.log->without_secrets(failure.what())}},
                                    .warnings = {}};
        }
        around_.log->write(log_level::info, "listening for webhooks",
                           {{"at", fmt::format("http://{}", to_string(opened.back()->address()))}});
    }
    endpoints_ = std::move(opened);
}

void generation::close_endpoints()
{
    if (endpoints_.empty())
        return;
    closing_ = true;
    ++threads_running_;
    closer_ = std::jthread([this, these = std::exchange(endpoints_, {})]() mutable {
        these.clear();
        closing_ = false;
        --threads_running_;
    });
}

lifecycle generation::hooks()
{
    return {.starting = [numbers = around_.numbers](
                            const delivery_view& which) { numbers->starting(which); },
            .ended =
                [around = around_](const delivery_view& which, const outcome& said, duration took) {
                    around.numbers->ended(which, took);
                    if (said.verdict != outcome::kind::retry && said.verdict != outcome::kind::fail)
                        return;
                    around.log->write(log_level::warning, "a handler failed",
                                      {{"id", to_string(which.id())},
                                       {"topic", which.topic()},
                                       {"store", which.store()},
                                       {"attempt", which.attempt()},
                                       {"error", said.error}});
                },
            .settled =
                [around = around_](const delivery_view& which, settled_as answer) {
                    around.numbers->settled(which, answer);
                    const bool trouble = answer == settled_as::dead || answer == settled_as::lost;
                    const auto level = trouble ? log_level::warning : log_level::debug;
                    if (!around.log->tells(level))
                        return;
                    around.log->write(level, fmt::format("a message is {}", to_string(answer)),
                                      {{"id", to_string(which.id())},
                                       {"topic", which.topic()},
                                       {"store", which.store()},
                                       {"attempt", which.attempt()}});
                }};
}

void generation::make_worker()
{
    const auto& how = what_.daemon;
    worker_ = std::make_unique<worker>(
        provider_,
        worker_options{.name = how.name,
                       .concurrency = concurrency_of(what_),
                       .lease = how.lease,
                       .grace = how.grace,
                       .payload_bytes_max = worker_options{}.payload_bytes_max +
                                            what_.relays.size() * relay_bytes_max,
                       .outbox = outbox_of(what_),
                       .on = hooks(),
                       .log_activity = false},
        serving_options{.concurrency_per_store = share_of_a_store(what_)});
    add_commands();
    add_relays();
}

void generation::add_commands()
{
    const stop_request stop{draining_.get_token(), now_.get_token()};
    const auto shortage = std::make_shared<cli::process_shortage>();
    for (const auto& each : what_.handlers) {
        const auto program = std::make_shared<const cli::command>(cli::find_command(each.command));
        const cli::command_rules rules{.timeout = each.timeout,
                                       .grace = what_.daemon.grace,
                                       .stop = stop,
                                       .shortage = shortage,
                                       .on_shortage = [log = around_.log](std::string_view line) {
                                           log->write(log_level::warning, line);
                                       }};
        const auto run = [program, rules, log = around_.log](const delivery_view& view) {
            auto with = rules;
            with.on_output =
                with.on_error_output = [&](std::string_view text) { log->pass(text, view); };
            with.filter = {.cleaned = [&](std::string text) { return log->without_secrets(text); },
                           .secret_bytes_max = log->secret_bytes_max()};
            const auto end = cli::handle_by_command(*program, view, with);
            if (!end.put_off_because.empty())
                log->write(log_level::info, "a message was put off",
                           {{"id", to_string(view.id())},
                            {"topic", view.topic()},
                            {"store", view.store()},
                            {"because", end.put_off_because}});
            return end.said;
        };
        worker_->handle(each.on, run,
                        handler_options{.timeout = each.timeout,
                                        .concurrency = at_once(each, what_),
                                        .failures = rules_of(each.failures)});
    }
}

void generation::add_relays()
{
    for (const auto& each : what_.relays)
        worker_->handle(each.on, relay_to(transports_.at(each.to), each.how),
                        handler_options{.concurrency = what_.daemon.in_flight,
                                        .payload_bytes_max = relay_bytes_max,
                                        .failures = rules_of(each.failures)});
}

void generation::start()
{
    const auto stop = draining_.get_token();
    begin([this] { work(); });
    if (!what_.schedules.empty() || what_.daemon.prune_jobs)
        begin([this, stop] { put_jobs(stop); });
    if (what_.retention)
        begin([this, stop] { clean_stores(stop); });
    begin([this, stop] { count_stores(stop); });
    for (std::size_t i = 0; i < feeds_.size(); ++i)
        begin([this, i, stop] { feed_from(i, stop); });
}

void generation::begin(std::function<void()> what)
{
    ++threads_running_;
    threads_.emplace_back([this, what = std::move(what)] {
        what();
        --threads_running_;
    });
}

void generation::work()
{
    try {
        report_ = worker_->run({draining_.get_token(), now_.get_token()});
    } catch (const std::exception& failure) {
        failure_ = failure.what();
    }
    draining_.request_stop(); // whatever else there is has no purpose without it
    {
        const std::lock_guard lock(feeds_mutex_);
        for (const auto& each : feeds_)
            if (each)
                each->close();
    }
    worked_ = true;
}

void generation::drain()
{
    draining_.request_stop();
}

void generation::stop_now()
{
    now_.request_stop();
}

std::string generation::failure() const
{
    return worked_ ? failure_ : std::string{};
}

run_report generation::report() const
{
    return worked_ ? report_ : worker_->status().so_far;
}

bool generation::rest(const std::stop_token& stop, duration length)
{
    std::unique_lock lock(resting_);
    wake_.wait_for(lock, stop, length, [&] { return stop.stop_requested(); });
    return !stop.stop_requested();
}

} // namespace posthorn::daemon
