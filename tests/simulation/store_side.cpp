// The store's side of a simulation: the public interface and nothing else.
#include "simulation/side.hpp"
#include "simulation/words.hpp"
#include <posthorn/dead_letters.hpp>
#include <posthorn/enqueue.hpp>

namespace posthorn::simulation {

std::string store_side::carry_out(const operation& step)
{
    try {
        return std::visit([&](const auto& each) { return on(each); }, step);
    } catch (const std::exception& failure) {
        return std::string("throws: ") + failure.what();
    }
}

std::string store_side::on(const enqueue_step& step)
{
    std::vector<outgoing> messages;
    for (const auto& [each, brings_id] : step.messages) {
        messages.push_back(each);
        if (!brings_id)
            messages.back().options.id.reset();
    }
    const auto answers =
        messages.size() == 1
            ? std::vector{enqueue(store_, messages[0].message, messages[0].options)}
            : enqueue(store_, messages);
    std::string text;
    for (std::size_t i = 0; i < answers.size(); ++i) {
        if (!answers[i].duplicate)
            remember(*step.messages[i].what.options.id, answers[i]);
        text += answer(enqueued{{named(answers[i].id)}, answers[i].duplicate});
    }
    return text;
}

void store_side::remember(message_id named, const enqueued& real)
{
    real_[named] = real;
    named_[real.id] = named;
}

message_id store_side::named(message_id real) const
{
    const auto found = named_.find(real);
    return found == named_.end() ? real : found->second;
}

locator store_side::real(message_id named) const
{
    const auto found = real_.find(named);
    return found == real_.end() ? locator{named} : found->second;
}

receipt store_side::real(const receipt& which) const
{
    auto result = which;
    result.id = real(which.id).id;
    result.position = real(which.id).position;
    return result;
}

std::string store_side::on(const claim_step& step)
{
    const auto batch = outbox_.claim(
        {.token = step.owner, .worker = step.owner},
        {.lease = step.lease, .limit = step.limit, .start = step.start, .unpark = step.unpark});
    std::string text;
    for (const auto& each : batch.deliveries) {
        auto given = each.receipt;
        given.id = named(given.id);
        text += answer(given, each.topic, each.ordering_key, each.attempt, each.started);
        if (each.receipt != real(given))
            text += "(with another receipt than it was enqueued with)";
    }
    return text;
}

std::string store_side::on(const start_step& step)
{
    std::vector<receipt> receipts;
    for (const auto& each : step.receipts)
        receipts.push_back(real(each));
    return answer(outbox_.start({.token = step.owner}, receipts));
}

std::string store_side::on(const settle_step& step)
{
    std::vector<settlement> settlements;
    for (const auto& [which, how] : step.settlements)
        settlements.push_back({real(which), how});
    return answer(outbox_.settle({.token = step.owner}, settlements).answers);
}

std::string store_side::on(const renew_step& step)
{
    return answer(outbox_.renew({.token = step.owner}, step.fence, step.lease));
}

std::string store_side::on(const advance_step& step)
{
    clock_->advance(step.by);
    return {};
}

std::string store_side::on(const reap_step& step)
{
    return answer(outbox_.reap_expired(step.limit));
}

std::string store_side::on(const expire_step& /*step*/)
{
    return std::to_string(outbox_.expire_due());
}

std::string store_side::on(const cancel_step& step)
{
    return std::string(to_string(cancel(store_, real(step.id).id)));
}

std::string store_side::on(const redrive_step& step)
{
    return answer(redrive(store_, real(step.id).id));
}

std::string store_side::on(const purge_step& step)
{
    return answer(purge(store_, real(step.id).id));
}

std::string store_side::on(const retry_key_step& step)
{
    return answer(retry_blocked_key(store_, step.ordering_key));
}

std::string store_side::on(const skip_key_step& step)
{
    return answer(skip_blocked_key(store_, step.ordering_key));
}

picture store_side::look()
{
    picture result;
    for (auto& each : list_messages(store_, {.limit = 10'000})) {
        each.id = named(each.id);
        result.messages.push_back(portrait(each));
    }
    result.totals = totals(count_messages(store_));
    return result;
}

} // namespace posthorn::simulation
