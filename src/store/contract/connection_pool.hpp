// Connections that threads take turns with.
#pragma once

#include <posthorn/error.hpp>
#include <posthorn/time.hpp>

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace posthorn::contract {

/// Hands out up to `size` connections, opening them when first needed. Threads: safe.
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
        const bool got_one =
            free_.wait_for(lock, patience_, [&] { return !idle_.empty() || opened_ < size_; });
        if (!got_one)
            throw error(error_code::busy,
                        "other transactions of this process hold the store for too long; a thread "
                        "that has one open must use it instead of opening a second one",
                        {.retryable = true});
        if (!idle_.empty()) {
            auto db = std::move(idle_.back());
            idle_.pop_back();
            return {*this, std::move(db)};
        }
        ++opened_;
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
            opened_ -= old.size();
        }
        free_.notify_all();
    }

private:
    void give_back(std::unique_ptr<Connection> db)
    {
        {
            const std::lock_guard lock(mutex_);
            idle_.push_back(std::move(db));
        }
        free_.notify_one();
    }

    void forget_one()
    {
        {
            const std::lock_guard lock(mutex_);
            --opened_;
        }
        free_.notify_one();
    }

    std::size_t size_;
    duration patience_;
    std::function<std::unique_ptr<Connection>()> open_;
    std::mutex mutex_;
    std::condition_variable free_;
    std::vector<std::unique_ptr<Connection>> idle_;
    std::size_t opened_ = 0;
};

} // namespace posthorn::contract
