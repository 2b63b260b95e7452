// What a worker holds: batches with their leases, handlers that run, and results that wait to be
// settled. Bookkeeping only: no store, no handler is called from here.
#pragma once

#include "runtime/places.hpp"
#include "runtime/running_delivery.hpp"
#include <posthorn/delivery.hpp>
#include <posthorn/environment.hpp>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace posthorn::runtime {

using running_ptr = std::shared_ptr<running_delivery>;

/// A handler's answer that is not settled yet.
struct result {
    running_ptr of;
    outcome said;
    int tries = 0; ///< of settling it by itself that were refused
    int holds = 0; ///< and that another transaction was in the way of
};

/// Told what happens to them, from any thread and under the lock: must not call back.
struct held_listener {
    std::function<void()> chores = {}; ///< something for whoever settles
    std::function<void()> left = {};   ///< a handler has left its place
    std::function<void()> sooner = {}; ///< a time-out or a lease ends before all others
};

/// Results of a batch wait for each other at least this long, so that they share a transaction.
inline constexpr duration linger_min = std::chrono::milliseconds{1};

/// Threads: safe to use from any.
class held_messages {
public:
    /// `limits` are the worker's, and may be shared with what it holds of other stores.
    held_messages(std::size_t concurrency, duration lease, environment world,
                  std::shared_ptr<places> limits = std::make_shared<places>(),
                  held_listener tell = {});

    // ------------------------------------------------------------------ for whoever claims

    /// Waits for `enough` free places, or after `patience` for at least one, or for `wake`.
    /// Returns: the free places.
    std::size_t wait_for_room(std::size_t enough, duration patience);

    /// Takes a claimed batch in. `asked_at` is when the claim was sent, on the clock that also runs
    /// while the machine sleeps: the lease counts from then.
    std::vector<running_ptr> take(batch&& claimed, monotonic_time asked_at);

    /// Whether the limits of its handler let it begin now; if so it counts as running.
    bool may_begin(const running_ptr& which);

    /// How many more of a route may begin; SIZE_MAX without a limit.
    [[nodiscard]] std::size_t room_for(const route& which) const;

    /// Waits until no handler runs and everything is settled. False: `at_most` was over, or `wake`.
    bool wait_until_empty(duration at_most);
    [[nodiscard]] bool is_empty() const;

    /// Whether messages are to be parked of which the store does not know yet.
    [[nodiscard]] bool is_parking() const;

    /// The same, but leaves out what is lost and still running: it may never end. Waits for a free
    /// place as well.
    bool wait_until_quiet(duration at_most);

    /// Whether there is nothing in hand beside this batch, leaving out the same.
    [[nodiscard]] bool is_alone(fence which) const;

    /// A message that may take the process down begins, with nothing beside it.
    void suspect_begins(fence which);

    /// Whether it still runs, or is not settled yet. One that is lost does not count.
    [[nodiscard]] bool suspect_runs() const;

    /// The batches of which something is not known to be settled.
    [[nodiscard]] std::vector<fence> fences() const;

    [[nodiscard]] std::size_t running() const;
    [[nodiscard]] std::size_t payload_bytes() const;

    // ---------------------------------------------------------------- for whoever handles

    /// A handler has answered; its place is free.
    void ended(const running_ptr& which, outcome said);

    /// A message that never reached its handler.
    void returned(const running_ptr& which, outcome said);

    /// A handler's transaction settled the message.
    void ended_and_settled(const running_ptr& which);

    // ---------------------------------------------------------------- for whoever settles

    struct chores {
        std::vector<result> to_settle;
        std::vector<fence> to_renew;
        bool closing = false;
    };

    /// Lets `wait_for_chores` return, to look around.
    void poke();

    /// Waits until there is something to do, at most for `at_most`. A result waits for the others
    /// of its batch for as long as `linger`, so that they are settled together.
    chores wait_for_chores(duration at_most, duration linger);

    /// How long until then, for whoever does not wait here. Nothing: only a result can bring it.
    [[nodiscard]] std::optional<duration> until_chores() const;

    /// Asks those to stop whose time is over, or whose lease is. Returns: how long until it is for
    /// the next; nothing if there is none.
    std::optional<duration> fire_deadlines();

    void settled(const std::vector<result>& what);

    /// The store could not be reached: they are offered again, not before `pause`.
    void try_again(std::vector<result> what, duration pause);

    /// This one cannot be settled for now: it is offered again after `pause`, without the others.
    void set_aside(result which, duration pause);

    void renewed(fence which, monotonic_time asked_at);
    void renewal_failed(fence which); ///< it is tried again soon, until the lease is over
    void lost(fence which);

    // ------------------------------------------------------------------------ for the end

    enum class whom { all, who_only_waits };
    void ask_to_stop(whom which);
    void close();         ///< lets `wait_for_chores` end
    void wake() noexcept; ///< ends all waits

private:
    /// Times of leases are on the clock that also runs while the machine sleeps.
    struct held_batch {
        monotonic_time lease_end{};
        monotonic_time renew_at{};
        std::vector<running_ptr> open;
    };
    using lock = std::unique_lock<std::mutex>;

    [[nodiscard]] bool nothing_beside(std::optional<fence> which) const;
    void forget(const running_delivery& which);
    bool mark_lost(running_delivery& which);
    void leave_place(const running_delivery& which);
    void add_result(const running_ptr& which, outcome said);
    void watch_deadlines(std::vector<running_ptr>& to_stop);
    void watch_leases(std::vector<running_ptr>& to_stop);
    void watch_renewals(chores& into);
    void expect(duration in);
    void announce_chores();
    [[nodiscard]] bool settle_now(duration linger) const;
    [[nodiscard]] duration real_wait(duration wanted) const;
    void bring_back();

    // Waiting for each other is about threads, not about messages: it is on the real clock.
    using real_time = std::chrono::steady_clock::time_point;

    const std::size_t concurrency_;
    const duration lease_;
    const environment world_;
    const std::shared_ptr<places> limits_;
    const held_listener tell_;

    mutable std::mutex mutex_;
    std::condition_variable changed_; ///< places, results, emptiness
    std::condition_variable chores_;  ///< something for whoever settles
    std::map<fence, held_batch> batches_;
    std::vector<result> results_;
    std::multimap<real_time, result> aside_; ///< results, and when they are offered again
    std::optional<fence> suspect_;
    std::size_t parking_ = 0; ///< results that park, until they are settled
    std::optional<real_time> oldest_result_;
    real_time not_before_{};
    using deadline = std::pair<monotonic_time, const running_delivery*>;
    std::map<deadline, running_ptr> deadlines_; ///< of handlers that run
    /// When `fire_deadlines` will be called; max: nothing is to be fired.
    real_time fire_at_ = real_time::max();
    std::size_t running_ = 0;
    std::size_t room_wanted_ = 0; ///< by whoever waits for it
    std::size_t payload_bytes_ = 0;
    bool batch_complete_ = false;
    bool closing_ = false;
    bool poked_ = false;
    bool woken_ = false;
};

} // namespace posthorn::runtime
