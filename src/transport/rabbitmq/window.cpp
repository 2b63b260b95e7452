// A queue that numbers lead into.
#include "transport/rabbitmq/window.hpp"

#include <algorithm>
#include <utility>

namespace posthorn::rabbitmq {

void window::confirm(std::uint64_t number, bool multiple, bool accepted, monotonic_time now)
{
    if (number == 0 && multiple) // it may say so, and means all
        number = first_number_ + flights_.size() - 1;
    if (number < first_number_ || number - first_number_ >= flights_.size())
        return;
    const auto last = static_cast<std::size_t>(number - first_number_);
    for (auto i = multiple ? 0 : last; i <= last; ++i)
        settle(flights_[i], accepted, now);
    while (!flights_.empty() && flights_.front().settled) {
        flights_.pop_front();
        ++first_number_;
    }
}

void window::settle(flight& which, bool accepted, monotonic_time now)
{
    if (std::exchange(which.settled, true))
        return;
    if (!accepted)
        refusing_.try_emplace(which.route, now);
    else if (!refusing_.empty())
        refusing_.erase(which.route);
    if (which.from == nullptr)
        return;
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
    const auto found = std::ranges::find_if(flights_, [&](const flight& each) {
        return !each.settled && each.returned.empty() && each.id == id && each.route == route;
    });
    if (found != flights_.end())
        found->returned = why;
}

void window::forget(const batch& from)
{
    for (auto& each : flights_)
        if (each.from == &from)
            each.from = nullptr;
}

std::vector<window::flight> window::drain()
{
    std::vector<flight> result;
    for (auto& each : flights_)
        if (!each.settled && each.from != nullptr)
            result.push_back(std::move(each));
    flights_.clear();
    refusing_.clear();
    first_number_ = 1;
    return result;
}

std::optional<monotonic_time> window::refused_since() const
{
    const auto first =
        std::ranges::min_element(refusing_, {}, [](const auto& each) { return each.second; });
    return first == refusing_.end() ? std::nullopt : std::optional(first->second);
}

std::size_t window::unsettled() const
{
    return static_cast<std::size_t>(
        std::ranges::count_if(flights_, [](const flight& each) { return !each.settled; }));
}

} // namespace posthorn::rabbitmq
