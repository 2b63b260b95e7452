// A bar for work that takes a while. It is drawn only where somebody watches.
#pragma once

#include "app/cli/output.hpp"

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace posthorn::cli {

/// Shows how far some work is, on standard error, and leaves no trace when it is destroyed.
class progress_bar {
public:
    progress_bar(std::string label, std::size_t total, const output& to);
    progress_bar(const progress_bar&) = delete;
    progress_bar& operator=(const progress_bar&) = delete;
    ~progress_bar();

    void show(std::size_t done);

private:
    std::string label_;
    std::size_t total_;
    bool visible_;
    int percent_ = -1;
};

/// Draws a bar for work that reports nothing itself, by asking now and then how much is done.
class progress_watch {
public:
    /// Threads: `done` is called from a thread of its own; what it throws ends the bar only.
    progress_watch(std::string label, std::size_t total, const output& to,
                   std::function<std::size_t()> done);

private:
    void watch(const std::stop_token& stop, const std::function<std::size_t()>& done);

    progress_bar bar_;
    std::mutex mutex_;
    std::condition_variable_any wake_;
    std::jthread thread_; // last: it must be gone before what it uses
};

} // namespace posthorn::cli
