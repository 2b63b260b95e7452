// Troubles are told apart by their kind: the words beside it may be different for each message.
#include "relay/diary.hpp"

#include <fmt/format.h>

namespace posthorn::runtime {

// One that is held back follows another that says why. One that is declined, unroutable or refused
// for good carries its reason: it has failed, or is dead.
std::optional<transport_diary::trouble> transport_diary::trouble_in(const publish_answer& answer)
{
    const bool is_refused = answer.verdict == publish_answer::kind::refused;
    if (answer.accepted() ||
        (is_refused && (answer.why == refusal::held_back || answer.why == refusal::declined ||
                        answer.why == refusal::unroutable || is_permanent(answer.why))))
        return std::nullopt;
    return trouble{answer.verdict, answer.why};
}

void transport_diary::note_answers(std::span<const publish_answer> answers, monotonic_time now)
{
    const std::lock_guard guard(mutex_);
    bool went_well = true;
    for (const auto& each : answers) {
        const auto found = trouble_in(each);
        if (!found)
            continue;
        went_well = false;
        latest_trouble_ = now;
        if (!told_.insert(*found).second)
            continue;
        const bool is_refused = found->first == publish_answer::kind::refused;
        say(log_level::warning,
            fmt::format("{} ({}){}{}; they are sent again",
                        is_refused ? "messages are refused for now"
                                   : "nobody says what became of messages",
                        is_refused ? to_string(each.why) : to_string(each.verdict),
                        each.detail.empty() ? "" : ": ", each.detail));
    }
    if (!went_well || told_.empty() || now < latest_trouble_ + calm)
        return;
    told_.clear();
    say(log_level::info, "messages are accepted again");
}

void transport_diary::note_absence(duration so_far)
{
    const std::lock_guard guard(mutex_);
    if (so_far < patience || std::exchange(told_of_absence_, true))
        return;
    say(log_level::warning, "it is away, or takes nothing; messages wait for it");
}

void transport_diary::note_presence()
{
    const std::lock_guard guard(mutex_);
    if (std::exchange(told_of_absence_, false))
        say(log_level::info, "it is there again");
}

void transport_diary::say(log_level level, std::string_view words) const
{
    if (log_)
        log_(level, fmt::format("the relay to {}: {}", name_, words));
}

} // namespace posthorn::runtime
