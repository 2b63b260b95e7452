// A queue of tasks and the threads that take them.
#include "runtime/thread_pool.hpp"

#include <posthorn/correlation.hpp>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace posthorn::runtime {
namespace {

// A task that has waited this long needs another thread; a thread that has, is one too many.
constexpr std::chrono::microseconds task_patience{200};
constexpr std::chrono::seconds thread_patience{10};

} // namespace

struct thread_pool::state {
    struct task {
        std::function<void()> run;
        std::chrono::steady_clock::time_point since;
        std::shared_ptr<correlation> context; // of whoever submitted it
    };

    std::mutex mutex;
    std::condition_variable wanted;
    std::deque<task> waiting;
    std::size_t threads_max = 0;
    std::size_t threads = 0;
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
    void call_one()
    {
        if (idle > 0 && !std::exchange(calling, true))
            wanted.notify_one();
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
            if (!shared->waiting.empty())
                shared->call_one();
            lock.unlock();
            run(std::move(next));
            lock.lock();
        }
        --shared->threads;
        shared->wanted.notify_all();
    }

    static void start_threads(const std::shared_ptr<state>& shared, std::size_t count)
    {
        for (std::size_t i = 0; i < count; ++i) {
            ++shared->threads;
            std::thread([shared] { work(shared); }).detach();
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
    const std::lock_guard lock(state_->mutex);
    for (auto& each : tasks)
        state_->waiting.push_back({std::move(each), now, context});
    if (state_->threads == 0)
        state::start_threads(state_, 1);
    else
        state_->call_one();
}

void thread_pool::grow()
{
    const std::lock_guard lock(state_->mutex);
    if (state_->waiting.empty() ||
        std::chrono::steady_clock::now() - state_->waiting.front().since < task_patience)
        return;
    const auto room = state_->threads_max - state_->threads;
    state::start_threads(state_, std::min(room, state_->waiting.size()));
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
