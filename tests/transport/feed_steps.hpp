// What tests of feeds do again and again.
#pragma once

#include <posthorn/feeds.hpp>

#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace posthorn::transports {

inline monotonic_time in_time(std::chrono::milliseconds length = std::chrono::seconds{30})
{
    return std::chrono::time_point_cast<duration>(std::chrono::steady_clock::now()) + length;
}

/// So many messages, however many calls it takes; fewer if they do not come within half a minute.
inline std::vector<fed_message> take_from(feed& from, std::size_t count)
{
    std::vector<fed_message> result;
    const auto until = in_time();
    while (result.size() < count && std::chrono::steady_clock::now() < until)
        for (auto& each : from.receive(count - result.size(), {.until = until}))
            result.push_back(std::move(each));
    return result;
}

inline std::vector<std::uint64_t> tickets_of(const std::vector<fed_message>& messages)
{
    std::vector<std::uint64_t> result;
    for (const auto& each : messages)
        result.push_back(each.ticket);
    return result;
}

inline std::vector<std::string> payloads_of(const std::vector<fed_message>& messages)
{
    std::vector<std::string> result;
    for (const auto& each : messages)
        result.push_back(each.payload);
    return result;
}

/// Looks again and again, since the other side tells nobody when it is done.
inline bool comes_true(const std::function<bool()>& condition)
{
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds{30};
    while (!condition()) {
        if (std::chrono::steady_clock::now() >= until)
            return false;
        std::this_thread::yield();
    }
    return true;
}

/// Log lines, for a test to look at.
class lines_seen {
public:
    [[nodiscard]] environment surroundings()
    {
        auto result = environment::system();
        result.log = [this](log_level, std::string_view line) {
            const std::lock_guard lock(mutex_);
            text_ += std::string(line) + "\n";
        };
        return result;
    }

    [[nodiscard]] std::string text() const
    {
        const std::lock_guard lock(mutex_);
        return text_;
    }

private:
    mutable std::mutex mutex_;
    std::string text_;
};

} // namespace posthorn::transports
