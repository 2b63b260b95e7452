// The parts of a running worker. Handlers that outlive a stop keep it alive.
#pragma once

#include "runtime/claimable.hpp"
#include "runtime/deadline_watch.hpp"
#include "runtime/handler_table.hpp"
#include "runtime/held_messages.hpp"
#include "runtime/settler.hpp"
#include "runtime/thread_pool.hpp"
#include <posthorn/worker.hpp>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace posthorn::runtime {

/// What a worker has once, however many stores it serves.
struct shared_means {
    std::shared_ptr<thread_pool> threads;
    std::shared_ptr<deadline_watch> watch;
    std::shared_ptr<places> limits = std::make_shared<places>();
};

struct engine {
    engine(std::shared_ptr<claimable> from, std::shared_ptr<const handler_table> handlers,
           std::shared_ptr<const worker_options> how, owner self)
        : engine(std::move(from), std::move(handlers), how, std::move(self),
                 {.threads = std::make_shared<thread_pool>(how->concurrency),
                  .watch = std::make_shared<deadline_watch>(how->grace)},
                 how->concurrency, {})
    {}

    /// For one of many stores.
    engine(std::shared_ptr<claimable> from, std::shared_ptr<const handler_table> handlers,
           std::shared_ptr<const worker_options> how, owner self, const shared_means& shared,
           std::size_t concurrency, held_listener tell)
        : source(std::move(from)),
          table(std::move(handlers)),
          options(std::move(how)),
          who(std::move(self)),
          watch(shared.watch),
          bookkeeping(std::make_shared<held_messages>(concurrency, options->lease,
                                                      source->environment(), shared.limits,
                                                      watched(std::move(tell)))),
          held(*bookkeeping),
          pool(shared.threads),
          threads(*pool),
          settling({*source, held, threads, who, *options, [this](bool others) {
                        if (others)
                            for_others = true;
                        news();
                    }})
    {}

    /// Something else may be due now. Handlers that outlive the worker find nobody to tell.
    void news()
    {
        const std::lock_guard lock(mutex);
        if (bell != nullptr)
            bell->wake();
    }

    void listen(contract::bell* by)
    {
        const std::lock_guard lock(mutex);
        bell = by;
    }

    std::shared_ptr<claimable> source;
    std::shared_ptr<const handler_table> table;
    std::shared_ptr<const worker_options> options;
    owner who;
    std::shared_ptr<deadline_watch> watch;      ///< shared with the other stores of the worker
    std::shared_ptr<held_messages> bookkeeping; ///< shared with the watch
    held_messages& held;
    std::shared_ptr<thread_pool> pool; ///< shared with the other stores of the worker
    thread_pool& threads;
    settler settling;
    std::string store_name; ///< of one of many

    /// Something was put aside that another worker may want.
    std::atomic<bool> for_others = false;

    /// A handler got no connection for its transaction, and the log knows.
    mutable std::atomic<bool> told_of_busy = false;

private:
    [[nodiscard]] held_listener watched(held_listener tell) const
    {
        tell.sooner = [at = watch] { at->look(); };
        return tell;
    }

    std::mutex mutex;
    contract::bell* bell = nullptr;
};

} // namespace posthorn::runtime
