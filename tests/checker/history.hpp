// Writing a history from many processes, each of which may be killed at any moment, and reading it.
#pragma once

#include "checker/events.hpp"
#include <posthorn/environment.hpp>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace posthorn::checker {

/// Appends events to a file, each with one write, so that what was written survives the writer.
/// Threads: safe to use from any.
class history_writer {
public:
    /// `by` is the name under which a fault injector kills or pauses this writer.
    history_writer(const std::filesystem::path& file, std::string by,
                   std::shared_ptr<const clock> clock);
    history_writer(const history_writer&) = delete;
    history_writer& operator=(const history_writer&) = delete;
    ~history_writer();

    /// The time to remember before asking the store for something.
    [[nodiscard]] timestamp now() const { return clock_->now(); }

    /// Writes down what happened between `asked_at` and now; without it, just now.
    /// Throws: `std::system_error` if the line could not be written whole.
    void record(happening what, std::optional<timestamp> asked_at = {}) const;

private:
    int file_;
    std::string by_;
    std::shared_ptr<const clock> clock_;
};

/// Reads the files one after the other.
/// Throws: `error` with `invalid_argument` naming file and line of what is malformed.
[[nodiscard]] history read_history(std::span<const std::filesystem::path> files);

/// Gives each line of a file to `use`; what that throws as `error` is told with file and line.
/// Returns: whether the file ends in the middle of a line, which is then left out.
bool for_each_line(const std::filesystem::path& file,
                   const std::function<void(std::string_view)>& use);

} // namespace posthorn::checker
