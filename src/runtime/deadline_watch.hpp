// Watches the time of what a worker holds, on a thread that never asks a store for anything: a
// server that hangs does not keep a handler from hearing that its time or its lease is over, nor
// the worker from ending with its grace period.
#pragma once

#include "runtime/held_messages.hpp"
#include "store/contract/patience.hpp"
#include <posthorn/stop.hpp>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

namespace posthorn::runtime {

/// One for each worker, however many stores it serves. Threads: safe to use from any.
class deadline_watch {
public:
    using clock = std::chrono::steady_clock; // what is waited for are threads
    using asker = std::function<void(held_messages::whom)>;

    /// After the grace period, what was handled is settled for so long; a server that has not
    /// answered until then is not waited for.
    explicit deadline_watch(duration grace, duration last_settlements = std::chrono::seconds{1})
        : grace_(grace), last_settlements_(last_settlements)
    {}

    /// Watches this, too, for as long as it lives.
    void add(std::weak_ptr<held_messages> which);

    /// Something ends sooner than was known. May be called under the locks of what is watched.
    void look() noexcept;

    /// The thread, for as long as this object lives.
    class thread {
    public:
        /// `ask` is told whom to ask to stop, and when. Requires: one at a time.
        thread(deadline_watch& of, const stop_request& stop, asker ask);

    private:
        const std::stop_callback<std::function<void()>> on_drain_;
        const std::stop_callback<std::function<void()>> on_now_;
        std::jthread thread_;
    };

    /// The worker ends by itself: its grace period begins now, unless it has begun.
    void begin_end();

    /// When nothing is waited for any longer. Nothing: it does not end.
    [[nodiscard]] std::optional<clock::time_point> end() const;

    /// The waits for stores, of all threads of the worker.
    [[nodiscard]] contract::patience& patience() noexcept { return patience_; }

private:
    void hurry();
    void run(const std::stop_token& until, const asker& ask);
    clock::time_point fire();
    [[nodiscard]] std::optional<clock::time_point> end_locked() const;

    const duration grace_;
    const duration last_settlements_;
    contract::patience patience_;
    mutable std::mutex mutex_;
    std::condition_variable_any changed_;
    std::vector<std::weak_ptr<held_messages>> watched_;
    std::optional<clock::time_point> ending_since_;
    std::optional<clock::time_point> hurried_since_;
    bool look_ = false;
};

} // namespace posthorn::runtime
