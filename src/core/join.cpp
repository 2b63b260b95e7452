// What ends a join, and which joins can be opened.
#include "core/join.hpp"

#include "core/validation.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace posthorn {
namespace {

constexpr std::array join_state_names{
    std::pair{join_state::pending, std::string_view{"pending"}},
    std::pair{join_state::completed, std::string_view{"completed"}},
    std::pair{join_state::failed, std::string_view{"failed"}},
    std::pair{join_state::cancelled, std::string_view{"cancelled"}},
};

} // namespace

std::string_view to_string(join_state state) noexcept
{
    const auto* found =
        std::ranges::find(join_state_names, state, &decltype(join_state_names)::value_type::first);
    return found == join_state_names.end() ? "unknown" : found->second;
}

std::optional<join_state> parse_join_state(std::string_view text) noexcept
{
    const auto* found =
        std::ranges::find(join_state_names, text, &decltype(join_state_names)::value_type::second);
    return found == join_state_names.end() ? std::nullopt : std::optional{found->first};
}

std::string_view to_string(join_end why) noexcept
{
    switch (why) {
    case join_end::members: return "members";
    case join_end::deadline: return "deadline";
    case join_end::cancel: return "cancel";
    }
    return "unknown";
}

std::string_view to_string(member_state state) noexcept
{
    switch (state) {
    case member_state::pending: return "pending";
    case member_state::completed: return "completed";
    case member_state::failed: return "failed";
    case member_state::left: return "left";
    }
    return "unknown";
}

std::string_view to_string(attach_answer answer) noexcept
{
    switch (answer) {
    case attach_answer::attached: return "attached";
    case attach_answer::counted: return "counted";
    case attach_answer::known: return "known";
    }
    return "unknown";
}

std::string_view to_string(report_answer answer) noexcept
{
    switch (answer) {
    case report_answer::counted: return "counted";
    case report_answer::known: return "known";
    case report_answer::ended: return "ended";
    }
    return "unknown";
}

namespace core {
namespace {

constexpr std::size_t metadata_bytes_max = std::size_t{64} << 10U;

void check_continuation(std::string_view which, const std::optional<message>& what,
                        const limits& bounds)
{
    if (!what)
        return;
    try {
        check_message(*what, {}, bounds);
    } catch (const error& failure) {
        throw error(failure.code(), fmt::format("{}: {}", which, failure.what()));
    }
}

} // namespace

join_state verdict_of(const join_record& join) noexcept
{
    if (join.needed) {
        if (join.completed >= *join.needed)
            return join_state::completed;
        const bool out_of_reach = join.expected && *join.expected - join.failed < *join.needed;
        return out_of_reach ? join_state::failed : join_state::pending;
    }
    if (!join.expected || join.completed + join.failed < *join.expected)
        return join_state::pending;
    return join.fail_if_any_step_failed && join.failed > 0 ? join_state::failed
                                                           : join_state::completed;
}

bool succeeds_for_wait(const join_record& join, bool fail_if_any_step_failed) noexcept
{
    if (join.needed || join.ended_by != join_end::members)
        return join.state == join_state::completed;
    return !fail_if_any_step_failed || join.failed == 0;
}

member_state counts_as(message_state state) noexcept
{
    if (!is_terminal(state))
        return member_state::pending;
    return state == message_state::done ? member_state::completed : member_state::failed;
}

void check_join(const join_options& how, const limits& bounds)
{
    const auto refuse = [](const std::string& why) {
        throw error(error_code::invalid_argument, why);
    };
    if (how.expected && *how.expected < 1)
        refuse(fmt::format("a join expects at least 1 member, not {}; leave `expected` out to open "
                           "one whose number is not known yet",
                           *how.expected));
    if (how.needed && (*how.needed < 1 || (how.expected && *how.needed > *how.expected)))
        refuse(fmt::format("a join cannot need {} members: it must be 1 up to those it expects",
                           *how.needed));
    if (how.deadline && (*how.deadline <= duration::zero() || *how.deadline > limits::span_max))
        refuse("the deadline of a join must be in the future, and within a hundred years");
    if (how.id && how.id->is_nil())
        refuse("the nil UUID is nobody's id");
    check_key("the grouping key", how.grouping_key);
    if (how.metadata.size() > metadata_bytes_max)
        refuse(fmt::format("the metadata has {} bytes, at most {} are allowed", how.metadata.size(),
                           metadata_bytes_max));
    check_continuation("on_complete", how.on_complete, bounds);
    check_continuation("on_fail", how.on_fail, bounds);
}

} // namespace core
} // namespace posthorn
