// The decisions about a join: whether its counts end it, and what may be asked for.
#pragma once

#include <posthorn/joins.hpp>
#include <posthorn/message_state.hpp>

namespace posthorn::core {

/// What the counts of a join mean; pure.
[[nodiscard]] join_state verdict_of(const join_record& join) noexcept;

/// Whether a join that has ended is a success for a wait with this flag. The flag decides about a
/// join that all members have ended; deadlines, cancels and `needed` are the join's own.
[[nodiscard]] bool succeeds_for_wait(const join_record& join,
                                     bool fail_if_any_step_failed) noexcept;

/// How a message that stands so counts.
[[nodiscard]] member_state counts_as(message_state state) noexcept;

/// Throws: `error` with `invalid_argument`.
void check_join(const join_options& how, const limits& bounds);

} // namespace posthorn::core
