// A line for each key, and everything else at once.
#include "transport/rabbitmq/batch.hpp"

#include <utility>

namespace posthorn::rabbitmq {

std::optional<std::size_t> batch::next()
{
    std::optional<std::size_t> found;
    if (!again_.empty()) {
        found = again_.front();
        again_.pop_front();
    }
    while (!found && seen_ < what_.size()) {
        const auto which = seen_++;
        const auto& key = what_[which].key;
        if (key.empty()) {
            found = which;
            continue;
        }
        auto& its = lines_[key];
        if (its.stuck)
            answer(which, publish_answer::no(refusal::held_back));
        else if (std::exchange(its.busy, true))
            its.waiting.push_back(which);
        else
            found = which;
    }
    if (found)
        states_[*found].now = state::on_the_way;
    return found;
}

void batch::again(std::size_t which, doubt arrived)
{
    states_[which].now = state::waiting;
    states_[which].in_doubt = states_[which].in_doubt || arrived == doubt::some;
    again_.push_front(which);
}

void batch::settle(std::size_t which, publish_answer said)
{
    const bool accepted = said.accepted();
    answer(which, std::move(said));
    const auto& key = what_[which].key;
    if (key.empty())
        return;
    auto& its = lines_[key];
    its.stuck = its.stuck || !accepted;
    its.busy = !its.waiting.empty() && !its.stuck;
    if (its.busy) {
        again_.push_back(its.waiting.front());
        its.waiting.pop_front();
        return;
    }
    for (const auto each : std::exchange(its.waiting, {}))
        answer(each, publish_answer::no(refusal::held_back));
}

void batch::answer(std::size_t which, publish_answer said)
{
    answers_[which] = std::move(said);
    states_[which].now = state::answered;
    if (--open_ == 0)
        done.notify_all();
}

std::vector<publish_answer> batch::end(const publish_answer& in_doubt,
                                       const publish_answer& not_sent)
{
    for (std::size_t i = 0; i < states_.size(); ++i) {
        const auto& its = states_[i];
        if (its.now != state::answered)
            answers_[i] = its.now == state::on_the_way || its.in_doubt ? in_doubt : not_sent;
    }
    return std::move(answers_);
}

} // namespace posthorn::rabbitmq
