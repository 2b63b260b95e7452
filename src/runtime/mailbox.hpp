// What whoever makes the rounds is told meanwhile, by visits, handlers and bells. It outlives the
// rounds, so nobody has to know whether they are over; and its lock is held for a moment only, so
// it may be called under any other.
#pragma once

#include "runtime/station.hpp"
#include <posthorn/stores.hpp>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace posthorn::runtime {

/// Threads: safe to use from any.
class mailbox {
public:
    struct rung {
        std::uint64_t position = 0;
    };
    struct has_chores {
        std::uint64_t position = 0;
    };
    struct visited {
        std::uint64_t position = 0;
        station::errand errand;
        station::answer answer;
    };
    struct listed {
        std::vector<named_store> stores;
        std::exception_ptr failure; ///< why there is no list
    };
    using item = std::variant<rung, has_chores, visited, listed>;

    struct content {
        std::vector<item> items;
        std::size_t left = 0; ///< handlers that have left their places
    };

    void post(item what)
    {
        {
            const std::lock_guard lock(mutex_);
            if (closed_)
                return;
            inside_.items.push_back(std::move(what));
        }
        arrived_.notify_one();
    }

    void place_left()
    {
        {
            const std::lock_guard lock(mutex_);
            if (closed_)
                return;
            ++inside_.left;
            if (!left_matters_)
                return;
        }
        arrived_.notify_one();
    }

    /// Ends this wait, or the next one.
    void wake()
    {
        {
            const std::lock_guard lock(mutex_);
            woken_ = true;
        }
        arrived_.notify_one();
    }

    /// Waits for mail, and for places only if they matter.
    content wait_until(std::chrono::steady_clock::time_point until, bool left_matters)
    {
        std::unique_lock lock(mutex_);
        left_matters_ = left_matters;
        arrived_.wait_until(lock, until, [&] {
            return woken_ || !inside_.items.empty() || (left_matters_ && inside_.left > 0);
        });
        woken_ = false;
        return std::exchange(inside_, {});
    }

    /// Whatever is told from now on is not heard.
    void close()
    {
        const std::lock_guard lock(mutex_);
        closed_ = true;
        inside_ = {};
    }

private:
    std::mutex mutex_;
    std::condition_variable arrived_;
    content inside_;
    bool left_matters_ = false;
    bool woken_ = false;
    bool closed_ = false;
};

} // namespace posthorn::runtime
