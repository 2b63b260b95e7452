// Messages that are sent until they are accepted, as a relay would, and what must be true of them
// afterwards whatever happened on the way.
#pragma once

#include <posthorn/id.hpp>
#include <posthorn/transport.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace posthorn::transports {

inline transport_message numbered_message(std::string topic, int number, std::string key = {})
{
    const auto surroundings = environment::system();
    return {.id = message_id(uuid::version_7(surroundings.clock->now(), *surroundings.random)),
            .topic = std::move(topic),
            .key = std::move(key),
            .payload = std::to_string(number)};
}

/// Sends numbered messages of a few keys from a thread of its own, each until it is accepted, and
/// of one key always the oldest that is not.
class load_history {
public:
    load_history(std::shared_ptr<transport> to, std::string topic)
        : to_(std::move(to)),
          topic_(std::move(topic)),
          thread_([this](const std::stop_token& stop) { run(stop); })
    {}

    /// Waits until so many more were accepted.
    void wait_for_more(std::size_t count)
    {
        std::unique_lock lock(mutex_);
        const auto enough = accepted_.size() + count;
        if (!changed_.wait_for(lock, std::chrono::seconds{60},
                               [&] { return accepted_.size() >= enough; }))
            throw std::runtime_error("too few messages were accepted in a minute");
    }

    void end()
    {
        thread_.request_stop();
        thread_.join();
    }

    /// In the order of their acceptance. Requires: it has ended.
    [[nodiscard]] const std::vector<transport_message>& accepted() const { return accepted_; }

private:
    static constexpr int keys = 10;
    static constexpr int batch = 50;

    void run(const std::stop_token& stop)
    {
        std::vector<transport_message> open;
        int number = 0;
        while (!stop.stop_requested()) {
            while (open.size() < batch) {
                open.push_back(numbered_message(topic_, number, std::to_string(number % keys)));
                ++number;
            }
            const auto answers = to_->publish(
                open, {.until = std::chrono::time_point_cast<duration>(
                           std::chrono::steady_clock::now() + std::chrono::seconds{5})});
            std::vector<transport_message> rest;
            const std::lock_guard lock(mutex_);
            for (const auto& each : answers)
                EXPECT_FALSE(each.verdict == publish_answer::kind::refused &&
                             is_permanent(each.why))
                    << "a crash is no reason to refuse for good: " << each.detail;
            for (std::size_t i = 0; i < open.size(); ++i)
                (answers[i].accepted() ? accepted_ : rest).push_back(std::move(open[i]));
            open = std::move(rest);
            changed_.notify_all();
        }
    }

    std::shared_ptr<transport> to_; // shared with the test
    std::string topic_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<transport_message> accepted_;
    std::jthread thread_; // last: it uses everything above
};

enum class duplicates { forbidden, allowed };

/// What is wrong with what has arrived; empty: nothing.
inline std::string problems_with(const std::vector<transport_message>& accepted,
                                 const std::vector<transport_message>& arrived, duplicates allowed)
{
    std::string result;
    std::set<message_id> there;
    std::map<std::string, int> latest;
    for (const auto& each : arrived) {
        const int number = std::stoi(each.payload);
        const bool is_first = there.insert(each.id).second;
        if (!is_first && allowed == duplicates::forbidden)
            result += "message " + each.payload + " is there twice\n";
        const auto [last, is_new] = latest.try_emplace(each.key, number);
        if (!is_new && is_first && last->second >= number)
            result += "message " + each.payload + " of key " + each.key + " comes after " +
                      std::to_string(last->second) + "\n";
        last->second = std::max(last->second, number);
    }
    for (const auto& each : accepted)
        if (!there.contains(each.id))
            result += "message " + each.payload + " was accepted and is lost\n";
    return result;
}

} // namespace posthorn::transports
