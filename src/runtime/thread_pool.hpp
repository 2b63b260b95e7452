// Threads for handlers that block. It starts with none and grows when a task has to wait, so quick
// handlers share a few threads and slow ones get one each.
#pragma once

#include <posthorn/time.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace posthorn::runtime {

/// Threads: safe to use from any.
class thread_pool {
public:
    explicit thread_pool(std::size_t threads_max);
    thread_pool(const thread_pool&) = delete;
    thread_pool& operator=(const thread_pool&) = delete;

    /// Ends its threads. Those still in a task are left to themselves: they keep alive what they
    /// use, and end with their task.
    ~thread_pool();

    /// Throws: `std::system_error` if there is no thread and none can be started; then none of the
    /// tasks is taken.
    void submit(std::vector<std::function<void()>> tasks);

    /// Adds threads for tasks that have waited for one too long; to be called now and then.
    void grow();

    /// Whether tasks wait for a thread.
    [[nodiscard]] bool has_waiting() const;
    [[nodiscard]] std::size_t threads() const;

private:
    struct state;
    std::shared_ptr<state> state_;
};

} // namespace posthorn::runtime
