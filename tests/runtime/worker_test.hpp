// What the tests of workers stand on: a worker on a thread of its own, handlers that wait until
// they are let go, and notes that any thread may take.
#pragma once

#include "conformance/conformance_test.hpp"
#include "hang_limit.hpp"
#include <posthorn/worker.hpp>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace posthorn::conformance {

/// Waits for a condition, however slow the machine is. False: it never came.
inline bool eventually(const std::function<bool()>& condition)
{
    const auto end = std::chrono::steady_clock::now() + test::hang_limit;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > end)
            return false;
        std::this_thread::yield();
    }
    return true;
}

/// Holds up whoever passes until it is opened; nobody is held for ever.
class gate {
public:
    void open()
    {
        const std::lock_guard lock(mutex_);
        open_ = true;
        changed_.notify_all();
    }

    /// False: nobody opened it.
    bool pass()
    {
        std::unique_lock lock(mutex_);
        ++arrived_;
        return changed_.wait_for(lock, test::hang_limit, [&] { return open_; });
    }

    [[nodiscard]] std::size_t arrived() const
    {
        const std::lock_guard lock(mutex_);
        return arrived_;
    }

private:
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::size_t arrived_ = 0;
    bool open_ = false;
};

/// What happened, in its order.
class notes {
public:
    void add(std::string what)
    {
        const std::lock_guard lock(mutex_);
        taken_.push_back(std::move(what));
    }
    [[nodiscard]] std::vector<std::string> all() const
    {
        const std::lock_guard lock(mutex_);
        return taken_;
    }
    [[nodiscard]] std::size_t size() const { return all().size(); }
    void clear()
    {
        const std::lock_guard lock(mutex_);
        taken_.clear();
    }

private:
    mutable std::mutex mutex_;
    std::vector<std::string> taken_;
};

/// How many are inside at once, now and at most.
class crowd {
public:
    void enter()
    {
        const std::lock_guard lock(mutex_);
        most_ = std::max(most_, ++inside_);
    }
    void leave()
    {
        const std::lock_guard lock(mutex_);
        --inside_;
    }
    [[nodiscard]] std::size_t inside() const
    {
        const std::lock_guard lock(mutex_);
        return inside_;
    }
    [[nodiscard]] std::size_t most() const
    {
        const std::lock_guard lock(mutex_);
        return most_;
    }

private:
    mutable std::mutex mutex_;
    std::size_t inside_ = 0;
    std::size_t most_ = 0;
};

/// Something that runs until it is stopped, on a thread of its own.
class background {
public:
    using job = std::function<run_report(const stop_request&)>;

    explicit background(job what) : thread_([this, what = std::move(what)] { run(what); }) {}
    explicit background(worker& which)
        : background([&which](const stop_request& stop) { return which.run(stop); })
    {}
    background(const background&) = delete;
    background& operator=(const background&) = delete;
    ~background()
    {
        stop();
        stop_now();
    }

    void stop() { drain_.request_stop(); }
    void stop_now() { now_.request_stop(); }
    [[nodiscard]] bool ended() const { return ended_.load(); }

    /// Waits for its end, and throws what it threw.
    run_report wait()
    {
        thread_.join();
        if (thrown_)
            std::rethrow_exception(thrown_);
        return report_;
    }
    run_report end()
    {
        stop();
        return wait();
    }

private:
    void run(const job& what)
    {
        try {
            report_ = what({drain_.get_token(), now_.get_token()});
        } catch (...) {
            thrown_ = std::current_exception();
        }
        ended_ = true;
    }

    std::stop_source drain_;
    std::stop_source now_;
    std::atomic<bool> ended_ = false;
    run_report report_;
    std::exception_ptr thrown_;
    std::jthread thread_; // last: it uses everything above
};

class worker_test : public conformance_test {
protected:
    /// Tries again after five seconds, and three times in all.
    static worker_options steady(std::size_t concurrency = 4)
    {
        return {.name = "carol", .concurrency = concurrency, .outbox = steady_retries(5s, 3)};
    }

    /// Handles what is due with this handler, in one pass.
    template <typename Function>
    run_report pass(Function handler, worker_options options = steady())
    {
        worker one(db(), std::move(options));
        one.handle("*", std::move(handler));
        return one.process_outbox();
    }

    [[nodiscard]] bool eventually_in(message_id id, message_state state)
    {
        return eventually([&] { return state_of(id) == state; });
    }
    [[nodiscard]] bool eventually_done(message_id id)
    {
        return eventually_in(id, message_state::done);
    }

    /// Bob gets the message, though its worker is alive: time leaps further than its lease.
    receipt take_over_by_bob(duration leap = 60s)
    {
        receipt taken;
        EXPECT_TRUE(eventually([&] {
            clock().advance(leap);
            box().reap_expired();
            const auto claimed = box().claim(bob);
            if (!claimed.empty())
                taken = claimed.deliveries.front().receipt;
            return !claimed.empty();
        }));
        return taken;
    }
};

} // namespace posthorn::conformance
