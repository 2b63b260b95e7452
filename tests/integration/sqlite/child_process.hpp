// A forked process that runs a function, and can be killed at any moment.
#pragma once

#include <csignal>
#include <functional>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace posthorn::test {

class child_process {
public:
    /// Requires: the parent has no store open that `work` uses; SQLite does not survive a fork.
    explicit child_process(const std::function<void()>& work) : id_(fork())
    {
        if (id_ < 0)
            throw std::runtime_error("fork failed");
        if (id_ > 0)
            return;
        try {
            work();
        } catch (...) {
            _exit(1); // the parent sees the exit code; there is nobody to rethrow to
        }
        _exit(0);
    }
    child_process(child_process&& other) noexcept : id_(std::exchange(other.id_, 0)) {}
    child_process(const child_process&) = delete;
    child_process& operator=(const child_process&) = delete;
    child_process& operator=(child_process&&) = delete;
    ~child_process() { kill_now(); }

    /// SIGKILL: nothing of the child runs any more, no destructor, no flush.
    void kill_now()
    {
        if (id_ > 0) {
            kill(id_, SIGKILL);
            (void)wait();
        }
    }

    /// Waits for the end. Returns: the exit code, −1 if it was killed.
    int wait()
    {
        int status = 0;
        waitpid(std::exchange(id_, 0), &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }

private:
    pid_t id_;
};

} // namespace posthorn::test
