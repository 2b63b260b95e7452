// Watching thousands of SQLite files that need not be open. Whoever commits writes the file's log;
// the kernel tells of that for a whole directory at once, and where it does not, the time at which
// the log was written last does.
#pragma once

#include "store/contract/premises.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace posthorn::sqlite {

/// Threads: safe to use from any.
class file_watch : public std::enable_shared_from_this<file_watch> {
public:
    file_watch();
    file_watch(const file_watch&) = delete;
    file_watch& operator=(const file_watch&) = delete;
    ~file_watch();

    /// Calls `ring` after writes to the log of this file, until the subscription ends.
    [[nodiscard]] std::unique_ptr<contract::subscription> add(const std::string& path,
                                                              std::function<void()> ring);

private:
    class one;
    struct last_write {
        std::int64_t seconds = 0;
        std::int64_t nanoseconds = 0;
        std::int64_t bytes = 0;
        friend bool operator==(const last_write&, const last_write&) = default;
    };
    /// Whoever only reads may leave an empty log, or remove one: that is no write.
    struct written {
        last_write log;   ///< nothing: there is none, or it is empty
        last_write store; ///< where a log goes when the last to have the file open closes it
        friend bool operator==(const written&, const written&) = default;
    };
    struct file {
        int directory = -1; ///< as the kernel numbers its watches; −1: not watched
        std::string folder;
        std::string name;
        std::string log; ///< the name of the log in it
        std::function<void()> ring;
        written last;
    };
    using key = std::uint64_t;
    using clock = std::chrono::steady_clock;

    /// Who writes the log has not committed yet: whoever looks at once may look too early.
    struct echo {
        clock::time_point at{};
        std::size_t step = 0;
    };

    void run();
    void read_events();
    void look_at_all();
    void ring(key which);
    void ring_echoes();
    [[nodiscard]] int next_step_ms();
    void watch_folder(file& which);
    void remove(key which);
    [[nodiscard]] static written written_at(const file& which);

    int events_ = -1; ///< the kernel's; −1: it has none for us
    int waker_ = -1;
    std::mutex mutex_;
    std::map<key, file> files_;
    std::map<std::pair<int, std::string>, std::vector<key>> by_name_;
    std::map<key, echo> echoes_;
    clock::time_point look_at_ = clock::time_point::max();
    key next_ = 0;
    std::size_t untold_ = 0; ///< files of which the kernel does not tell
    bool over_ = false;
    std::jthread thread_; // last: it uses everything above
};

} // namespace posthorn::sqlite
