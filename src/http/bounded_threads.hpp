// A thread for each connection, up to a limit. Nothing queues: whoever brings work waits for a
// thread that is free.
#pragma once

#include <posthorn/time.hpp>

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace posthorn::http {

class bounded_threads {
public:
    /// `freed` is called whenever one has become free. It must not throw.
    bounded_threads(std::size_t count, std::function<void()> freed);
    bounded_threads(const bounded_threads&) = delete;
    bounded_threads& operator=(const bounded_threads&) = delete;
    ~bounded_threads(); ///< waits for what runs

    enum class found {
        one,
        none, ///< within the time
        over, ///< `take_no_more` was called
    };
    [[nodiscard]] found wait_for_a_free_one(duration within);

    /// Requires: one is free, and there is one caller. `task` must not throw.
    void run(std::function<void()> task);

    void take_no_more();

    /// Returns: whether all of them are free; false: some were not within this time.
    [[nodiscard]] bool wait_for_all(duration within);

private:
    void work();
    void end();

    std::mutex mutex_;
    std::condition_variable changed_;
    std::function<void()> next_;
    std::size_t busy_ = 0; ///< with what was brought and not yet ended
    bool taking_ = true;
    bool ending_ = false;
    const std::size_t count_;
    const std::function<void()> freed_;
    std::vector<std::thread> threads_;
};

} // namespace posthorn::http
