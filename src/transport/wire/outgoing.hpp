// A batch on its way: which of its messages may be sent now, and what became of each. Of one key
// only one is under way at a time, so that none can overtake one that was not accepted.
#pragma once

#include <posthorn/transport.hpp>

#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace posthorn::transports {

class outgoing {
public:
    explicit outgoing(std::span<const transport_message> what)
        : answers_(what.size()), places_(what.size(), place::waiting)
    {
        std::unordered_map<std::string_view, std::size_t> last_of; // key → its latest message
        for (std::size_t i = 0; i < what.size(); ++i) {
            if (what[i].key.empty()) {
                ready_.push_back(i);
                continue;
            }
            const auto [found, is_first] = last_of.try_emplace(what[i].key, i);
            if (is_first) {
                ready_.push_back(i);
                continue;
            }
            if (next_.empty())
                next_.resize(what.size(), nobody);
            next_[std::exchange(found->second, i)] = i;
        }
    }

    [[nodiscard]] bool is_over() const { return settled_ == answers_.size(); }

    /// Whether one may be sent now.
    [[nodiscard]] bool has_ready() const { return taken_ < ready_.size(); }

    /// The next that may be sent. Requires: there is one.
    [[nodiscard]] std::size_t take()
    {
        const auto which = ready_[taken_++];
        places_[which] = place::under_way;
        return which;
    }

    /// It was not taken by the other side, and rests until it is made ready again.
    void set_aside(std::size_t which) { places_[which] = place::waiting; }
    void make_ready(std::size_t which) { ready_.push_back(which); }

    [[nodiscard]] bool is_settled(std::size_t which) const
    {
        return places_[which] == place::settled;
    }

    /// Lets the next of its key go, or holds back all that follow.
    void settle(std::size_t which, publish_answer answer)
    {
        const bool accepted = answer.accepted();
        note(which, std::move(answer));
        if (next_.empty())
            return;
        for (auto after = next_[which]; after != nobody; after = next_[after]) {
            if (accepted) {
                ready_.push_back(after);
                return;
            }
            note(after, publish_answer::no(refusal::held_back));
        }
    }

    /// The end: what is under way is unknown, and what was not sent is refused.
    void give_up(const publish_answer& unsent, const publish_answer& sent)
    {
        for (std::size_t i = 0; i < answers_.size(); ++i)
            if (places_[i] != place::settled)
                settle(i, places_[i] == place::under_way ? sent : unsent);
        taken_ = ready_.size();
    }

    /// What was accepted is in doubt after all.
    void doubt(const publish_answer& instead)
    {
        for (auto& each : answers_)
            if (each.accepted())
                each = instead;
    }

    [[nodiscard]] bool any_accepted() const
    {
        for (const auto& each : answers_)
            if (each.accepted())
                return true;
        return false;
    }

    [[nodiscard]] std::vector<publish_answer> answers() && { return std::move(answers_); }

private:
    enum class place : std::uint8_t { waiting, under_way, settled };
    static constexpr auto nobody = SIZE_MAX;

    void note(std::size_t which, publish_answer answer)
    {
        answers_[which] = std::move(answer);
        places_[which] = place::settled;
        ++settled_;
    }

    std::vector<publish_answer> answers_;
    std::vector<place> places_;
    std::vector<std::size_t> next_ = {}; // of the same key; empty: no key occurs twice
    std::vector<std::size_t> ready_ = {};
    std::size_t taken_ = 0; // of those that were ready
    std::size_t settled_ = 0;
};

} // namespace posthorn::transports
