// What the log hears of a transport: each trouble once, and its end. A message that is refused for
// now leaves no other trace.
#pragma once

#include <posthorn/environment.hpp>
#include <posthorn/transport.hpp>

#include <chrono>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

namespace posthorn::runtime {

/// Threads: safe to use from any.
class transport_diary {
public:
    /// After this long without trouble it is over: others may be accepted in between.
    static constexpr duration calm = std::chrono::seconds{10};

    /// So long the other side may be away before somebody is told.
    static constexpr duration patience = std::chrono::seconds{5};

    transport_diary(std::string transport_name, log_sink log)
        : name_(std::move(transport_name)), log_(std::move(log))
    {}

    /// What became of a batch. Those that are dead say themselves why.
    void note_answers(std::span<const publish_answer> answers, monotonic_time now);

    /// For so long the other side has not been there, or has not wanted anything.
    void note_absence(duration so_far);

    /// It is there, or somebody is talking to it.
    void note_presence();

private:
    using trouble = std::pair<publish_answer::kind, refusal>;

    [[nodiscard]] static std::optional<trouble> trouble_in(const publish_answer& answer);
    void say(log_level level, std::string_view words) const;

    const std::string name_;
    const log_sink log_;

    std::mutex mutex_;
    std::set<trouble> told_;
    monotonic_time latest_trouble_{};
    bool told_of_absence_ = false;
};

} // namespace posthorn::runtime
