// Settles what handlers said, keeps leases alive, and takes back what others have left behind. Runs
// on a thread of its own, so that neither a slow claim nor a slow handler delays a lease.
#pragma once

#include "runtime/claimable.hpp"
#include "runtime/held_messages.hpp"
#include "runtime/patience.hpp"
#include "runtime/thread_pool.hpp"
#include <posthorn/worker.hpp>

#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <string_view>
#include <vector>

namespace posthorn::runtime {

class settler {
public:
    struct parts {
        claimable& source;
        held_messages& held;
        thread_pool& threads;
        const owner& who;
        const worker_options& options;

        /// Called when a settlement may have made something else due; `others`: for workers that
        /// handle what this one does not.
        std::function<void(bool others)> news;
    };

    explicit settler(parts with);

    /// Works until `held_messages::close`, and until nothing is left or the store is away.
    void run();

    /// One round of `run` that waits for nothing, for a worker with many stores.
    void tend() noexcept;

    /// Whether the last settlement could not be written.
    [[nodiscard]] bool in_trouble() const noexcept { return failures_ > 0; }

    /// Takes back what others have left behind, at the next occasion.
    void reap_soon();

    /// Whether it also does so from time to time. Who looks ahead knows when there is a reason.
    void reap_regularly(bool regularly) { regularly_ = regularly; }

    /// Something went wrong where nothing can be undone, such as a lack of memory. The worker ends,
    /// and what it holds comes back when its lease is over.
    void fail(std::exception_ptr why) noexcept;
    [[nodiscard]] std::exception_ptr failure() const;

    /// Counts an answer that was given elsewhere, in a handler's transaction.
    void count(const running_ptr& of, const outcome& said, settled_as answer);
    [[nodiscard]] run_report so_far() const;

private:
    bool do_chores(held_messages::chores due);
    void settle(std::vector<result> what, bool closing);
    void settle_together(std::vector<result> what, bool closing);
    void settle_later(std::vector<result> what, bool closing);
    void settle_halves(std::vector<result> what, bool closing);
    void set_aside(result which, bool is_held);
    void give_up(result which, std::string_view why);
    void renew(fence which);
    void reap();
    void warn(std::string_view what, std::string_view why) const;
    void complain(std::string_view what) const;

    parts with_;
    mutable std::mutex mutex_;
    run_report report_;
    std::exception_ptr failure_;
    std::atomic<bool> reap_soon_ = false;
    std::atomic<bool> regularly_ = true;
    monotonic_time reap_at_{};
    duration took_{}; ///< the last settlement
    std::atomic<int> failures_ = 0;
};

} // namespace posthorn::runtime
