// The words of the contract, and what they mean for the outbox.
#include "core/lineage.hpp"
#include "core/trace_context.hpp"
#include <posthorn/correlation.hpp>
#include <posthorn/transport.hpp>

#include <utility>

namespace posthorn {

transport_message to_transport(const delivery& which)
{
    const auto id = which.receipt.id;
    // A message that nobody gave a correlation is the first of its own.
    core::lineage from{
        .id = id,
        .correlation_id = which.correlation_id.empty() ? to_string(id) : which.correlation_id,
        .causation_id = which.causation_id,
        .sequence = std::string(core::find_header(which.headers, header::correlation_sequence))};
    if (from.sequence.empty())
        from.sequence = "0";
    return {.id = id,
            .topic = which.topic,
            .key = which.ordering_key,
            .headers = core::wire_headers(from, id, which.headers),
            .payload = which.payload};
}

std::string_view to_string(refusal why) noexcept
{
    switch (why) {
    case refusal::none: return "none";
    case refusal::unroutable: return "unroutable";
    case refusal::gone: return "gone";
    case refusal::too_large: return "too_large";
    case refusal::malformed: return "malformed";
    case refusal::denied: return "denied";
    case refusal::declined: return "declined";
    case refusal::rejected: return "rejected";
    case refusal::held_back: return "held_back";
    case refusal::busy: return "busy";
    case refusal::unavailable: return "unavailable";
    case refusal::closed: return "closed";
    }
    return "";
}

bool is_permanent(refusal why) noexcept
{
    return why == refusal::gone || why == refusal::too_large || why == refusal::malformed ||
           why == refusal::denied;
}

publish_answer publish_answer::yes()
{
    return {.verdict = kind::accepted};
}

publish_answer publish_answer::no(refusal why, std::string detail)
{
    return {.verdict = kind::refused, .why = why, .detail = std::move(detail)};
}

publish_answer publish_answer::no_answer(std::string detail)
{
    return {.verdict = kind::unknown, .detail = std::move(detail)};
}

std::string_view to_string(publish_answer::kind verdict) noexcept
{
    switch (verdict) {
    case publish_answer::kind::accepted: return "accepted";
    case publish_answer::kind::refused: return "refused";
    case publish_answer::kind::unknown: return "unknown";
    }
    return "";
}

outcome outcome_of(const publish_answer& answer, duration pause, when_unroutable unroutable)
{
    if (answer.accepted())
        return done();
    if (answer.verdict == publish_answer::kind::refused) {
        std::string reason(to_string(answer.why));
        if (!answer.detail.empty())
            reason += ": " + answer.detail;
        const bool is_unroutable = answer.why == refusal::unroutable;
        if (is_permanent(answer.why) || (is_unroutable && unroutable == when_unroutable::fail))
            return fail(std::move(reason));
        if (is_unroutable || answer.why == refusal::declined)
            return retry(std::move(reason));
    }
    return postpone(answer.retry_in.value_or(pause));
}

} // namespace posthorn
