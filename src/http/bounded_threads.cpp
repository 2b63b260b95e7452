// One place for the next task is enough, since nobody brings one before a thread is free.
#include "http/bounded_threads.hpp"

#include <utility>

namespace posthorn::http {

bounded_threads::bounded_threads(std::size_t count, std::function<void()> freed)
    : count_(count), freed_(std::move(freed))
{
    try {
        for (std::size_t i = 0; i < count; ++i)
            threads_.emplace_back([this] { work(); });
    } catch (...) {
        end(); // those that could be had
        throw;
    }
}

bounded_threads::~bounded_threads()
{
    end();
}

void bounded_threads::end()
{
    {
        const std::lock_guard lock(mutex_);
        taking_ = false;
        ending_ = true;
    }
    changed_.notify_all();
    for (auto& each : threads_)
        each.join();
}

bounded_threads::found bounded_threads::wait_for_a_free_one(duration within)
{
    std::unique_lock lock(mutex_);
    const bool is_over =
        changed_.wait_for(lock, within, [this] { return !taking_ || (busy_ < count_ && !next_); });
    if (!taking_)
        return found::over;
    return is_over ? found::one : found::none;
}

void bounded_threads::run(std::function<void()> task)
{
    {
        const std::lock_guard lock(mutex_);
        next_ = std::move(task);
        ++busy_;
    }
    changed_.notify_all();
}

void bounded_threads::take_no_more()
{
    {
        const std::lock_guard lock(mutex_);
        taking_ = false;
    }
    changed_.notify_all();
}

bool bounded_threads::wait_for_all(duration within)
{
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, within, [this] { return busy_ == 0; });
}

void bounded_threads::work()
{
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [this] { return ending_ || next_; });
        if (!next_)
            return;
        auto task = std::exchange(next_, nullptr);
        changed_.notify_all();
        lock.unlock();
        task();
        task = nullptr; // with what it holds, before it counts as ended
        lock.lock();
        --busy_;
        changed_.notify_all();
        freed_();
    }
}

} // namespace posthorn::http
