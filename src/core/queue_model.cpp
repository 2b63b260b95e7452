// The reference model, written for clarity: every rule once, in plain containers.
#include "core/queue_model.hpp"

#include <algorithm>
#include <tuple>

namespace posthorn::core {

enqueued queue_model::enqueue(message_id id, const message& what, const enqueue_options& how,
                              timestamp now)
{
    const auto dedup = std::pair{what.topic, how.dedup_key};
    if (!how.dedup_key.empty()) {
        const auto known = dedup_.find(dedup);
        if (known != dedup_.end() && known->second.second > now)
            return {known->second.first, true};
    }

    modelled_message added;
    added.id = id;
    added.position = ++last_position_;
    added.topic = what.topic;
    added.ordering_key = how.ordering_key;
    added.priority = how.priority;
    added.due_at = std::max(now, how.due_at.value_or(now + how.delay.value_or(duration{})));
    if (how.expires_after || how.expires_at)
        added.expires_at = how.expires_at ? *how.expires_at : now + *how.expires_after;
    if (!added.ordering_key.empty() && key_is_held(added.ordering_key))
        added.state = message_state::waiting;

    if (!how.dedup_key.empty())
        dedup_[dedup] = {{id, added.position}, now + how.dedup_window};
    positions_[id] = added.position;
    messages_[added.position] = added;
    return {{id, added.position}, false};
}

cancel_answer queue_model::cancel(message_id id, timestamp now)
{
    const auto at = positions_.find(id);
    if (at == positions_.end())
        return cancel_answer::not_found;
    auto& which = messages_.at(at->second);
    if (is_terminal(which.state) || which.started)
        return cancel_answer::too_late;
    finish(which, message_state::cancelled, now);
    return cancel_answer::cancelled;
}

queue_model::claimed queue_model::claim(const std::string& owner, duration lease, std::size_t limit,
                                        std::size_t start, timestamp now,
                                        std::span<const std::string> unpark_topics)
{
    expire_due(now);
    unpark(unpark_topics, limit);
    std::vector<modelled_message*> due;
    for (auto& [position, each] : messages_)
        if (each.state == message_state::ready && each.due_at <= now)
            due.push_back(&each);
    std::ranges::sort(due, [](const auto* a, const auto* b) {
        return std::tuple(-a->priority, a->due_at, a->position) <
               std::tuple(-b->priority, b->due_at, b->position);
    });
    due.resize(std::min(due.size(), limit));
    if (due.empty())
        return {};

    claimed result{.fence = fence{++last_fence_}, .ids = {}};
    auto& batch = batches_[last_fence_];
    batch = {.owner = owner, .lease_until = now + lease, .members = {}};
    for (auto* each : due) {
        each->state = message_state::claimed;
        each->fence = result.fence;
        if (result.ids.size() < start)
            begin_attempt(*each);
        batch.members.push_back(each->position);
        result.ids.push_back(each->id);
    }
    return result;
}

void queue_model::unpark(std::span<const std::string> topics, std::size_t limit)
{
    std::size_t room = limit;
    for (auto& [position, each] : messages_) {
        if (room == 0)
            return;
        if (each.state != message_state::parked || !std::ranges::count(topics, each.topic))
            continue;
        each.state = message_state::ready;
        --room;
    }
}

modelled_message* queue_model::open_member(const std::string& owner, fence which, message_id id)
{
    const auto batch = batches_.find(static_cast<std::int64_t>(which));
    if (batch == batches_.end() || batch->second.owner != owner)
        return nullptr;
    const auto at = positions_.find(id);
    if (at == positions_.end())
        return nullptr;
    auto& found = messages_.at(at->second);
    return found.state == message_state::claimed && found.fence == which ? &found : nullptr;
}

void queue_model::begin_attempt(modelled_message& which)
{
    which.attempts += which.started ? 0 : 1;
    which.started = true;
}

void queue_model::take_start_back(modelled_message& which)
{
    which.attempts -= which.started ? 1 : 0;
    which.started = false;
}

bool queue_model::was_called_off(fence which, message_id id) const
{
    const auto* found = find(id);
    return found != nullptr && found->fence == which &&
           (found->state == message_state::cancelled || found->state == message_state::expired);
}

start_answer queue_model::start(const std::string& owner, fence which, message_id id, timestamp now)
{
    const auto batch = batches_.find(static_cast<std::int64_t>(which));
    const bool batch_ended = batch == batches_.end();
    if (!batch_ended && (batch->second.owner != owner || batch->second.lease_until <= now))
        return start_answer::lost;
    auto* member = open_member(owner, which, id);
    if (member == nullptr)
        return was_called_off(which, id) ? start_answer::gone : start_answer::lost;
    if (!member->started && member->expires_at && *member->expires_at <= now) {
        finish(*member, message_state::expired, now);
        return start_answer::gone;
    }
    begin_attempt(*member);
    return start_answer::started;
}

settled_as queue_model::settle(const std::string& owner, fence which, message_id id,
                               const decision& what, timestamp now)
{
    auto* member = open_member(owner, which, id);
    if (member == nullptr)
        return settled_as::lost;
    const bool unharmed = what.become == settled_as::released || what.become == settled_as::parked;
    if (!what.error.empty() && !unharmed) {
        ++member->errors;
        member->last_error = what.error;
    }
    switch (what.become) {
    case settled_as::done: finish(*member, message_state::done, now); break;
    case settled_as::dead:
        member->blocks_key = what.blocks_key && !member->ordering_key.empty();
        finish(*member, message_state::dead, now);
        break;
    case settled_as::retrying:
        leave_batch(*member);
        member->due_at = now + what.delay;
        member->state = message_state::ready;
        break;
    case settled_as::released:
        take_start_back(*member);
        leave_batch(*member);
        member->state = message_state::ready;
        if (what.delay > duration::zero())
            member->due_at = now + what.delay;
        break;
    case settled_as::parked:
        take_start_back(*member);
        leave_batch(*member);
        member->state = message_state::parked;
        member->parked_for = what.reason;
        break;
    case settled_as::lost: break;
    }
    return what.become;
}

bool queue_model::renew(const std::string& owner, fence which, duration lease, timestamp now)
{
    const auto batch = batches_.find(static_cast<std::int64_t>(which));
    if (batch == batches_.end() || batch->second.owner != owner)
        return false;
    batch->second.lease_until = now + lease;
    return true;
}

std::vector<queue_model::overdue> queue_model::overdue_batches(timestamp now) const
{
    std::vector<overdue> result;
    for (const auto& [number, batch] : batches_) {
        if (batch.lease_until > now)
            continue;
        overdue each{.fence = fence{number}, .owner = batch.owner, .open = {}};
        for (const auto position : batch.members) {
            const auto found = messages_.find(position);
            if (found != messages_.end() && found->second.state == message_state::claimed &&
                found->second.fence == each.fence)
                each.open.push_back(found->second.id);
        }
        result.push_back(std::move(each));
    }
    std::ranges::stable_sort(result, {}, [&](const overdue& each) {
        return batches_.at(static_cast<std::int64_t>(each.fence)).lease_until;
    });
    return result;
}

std::size_t queue_model::expire_due(timestamp now)
{
    std::size_t count = 0;
    for (auto& [position, each] : messages_) {
        const bool unclaimed = each.state == message_state::ready ||
                               each.state == message_state::waiting ||
                               each.state == message_state::parked;
        if (unclaimed && each.expires_at && *each.expires_at <= now) {
            finish(each, message_state::expired, now);
            ++count;
        }
    }
    return count;
}

bool queue_model::redrive(message_id id, timestamp now)
{
    const auto at = positions_.find(id);
    if (at == positions_.end() || messages_.at(at->second).state != message_state::dead)
        return false;
    auto& which = messages_.at(at->second);
    which.blocks_key = false;
    which.state = message_state::waiting;
    which.due_at = now;
    which.attempts = 0;
    which.expires_at.reset();
    which.finished_at.reset();
    ++which.redrives;
    if (which.ordering_key.empty())
        which.state = message_state::ready;
    else
        let_key_go_on(which.ordering_key);
    return true;
}

bool queue_model::purge(message_id id)
{
    const auto at = positions_.find(id);
    if (at == positions_.end() || messages_.at(at->second).state != message_state::dead)
        return false;
    const auto key = messages_.at(at->second).ordering_key;
    messages_.erase(at->second);
    positions_.erase(at);
    let_key_go_on(key);
    return true;
}

bool queue_model::skip_key(const std::string& ordering_key)
{
    for (auto& [position, each] : messages_) {
        if (each.blocks_key && each.ordering_key == ordering_key) {
            each.blocks_key = false;
            let_key_go_on(ordering_key);
            return true;
        }
    }
    return false;
}

const modelled_message* queue_model::find(message_id id) const
{
    const auto at = positions_.find(id);
    return at == positions_.end() ? nullptr : &messages_.at(at->second);
}

void queue_model::finish(modelled_message& which, message_state state, timestamp now)
{
    if (which.state == message_state::claimed)
        leave_batch(which);
    which.state = state;
    which.finished_at = now;
    let_key_go_on(which.ordering_key);
}

void queue_model::leave_batch(modelled_message& which)
{
    const auto batch = batches_.find(static_cast<std::int64_t>(which.fence));
    if (batch != batches_.end()) {
        std::erase(batch->second.members, which.position);
        if (batch->second.members.empty())
            batches_.erase(batch);
    }
    which.started = false;
}

bool queue_model::key_is_held(const std::string& ordering_key) const
{
    return std::ranges::any_of(messages_, [&](const auto& entry) {
        const auto& each = entry.second;
        return each.ordering_key == ordering_key && (!is_terminal(each.state) || each.blocks_key);
    });
}

void queue_model::let_key_go_on(const std::string& ordering_key)
{
    if (ordering_key.empty())
        return;
    modelled_message* next = nullptr;
    for (auto& [position, each] : messages_) {
        if (each.ordering_key != ordering_key)
            continue;
        const bool runs = each.state == message_state::ready ||
                          each.state == message_state::parked ||
                          each.state == message_state::claimed;
        if (runs || each.blocks_key)
            return;
        if (each.state == message_state::waiting && next == nullptr)
            next = &each;
    }
    if (next != nullptr)
        next->state = message_state::ready;
}

} // namespace posthorn::core
