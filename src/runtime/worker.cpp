// The public face of the runtime.
#include "runtime/dispatcher.hpp"
#include "runtime/join_waits.hpp"
#include "runtime/outbox_source.hpp"
#include "runtime/rounds.hpp"
#include "runtime/turns.hpp"
#include "runtime/work_log.hpp"
#include "schedules/firing.hpp"
#include <posthorn/error.hpp>
#include <posthorn/joins.hpp>
#include <posthorn/schedules.hpp>
#include <posthorn/worker.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <unistd.h>
#include <utility>

namespace posthorn {
namespace {

std::string default_name()
{
    std::array<char, 256> host{};
    if (gethostname(host.data(), host.size() - 1) != 0)
        return fmt::format("worker:{}", getpid());
    return fmt::format("{}:{}", host.data(), getpid());
}

worker_options checked(worker_options options)
{
    if (options.name.empty())
        options.name = default_name();
    if (options.concurrency == 0)
        throw error(error_code::invalid_argument, "the concurrency of a worker must be at least 1");
    if (options.lease < std::chrono::milliseconds{100})
        throw error(error_code::invalid_argument,
                    "the lease of a worker must be at least 100 ms: it has to be renewed in time");
    if (options.grace < duration::zero() || options.look_at_least_every <= duration::zero())
        throw error(error_code::invalid_argument,
                    "grace and look_at_least_every must not be negative");
    return options;
}

serving_options checked(serving_options how)
{
    if (how.visits_at_once == 0 || how.time_budget <= duration::zero() ||
        how.failure_pause_max <= duration::zero() || !(how.looks_per_second > 0))
        throw error(error_code::invalid_argument,
                    "visits_at_once, time_budget, failure_pause_max and looks_per_second must be "
                    "more than zero");
    return how;
}

// Without rules of handlers nothing is asked: to know a failed message's topic may cost the store a
// statement.
outbox_options with_handlers(outbox_options how,
                             const std::shared_ptr<const runtime::handler_table>& routes)
{
    if (!how.of_handler && routes->has_failure_rules())
        how.of_handler = [routes](std::string_view topic) {
            const auto* found = routes->find(topic);
            return found == nullptr ? nullptr : &found->options.failures;
        };
    return how;
}

class services_by_name final : public runtime::shared_services {
public:
    explicit services_by_name(log_sink log) : log_(std::move(log)) {}

    [[nodiscard]] const log_sink& log() const override { return log_; }

protected:
    std::shared_ptr<void>& find(const char* name) override { return services_[name]; }

private:
    log_sink log_;
    std::map<std::string, std::shared_ptr<void>, std::less<>> services_;
};

} // namespace

struct worker::state {
    state(store_provider where, worker_options how, serving_options among)
        : options(std::make_shared<const worker_options>(checked(std::move(how)))),
          serving(checked(std::move(among))),
          provider(std::move(where)),
          services(provider.environment().log),
          who(owner::create(options->name, *provider.environment().random))
    {
        table->add_built_in(join_wait_topic, {runtime::any_handler::transactional(
                                                 [](const delivery_view& which, transaction& tx) {
                                                     return runtime::handle_join_wait(which, tx);
                                                 })});
        table->add_built_in(
            job_tick_topic,
            {runtime::any_handler::transactional([](const delivery_view& which, transaction& tx) {
                return schedules::handle_tick(tx, which.id(), which.payload());
            })});
    }

    std::shared_ptr<const worker_options> options;
    serving_options serving;
    store_provider provider;
    std::optional<store> only;                    ///< of a worker with one store
    std::shared_ptr<runtime::clock_minder> clock; ///< the same
    std::shared_ptr<runtime::handler_table> table = std::make_shared<runtime::handler_table>();
    services_by_name services;
    owner who;
    std::optional<runtime::turns> turns;

    mutable std::mutex mutex;
    std::shared_ptr<runtime::engine> running; ///< while `run` does
    std::shared_ptr<runtime::rounds> making;  ///< the same, with many stores

    // Handlers are registered after the worker is made, so their rules are looked for here.
    [[nodiscard]] std::function<std::shared_ptr<runtime::claimable>(const store&)> claim_from(
        std::shared_ptr<runtime::clock_minder> clock = nullptr) const
    {
        return [how = options, routes = table, clock = std::move(clock)](const store& where) {
            return std::make_shared<runtime::outbox_source>(
                where, with_handlers(how->outbox, routes), clock);
        };
    }

    runtime::turns& own_turns()
    {
        if (!turns)
            turns.emplace(runtime::turns::parts{.provider = provider,
                                                .serving = serving,
                                                .table = table,
                                                .options = options,
                                                .who = who,
                                                .claim_from = claim_from()});
        return *turns;
    }

    void begin(std::shared_ptr<runtime::engine> one, std::shared_ptr<runtime::rounds> many)
    {
        const std::lock_guard lock(mutex);
        if (running || making)
            throw error(error_code::invalid_argument, "this worker is running already");
        running = std::move(one);
        making = std::move(many);
    }

    struct end_of_run {
        state& of;
        ~end_of_run()
        {
            std::shared_ptr<runtime::rounds> old; // its end may take a moment
            const std::lock_guard lock(of.mutex);
            of.running.reset();
            old.swap(of.making);
        }
    };

    run_report run_one(const stop_request& stop, const run_options& how)
    {
        if (!clock) // which remembers what it has seen, also for those who run again and again
            clock = std::make_shared<runtime::clock_minder>(*only);
        const auto with =
            std::make_shared<runtime::engine>(claim_from(clock)(*only), table, options, who);
        begin(with, nullptr);
        const end_of_run at_end{*this};
        return logged(how, [&] { return runtime::dispatcher(with).run(stop, how); });
    }

    template <typename Run>
    run_report logged(const run_options& how, const Run& run) const
    {
        const runtime::work_log log(provider.environment().log, *options);
        log.begins(how);
        try {
            const auto report = run();
            log.ended(how, report);
            return report;
        } catch (const std::exception& failure) {
            log.failed(failure);
            throw;
        }
    }

    run_report run_many(const stop_request& stop, const run_options& how)
    {
        const auto many = std::make_shared<runtime::rounds>(runtime::rounds::parts{
            .provider = provider,
            .serving = serving,
            .worker = {.table = table,
                       .options = options,
                       .who = who,
                       .means = {.threads =
                                     std::make_shared<runtime::thread_pool>(options->concurrency),
                                 .watch = std::make_shared<runtime::deadline_watch>(
                                     options->grace, runtime::rounds::closing_patience)},
                       .stop = stop},
            .world = provider.environment(),
            .claim_from = claim_from()});
        begin(nullptr, many);
        const end_of_run at_end{*this};
        return logged(how, [&] { return many->run(how); });
    }
};

worker::worker(store where, worker_options options)
    : state_(std::make_unique<state>(where, std::move(options), serving_options{}))
{
    state_->only = std::move(where);
}
worker::worker(store_provider from, worker_options options, serving_options how)
    : state_(std::make_unique<state>(std::move(from), std::move(options), std::move(how)))
{
    state_->table->add_built_in(join_report_topic,
                                {runtime::any_handler::plain(join_reports(state_->provider))});
}
worker::worker(worker&&) noexcept = default;
worker& worker::operator=(worker&&) noexcept = default;
worker::~worker() = default;

run_report worker::run(const stop_request& stop, const run_options& how)
{
    return state_->only ? state_->run_one(stop, how) : state_->run_many(stop, how);
}

run_report worker::process_outbox(std::size_t limit, const stop_request& stop)
{
    return run(stop, {.until_empty = true, .limit = limit});
}

std::size_t worker::run_once(std::size_t batch, const stop_request& stop)
{
    return state_->own_turns().run_once(batch, stop);
}

std::size_t worker::stores_known()
{
    return state_->own_turns().size();
}

std::vector<store_status> worker::stores() const
{
    const std::lock_guard lock(state_->mutex);
    return state_->making ? state_->making->stores() : std::vector<store_status>{};
}

worker_status worker::status() const
{
    const std::lock_guard lock(state_->mutex);
    if (state_->making)
        return {.running = state_->making->running(),
                .threads = state_->making->threads(),
                .so_far = state_->making->so_far()};
    if (!state_->running)
        return {};
    return {.running = state_->running->held.running(),
            .threads = state_->running->threads.threads(),
            .so_far = state_->running->settling.so_far()};
}

const environment& worker::environment() const noexcept
{
    return state_->provider.environment();
}

const worker_options& worker::options() const noexcept
{
    return *state_->options;
}

const handler_options& worker::defaults() const
{
    return state_->options->defaults;
}

runtime::shared_services& worker::services()
{
    return state_->services;
}

void worker::add(const std::vector<std::string>& patterns, const runtime::any_handler& handler,
                 const handler_options& how)
{
    state_->table->add(patterns, handler, how);
}

void worker::add_if(std::function<bool(std::string_view)> accepts, runtime::any_handler handler,
                    const handler_options& how)
{
    state_->table->add_if(std::move(accepts), std::move(handler), how);
}

} // namespace posthorn
