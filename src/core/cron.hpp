// Cron expressions over a calendar without zones: which days, and which times of a day. What a zone
// makes of them is the affair of schedules.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace posthorn::core {

/// A date and time as a clock on the wall shows it, in seconds.
using wall_time = std::chrono::local_seconds;

/// Which days a cron expression names.
class cron_days {
public:
    [[nodiscard]] bool contains(std::chrono::year_month_day day) const;
    [[nodiscard]] bool contains(std::chrono::month month) const
    {
        return (months >> unsigned(month) & 1U) != 0;
    }

    /// Whether there is such a day in any year.
    [[nodiscard]] bool exist() const;

    std::uint32_t months = 0; ///< bits 1 to 12, as in all of these

    // ---------------------------------------------------------------------- days of the month
    std::uint32_t days = 0;
    std::uint32_t nearest_weekdays = 0; ///< `15W`: the working day nearest to it in its month
    std::uint32_t from_the_end = 0;     ///< bit 0 is the last day (`L`), bit 3 is `L-3`
    bool last_weekday = false;          ///< `LW`: the last working day
    bool any_day = true;                ///< the field begins with `*`, or is `?`

    // ---------------------------------------------------------------------- days of the week
    std::uint32_t weekdays = 0;            ///< bit 0 is Sunday
    std::uint32_t last_of_month = 0;       ///< `5L`: the last Friday
    std::array<std::uint32_t, 6> nth = {}; ///< `5#3`: bit 5 of the third
    bool any_weekday = true;

private:
    [[nodiscard]] bool in_month(std::chrono::year_month_day day) const;
    [[nodiscard]] bool in_week(std::chrono::year_month_day day) const;
};

class cron {
public:
    /// Five fields, six with leading seconds, or one of `@yearly`, `@monthly`, `@weekly`, `@daily`,
    /// `@hourly` and their synonyms.
    /// Throws: `error` with `invalid_argument` that names the field; also for days that no year
    /// has.
    [[nodiscard]] static cron parse(std::string_view text);

    /// The first one at or after `from`; nothing if there is none for the next 50 years.
    [[nodiscard]] std::optional<wall_time> first_from(wall_time from) const;

    [[nodiscard]] bool contains(wall_time when) const;

    /// Whether its seconds, minutes or hours begin with `*`: then it is about how often, not when.
    [[nodiscard]] bool keeps_cadence() const noexcept { return keeps_cadence_; }

private:
    [[nodiscard]] std::optional<std::chrono::seconds> first_in_day(std::chrono::seconds from) const;

    std::uint64_t seconds_ = 0;
    std::uint64_t minutes_ = 0;
    std::uint64_t hours_ = 0;
    cron_days days_;
    bool keeps_cadence_ = false;
};

} // namespace posthorn::core
