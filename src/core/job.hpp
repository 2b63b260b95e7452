// Decisions about jobs: what is refused, how options are kept, and which instants run.
#pragma once

#include <posthorn/schedules.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::core {

/// Throws: `error` with `invalid_argument`. The schedule itself is checked by whoever reads it.
void check_job(std::string_view name, const job_options& how, const limits& bounds);
void check_job_name(std::string_view name);

/// Everything but topic and payload, as JSON; the same options give the same text.
[[nodiscard]] std::string definition_of(const job_options& how);

/// Throws: `error` with `corrupt` for what no `definition_of` has written.
[[nodiscard]] job_options options_from(std::string_view definition);

/// An instant as ISO 8601 has it, in UTC: 2027-03-28T01:00:00Z, with a fraction if there is one.
[[nodiscard]] std::string iso_text(timestamp when);
[[nodiscard]] std::optional<timestamp> parse_iso(std::string_view text);

/// What is known of a job when it is its turn.
struct job_turn {
    timestamp next;                       ///< its first instant that has not been looked at
    std::optional<timestamp> skip_before; ///< instants before were in a pause
    timestamp now;
};

/// What becomes of one instant, or of several in a row.
struct planned_run {
    timestamp from;
    timestamp nominal; ///< the last of them
    std::int64_t covers = 1;
    bool runs = true;
    bool coalesced = false;       ///< of one that does not run
    std::string_view reason = {}; ///< the same
};

struct job_plan {
    std::vector<planned_run> what; ///< in the order of time, without gaps
    std::optional<timestamp> next; ///< the first instant that is not part of it
    bool missed = false;           ///< instants were missed
};

/// How many instants one plan looks at. What comes on top is left to the next.
inline constexpr std::size_t plan_instants_max = 10'000;

/// `after` gives the first instant after another.
[[nodiscard]] job_plan plan_runs(const job_options& how, const job_turn& turn,
                                 const std::function<std::optional<timestamp>(timestamp)>& after);

} // namespace posthorn::core
