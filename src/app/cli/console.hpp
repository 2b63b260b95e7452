// Standard error, shared by threads: lines that stay, and below them one that is redrawn.
#pragma once

#include "app/cli/output.hpp"
#include <posthorn/environment.hpp>

#include <cstddef>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>

namespace posthorn::cli {

/// Threads: safe to use from any.
class console {
public:
    explicit console(const output& to) : live_(to.watched()), quiet_(to.json()) {}
    console(const console&) = delete;
    console& operator=(const console&) = delete;
    ~console();

    /// Whether somebody watches, so that `show` has an effect.
    [[nodiscard]] bool live() const noexcept { return live_; }

    /// One line with the time, unless somebody reads JSON.
    void log(std::string_view line);

    /// Bytes as they are, such as what a child says. The other stream may be a terminal, too.
    void pass(std::string_view text, std::FILE* to = stderr);

    /// Replaces what is shown below the lines; it may have several lines itself.
    void show(std::string_view status);
    void clear();

private:
    void wipe();
    void begin_line();
    static void put(std::string_view text, std::FILE* to = stderr);

    const bool live_;
    const bool quiet_;
    const environment world_ = environment::system();
    std::mutex mutex_;
    std::size_t rows_ = 0; ///< of the status that stand there now
    bool line_is_open_ = false;
};

} // namespace posthorn::cli
