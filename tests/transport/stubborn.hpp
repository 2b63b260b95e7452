// Publishes until everything is accepted, as the outbox does, and looks at what has arrived.
#pragma once

#include <posthorn/testing/seeded_random.hpp>
#include <posthorn/transport.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace posthorn::test {

/// Messages with the numbers 0, 1, … as payload. Every third has no key.
inline std::vector<transport_message> numbered_messages(std::size_t many, int keys,
                                                        std::uint64_t seed, std::string topic)
{
    testing::seeded_random random{seed};
    std::vector<transport_message> result;
    for (std::size_t i = 0; i < many; ++i)
        result.push_back(
            {.id = message_id(uuid::version_7(timestamp{std::chrono::seconds{1}}, random)),
             .topic = topic,
             .key = i % 3 == 0 ? ""
                               : std::to_string(seed) + " " +
                                     std::to_string(i % static_cast<std::size_t>(keys)),
             .payload = std::to_string(seed) + " " + std::to_string(i)});
    return result;
}

struct stubborn_report {
    std::size_t rounds = 0;
    std::size_t unknown = 0;
    std::size_t refused = 0;
};

/// Batch after batch; what is not accepted is in the next. Nothing may be refused for good. Tells
/// after each batch how many were accepted.
inline stubborn_report publish_stubbornly(transport& to, std::vector<transport_message> left,
                                          std::size_t batch,
                                          std::chrono::milliseconds answer_within,
                                          const std::function<void(std::size_t)>& accepted = {})
{
    stubborn_report result;
    while (!left.empty()) {
        ++result.rounds;
        const auto some = std::span(left).first(std::min(batch, left.size()));
        const auto until = std::chrono::time_point_cast<duration>(std::chrono::steady_clock::now() +
                                                                  answer_within);
        const auto answers = to.publish(some, {.until = until});
        std::vector<transport_message> rest;
        for (std::size_t i = 0; i < left.size(); ++i) {
            if (i < answers.size() && answers[i].accepted())
                continue;
            if (i < answers.size()) {
                const bool unknown = answers[i].verdict == publish_answer::kind::unknown;
                ++(unknown ? result.unknown : result.refused);
                EXPECT_FALSE(!unknown && is_permanent(answers[i].why)) << answers[i].detail;
            }
            rest.push_back(std::move(left[i]));
        }
        if (accepted)
            accepted(left.size() - rest.size());
        if (rest.size() == left.size()) // nothing goes: wait until it makes sense
            (void)to.wait_until_ready({.until = until});
        left = std::move(rest);
    }
    return result;
}

/// What arrived, without repetitions, is all that was sent, in the order of each key.
class arrivals {
public:
    void add(const std::string& id, const std::string& key, const std::string& payload)
    {
        ++all_;
        if (!ids_.insert(id).second)
            return;
        if (key.empty())
            return;
        const auto number = std::stol(payload.substr(payload.find(' ') + 1));
        auto& last = last_.try_emplace(key, -1).first->second;
        EXPECT_LT(last, number) << "key " << key << " is out of order";
        last = number;
    }

    [[nodiscard]] std::size_t different() const { return ids_.size(); }
    [[nodiscard]] std::size_t all() const { return all_; }

    [[nodiscard]] std::size_t missing(const std::vector<transport_message>& sent) const
    {
        return static_cast<std::size_t>(std::ranges::count_if(
            sent, [&](const auto& each) { return !ids_.contains(to_string(each.id)); }));
    }

private:
    std::set<std::string> ids_;
    std::map<std::string, long> last_;
    std::size_t all_ = 0;
};

} // namespace posthorn::test
