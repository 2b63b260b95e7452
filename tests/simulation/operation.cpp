// Steps in words, so that a failing story can be read.
#include "simulation/operation.hpp"

#include <fmt/format.h>

namespace posthorn::simulation {
namespace {

std::string told(const receipt& which)
{
    return fmt::format("{}@{}", name_of(which.id), static_cast<std::int64_t>(which.fence));
}

std::string told(const newcomer& one)
{
    const auto& how = one.what.options;
    auto text = fmt::format("{} (topic {}", name_of(*how.id), one.what.message.topic);
    if (!how.ordering_key.empty())
        text += fmt::format(", key {}", how.ordering_key);
    if (how.priority != 0)
        text += fmt::format(", priority {}", how.priority);
    if (how.delay)
        text += fmt::format(", delayed by {}", spoken(*how.delay));
    if (how.due_at)
        text += fmt::format(", due {}", spoken(*how.due_at));
    if (how.expires_after)
        text += fmt::format(", expires after {}", spoken(*how.expires_after));
    if (how.expires_at)
        text += fmt::format(", expires {}", spoken(*how.expires_at));
    if (!how.dedup_key.empty())
        text += fmt::format(", dedup {} for {}", how.dedup_key, spoken(how.dedup_window));
    return text + (one.brings_id ? ", with its id)" : ")");
}

std::string told(const settlement& one)
{
    switch (one.outcome.verdict) {
    case outcome::kind::done: return told(one.receipt) + " done";
    case outcome::kind::fail:
        return fmt::format("{} failed '{}'", told(one.receipt), one.outcome.error);
    case outcome::kind::park:
        return fmt::format("{} put aside ({})", told(one.receipt), to_string(one.outcome.reason));
    case outcome::kind::postpone:
    case outcome::kind::retry: break;
    }
    const bool retried = one.outcome.verdict == outcome::kind::retry;
    const auto& delay = one.outcome.delay;
    return fmt::format("{} {}{} '{}'", told(one.receipt), retried ? "again" : "postponed",
                       delay ? " in " + spoken(*delay) : std::string{}, one.outcome.error);
}

template <typename Items>
std::string listed(const Items& items)
{
    std::string text;
    for (const auto& each : items)
        text += (text.empty() ? "" : ", ") + told(each);
    return text;
}

struct teller {
    std::string operator()(const enqueue_step& s) const
    {
        return (s.messages.size() > 1 ? "enqueue together " : "enqueue ") + listed(s.messages);
    }
    std::string operator()(const claim_step& s) const
    {
        const auto start =
            s.start ? fmt::format(", starting the first {}", *s.start) : std::string{};
        std::string unpark;
        for (const auto& each : s.unpark)
            unpark += (unpark.empty() ? ", also parked ones of " : " and ") + each;
        return fmt::format("{} claims up to {} for {}{}{}", s.owner, s.limit, spoken(s.lease),
                           start, unpark);
    }
    std::string operator()(const start_step& s) const
    {
        return fmt::format("{} starts {}", s.owner, listed(s.receipts));
    }
    std::string operator()(const settle_step& s) const
    {
        return fmt::format("{} settles {}", s.owner, listed(s.settlements));
    }
    std::string operator()(const renew_step& s) const
    {
        return fmt::format("{} renews batch {} for {}", s.owner, static_cast<std::int64_t>(s.fence),
                           spoken(s.lease));
    }
    std::string operator()(const advance_step& s) const
    {
        return fmt::format("{} pass", spoken(s.by));
    }
    std::string operator()(const reap_step& s) const
    {
        return fmt::format("reap up to {} batches", s.limit);
    }
    std::string operator()(const expire_step&) const { return "expire what is late"; }
    std::string operator()(const cancel_step& s) const { return "cancel " + name_of(s.id); }
    std::string operator()(const redrive_step& s) const { return "redrive " + name_of(s.id); }
    std::string operator()(const purge_step& s) const { return "purge " + name_of(s.id); }
    std::string operator()(const retry_key_step& s) const { return "retry key " + s.ordering_key; }
    std::string operator()(const skip_key_step& s) const { return "skip key " + s.ordering_key; }
};

} // namespace

message_id numbered_id(unsigned number)
{
    uuid value{{0x01, 0x8f, 0, 0, 0, 0, 0x70, 0, 0x80}};
    for (unsigned i = 0; i < 4; ++i)
        value.bytes[15 - i] = static_cast<std::uint8_t>(number >> (8U * i));
    return message_id{value};
}

std::string name_of(message_id id)
{
    unsigned number = 0;
    for (unsigned i = 12; i < 16; ++i)
        number = number << 8U | id.value().bytes[i];
    return fmt::format("m{}", number);
}

std::string spoken(duration length)
{
    return fmt::format("{} s", static_cast<double>(length.count()) / 1e6);
}

std::string spoken(timestamp when)
{
    return "at " + spoken(when - beginning);
}

std::string spoken(const operation& step)
{
    return std::visit(teller{}, step);
}

} // namespace posthorn::simulation
