// Joins in words, bars and JSON.
#include "app/cli/join_view.hpp"

#include "app/cli/text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace posthorn::cli {
namespace {

using nlohmann::ordered_json;

template <typename Value>
ordered_json or_null(const std::optional<Value>& value)
{
    return value ? ordered_json(*value) : ordered_json();
}

ordered_json moment_or_null(const std::optional<timestamp>& when)
{
    return when ? ordered_json(iso_time(*when)) : ordered_json();
}

std::string members(std::int64_t count)
{
    return counted(static_cast<std::size_t>(std::max<std::int64_t>(count, 0)), "member");
}

// The first members that have not ended.
std::vector<message_id> open_members(store& where, const join_record& what)
{
    constexpr std::size_t shown_max = 3;
    constexpr std::size_t page_size = 1'000;
    std::vector<message_id> result;
    for (std::int64_t after = 0; result.size() < shown_max;) {
        const auto page = list_join_members(where, what.id, after, page_size);
        for (const auto& each : page)
            if (each.state == member_state::pending && result.size() < shown_max)
                result.push_back(each.id);
        if (page.size() < page_size)
            break;
        after = page.back().position;
    }
    return result;
}

join_explanation explain_pending(store& where, const join_record& what, timestamp now)
{
    const auto open = what.attached - what.completed - what.failed;
    const auto missing = what.expected ? *what.expected - what.attached : 0;
    auto text = fmt::format("{} ended", progress_of(what));
    if (open > 0)
        text += fmt::format("; it waits for {}", members(open));
    if (missing > 0)
        text += fmt::format("; {} still to be attached", members(missing));
    if (!what.expected)
        text += "; it is open until it is sealed";
    if (what.needed)
        text += fmt::format("; {} must complete", members(*what.needed));
    if (what.deadline_at)
        text += fmt::format("; its deadline is {} ({})", relative(*what.deadline_at, now),
                            iso_time(*what.deadline_at));
    const std::string_view reason = open > 0        ? "waits_for_members"
                                    : what.expected ? "members_missing"
                                                    : "not_sealed";
    return {.reason = reason, .text = std::move(text), .open = open_members(where, what)};
}

} // namespace

tint tint_of(join_state state) noexcept
{
    switch (state) {
    case join_state::completed: return tint::green;
    case join_state::failed: return tint::red;
    case join_state::cancelled: return tint::dim;
    case join_state::pending: return tint::none;
    }
    return tint::none;
}

ordered_json join_as_json(const join_record& what)
{
    return {{"id", to_string(what.id)},
            {"position", what.position},
            {"state", to_string(what.state)},
            {"ended_by", what.ended_at ? ordered_json(to_string(what.ended_by)) : ordered_json()},
            {"expected", or_null(what.expected)},
            {"needed", or_null(what.needed)},
            {"attached", what.attached},
            {"completed", what.completed},
            {"failed", what.failed},
            {"fail_if_any_step_failed", what.fail_if_any_step_failed},
            {"reopened", what.reopened},
            {"grouping_key",
             what.grouping_key.empty() ? ordered_json() : ordered_json(what.grouping_key)},
            {"correlation_id",
             what.correlation_id.empty() ? ordered_json() : ordered_json(what.correlation_id)},
            {"created_at", iso_time(what.created_at)},
            {"updated_at", iso_time(what.updated_at)},
            {"deadline_at", moment_or_null(what.deadline_at)},
            {"ended_at", moment_or_null(what.ended_at)}};
}

std::string bar(const join_record& what, std::size_t width)
{
    const auto total = std::max<std::int64_t>(what.expected.value_or(what.attached), 1);
    const auto share = [&](std::int64_t count) {
        return static_cast<std::size_t>(std::clamp<std::int64_t>(
            count * static_cast<std::int64_t>(width) / total, 0, static_cast<std::int64_t>(width)));
    };
    const auto done = share(what.completed);
    const auto ended = share(what.completed + what.failed);
    std::string result;
    for (std::size_t i = 0; i < width; ++i)
        result += i < done ? "█" : i < ended ? "▒" : "░";
    return result;
}

std::string progress_of(const join_record& what)
{
    const auto ended = what.completed + what.failed;
    return what.expected ? fmt::format("{} of {}", ended, *what.expected)
                         : fmt::format("{} of {} so far", ended, what.attached);
}

join_explanation explain_join(store& where, const join_record& what, timestamp now)
{
    if (what.state == join_state::pending)
        return explain_pending(where, what, now);
    const auto when = fmt::format("{} ({})", relative(what.ended_at.value_or(now), now),
                                  iso_time(what.ended_at.value_or(now)));
    const auto counts =
        fmt::format("{} completed, {} failed", members(what.completed), what.failed);
    if (what.state == join_state::cancelled)
        return {.reason = "cancelled",
                .text = fmt::format("it was cancelled {}; {}", when, counts)};
    if (what.ended_by == join_end::deadline)
        return {.reason = "deadline",
                .text = fmt::format("its deadline came {}, before its members had ended; {}", when,
                                    counts)};
    const bool well = what.state == join_state::completed;
    return {.reason = well ? "completed" : "failed",
            .text = fmt::format("it {} {}; {}", well ? "completed" : "failed", when, counts)};
}

} // namespace posthorn::cli
