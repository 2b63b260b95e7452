// Connections that threads take turns with.
#pragma once

#include "store/contract/patience.hpp"
#include <posthorn/error.hpp>
#include <posthorn/time.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace posthorn::contract {

/// Of so many connections, this many are kept for what a worker itself does: one that claims, one
/// that renews and settles. Else handlers that hold transactions would keep leases from being
/// renewed.
[[nodiscard]] constexpr std::size_t kept_for_worker(std::size_t size) noexcept
{
    return std::min<std::size_t>(2, size / 2);
}

/// Hands out up to `size` connections, opening them when first needed. While a worker uses it, the
/// last ones are for that worker's own claims, renewals and settlements, which also come first.
/// Threads: safe.
template <typename Connection>
class connection_pool {
public:
    connection_pool(std::size_t size, duration patience,
                    std::function<std::unique_ptr<Connection>()> open)
        : size_(size), patience_(patience), open_(std::move(open))
    {}

    /// A connection for one user; it goes back to the pool when this does, from whatever thread.
    class turn {
    public:
        turn(connection_pool& pool, std::unique_ptr<Connection> db)
            : pool_(&pool), db_(std::move(db))
        {}
        turn(turn&&) noexcept = default;
        turn& operator=(turn&&) = delete;
        ~turn()
        {
            if (db_)
                pool_->give_back(std::move(db_));
        }

        /// Closes the connection instead of giving it back: nobody should use it again. A second
        /// call changes nothing.
        void discard()
        {
            if (!db_)
                return;
            db_.reset();
            pool_->forget_one();
        }

        Connection& operator*() const { return *db_; }
        Connection* operator->() const { return db_.get(); }

    private:
        connection_pool* pool_;
        std::unique_ptr<Connection> db_;
    };

    /// Throws: `error` with `busy` when no connection becomes free in time.
    /// The wait is on the real clock: it is about threads, not about messages.
    [[nodiscard]] turn take()
    {
        std::unique_lock lock(mutex_);
        const bool first = patience_scope::is_worker();
        const auto now = std::chrono::steady_clock::now();
        if (first)
            worker_until_ = now + worker_remembered;
        wait_for_place(lock, first, now);
        ++in_use_;
        if (!idle_.empty()) {
            auto db = std::move(idle_.back());
            idle_.pop_back();
            return {*this, std::move(db)};
        }
        lock.unlock();
        try {
            return {*this, open_()};
        } catch (...) {
            forget_one();
            throw;
        }
    }

    /// Closes what nobody uses: after a lost connection the others are probably lost too.
    void drop_idle()
    {
        std::vector<std::unique_ptr<Connection>> old;
        {
            const std::lock_guard lock(mutex_);
            old.swap(idle_);
        }
    }

private:
    using time = std::chrono::steady_clock::time_point;

    // A worker that has not asked for so long is gone, and what was kept for it is for all.
    static constexpr std::chrono::minutes worker_remembered{1};

    [[nodiscard]] bool has_place(bool first, time now) const
    {
        if (first)
            return in_use_ < size_;
        const auto kept = now < worker_until_ ? kept_for_worker(size_) : 0;
        return workers_waiting_ == 0 && in_use_ + kept < size_;
    }

    [[nodiscard]] std::string what_is_missing(time now) const
    {
        std::string text =
            "other transactions of this process hold the store for too long; a thread that has one "
            "open must use it instead of opening a second one";
        if (const auto kept = kept_for_worker(size_); kept > 0 && now < worker_until_)
            text += "; of pool=" + std::to_string(size_) + " connections " + std::to_string(kept) +
                    " are kept for the worker: raise pool= to " + std::to_string(kept) +
                    " more than transactions are open at once";
        return text;
    }

    void wait_for_place(std::unique_lock<std::mutex>& lock, bool first, time now)
    {
        const auto* const whose = patience_scope::current();
        const auto end = now + patience_;
        workers_waiting_ += first ? 1 : 0;
        while (!has_place(first, now) && now < end && !(whose != nullptr && whose->is_over())) {
            // Without a worker nothing but a place that becomes free ends the wait.
            const auto until =
                whose != nullptr ? std::min<time>(end, now + patience_look_every) : end;
            (first ? free_for_worker_ : free_).wait_until(lock, until);
            now = std::chrono::steady_clock::now();
        }
        workers_waiting_ -= first ? 1 : 0;
        if (first && workers_waiting_ == 0)
            free_.notify_all();
        if (whose != nullptr)
            whose->require();
        if (!has_place(first, now))
            throw error(error_code::busy, what_is_missing(now), {.retryable = true});
    }

    void give_back(std::unique_ptr<Connection> db)
    {
        bool worker_next = false;
        {
            const std::lock_guard lock(mutex_);
            idle_.push_back(std::move(db));
            --in_use_;
            worker_next = workers_waiting_ > 0;
        }
        (worker_next ? free_for_worker_ : free_).notify_one();
    }

    void forget_one()
    {
        bool worker_next = false;
        {
            const std::lock_guard lock(mutex_);
            --in_use_;
            worker_next = workers_waiting_ > 0;
        }
        (worker_next ? free_for_worker_ : free_).notify_one();
    }

    std::size_t size_;
    duration patience_;
    std::function<std::unique_ptr<Connection>()> open_;
    std::mutex mutex_;
    std::condition_variable free_;
    std::condition_variable free_for_worker_;
    std::vector<std::unique_ptr<Connection>> idle_;
    std::size_t in_use_ = 0;
    std::size_t workers_waiting_ = 0; ///< who come first
    time worker_until_{};             ///< so long some are kept
};

} // namespace posthorn::contract
