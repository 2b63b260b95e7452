// Numbers that lead to messages, in the order of their sending.
#include "transport/rabbitmq/window.hpp"

#include <algorithm>
#include <utility>

namespace posthorn::rabbitmq {

void window::add(flight what)
{
    if (what.from != nullptr)
        ++awaited_;
    flights_.emplace_hint(flights_.end(), next_number_++, std::move(what));
}

void window::confirm(std::uint64_t number, bool multiple, bool accepted, monotonic_time now)
{
    if (number == 0 && multiple) // it may say so, and means all
        number = next_number_ - 1;
    if (number >= next_number_) // nothing of ours
        return;
    const auto first = multiple ? flights_.begin() : flights_.find(number);
    const auto end = flights_.upper_bound(number);
    if (first == flights_.end())
        return;
    for (auto each = first; each != end; each = flights_.erase(each))
        settle(each->second, accepted, now);
}

void window::settle(const flight& which, bool accepted, monotonic_time now)
{
    if (!accepted)
        refusing_.try_emplace(which.route, now);
    else if (!refusing_.empty())
        refusing_.erase(which.route);
    if (which.from == nullptr)
        return;
    --awaited_;
    auto answer = publish_answer::yes();
    if (!accepted)
        answer = publish_answer::no(refusal::rejected,
                                    "the broker said no: a queue is full, or has failed");
    else if (!which.returned.empty())
        answer = publish_answer::no(refusal::unroutable, which.returned);
    which.from->settle(which.which, std::move(answer));
}

void window::give_back(const message_id& id, std::size_t route, const std::string& why)
{
    const auto found = std::ranges::find_if(flights_, [&](const auto& each) {
        const auto& its = each.second;
        return its.returned.empty() && its.id == id && its.route == route;
    });
    if (found != flights_.end())
        found->second.returned = why;
}

void window::forget(const batch& from)
{
    for (auto& [number, each] : flights_)
        if (each.from == &from) {
            each.from = nullptr;
            --awaited_;
        }
}

std::vector<window::flight> window::drain()
{
    std::vector<flight> result;
    for (auto& [number, each] : flights_)
        if (each.from != nullptr)
            result.push_back(std::move(each));
    flights_.clear();
    refusing_.clear();
    next_number_ = 1;
    awaited_ = 0;
    return result;
}

void window::believe_refusals(monotonic_time now)
{
    for (auto& [route, since] : refusing_)
        since = now;
}

std::optional<monotonic_time> window::refused_since() const
{
    const auto first =
        std::ranges::min_element(refusing_, {}, [](const auto& each) { return each.second; });
    return first == refusing_.end() ? std::nullopt : std::optional(first->second);
}

} // namespace posthorn::rabbitmq
