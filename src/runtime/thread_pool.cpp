// A queue of tasks and the threads that take them.
#include "runtime/thread_pool.hpp"

#include <posthorn/correlation.hpp>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace posthorn::runtime {
namespace {

// A task may wait this long until it is asked whether the threads get on; a thread that has nothing
// to do for this long is one too many.
constexpr std::chrono::microseconds task_patience{200};
constexpr std::chrono::seconds thread_patience{10};

// Threads that will have taken all that waits after this long need no help: a thousand quick tasks
// are done sooner than a thousand threads are started.
constexpr std::chrono::milliseconds queue_patience{5};

// At most as many come as are there, or a machine that is busy would be made busier still.
constexpr std::size_t growth_min = 8;

} // namespace

struct thread_pool::state {
    struct task {
        std::function<void()> run;
        std::chrono::steady_clock::time_point since;
        std::uint64_t taken_before;           // how many tasks had been taken when it came
        std::shared_ptr<correlation> context; // of whoever submitted it
    };

    std::mutex mutex;
    std::condition_variable wanted;
    std::deque<task> waiting;
    std::uint64_t taken = 0; ///< tasks, from the beginning
    std::chrono::steady_clock::time_point last_taken{};
    std::size_t threads_max = 0;
    std::size_t threads = 0;
    std::size_t coming = 0; ///< of them: started, and not here yet
    std::size_t idle = 0;
    bool calling = false; ///< a thread was called and has not come yet
    bool closing = false;

    // Whatever a task leaves behind on its thread, the next one does not find it.
    static void run(task next)
    {
        const core::ambient_visit visit(std::move(next.context), nullptr);
        next.run();
        next.run = nullptr;
    }

    // One thread at a time is called: before it comes, those that are here may have done it all.
    [[nodiscard]] bool should_call() { return idle > 0 && !std::exchange(calling, true); }

    // How many threads to add, going by how fast those that are here get on: since the task came
    // whose turn is next, or if they have come to a halt, since then.
    [[nodiscard]] std::size_t missing() const
    {
        if (waiting.empty() || coming > 0) // nobody knows yet how much help those are
            return 0;
        const auto now = std::chrono::steady_clock::now();
        const auto& next = waiting.front();
        if (now - next.since < task_patience)
            return 0;
        const auto taken_since = std::max<std::uint64_t>(taken - next.taken_before, 1);
        const std::chrono::duration<double> for_each = std::max<std::chrono::duration<double>>(
            (now - next.since) / taken_since, now - std::max(last_taken, next.since));
        const auto left = static_cast<double>(waiting.size());
        const auto too_slow = for_each * left / queue_patience; // so many times
        if (too_slow <= 1)
            return 0;
        const auto more = std::ceil(std::min(static_cast<double>(threads) * (too_slow - 1), left));
        return std::min(
            {threads_max - threads, static_cast<std::size_t>(more), std::max(threads, growth_min)});
    }

    bool has_come()
    {
        calling = false;
        return closing || !waiting.empty();
    }

    // Each thread owns a share of this state, so it may outlive the pool.
    static void work(const std::shared_ptr<state>& shared)
    {
        std::unique_lock lock(shared->mutex);
        --shared->coming;
        while (!shared->closing) {
            if (shared->waiting.empty()) {
                ++shared->idle;
                const bool called = shared->wanted.wait_for(lock, thread_patience,
                                                            [&] { return shared->has_come(); });
                --shared->idle;
                if (!called)
                    break;
                continue;
            }
            auto next = std::move(shared->waiting.front());
            shared->waiting.pop_front();
            ++shared->taken;
            shared->last_taken = std::chrono::steady_clock::now();
            if (!shared->waiting.empty() && shared->should_call())
                shared->wanted.notify_one();
            lock.unlock();
            run(std::move(next));
            lock.lock();
        }
        --shared->threads;
        shared->wanted.notify_all();
    }

    // Under the lock, for which the new threads wait.
    static void start_threads(const std::shared_ptr<state>& shared, std::size_t count)
    {
        for (std::size_t i = 0; i < count; ++i) {
            std::thread([shared] { work(shared); }).detach();
            ++shared->threads;
            ++shared->coming;
        }
    }
};

thread_pool::thread_pool(std::size_t threads_max) : state_(std::make_shared<state>())
{
    state_->threads_max = std::max<std::size_t>(threads_max, 1);
}

thread_pool::~thread_pool()
{
    std::unique_lock lock(state_->mutex);
    state_->closing = true;
    state_->waiting.clear();
    state_->wanted.notify_all();
    // Idle threads leave at once; whoever is in a task is not waited for.
    state_->wanted.wait_for(lock, std::chrono::milliseconds{100},
                            [&] { return state_->threads == 0; });
}

void thread_pool::submit(std::vector<std::function<void()>> tasks)
{
    if (tasks.empty())
        return;
    const auto now = std::chrono::steady_clock::now();
    const auto context = correlation_scope::current();
    bool call = false;
    {
        const std::lock_guard lock(state_->mutex);
        if (state_->threads == 0)
            state::start_threads(state_, 1); // or nothing is taken in
        else
            call = state_->should_call();
        for (auto& each : tasks)
            state_->waiting.push_back({std::move(each), now, state_->taken, context});
    }
    if (call) {
        // Whoever is called finds the lock free and, where cores are few, a core: it has the
        // messages, and nobody waits for what the caller does next.
        state_->wanted.notify_one();
        std::this_thread::yield();
    }
}

void thread_pool::grow()
{
    const std::lock_guard lock(state_->mutex);
    const auto missing = state_->missing();
    if (missing == 0)
        return;
    try {
        state::start_threads(state_, missing);
    } catch (const std::system_error&) {
        // The machine has no more threads to give: those that are here have to do.
    }
    if (state_->idle > 0)
        state_->wanted.notify_all();
}

bool thread_pool::has_waiting() const
{
    const std::lock_guard lock(state_->mutex);
    return !state_->waiting.empty();
}

std::size_t thread_pool::threads() const
{
    const std::lock_guard lock(state_->mutex);
    return state_->threads;
}

} // namespace posthorn::runtime
