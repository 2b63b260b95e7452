// The public face of the runtime.
#include "runtime/dispatcher.hpp"
#include "runtime/outbox_source.hpp"
#include <posthorn/error.hpp>
#include <posthorn/worker.hpp>

#include <fmt/format.h>

#include <array>
#include <map>
#include <mutex>
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

class services_by_name final : public runtime::shared_services {
protected:
    std::shared_ptr<void>& find(const char* name) override { return services_[name]; }

private:
    std::map<std::string, std::shared_ptr<void>, std::less<>> services_;
};

} // namespace

struct worker::state {
    state(store where, worker_options how)
        : options(std::make_shared<const worker_options>(checked(std::move(how)))),
          source(std::make_shared<runtime::outbox_source>(where, options->outbox)),
          who(owner::create(options->name, *where.environment().random))
    {}

    std::shared_ptr<const worker_options> options;
    std::shared_ptr<runtime::claimable> source;
    std::shared_ptr<runtime::handler_table> table = std::make_shared<runtime::handler_table>();
    services_by_name services;
    owner who;

    mutable std::mutex mutex;
    std::shared_ptr<runtime::engine> running; ///< while `run` does
};

worker::worker(store where, worker_options options)
    : state_(std::make_unique<state>(std::move(where), std::move(options)))
{}
worker::worker(worker&&) noexcept = default;
worker& worker::operator=(worker&&) noexcept = default;
worker::~worker() = default;

run_report worker::run(const stop_request& stop, const run_options& how)
{
    const auto with = std::make_shared<runtime::engine>(state_->source, state_->table,
                                                        state_->options, state_->who);
    {
        const std::lock_guard lock(state_->mutex);
        if (state_->running)
            throw error(error_code::invalid_argument, "this worker is running already");
        state_->running = with;
    }
    struct end_of_run {
        state& of;
        ~end_of_run()
        {
            const std::lock_guard lock(of.mutex);
            of.running.reset();
        }
    } const at_end{*state_};
    return runtime::dispatcher(with).run(stop, how);
}

run_report worker::process_outbox(std::size_t limit)
{
    return run({}, {.until_empty = true, .limit = limit});
}

worker_status worker::status() const
{
    const std::lock_guard lock(state_->mutex);
    if (!state_->running)
        return {};
    return {.running = state_->running->held.running(),
            .threads = state_->running->threads.threads(),
            .so_far = state_->running->settling.so_far()};
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

void worker::add(std::string_view pattern, runtime::any_handler handler, const handler_options& how)
{
    state_->table->add(pattern, std::move(handler), how);
}

void worker::add_if(std::function<bool(std::string_view)> accepts, runtime::any_handler handler,
                    const handler_options& how)
{
    state_->table->add_if(std::move(accepts), std::move(handler), how);
}

} // namespace posthorn
