// Which messages that were put aside a worker takes back with its next claim.
#include "runtime/dispatcher.hpp"

#include <algorithm>

namespace posthorn::runtime {

// Parked topics that this worker can take now. One with a limit of its own is claimed alone and no
// further than the limit, or it would be put aside again at once. Those that are taken in turns
// come last. While nothing runs no group is full, and a turn need not wait; but with many stores
// others may be running.
dispatcher::wanted_back dispatcher::wanted_parked(std::size_t& limit) const
{
    wanted_back wanted;
    const auto now = with_->source->environment().clock->monotonic();
    const bool groups_free = !visiting_ && with_->held.running() == 0;
    const std::string* next_turn = nullptr;
    std::size_t room_of_turn = 0;
    for (const auto& topic : parked_) {
        const auto* to = with_->table->find(topic);
        if (to == nullptr || is_paused(pauses_, topic))
            continue;
        const auto room = with_->held.room_for(*to);
        if (turns_.has(topic)) {
            if (room > 0 && !next_turn && (groups_free || turns_.may_claim(topic, now))) {
                next_turn = &topic;
                room_of_turn = room;
            }
        } else if (!to->has_limit()) {
            wanted.topics.push_back(topic);
        } else if (room > 0) {
            limit = std::min(limit, room);
            return {.topics = {topic}};
        }
    }
    if (!wanted.topics.empty() || !next_turn)
        return wanted;
    limit = std::min(limit, room_of_turn);
    return {.topics = {*next_turn}, .after = turns_.position(*next_turn), .in_turns = true};
}

// `all_known`: a claim that brought less than it asked for has found all there are.
void dispatcher::note_taken_back(const wanted_back& wanted, const batch& claimed, bool all_known)
{
    const auto now = with_->source->environment().clock->monotonic();
    for (const auto& topic : wanted.topics) {
        if (wanted.in_turns && !turns_.claimed(topic, claimed, now))
            return;
        if (all_known) {
            turns_.forget(topic);
            parked_.erase(topic);
        }
    }
}

} // namespace posthorn::runtime
