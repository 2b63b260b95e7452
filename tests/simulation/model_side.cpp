// The model's side of a simulation.
#include "simulation/side.hpp"
#include "simulation/words.hpp"

#include <algorithm>

namespace posthorn::simulation {

outbox_options deterministic_options(dead_key on_dead)
{
    using namespace std::chrono_literals;
    return {.retries = {.fallback = exponential_retry{.attempts_max = 3, .jitter = 0},
                        .by_topic = {{"fragile", exponential_retry{.attempts_max = 1, .jitter = 0}},
                                     {"stubborn", persistent_retry{.first = 1s,
                                                                   .failures_max = 2,
                                                                   .then_every = 1h,
                                                                   .jitter = 0}}}},
            .on_dead = on_dead};
}

std::string model_side::carry_out(const operation& step)
{
    return std::visit([&](const auto& each) { return on(each); }, step);
}

std::string model_side::on(const enqueue_step& step)
{
    std::string text;
    for (const auto& [each, brings_id] : step.messages)
        text += answer(model_.enqueue(*each.options.id, each.message, each.options, now_));
    return text;
}

std::string model_side::on(const claim_step& step)
{
    const auto claimed = model_.claim(step.owner, step.lease, step.limit,
                                      step.start.value_or(step.limit), now_, step.unpark);
    std::string text;
    for (std::uint32_t ordinal = 0; ordinal < claimed.ids.size(); ++ordinal) {
        const auto& found = *model_.find(claimed.ids[ordinal]);
        const receipt given{.id = found.id, .fence = claimed.fence, .ordinal = ordinal};
        text += answer(given, found.topic, found.ordering_key, found.starts_before() + 1,
                       found.started);
        history_.push_back({given, step.owner});
    }
    return text;
}

std::string model_side::on(const start_step& step)
{
    std::vector<start_answer> answers;
    for (const auto& each : step.receipts) {
        answers.push_back(model_.start(step.owner, each.fence, each.id, now_));
    }
    return answer(answers);
}

core::delivery_facts model_side::facts_of(message_id id) const
{
    const auto* found = model_.find(id);
    if (found == nullptr)
        return {};
    return {
        .topic = found->topic, .starts_before = found->starts_before(), .started = found->started};
}

std::string model_side::on(const settle_step& step)
{
    std::vector<settled_as> answers;
    std::map<std::pair<fence, message_id>, settled_as> said;
    for (const auto& [which, how] : step.settlements) {
        const auto facts = facts_of(which.id);
        const auto decision =
            core::decide(how, facts, options_.retries.of(facts.topic), options_.on_dead, 0);
        const auto became = model_.settle(step.owner, which.fence, which.id, decision, now_);
        // A receipt that stands twice in one call gets its first answer again.
        answers.push_back(said.try_emplace({which.fence, which.id}, became).first->second);
    }
    return answer(answers);
}

std::string model_side::on(const renew_step& step)
{
    return answer(model_.renew(step.owner, step.fence, step.lease, now_));
}

std::string model_side::on(const advance_step& step)
{
    now_ += step.by;
    return {};
}

std::string model_side::on(const reap_step& step)
{
    auto overdue = model_.overdue_batches(now_);
    overdue.resize(std::min(overdue.size(), step.limit));
    reap_report report{.batches = overdue.size()};
    for (const auto& batch : overdue) {
        for (const auto id : batch.open) {
            const auto facts = facts_of(id);
            const auto decision = core::decide_for_absent(facts, options_.retries.of(facts.topic),
                                                          options_.on_dead, 0);
            const auto became = model_.settle(batch.owner, batch.fence, id, decision, now_);
            report.released += became == settled_as::released ? 1 : 0;
            report.retrying += became == settled_as::retrying ? 1 : 0;
            report.dead += became == settled_as::dead ? 1 : 0;
        }
    }
    return answer(report);
}

std::string model_side::on(const expire_step& /*step*/)
{
    return std::to_string(model_.expire_due(now_));
}

std::string model_side::on(const cancel_step& step)
{
    return std::string(to_string(model_.cancel(step.id, now_)));
}

std::string model_side::on(const redrive_step& step)
{
    return answer(model_.redrive(step.id, now_));
}

std::string model_side::on(const purge_step& step)
{
    return answer(model_.purge(step.id));
}

std::string model_side::on(const retry_key_step& step)
{
    for (const auto& [position, each] : model_.messages())
        if (each.blocks_key && each.ordering_key == step.ordering_key)
            return answer(model_.redrive(each.id, now_));
    return answer(false);
}

std::string model_side::on(const skip_key_step& step)
{
    return answer(model_.skip_key(step.ordering_key));
}

picture model_side::look() const
{
    picture result;
    store_stats stats;
    for (const auto& [position, each] : model_.messages()) {
        result.messages.push_back(portrait(each));
        stats.blocked_keys += each.blocks_key ? 1 : 0;
        switch (public_state(each)) {
        case message_state::ready: ++(each.due_at > now_ ? stats.delayed : stats.ready); break;
        case message_state::waiting: ++stats.waiting; break;
        case message_state::parked: ++stats.parked; break;
        case message_state::claimed: ++stats.claimed; break;
        case message_state::done: ++stats.done; break;
        case message_state::dead: ++stats.dead; break;
        case message_state::cancelled: ++stats.cancelled; break;
        case message_state::expired: ++stats.expired; break;
        }
    }
    result.totals = totals(stats);
    return result;
}

} // namespace posthorn::simulation
