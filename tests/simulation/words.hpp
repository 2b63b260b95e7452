// The words in which both sides answer, so that equal answers are equal texts.
#pragma once

#include "core/queue_model.hpp"
#include "simulation/operation.hpp"
#include <posthorn/messages.hpp>
#include <posthorn/outbox.hpp>

#include <fmt/format.h>

#include <string>
#include <vector>

namespace posthorn::simulation {

[[nodiscard]] inline std::string answer(const enqueued& which)
{
    return name_of(which.id) + (which.duplicate ? " again; " : "; ");
}

[[nodiscard]] inline std::string answer(const receipt& which, const std::string& topic,
                                        const std::string& key, int attempt, bool started)
{
    return fmt::format("{}@{} #{} (topic {}, key '{}', attempt {}, {}); ", name_of(which.id),
                       static_cast<std::int64_t>(which.fence), which.ordinal, topic, key, attempt,
                       started ? "started" : "not started");
}

template <typename Answer>
[[nodiscard]] std::string answer(const std::vector<Answer>& all)
{
    std::string text;
    for (const auto& each : all)
        text += std::string(to_string(each)) + "; ";
    return text;
}

[[nodiscard]] inline std::string answer(const reap_report& report)
{
    return fmt::format("{} batches: {} released, {} retrying, {} dead", report.batches,
                       report.released, report.retrying, report.dead);
}

[[nodiscard]] inline std::string answer(bool yes)
{
    return yes ? "yes" : "no";
}

[[nodiscard]] inline std::string spoken_or_never(const std::optional<timestamp>& when)
{
    return when ? spoken(*when) : "never";
}

/// Why a message is parked: the model keeps the last reason, a store only that of a parked one.
[[nodiscard]] inline std::string spoken_reason(const core::modelled_message& m)
{
    return m.state == message_state::parked ? std::string(to_string(m.parked_for)) : "";
}

[[nodiscard]] inline std::string spoken_reason(const message_record& m)
{
    return m.parked_for ? std::string(to_string(*m.parked_for)) : "";
}

/// What the model keeps as parked waits for a limit in some cases: that is ready.
[[nodiscard]] inline message_state public_state(const core::modelled_message& m)
{
    const bool ready = m.state == message_state::parked && m.parked_for == park_reason::at_limit;
    return ready ? message_state::ready : m.state;
}

[[nodiscard]] inline message_state public_state(const message_record& m)
{
    return m.state;
}

/// One message in words; works on the model's form and on the public one.
template <typename Message>
[[nodiscard]] std::string portrait(const Message& m)
{
    auto text = fmt::format(
        "{} {} (topic {}, key '{}'{}{}): attempts {}, errors {}, redrives {}, fence {}, "
        "finished {}, last error '{}'",
        name_of(m.id), to_string(public_state(m)), m.topic, m.ordering_key,
        m.started ? ", started" : "", m.blocks_key ? ", blocks its key" : "", m.attempts, m.errors,
        m.redrives, static_cast<std::int64_t>(m.fence), spoken_or_never(m.finished_at),
        m.last_error);
    // When and how urgently a message may start matters until it has ended well.
    if (!is_terminal(m.state) || m.state == message_state::dead)
        text += fmt::format(", due {}, expires {}, priority {}", spoken(m.due_at),
                            spoken_or_never(m.expires_at), m.priority);
    if (const auto reason = spoken_reason(m); !reason.empty())
        text += ", parked for " + reason;
    return text;
}

[[nodiscard]] inline std::string totals(const store_stats& stats)
{
    return fmt::format("ready {}, delayed {}, waiting {}, parked {}, claimed {}, done {}, dead {}, "
                       "cancelled {}, expired {}, blocked keys {}",
                       stats.ready, stats.delayed, stats.waiting, stats.parked, stats.claimed,
                       stats.done, stats.dead, stats.cancelled, stats.expired, stats.blocked_keys);
}

} // namespace posthorn::simulation
